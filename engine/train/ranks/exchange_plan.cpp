#include "train/ranks/exchange_plan.hpp"

#include "exchange/tree_sum.hpp"
#include "program/lowering/optimizer.hpp"
#include "program/lowering/optimizer_state.hpp"
#include "program/shards.hpp"
#include "train/run/run_folder.hpp"
#include "train/step/micro_batch_runner.hpp"

#include <algorithm>

namespace hekla::train {
namespace {

constexpr double kBackward = 2.0 / 3.0; // of a micro-batch's time

// The ranks of a node share its link, over which they reach the ranks of other nodes.
double link_seconds(const PlannedRanks& ranks, double bytes_of_rank, double messages) {
    if (ranks.bytes_per_second <= 0.0) return 0.0;
    const double all = ranks.ranks;
    const double nodes = ranks.nodes > 0 ? ranks.nodes : all;
    const double on_node = all / nodes;
    const double outside = all > 1.0 ? (all - on_node) / (all - 1.0) : 0.0;
    return bytes_of_rank * on_node * outside / ranks.bytes_per_second + messages * ranks.latency;
}

// Returns the most sums of parts that exist at a time.
std::size_t most_sums(uint32_t parts, exchange::PartRange own) {
    exchange::PartSums sums(parts, own, 0);
    std::size_t most = 0;
    for (uint32_t part = own.first; part < own.end; ++part) {
        most = std::max(most, sums.nodes().size() + 1);
        sums.next_part();
        sums.add_part();
    }
    return most;
}

} // namespace

ExchangePlan plan_exchange(std::span<const program::StoreChunk> chunks, const Recipe& recipe, const StepParts& options,
                           const graph::Graph& described, const PlannedRanks& planned, double micro_seconds) {
    const auto ranks = static_cast<std::size_t>(planned.ranks);
    const program::Shards shards(
        chunks, {0, static_cast<uint32_t>(ranks), static_cast<uint64_t>(recipe.distributed.bucket) << 20});
    const std::vector<exchange::PartRange> parts =
        exchange::parts_by_rank(options.parts, planned.ranks, options.shares);
    const uint64_t of_gradient = options.half ? 2 : 4;
    std::vector<uint64_t> nodes, own(ranks), sums(ranks), micro;
    for (const exchange::PartRange& range : parts) {
        nodes.push_back(exchange::nodes_of(options.parts, range).size());
        micro.push_back(uint64_t{range.end - range.first} * (options.micro_steps / options.parts));
    }
    for (const program::Shards::Bucket& bucket : shards.buckets())
        for (std::size_t r = 0; r < ranks; ++r) {
            own[r] += bucket.slices[r].count;
            sums[r] += program::Shards::sums_of(bucket.slices[r]);
        }
    // Gradients and parameters, then what ShardedStep gathers: counts and tokens (all, and labels), losses and times,
    // sums of squares; and the decision of rank 0.
    uint64_t gradients = 0, parameters = 0, control = 0;
    const uint64_t numbers = LossSum(described).numbers();
    const auto gathered = [&](std::size_t rank) {
        return 3 * 8 + 8 * (described.losses.size() + 2) + 8 * (micro[rank] * numbers + 1) + 4 * sums[rank];
    };
    for (std::size_t r = 1; r < ranks; ++r) {
        gradients += of_gradient * (own[r] * nodes[0] + own[0] * nodes[r]);
        parameters += 4 * (own[0] + own[r]);
        control += gathered(0) + gathered(r) + 8 + sizeof(program::OptimizerState) +
                   (recipe.train.fp16 ? sizeof(program::LossScale) : 0);
    }
    ExchangePlan plan;
    plan.ranks = planned.ranks;
    plan.bytes = gradients + parameters + control;
    plan.micro = std::ranges::max(micro);
    for (std::size_t r = 0; r < ranks; ++r) {
        uint64_t received = 0;
        for (std::size_t other = 0; other < ranks; ++other)
            if (other != r) received += own[r] * nodes[other];
        plan.memory = std::max(plan.memory, 4 * (shards.elements() * most_sums(options.parts, parts[r]) + received));
    }
    const double messages = static_cast<double>(shards.buckets().size() * (ranks - 1));
    const double reduce = link_seconds(planned, static_cast<double>(gradients) / 2.0, messages);
    const double share = link_seconds(planned, static_cast<double>(parameters) / 2.0, messages);
    // The backward pass hides the gradients' time, except that of the last bucket.
    const double last = reduce / static_cast<double>(std::max<std::size_t>(1, shards.buckets().size()));
    plan.seconds = reduce + share;
    plan.exposed = std::max(reduce - kBackward * micro_seconds, last) + share;
    return plan;
}

ExchangePlan plan_averages(std::span<const program::StoreChunk> chunks, const Recipe& recipe,
                           const PlannedRanks& planned) {
    const auto ranks = static_cast<std::size_t>(planned.ranks);
    const program::Shards shards(
        chunks, {0, static_cast<uint32_t>(ranks), static_cast<uint64_t>(recipe.distributed.bucket) << 20});
    const uint64_t of_change = recipe.distributed.outer_exchange == "f16" ? 2 : 4;
    ExchangePlan plan;
    plan.ranks = planned.ranks;
    for (const program::Shards::Bucket& bucket : shards.buckets())
        for (std::size_t r = 1; r < ranks; ++r)
            plan.bytes += (of_change + 4) * (bucket.slices[0].count + bucket.slices[r].count);
    plan.memory = 4 * 3 * shards.elements();
    plan.micro = static_cast<uint64_t>(recipe.train.gradient_accumulation_steps);
    plan.seconds = link_seconds(planned, static_cast<double>(plan.bytes) / 2.0,
                                2.0 * static_cast<double>(shards.buckets().size() * (ranks - 1)));
    plan.exposed = plan.seconds;
    return plan;
}

} // namespace hekla::train
