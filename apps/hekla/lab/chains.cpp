#include "base/stopwatch.hpp"
#include "lab/kernel.hpp"
#include "program/parameter_store.hpp"
#include "program/program.hpp"
#include "program/runtime.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::lab {
namespace {

constexpr int64_t kNumbers = 256;

// Dispatches that add 1 to the numbers of a state, from "even" to "odd" and back.
Result<program::Lowering> chain_of(program::Runtime& runtime, int length) {
    program::Lowering lowering;
    lowering.limits = runtime.device_limits();
    const uint32_t width = std::min<uint32_t>(64, lowering.limits.max_group_invocations);
    for (int i = 0; i < length; ++i) {
        HK_ASSIGN(program::Dispatch dispatch, dispatch_of("increment", {width}));
        const auto state = [&](bool even) {
            return lowering.named(program::ResourceKind::state, even ? "even" : "odd", {kNumbers},
                                  program::Storage::f32);
        };
        dispatch.record = begin_record();
        dispatch.record.put(program::reads(state(i % 2 == 0)));
        dispatch.record.put(program::writes(state(i % 2 != 0)));
        dispatch.groups = kNumbers / width;
        lowering.append(std::move(dispatch));
    }
    return lowering;
}

} // namespace

Result<report::Outcome> chains(const Input& input) {
    program::Runtime& runtime = input.runtime;
    report::Outcome outcome;
    HK_TRY(warm_up(runtime));
    report::Line rows = report::Line::array();
    double shortest = 0, longest = 0;
    int first = 0, last = 0;
    for (const int length : {64, 256, 1024}) {
        HK_ASSIGN(const auto store, program::ParameterStore::create(runtime, {}));
        HK_ASSIGN(const program::Lowering lowering, chain_of(runtime, length));
        HK_ASSIGN(const auto program, program::Program::compile(runtime, lowering, *store));
        HK_TRY(program->run());
        HK_ASSIGN(const ResourceArray<std::byte> numbers, store->download_state("even"));
        for (int64_t i = 0; i < kNumbers; ++i)
            if (const double got =
                    number_at({numbers.data(), numbers.size()}, program::Storage::f32, static_cast<uint64_t>(i));
                got != length) {
                outcome.problem = fmt::format(
                    "number {} is {} after {} dispatches that add 1; a barrier was not kept, or nothing was "
                    "executed",
                    i, got, length);
                return outcome;
            }
        // Without timestamps, whose queries are between the dispatches.
        double best = 1e30;
        const auto begin = std::chrono::steady_clock::now();
        for (int i = 0; i < 5 || (i < 200 && seconds_since(begin) < 0.5); ++i) {
            const auto one = std::chrono::steady_clock::now();
            HK_TRY(program->run());
            best = std::min(best, seconds_since(one));
        }
        rows.push_back({{"dispatches", length}, {"microseconds", rounded(best * 1e6)}});
        if (first == 0) {
            first = length;
            shortest = best;
        }
        last = length;
        longest = best;
    }
    const double each = std::max(0.0, longest - shortest) / (last - first) * 1e6;
    outcome.result = {{"microseconds_per_dispatch", rounded(each)},
                      {"microseconds_per_submit", rounded(std::max(0.0, shortest * 1e6 - each * first))},
                      {"chains", rows}};
    outcome.text = fmt::format("{:.2f} microseconds a dispatch that waits for the one before, {:.0f} a submit", each,
                               outcome.result.value("microseconds_per_submit", 0.0));
    return outcome;
}

} // namespace hekla::lab
