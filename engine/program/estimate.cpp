#include "program/estimate.hpp"

#include "program/memory_plan.hpp"
#include "program/parameter_store.hpp"
#include "program/resource_locations.hpp"
#include "program/runtime.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::program {

namespace {

// The four buffers of gpu::Staging.
constexpr uint64_t kStagingBytes = 4 * ((uint64_t{8} << 20) + gpu::MemoryOptions{}.guard_bytes);

uint64_t with_guard(uint64_t bytes) { return (bytes + 15) / 16 * 16 + gpu::MemoryOptions{}.guard_bytes; }

} // namespace

void KernelUse::count(const Dispatch& one, double times) {
    dispatches += static_cast<uint64_t>(times);
    workgroups += static_cast<uint64_t>(times) * one.groups;
    flops += times * one.flops;
    bytes += times * one.bytes;
}

KernelUse& use_of(std::vector<KernelUse>& uses, const Dispatch& dispatch) {
    const auto same = [&](const KernelUse& kernel) {
        return kernel.dispatch.shader == dispatch.shader && kernel.dispatch.constants == dispatch.constants &&
               kernel.dispatch.subgroup_size == dispatch.subgroup_size;
    };
    const auto found = std::ranges::find_if(uses, same);
    if (found != uses.end()) return *found;
    KernelUse kernel;
    kernel.dispatch.shader = dispatch.shader;
    kernel.dispatch.source = dispatch.source;
    kernel.dispatch.words = dispatch.words;
    kernel.dispatch.constants = dispatch.constants;
    kernel.dispatch.subgroup_size = dispatch.subgroup_size;
    uses.push_back(std::move(kernel));
    return uses.back();
}

Target target_of(const Runtime& runtime) {
    Target target;
    target.limits = runtime.limits();
    target.speed = speed_of(runtime.limits());
    target.max_buffer_bytes = runtime.gpu().memory->max_buffer_bytes();
    target.max_block_bytes = runtime.options().max_block_bytes;
    target.budget_seconds = runtime.options().budget_seconds;
    target.staging_bytes = runtime.gpu().capabilities().mapped_device_memory ? 0 : kStagingBytes;
    return target;
}

Result<Target> described_target(const Limits& limits, const Speed& speed, uint64_t max_allocation_bytes, bool mapped) {
    if (limits.subgroup_size < 4 || limits.subgroup_size > 128 ||
        (limits.subgroup_size & (limits.subgroup_size - 1)) != 0)
        return invalid_argument(
            fmt::format("subgroups of {} lanes: expected a power of two from 4 to 128", limits.subgroup_size));
    if (limits.max_group_invocations < 128)
        return invalid_argument(fmt::format("groups of {} invocations: expected at least 128, as Vulkan requires",
                                            limits.max_group_invocations));
    if (limits.shared_memory < 16384)
        return invalid_argument(fmt::format("{} bytes of shared memory: expected at least 16384, as Vulkan requires",
                                            limits.shared_memory));
    if (!(speed.flops > 0 && speed.bytes > 0))
        return invalid_argument(
            fmt::format("{} operations and {} bytes a second: expected more than 0 of both", speed.flops, speed.bytes));
    constexpr uint64_t kGuard = gpu::MemoryOptions{}.guard_bytes;
    if (max_allocation_bytes < (uint64_t{1} << 20))
        return invalid_argument(
            fmt::format("allocations of at most {} bytes: expected at least 1 MiB", max_allocation_bytes));
    Target target;
    target.limits = limits;
    target.speed = speed;
    target.budget_seconds = submit_seconds(limits.cpu, false);
    target.max_buffer_bytes = (max_allocation_bytes - kGuard) / kAlignment * kAlignment;
    target.max_block_bytes = target.max_buffer_bytes;
    target.staging_bytes = mapped ? 0 : kStagingBytes;
    return target;
}

void Estimator::buffer(uint64_t bytes, uint64_t Estimate::*kind) {
    sum_.*kind += with_guard(bytes);
    sum_.largest = std::max(sum_.largest, with_guard(bytes));
}

Status Estimator::add_store(std::vector<ParameterEntry> table, const StoreOptions& options) {
    table_ = std::move(table);
    HK_ASSIGN(chunks_,
              place_parameters(table_, target_.limits, options,
                               options.max_chunk_bytes > 0 ? options.max_chunk_bytes : target_.max_buffer_bytes));
    for (const ParameterEntry& entry : table_) sum_.parameters += entry.shape.elements();
    stored_otherwise_ = stored_otherwise(table_);
    std::optional<Shards> shards; // of the last rank, which has most
    if (options.shard) {
        ShardOptions last = *options.shard;
        last.rank = last.ranks - 1;
        shards.emplace(chunks_, last);
    }
    for (std::size_t c = 0; c < chunks_.size(); ++c) {
        const StoreChunk& chunk = chunks_[c];
        const uint64_t elements = std::max(chunk.elements, kAlignment);
        buffer(elements * bytes_of(chunk.storage), &Estimate::weights);
        if (!chunk.trained) continue;
        if (options.gradients) buffer(elements * sizeof(float), &Estimate::gradients);
        for (uint32_t moment = 0; moment < options.moments.count; ++moment) {
            const uint64_t bytes = (shards ? shards->own_elements(static_cast<uint32_t>(c)) : elements) *
                                   bytes_of(options.moments.storage);
            if (options.moments.in_system_memory && !target_.limits.cpu)
                sum_.system += with_guard(bytes);
            else
                buffer(bytes, &Estimate::optimizer);
        }
    }
    return {};
}

