// Exchanges between threads: bytes arrive in any order of the ranks, and a rank that ends ends the others.
#include "exchange/communicator.hpp"
#include "exchange/thread_communicator.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <random>
#include <thread>
#include <vector>

using namespace hekla;
using namespace hekla::exchange;

namespace {

using Bytes = std::vector<std::byte>;

// Runs a function on each rank, in a thread of its own; returns what it returned, by rank.
std::vector<Status> on_ranks(std::size_t count, const std::function<Status(Communicator& ranks)>& run) {
    std::vector<hk_communicator> seams(count);
    create_thread_communicators(seams);
    std::vector<Status> ended(count);
    {
        std::vector<std::jthread> threads;
        for (std::size_t r = 0; r < count; ++r)
            threads.emplace_back([&, r] {
                Communicator ranks(seams[r]);
                ended[r] = run(ranks);
                if (!ended[r].ok()) ranks.fail(ended[r]);
            });
    }
    for (hk_communicator& seam : seams) destroy_thread_communicator(seam);
    return ended;
}

// What rank `from` sends to rank `to` in an exchange: 0 to some thousand bytes that depend on all three numbers.
Bytes message(int exchange, int32_t from, int32_t to) {
    std::mt19937 random(static_cast<uint32_t>(exchange * 10007 + from * 101 + to));
    Bytes bytes(random() % 5 == 0 ? 0 : random() % 5000);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    return bytes;
}

Status exchange_messages(Communicator& ranks, int exchanges) {
    std::mt19937 random(static_cast<uint32_t>(ranks.rank()));
    for (int exchange = 0; exchange < exchanges; ++exchange) {
        std::vector<Bytes> sent, received;
        for (int32_t other = 0; other < ranks.size(); ++other) {
            sent.push_back(message(exchange, ranks.rank(), other));
            received.emplace_back(message(exchange, other, ranks.rank()).size());
        }
        std::vector<hk_exchange_part> parts;
        for (std::size_t other = 0; other < sent.size(); ++other)
            parts.push_back({sent[other].data(), received[other].data(), sent[other].size(), received[other].size()});
        if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
        HK_TRY(ranks.exchange(parts));
        for (int32_t other = 0; other < ranks.size(); ++other)
            if (received[static_cast<std::size_t>(other)] != message(exchange, other, ranks.rank()))
                return internal_error("other bytes arrived");
    }
    return {};
}

} // namespace

TEST_CASE("every rank receives what each sent it") {
    for (const std::size_t count : {1, 2, 3, 8}) {
        CAPTURE(count);
        for (const Status& ended : on_ranks(count, [](Communicator& ranks) { return exchange_messages(ranks, 200); }))
            CHECK_MESSAGE(ended.ok(), ended.message());
    }
}

TEST_CASE("one rank without a group exchanges with itself") {
    Communicator alone;
    CHECK(alone.rank() == 0);
    CHECK(alone.size() == 1);
    CHECK(exchange_messages(alone, 20).ok());
    const std::vector<double> own{1.0, 2.0};
    const auto gathered = alone.gather(bytes_of(own));
    REQUIRE(gathered.ok());
    CHECK(values_of<double>(gathered->at(0)).value() == own);
    CHECK(alone.traffic().sent == 0);
}

TEST_CASE("broadcast and gather") {
    for (const std::size_t count : {2, 5}) {
        const std::vector<Status> ended = on_ranks(count, [](Communicator& ranks) -> Status {
            Bytes bytes = ranks.rank() == 0 ? message(1, 0, 0) : message(2, 3, 4);
            HK_TRY(ranks.broadcast(bytes));
            if (bytes != message(1, 0, 0)) return internal_error("broadcast");
            int64_t number = 10 + ranks.rank();
            HK_TRY(ranks.broadcast(number));
            if (number != 10) return internal_error("broadcast of a number");
            HK_ASSIGN(const auto all, ranks.gather(message(3, ranks.rank(), 0)));
            for (int32_t r = 0; r < ranks.size(); ++r)
                if (all[static_cast<std::size_t>(r)] != message(3, r, 0)) return internal_error("gather");
            return {};
        });
        for (const Status& one : ended) CHECK_MESSAGE(one.ok(), one.message());
    }
}

