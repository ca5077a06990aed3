#include "program/resource_locations.hpp"

#include <algorithm>

namespace hekla::program {

ProgramOutputs place_outputs(const Lowering& lowering, std::vector<uint64_t>& offsets) {
    constexpr uint64_t kSmall = uint64_t{1} << 20; // bytes: logits of a token, for one
    offsets.resize(lowering.resources.size(), 0);
    ProgramOutputs placed;
    for (const bool small : {true, false}) {
        for (ResourceId id = 1; id < lowering.resources.size(); ++id) {
            const Resource& resource = lowering.resources[id];
            if (resource.kind != ResourceKind::output || (resource.bytes <= kSmall) != small) continue;
            offsets[id] = placed.bytes;
            placed.bytes += (resource.bytes + kAlignment - 1) / kAlignment * kAlignment;
        }
        if (small) placed.small = placed.bytes;
    }
    return placed;
}

uint64_t ResourceLocations::pack(const Lowering& lowering, ResourceKind kind, std::vector<uint64_t>& offsets) {
    offsets.resize(lowering.resources.size(), 0);
    uint64_t end = 0;
    for (ResourceId id = 1; id < lowering.resources.size(); ++id) {
        if (lowering.resources[id].kind != kind) continue;
        offsets[id] = end;
        end += (lowering.resources[id].bytes + kAlignment - 1) / kAlignment * kAlignment;
    }
    return end;
}

uint64_t ResourceLocations::address(ResourceId id, const Arena& arena) const {
    const ResourceLocation& location = locations_[id];
    const gpu::Buffer& buffer = location.buffer ? *location.buffer : arena.blocks()[location.block];
    return buffer.address() + location.offset;
}

std::vector<ByteRange> ResourceLocations::ranges(const DispatchInfo& dispatch, const Arena& arena) const {
    std::vector<ByteRange> ranges;
    for (const Access& access : dispatch.accesses) {
        const uint64_t base = address(access.resource, arena);
        ranges.push_back({base + access.begin, base + access.end, access.write});
    }
    return ranges;
}

void ResourceLocations::record(const DispatchInfo& dispatch, uint32_t first, uint32_t end, const Arena& arena,
                               std::byte* into) const {
    std::ranges::copy(dispatch.record, into);
    std::memcpy(into, &first, sizeof first);
    std::memcpy(into + sizeof first, &end, sizeof end);
    for (const Relocation& relocation : dispatch.relocations) {
        const uint64_t value = address(relocation.resource, arena) + relocation.offset;
        std::memcpy(into + relocation.at, &value, sizeof value);
    }
}

} // namespace hekla::program
