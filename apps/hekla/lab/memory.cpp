#include "lab/kernel.hpp"
#include "program/runtime.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace hekla::lab {
namespace {

constexpr uint32_t kVectors = 8; // of an invocation

struct Stream {
    std::string kind; // a variant of stream.comp
    int64_t bytes = 0;
};

// Appends a dispatch that streams the state "from" to "to".
Result<program::Lowering> stream_of(program::Runtime& runtime, const Stream& stream) {
    program::Lowering lowering;
    lowering.limits = runtime.device_limits();
    const uint32_t width = std::min(256u, lowering.limits.max_group_invocations);
    HK_ASSIGN(program::Dispatch dispatch, dispatch_of("stream." + stream.kind, {width}));
    const int64_t floats = stream.bytes / 4;
    const auto state = [&](const char* name, int64_t elements) {
        return lowering.named(program::ResourceKind::state, name, {elements}, program::Storage::f32);
    };
    dispatch.record = begin_record();
    dispatch.record.put(stream.kind == "write" ? program::reads({}) : program::reads(state("from", floats)));
    dispatch.record.put(
        program::writes(stream.kind == "read" ? state("sums", floats / kVectors) : state("to", floats)));
    dispatch.record.put(kVectors);
    dispatch.record.put(3.0f);
    dispatch.groups = static_cast<uint64_t>(floats / 4 / kVectors / width);
    dispatch.bytes = static_cast<double>(stream.bytes) * (stream.kind == "copy" ? 2 : 1);
    lowering.append(std::move(dispatch));
    return lowering;
}

// Copies, reads and writes whole numbers. Returns what is wrong.
Result<std::string> check(program::Runtime& runtime) {
    constexpr int64_t kBytes = int64_t{1} << 20;
    std::vector<float> from(kBytes / 4);
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i % 1021);
    HK_ASSIGN(const auto bench, make_bench(runtime));
    HK_TRY(bench->upload("from", std::as_bytes(std::span(from))));
    HK_ASSIGN(const program::Lowering copy, stream_of(runtime, {"copy", kBytes}));
    HK_TRY(bench->add(copy).status());
    HK_ASSIGN(const std::vector<std::byte> copied, bench->download("to"));
    for (std::size_t i = 0; i < from.size(); ++i)
        if (number_at(copied, program::Storage::f32, i) != static_cast<double>(from[i]))
            return fmt::format("element {} of a copy is {}, expected {}", i,
                               number_at(copied, program::Storage::f32, i), from[i]);
    HK_ASSIGN(const program::Lowering read, stream_of(runtime, {"read", kBytes}));
    HK_TRY(bench->add(read).status());
    HK_ASSIGN(const std::vector<std::byte> sums, bench->download("sums"));
    double sum = 0, expected = 0;
    for (std::size_t i = 0; i < from.size() / kVectors; ++i) sum += number_at(sums, program::Storage::f32, i);
    for (const float x : from) expected += static_cast<double>(x);
    if (sum != expected) return fmt::format("the sum of {} numbers is {}, expected {}", from.size(), sum, expected);
    return std::string();
}

} // namespace

Result<report::Outcome> memory(const Input& input) {
    program::Runtime& runtime = input.runtime;
    const gpu::Capabilities& device = runtime.gpu().capabilities();
    report::Outcome outcome;
    HK_ASSIGN(outcome.problem, check(runtime));
    if (!outcome.problem.empty()) return outcome;
    const bool cpu = device.type == gpu::DeviceType::cpu;
    const uint64_t room =
        std::min({device.max_buffer_bytes, device.max_allocation_bytes, device.device_memory_bytes / 8});
    int64_t largest = int64_t{1} << (cpu ? 26 : 29);
    while (static_cast<uint64_t>(largest) > room && largest > (int64_t{1} << 20)) largest /= 2;
    HK_TRY(warm_up(runtime));
    double read = 0, write = 0, copy = 0;
    report::Line sizes = report::Line::array();
    for (int64_t bytes = int64_t{1} << 18; bytes <= largest; bytes *= 4) {
        // The last size is the largest.
        if (bytes * 4 > largest) bytes = largest;
        report::Line row{{"mib", static_cast<double>(bytes) / 1048576.0}};
        for (const char* kind : {"read", "write", "copy"}) {
            HK_ASSIGN(const auto bench, make_bench(runtime));
            HK_ASSIGN(const program::Lowering lowering, stream_of(runtime, {kind, bytes}));
            HK_ASSIGN(const std::size_t dispatches, bench->add(lowering));
            HK_ASSIGN(const double seconds, bench->run(dispatches));
            const double rate = seconds > 0 ? lowering.dispatches[0].bytes / seconds / 1e9 : 0.0;
            row[fmt::format("{}_gb_per_s", kind)] = rounded(rate);
            (std::string_view(kind) == "read" ? read : std::string_view(kind) == "write" ? write : copy) = rate;
        }
        sizes.push_back(std::move(row));
    }
    outcome.result = {{"read_gb_per_s", rounded(read)},
                      {"write_gb_per_s", rounded(write)},
                      {"copy_gb_per_s", rounded(copy)},
                      {"sizes", sizes}};
    outcome.text = fmt::format("{} MiB: read {:.1f}, write {:.1f}, copy {:.1f} GB/s", largest >> 20, read, write, copy);
    return outcome;
}

} // namespace hekla::lab