TEST_CASE("only bytes between ranks count as traffic") {
    std::atomic<uint64_t> sent = 0, received = 0;
    on_ranks(3, [&](Communicator& ranks) -> Status {
        std::vector<Bytes> from(3, Bytes(100)), to(3, Bytes(100));
        std::vector<hk_exchange_part> parts;
        for (std::size_t r = 0; r < 3; ++r) parts.push_back({from[r].data(), to[r].data(), 100, 100});
        HK_TRY(ranks.exchange(parts));
        sent += ranks.traffic().sent;
        received += ranks.traffic().received;
        return {};
    });
    CHECK(sent == 3 * 200);
    CHECK(received == 3 * 200);
}

TEST_CASE("a rank that fails ends the others with its reason, once reported") {
    for (const int32_t failing : {0, 1, 3}) {
        CAPTURE(failing);
        const std::vector<Status> ended = on_ranks(4, [&](Communicator& ranks) -> Status {
            ranks.set_names({"a", "b", "c", "d"}, {"a", "b", "c", "d"});
            HK_TRY(exchange_messages(ranks, 5));
            if (ranks.rank() == failing) return out_of_memory("the device is full");
            return exchange_messages(ranks, 1000);
        });
        const std::string name = std::string(1, static_cast<char>('a' + failing));
        int reports = 0;
        for (std::size_t r = 0; r < ended.size(); ++r) {
            if (static_cast<int32_t>(r) == failing) continue;
            CHECK(ended[r].message() ==
                  "rank " + std::to_string(failing) + " (" + name + ") ended: the device is full");
            reports += ended[r].code() == Code::io ? 1 : 0;
            CHECK((ended[r].code() == Code::io || ended[r].code() == Code::cancelled));
        }
        CHECK(reports == (failing == 0 ? 0 : 1)); // rank 0 knows from where the run resumes
    }
}

TEST_CASE("a silent process is reported by the first rank of another one") {
    struct Case {
        int32_t lost = 0, reporter = 0;
        std::vector<std::string> processes;
    };
    for (const Case& c : {Case{0, 1, {}}, Case{0, 1, {"p", "q", "q", "r"}}, Case{0, 2, {"p", "p", "q", "q"}},
                          Case{2, 0, {"p", "p", "q", "q"}}, Case{0, 1, {"p", "p", "p", "p"}}, Case{3, 0, {}}}) {
        CAPTURE(c.lost);
        CAPTURE(c.processes.size());
        const std::vector<Status> ended = on_ranks(4, [&](Communicator& ranks) -> Status {
            ranks.set_names({"a", "b", "c", "d"}, c.processes);
            if (ranks.rank() == c.lost) return Status(Code::io, ""); // as a communicator tells of a silent rank
            return exchange_messages(ranks, 1000);
        });
        for (int32_t r = 0; r < 4; ++r) {
            if (r == c.lost) continue;
            CAPTURE(r);
            CHECK(ended[static_cast<std::size_t>(r)].message().find("gave no sign of life") != std::string::npos);
            CHECK(ended[static_cast<std::size_t>(r)].code() == (r == c.reporter ? Code::io : Code::cancelled));
        }
    }
}

TEST_CASE("ranks that expect different sizes are told so") {
    const std::vector<Status> ended = on_ranks(2, [](Communicator& ranks) -> Status {
        Bytes from(100), to(ranks.rank() == 0 ? 100 : 99);
        std::vector<hk_exchange_part> parts(2);
        parts[static_cast<std::size_t>(1 - ranks.rank())] = {from.data(), to.data(), from.size(), to.size()};
        return ranks.exchange(parts);
    });
    CHECK((!ended[0].ok() && !ended[1].ok()));
    CHECK((ended[0].message() + ended[1].message()).find("expect different sizes") != std::string::npos);
}