Result<Lowering> Estimator::add(const graph::Graph& graph, CompileOptions options, double times,
                                uint64_t Estimate::*states) {
    options.parameters = stored_otherwise_;
    HK_ASSIGN(Lowering lowering, lower(graph, target_.limits, options));
    HK_TRY(add(lowering, times, states));
    lowering.graph = nullptr;
    return lowering;
}

Status Estimator::add(const Lowering& lowering, double times, uint64_t Estimate::*states) {
    HK_ASSIGN(const MemoryPlan plan, plan_memory(lowering, target_.max_block_bytes));
    blocks_.resize(std::max(blocks_.size(), plan.blocks.size()));
    for (std::size_t b = 0; b < plan.blocks.size(); ++b) blocks_[b] = std::max(blocks_[b], plan.blocks[b]);
    for (const Resource& resource : lowering.resources)
        if (resource.kind == ResourceKind::state && states_.insert(resource.name).second)
            buffer((resource.bytes + 3) / 4 * 4, states);

    for (const Dispatch& dispatch : lowering.dispatches)
        if (!dispatch.source.empty()) sources_.emplace(dispatch.shader, dispatch.source);

    std::vector<uint64_t> offsets;
    const ProgramOutputs outputs = place_outputs(lowering, offsets);
    const uint64_t inputs = std::max(ResourceLocations::pack(lowering, ResourceKind::input, offsets), kAlignment);
    uint64_t arguments = 0;
    std::vector<double> slices; // their durations
    for (const Dispatch& dispatch : lowering.dispatches) {
        const double seconds = seconds_of(dispatch.flops, dispatch.bytes, speed_of(target_.limits), dispatch.seconds);
        const uint64_t parts = parts_of(dispatch.groups, seconds, target_.budget_seconds);
        arguments += parts * ((dispatch.record.bytes.size() + 63) / 64 * 64);
        slices.insert(slices.end(), parts, seconds / static_cast<double>(parts));
    }
    const uint64_t constants = ResourceLocations::pack(lowering, ResourceKind::constant, offsets);
    for (const uint64_t bytes :
         {std::max(constants, kAlignment), inputs, std::max(outputs.bytes, kAlignment), std::max(arguments, kAlignment),
          inputs, inputs, std::max(outputs.small, kAlignment), std::max(outputs.small, kAlignment)})
        buffer(bytes, &Estimate::programs);

    if (times <= 0) return {};
    sum_.command_buffers +=
        static_cast<uint64_t>(times) * segments_of(slices, segment_seconds(target_.budget_seconds)).size();
    for (const KernelProblem& problem : lowering.problems)
        if (std::ranges::find(sum_.problems, problem.key, &KernelProblem::key) == sum_.problems.end())
            sum_.problems.push_back(problem);
    for (const Dispatch& dispatch : lowering.dispatches) {
        use_of(sum_.kernels, dispatch).count(dispatch, times);
        const std::string name = dispatch_label(lowering, dispatch);
        NodeCost& node = nodes_[name];
        node.name = name;
        node.dispatches += static_cast<uint64_t>(times);
        node.seconds += times * seconds_of(dispatch.flops, dispatch.bytes, target_.speed, dispatch.seconds);
        node.flops += times * dispatch.flops;
        node.bytes += times * dispatch.bytes;
    }
    return {};
}

std::vector<std::string> parameters_reached(const std::vector<ParameterEntry>& table, const Lowering& lowering) {
    std::vector<std::string> names;
    for (const ParameterEntry& entry : table)
        if (std::ranges::any_of(lowering.resources, [&](const Resource& resource) {
                return resource.kind == ResourceKind::gradient && resource.name == entry.name;
            }))
            names.push_back(entry.name);
    return names;
}

Estimate Estimator::finish() const {
    Estimate all = sum_;
    for (const uint64_t block : blocks_) {
        all.activations += with_guard(block);
        all.largest = std::max(all.largest, with_guard(block));
    }
    all.staging = target_.staging_bytes;
    for (const auto& [name, node] : nodes_) {
        all.dispatches += node.dispatches;
        all.flops += node.flops;
        all.bytes += node.bytes;
        all.seconds += node.seconds;
        all.nodes.push_back(node);
    }
    std::ranges::stable_sort(all.nodes, std::greater<>(), &NodeCost::seconds);
    return all;
}

} // namespace hekla::program
