#include "program/placement.hpp"

namespace hekla::program {

ProgramOutputs place_outputs(const Lowering& lowering, std::vector<uint64_t>& offsets) {
    constexpr uint64_t kSmall = 64 * 1024; // bytes
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

std::string dispatch_label(const Lowering& lowering, const Dispatch& dispatch) {
    if (!dispatch.label.empty()) return dispatch.label;
    return lowering.graph ? lowering.graph->describe(dispatch.node) : dispatch.shader;
}

uint64_t Placements::pack(const Lowering& lowering, ResourceKind kind, std::vector<uint64_t>& offsets) {
    offsets.resize(lowering.resources.size(), 0);
    uint64_t end = 0;
    for (ResourceId id = 1; id < lowering.resources.size(); ++id) {
        if (lowering.resources[id].kind != kind) continue;
        offsets[id] = end;
        end += (lowering.resources[id].bytes + kAlignment - 1) / kAlignment * kAlignment;
    }
    return end;
}

uint64_t Placements::address(ResourceId id, const Arena& arena) const {
    const Place& place = places_[id];
    const gpu::Buffer& buffer = place.buffer ? *place.buffer : arena.blocks()[place.block];
    return buffer.address() + place.offset;
}

std::vector<ByteRange> Placements::ranges(const Dispatch& dispatch, const Arena& arena) const {
    std::vector<ByteRange> ranges;
    for (const Access& access : dispatch.accesses) {
        const uint64_t base = address(access.resource, arena);
        ranges.push_back({base + access.begin, base + access.end, access.write});
    }
    return ranges;
}

std::vector<std::byte> Placements::record(const Dispatch& dispatch, uint32_t first, uint32_t end,
                                          const Arena& arena) const {
    std::vector<std::byte> bytes = dispatch.arguments.bytes();
    std::memcpy(bytes.data(), &first, sizeof first);
    std::memcpy(bytes.data() + sizeof first, &end, sizeof end);
    for (const Relocation& relocation : dispatch.arguments.relocations()) {
        const uint64_t value = address(relocation.resource, arena) + relocation.offset;
        std::memcpy(bytes.data() + relocation.at, &value, sizeof value);
    }
    return bytes;
}

} // namespace hekla::program
