#include "program/lowering/chain.hpp"

#include "base/hash.hpp"
#include "program/lowering/chain_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <span>
#include <utility>

namespace hekla::program {

namespace {

using Steps = std::span<const Dispatch>;

// What one core of a CPU does, and how long it may take: a dispatch costs half of that beyond its work (Mesa's
// lavapipe). The number of cores is not asked for: results of a plan are those of any CPU.
constexpr double kCoreFlops = 1e10, kCoreBytes = 8e9, kMostSeconds = 80e-6;
// A chain cannot be split where a host has a time budget for each frame.
constexpr double kMostSecondsOfChain = 500e-6;
// More kernels in one text take long to compile.
constexpr std::size_t kMostKernels = 24;
constexpr std::size_t kRecordAlignment = 16; // of records in a chain's

double seconds_on_one_core(const Dispatch& dispatch) {
    return std::max(dispatch.flops / kCoreFlops, dispatch.bytes / kCoreBytes);
}

using KernelKey = std::pair<std::string, std::vector<uint32_t>>;
KernelKey key_of(const Dispatch& dispatch) { return {dispatch.shader, dispatch.constants}; }

// Returns how often the first `length` kernels follow each other.
std::size_t repeats(std::span<const std::size_t> kernels, std::size_t length) {
    std::size_t times = 1;
    while ((times + 1) * length <= kernels.size() &&
           std::ranges::equal(kernels.subspan(times * length, length), kernels.first(length)))
        ++times;
    return times;
}

class ChainBuilder {
public:
    ChainBuilder(Steps steps, const Limits& limits) : steps_(steps), limits_(limits) {
        std::map<KernelKey, std::size_t> indices;
        for (const Dispatch& step : steps) {
            const auto [found, fresh] = indices.emplace(key_of(step), kernels_.size());
            if (fresh) kernels_.push_back(&step);
            order_.push_back(found->second);
        }
    }

    Dispatch build() {
        find_loops();
        write_record();
        Dispatch chain;
        chain.source = chain_text(kernels_, loops_, limits_.subgroup_size, limits_.uniform_loads);
        chain.shader = "generated:" + to_hex(hash128(chain.source));
        chain.subgroup_size = limits_.subgroup_size;
        chain.record = std::move(record_);
        for (const Dispatch& step : steps_) {
            chain.flops += step.flops;
            chain.bytes += step.bytes;
        }
        chain.node = steps_.front().node;
        chain.label = fmt::format("chain of {} kernels", steps_.size());
        return chain;
    }

private:
    // Chooses at each step the repeated sequence that saves the most text.
    void find_loops() {
        for (std::size_t at = 0; at < order_.size();) {
            const std::span<const std::size_t> rest = std::span(order_).subspan(at);
            std::size_t length = 1, times = 1;
            for (std::size_t l = 1; l <= rest.size() / 2; ++l)
                if (const std::size_t t = repeats(rest, l); l * (t - 1) > length * (times - 1)) {
                    length = l;
                    times = t;
                }
            ranges_.push_back({at, length, times});
            at += length * times;
        }
    }

    void write_record() {
        std::vector<std::byte>& bytes = record_.bytes;
        bytes.resize(2 * sizeof(uint32_t)); // the head
        for (const Range& range : ranges_) {
            ChainLoop loop;
            loop.iterations_at = bytes.size();
            append(static_cast<uint32_t>(range.times));
            for (std::size_t time = 0; time < range.times; ++time) {
                bytes.resize((bytes.size() + kRecordAlignment - 1) / kRecordAlignment * kRecordAlignment);
                if (time == 1) loop.stride = bytes.size() - loop.steps.front().record;
                for (std::size_t s = 0; s < range.length; ++s) {
                    const std::size_t step = range.begin + time * range.length + s;
                    const std::size_t place = append_record(steps_[step]);
                    if (time == 0) loop.steps.push_back({order_[step], place});
                }
            }
            loops_.push_back(std::move(loop));
        }
    }

    void append(uint32_t value) {
        const auto* const from = reinterpret_cast<const std::byte*>(&value);
        record_.bytes.insert(record_.bytes.end(), from, from + sizeof value);
    }

    std::size_t append_record(const Dispatch& step) {
        std::vector<std::byte>& bytes = record_.bytes;
        bytes.resize((bytes.size() + kRecordAlignment - 1) / kRecordAlignment * kRecordAlignment);
        const std::size_t place = bytes.size();
        bytes.insert(bytes.end(), step.record.bytes.begin(), step.record.bytes.end());
        const auto groups = static_cast<uint32_t>(step.groups);
        std::memcpy(bytes.data() + place + sizeof(uint32_t), &groups, sizeof groups); // the end of HK_RECORD_HEAD
        for (Relocation relocation : step.record.relocations) {
            relocation.at += static_cast<uint32_t>(place);
            record_.relocations.push_back(relocation);
        }
        record_.accesses.insert(record_.accesses.end(), step.record.accesses.begin(), step.record.accesses.end());
        return place;
    }

    struct Range {
        std::size_t begin = 0, length = 1, times = 1;
    };
    Steps steps_;
    const Limits& limits_;
    std::vector<const Dispatch*> kernels_; // the first dispatch of each kernel
    std::vector<std::size_t> order_;       // of each step, in kernels_
    std::vector<Range> ranges_;
    std::vector<ChainLoop> loops_;
    Record record_;
};

} // namespace

void join_chains(Lowering& lowering) {
    const Limits& limits = lowering.limits;
    if (!limits.cpu || !limits.generated_shaders || !limits.chains) return;
    std::vector<Dispatch> joined;
    std::vector<Dispatch>& all = lowering.dispatches;
    const auto chained = [&](const Dispatch& dispatch) {
        return dispatch.groups > 0 && can_be_chained(dispatch) && seconds_on_one_core(dispatch) < kMostSeconds;
    };
    for (std::size_t at = 0; at < all.size();) {
        std::size_t end = at;
        std::set<KernelKey> kernels;
        double seconds = 0;
        while (end < all.size() && chained(all[end])) {
            kernels.insert(key_of(all[end]));
            seconds += seconds_on_one_core(all[end]);
            if (kernels.size() > kMostKernels || seconds > kMostSecondsOfChain) break;
            ++end;
        }
        if (end - at < 2) {
            joined.push_back(std::move(all[at++]));
            continue;
        }
        joined.push_back(ChainBuilder(Steps(all).subspan(at, end - at), limits).build());
        at = end;
    }
    all = std::move(joined);
}

} // namespace hekla::program
