// The part of a lowering that a program keeps after recording: flat and contiguous, without what only compilation
// needed (GLSL, SPIR-V, contents of constants, views of the graph's values).
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
    double seconds = 0; // at least
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
    // The lowering's graph, if it has one, must still exist.
    ProgramMetadata(const Lowering& lowering, std::pmr::memory_resource* memory);

    std::span<const KeptResource> resources; // by ResourceId
    std::span<const DispatchInfo> dispatches;
    std::span<const KeptOutput> outputs;              // by name
    std::span<const StringPair> choices;              // key, kernel
    std::span<const StringPair> access_counts;        // label of the node, output
    std::span<const std::string_view> ignored_inputs; // Lowering::ignored_inputs

    const KeptOutput* output(std::string_view name) const; // null if it does not exist

private:
    ReadOnlyArena kept_;
};

// Returns "matmul in block.3/attention", the name of a dispatch in dumps, timings and captures.
std::string dispatch_label(const Lowering& lowering, const Dispatch& dispatch);

} // namespace hekla::program
