#include "exchange/communicator.hpp"

#include "base/stopwatch.hpp"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <string_view>
#include <thread>

namespace hekla::exchange {
namespace {

std::string_view text_of(hk_string s) {
    return s.data != nullptr ? std::string_view(s.data, static_cast<std::size_t>(s.size)) : std::string_view();
}

Status failure(int32_t code, int32_t rank, hk_string why) {
    return Status(static_cast<Code>(code), fmt::format("the exchange of rank {} with the other ranks failed: {}", rank,
                                                       why.size > 0 ? text_of(why) : "no reason was given"));
}

} // namespace

Status Communicator::exchange(std::span<const hk_exchange_part> parts) {
    HK_ASSIGN(const uint64_t number, begin(parts));
    return finish(number);
}

Result<uint64_t> Communicator::begin(std::span<const hk_exchange_part> parts) {
    const auto own = static_cast<std::size_t>(rank());
    if (parts.size() != static_cast<std::size_t>(size()))
        return internal_error(fmt::format("an exchange of {} parts between {} ranks", parts.size(), size()));
    if (seam_ == nullptr) {
        if (parts[0].send_bytes != parts[0].receive_bytes)
            return internal_error("a rank sends and receives different numbers of bytes of its own");
        if (parts[0].send_bytes > 0 && parts[0].send != parts[0].receive)
            std::memmove(parts[0].receive, parts[0].send, static_cast<std::size_t>(parts[0].send_bytes));
        return next_++;
    }
    if (failed_) return failed_precondition("this rank has told the others that it ends");
    for (std::size_t r = 0; r < parts.size(); ++r) {
        if (r == own) continue;
        traffic_.sent += parts[r].send_bytes;
        traffic_.received += parts[r].receive_bytes;
    }
    const uint64_t number = next_++;
    hk_string why{};
    if (const int32_t code = seam_->begin(seam_->user, number, parts.data(), &why); code != HK_OK)
        return failure(code, rank(), why);
    return number;
}

std::string Communicator::name(int32_t rank) const {
    const auto at = static_cast<std::size_t>(rank);
    return at < names_.size() ? fmt::format("rank {} ({})", rank, names_[at]) : fmt::format("rank {}", rank);
}

Status Communicator::ended(int32_t lost, const std::string& why) const {
    // A rank that gives a reason reports it itself, too, but rank 0 knows from where the run resumes. A rank of a
    // process without a sign of life may be told so itself, if it was only stopped for a while.
    const bool reports = rank() == (why.empty() ? first_without(lost) : 0);
    return Status(reports ? Code::io : Code::cancelled,
                  why.empty() ? fmt::format("{} was lost: it gave no sign of life any more", name(lost))
                              : fmt::format("{} ended: {}", name(lost), why));
}

int32_t Communicator::first_without(int32_t lost) const {
    const auto of_lost = static_cast<std::size_t>(lost);
    const auto another = [&](const std::string& process) { return process != processes_[of_lost]; };
    const auto found = of_lost < processes_.size() ? std::ranges::find_if(processes_, another) : processes_.end();
    if (found == processes_.end()) return lost == 0 ? 1 : 0;
    return static_cast<int32_t>(found - processes_.begin());
}

Status Communicator::finish(uint64_t number) {
    using std::chrono::microseconds;
    if (seam_ == nullptr) return {};
    const auto begin = std::chrono::steady_clock::now();
    microseconds pause(0);
    for (;;) {
        int32_t done = 0, lost = -1;
        hk_string why{};
        if (const int32_t code = seam_->test(seam_->user, number, &done, &lost, &why); code != HK_OK)
            return failure(code, rank(), why);
        if (done != 0) {
            traffic_.seconds += seconds_since(begin);
            return {};
        }
        if (lost >= 0) return ended(lost, std::string(text_of(why)));
        if (pause.count() == 0) {
            std::this_thread::yield();
        } else {
            std::this_thread::sleep_for(pause);
        }
        pause = std::min(microseconds(500), pause + microseconds(5));
    }
}

Status Communicator::broadcast_fixed(std::span<std::byte> bytes) {
    if (size() == 1) return {};
    std::vector<hk_exchange_part> parts(static_cast<std::size_t>(size()));
    if (rank() == 0) {
        for (std::size_t r = 1; r < parts.size(); ++r) parts[r] = {bytes.data(), nullptr, bytes.size(), 0};
    } else {
        parts[0] = {nullptr, bytes.data(), 0, bytes.size()};
    }
    return exchange(parts);
}

Status Communicator::broadcast(std::vector<std::byte>& bytes) {
    uint64_t count = bytes.size();
    HK_TRY(broadcast(count));
    bytes.resize(static_cast<std::size_t>(count));
    return broadcast_fixed(bytes);
}

Result<std::vector<std::vector<std::byte>>> Communicator::gather(std::span<const std::byte> own) {
    const auto ranks = static_cast<std::size_t>(size());
    const uint64_t size_of_own = own.size();
    std::vector<uint64_t> sizes(ranks);
    std::vector<hk_exchange_part> parts(ranks);
    for (std::size_t r = 0; r < ranks; ++r) parts[r] = {&size_of_own, &sizes[r], sizeof size_of_own, sizeof sizes[r]};
    HK_TRY(exchange(parts));
    std::vector<std::vector<std::byte>> all(ranks);
    for (std::size_t r = 0; r < ranks; ++r) {
        all[r].resize(static_cast<std::size_t>(sizes[r]));
        parts[r] = {own.data(), all[r].data(), own.size(), sizes[r]};
    }
    HK_TRY(exchange(parts));
    return all;
}

void Communicator::fail(const Status& why) {
    if (seam_ == nullptr || failed_) return;
    failed_ = true;
    seam_->fail(seam_->user, {why.message().data(), why.message().size()});
}

} // namespace hekla::exchange
