// The location of each resource of a program: device addresses, once buffers exist.
#pragma once

#include "base/resource_allocator.hpp"
#include "program/arena.hpp"
#include "program/hazards.hpp"
#include "program/memory_plan.hpp"
#include "program/program_metadata.hpp"

#include <vector>

namespace hekla::program {

// A resource's buffer and offset; for the arena the block's index instead, since blocks move when they grow.
struct ResourceLocation {
    const gpu::Buffer* buffer = nullptr;
    uint32_t block = 0;
    uint64_t offset = 0;
};

// The layout of the buffer of all outputs: small ones first, so that one copy transfers them to the host.
struct ProgramOutputs {
    uint64_t small = 0; // bytes at the beginning that are copied at the end of every replay
    uint64_t bytes = 0;
};
ProgramOutputs place_outputs(const Lowering& lowering, std::vector<uint64_t>& offsets);

class ResourceLocations {
public:
    // Computes offsets of resources of one kind, one after the other, each a multiple of kAlignment. Returns the total
    // bytes.
    static uint64_t pack(const Lowering& lowering, ResourceKind kind, std::vector<uint64_t>& offsets);

    ResourceLocations() = default;
    ResourceLocations(std::size_t resources, std::pmr::memory_resource* memory) : locations_(resources, memory) {}
    ResourceLocation& operator[](ResourceId id) { return locations_[id]; }
    const ResourceLocation& operator[](ResourceId id) const { return locations_[id]; }

    uint64_t address(ResourceId id, const Arena& arena) const;
    std::vector<ByteRange> ranges(const DispatchInfo& dispatch, const Arena& arena) const;
    // Writes the argument record with its addresses set, and its part [first, end) of the groups.
    void record(const DispatchInfo& dispatch, uint32_t first, uint32_t end, const Arena& arena, std::byte* into) const;

private:
    ResourceVector<ResourceLocation> locations_;
};

} // namespace hekla::program
