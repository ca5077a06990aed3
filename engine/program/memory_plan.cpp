#include "program/memory_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace hekla::program {

namespace {

// Guard bytes between two tensors of a block, which are never written: an address that a driver rounds up to a wider
// load is harmless, and a checker detects a write past the end as outside of all tensors.
constexpr uint64_t kGuard = 64;

uint64_t padded(uint64_t bytes) { return (bytes + kGuard + kAlignment - 1) / kAlignment * kAlignment; }

constexpr uint32_t kNever = 0xFFFFFFFFu;

std::vector<Placement> lifetimes(const Lowering& lowering) {
    std::vector<Placement> by_resource(lowering.resources.size());
    for (Placement& placement : by_resource) placement.first = kNever;
    for (uint32_t d = 0; d < lowering.dispatches.size(); ++d) {
        for (const Access& access : lowering.dispatches[d].record.accesses) {
            Placement& placement = by_resource[access.resource];
            if (placement.first == kNever) placement.first = d;
            placement.last = d;
        }
    }
    std::vector<Placement> result;
    for (ResourceId id = 1; id < lowering.resources.size(); ++id) {
        const Resource& resource = lowering.resources[id];
        if (resource.kind != ResourceKind::arena || by_resource[id].first == kNever) continue;
        Placement placement = by_resource[id];
        placement.resource = id;
        placement.name = resource.name;
        placement.bytes = resource.bytes;
        result.push_back(std::move(placement));
    }
    return result;
}

// Returns the largest number of bytes live at one dispatch.
uint64_t most_alive(const std::vector<Placement>& placements, std::size_t dispatches) {
    std::vector<int64_t> change(dispatches + 1, 0);
    for (const Placement& placement : placements) {
        change[placement.first] += static_cast<int64_t>(padded(placement.bytes));
        change[placement.last + 1] -= static_cast<int64_t>(padded(placement.bytes));
    }
    int64_t alive = 0;
    int64_t most = 0;
    for (const int64_t step : change) most = std::max(most, alive += step);
    return static_cast<uint64_t>(most);
}

bool alive_together(const Placement& a, const Placement& b) { return a.first <= b.last && b.first <= a.last; }

// Placed tensors of one block, by offset.
struct Block {
    std::vector<const Placement*> placed;
    uint64_t bytes = 0;
};

// Returns the lowest offset of the block that is free during the tensor's whole lifetime.
uint64_t lowest_free(const Block& block, const Placement& wanted) {
    uint64_t offset = 0;
    const uint64_t bytes = padded(wanted.bytes);
    for (const Placement* other : block.placed) {
        if (!alive_together(*other, wanted)) continue;
        if (other->offset >= offset + bytes) break;
        offset = std::max(offset, other->offset + padded(other->bytes));
    }
    return offset;
}

} // namespace

Result<MemoryPlan> plan_memory(const Lowering& lowering, uint64_t max_block_bytes) {
    MemoryPlan plan;
    plan.placements = lifetimes(lowering);
    plan.dispatches = static_cast<uint32_t>(lowering.dispatches.size());
    plan.live_bytes = most_alive(plan.placements, lowering.dispatches.size());
    for (const Placement& placement : plan.placements) plan.unshared_bytes += padded(placement.bytes);

    std::vector<std::size_t> order(plan.placements.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        const Placement& x = plan.placements[a];
        const Placement& y = plan.placements[b];
        if (x.bytes != y.bytes) return x.bytes > y.bytes;
        return x.last - x.first > y.last - y.first;
    });

    std::vector<Block> blocks;
    for (const std::size_t index : order) {
        Placement& placement = plan.placements[index];
        const uint64_t bytes = padded(placement.bytes);
        if (bytes > max_block_bytes)
            return out_of_memory(
                fmt::format("the tensor '{}' takes {} bytes, and one allocation of this device holds {}; "
                            "make the batch or the context smaller",
                            placement.name, placement.bytes, max_block_bytes));
        std::size_t chosen = blocks.size();
        for (std::size_t b = 0; b < blocks.size() && chosen == blocks.size(); ++b) {
            placement.offset = lowest_free(blocks[b], placement);
            if (placement.offset + bytes <= max_block_bytes) chosen = b;
        }
        if (chosen == blocks.size()) {
            blocks.emplace_back();
            placement.offset = 0;
        }
        placement.block = static_cast<uint32_t>(chosen);
        Block& block = blocks[chosen];
        block.bytes = std::max(block.bytes, placement.offset + bytes);
        const auto at = std::upper_bound(block.placed.begin(), block.placed.end(), &placement,
                                         [](const Placement* a, const Placement* b) { return a->offset < b->offset; });
        block.placed.insert(at, &placement);
    }
    for (const Block& block : blocks) plan.blocks.push_back(block.bytes);

    for (ResourceId id = 1; id < lowering.resources.size(); ++id) {
        const Resource& resource = lowering.resources[id];
        switch (resource.kind) {
        case ResourceKind::constant: plan.constants += padded(resource.bytes); break;
        case ResourceKind::input: plan.inputs += padded(resource.bytes); break;
        case ResourceKind::output: plan.outputs += padded(resource.bytes); break;
        case ResourceKind::arena:
        case ResourceKind::parameter:
        case ResourceKind::gradient:
        case ResourceKind::moment1:
        case ResourceKind::moment2:
        case ResourceKind::state: break; // counted by the store
        }
    }
    for (const Dispatch& dispatch : lowering.dispatches)
        plan.arguments += (dispatch.record.bytes.size() + 63) / 64 * 64;
    return plan;
}

uint64_t MemoryPlan::arena() const { return std::accumulate(blocks.begin(), blocks.end(), uint64_t{0}); }

uint64_t MemoryPlan::total() const {
    return arena() + parameters + gradients + moments + states + constants + inputs + outputs + arguments;
}

} // namespace hekla::program
