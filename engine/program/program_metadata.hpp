// What a program keeps of its lowering once it was recorded: flat and side by side, without what only making it took
// (GLSL, SPIR-V, contents of constants, views of the graph's values).
#pragma once

#include "base/read_only_arena.hpp"
#include "program/lowering/lowering.hpp"

#include <memory_resource>
#include <span>
#include <string_view>

namespace hekla::program {

struct DispatchInfo {
    std::string_view label; // "matmul in block.3/attention"
    std::string_view shader;
    std::span<const uint32_t> constants;
    std::span<const std::byte> record; // Record::bytes
    std::span<const Relocation> relocations;
    std::span<const Access> accesses;
    uint64_t groups = 1;
    double flops = 0;
    double bytes = 0;
};

struct KeptResource {
    std::string_view name;
    ResourceKind kind = ResourceKind::arena;
    uint64_t bytes = 0;
};

struct KeptOutput {
    std::string_view name;
    View view;
};

struct StringPair {
    std::string_view first, second;
};

class ProgramMetadata {
public:
    ProgramMetadata() = default;
    // The lowering's graph, where it has one, must still be there.
    ProgramMetadata(const Lowering& lowering, std::pmr::memory_resource* memory);

    std::span<const KeptResource> resources; // by ResourceId
    std::span<const DispatchInfo> dispatches;
    std::span<const KeptOutput> outputs;              // by name
    std::span<const StringPair> choices;              // key, kernel
    std::span<const StringPair> access_counts;        // label of the node, output
    std::span<const std::string_view> ignored_inputs; // Lowering::ignored_inputs

    const KeptOutput* output(std::string_view name) const; // null where there is none

private:
    ReadOnlyArena kept_;
};

// "matmul in block.3/attention": how dumps, timings and captures name a dispatch.
std::string dispatch_label(const Lowering& lowering, const Dispatch& dispatch);

} // namespace hekla::program
