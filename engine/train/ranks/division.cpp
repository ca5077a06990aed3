#include "train/ranks/division.hpp"

#include "program/shards.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>

namespace hekla::train {
namespace {

constexpr const char* kWithoutRanks = "train on one device without [distributed]";

Status settle_batch(Recipe& recipe, const Recipe* before, int64_t ranks, const std::filesystem::path& run) {
    if (recipe.distributed.batch != "rank") return {};
    if (recipe.distributed.mode == "diloco")
        return invalid_argument(
            "distributed.batch = \"rank\" and mode = \"diloco\": each rank takes whole steps there; "
            "remove `batch`");
    int64_t& steps = recipe.train.gradient_accumulation_steps;
    const int64_t of_run = before != nullptr ? before->train.gradient_accumulation_steps : steps * ranks;
    if (of_run % steps != 0)
        return failed_precondition(
            fmt::format("{}: its steps have {} micro-batches, and train.gradient_accumulation_steps = {}, those of one "
                        "rank (distributed.batch = \"rank\"), does not divide them: put the old value back, or choose "
                        "another [output] dir",
                        run.string(), of_run, steps));
    steps = of_run;
    recipe.distributed.batch = "step";
    return {};
}

Status settle_parts(Recipe& recipe, const Recipe* before, int64_t ranks) {
    int64_t& parts = recipe.distributed.parts;
    if (recipe.distributed.mode == "diloco") {
        if (parts > 1)
            return invalid_argument(
                fmt::format("distributed.parts = {} and mode = \"diloco\": each rank takes whole steps "
                            "there; remove `parts`",
                            parts));
        parts = 1;
        return {};
    }
    const std::vector<int64_t>& shares = recipe.distributed.shares;
    const int64_t sum = std::accumulate(shares.begin(), shares.end(), int64_t{0});
    const int64_t of_run = before != nullptr ? std::max<int64_t>(before->distributed.parts, 1) : 0;
    if (parts == 0 && of_run == 0 && !shares.empty()) parts = sum;
    if (parts == 0) parts = of_run > 0 ? of_run : ranks;
    if (parts < ranks)
        return invalid_argument(fmt::format("{} ranks need distributed.parts = {} or more; it is {}: set it, or train "
                                            "on fewer devices",
                                            ranks, ranks, parts));
    if (!shares.empty() && ranks > 1 && (std::ssize(shares) != ranks || sum != parts || std::ranges::min(shares) < 1))
        return invalid_argument(
            fmt::format("distributed.shares = [{}]: expected {} numbers of at least 1, one for each "
                        "rank, whose sum is distributed.parts = {}",
                        fmt::join(shares, ", "), ranks, parts));
    const TrainSection& s = recipe.train;
    const int64_t rows = s.per_device_train_batch_size * s.gradient_accumulation_steps;
    if (s.fit ? rows % parts == 0 : s.gradient_accumulation_steps % parts == 0) return {};
    for (int64_t micro = parts; micro <= rows; micro += parts)
        if (rows % micro == 0 && micro >= s.gradient_accumulation_steps)
            return invalid_argument(
                fmt::format("distributed.parts = {} does not divide train.gradient_accumulation_steps = {}: set "
                            "train.gradient_accumulation_steps = {} and train.per_device_train_batch_size = {}, which "
                            "is the same batch",
                            parts, s.gradient_accumulation_steps, micro, rows / micro));
    return invalid_argument(fmt::format("distributed.parts = {} does not divide the {} rows of a step: set "
                                        "train.gradient_accumulation_steps to a multiple of {}",
                                        parts, rows, parts));
}

} // namespace

Result<Division> Division::settle(Recipe& recipe, const Recipe* before, int32_t rank, int32_t ranks,
                                  const std::filesystem::path& run) {
    HK_TRY(settle_batch(recipe, before, ranks, run));
    HK_TRY(settle_parts(recipe, before, ranks));
    Division division;
    division.rank_ = rank;
    division.ranks_ = ranks;
    if (recipe.distributed.mode == "diloco")
        division.kind_ = Kind::islands;
    else if (ranks > 1 || recipe.distributed.parts > 1)
        division.kind_ = Kind::parts;
    return division;
}

Status Division::check_steps(const Recipe& recipe) const {
    if (kind_ != Kind::islands) return {};
    const int64_t inner = recipe.distributed.inner_steps;
    for (const auto& [name, steps] :
         {std::pair("eval_steps", recipe.train.eval_steps), std::pair("save_steps", recipe.train.save_steps)})
        if (steps % inner != 0)
            return invalid_argument(fmt::format("train.{} = {}: expected a multiple of distributed.inner_steps = {}, "
                                                "after which all ranks have the same parameters",
                                                name, steps, inner));
    return {};
}

Status Division::check_supported(const Used& used) const {
    if (kind_ == Kind::whole) return {};
    if (used.rollouts && kind_ == Kind::islands)
        return unsupported(fmt::format("objective '{}' learns from rollouts, which ranks make together, and with "
                                       "distributed.mode = \"diloco\" they train alone: remove `mode`",
                                       used.objective));
    if (used.taps)
        return unsupported(fmt::format("tap.names: several ranks or distributed.parts above 1 do not show taps: {}, or "
                                       "remove the key",
                                       kWithoutRanks));
    if (!used.updates.empty())
        return unsupported(
            fmt::format("{}: several ranks or distributed.parts divide the update of adamw or sgd alone, "
                        "which is one kernel: {}, or with one of these for all parameters",
                        used.updates, kWithoutRanks));
    if (used.alternates)
        return unsupported(fmt::format("train.alternate: several ranks or distributed.parts above 1 update all "
                                       "parameters in every step: {}, or remove the key",
                                       kWithoutRanks));
    if (!used.written_buffers.empty())
        return unsupported(fmt::format(
            "the model writes the buffer '{}'{} in every step, which a training on several "
            "devices or with distributed.parts above 1 does not support: train on one device "
            "with distributed.parts = 1",
            used.written_buffers[0],
            used.written_buffers.size() > 1 ? fmt::format(" and {} more", used.written_buffers.size() - 1) : ""));
    return {};
}

std::optional<program::ShardOptions> Division::shard(const DistributedSection& section) const {
    if (kind_ != Kind::parts) return std::nullopt;
    return program::ShardOptions{static_cast<uint32_t>(rank_), static_cast<uint32_t>(ranks_),
                                 static_cast<uint64_t>(section.bucket) << 20};
}

StepParts Division::parts_of_step(const Recipe& recipe) const {
    const DistributedSection& d = recipe.distributed;
    std::vector<uint32_t> shares;
    if (ranks_ > 1)
        for (const int64_t share : d.shares) shares.push_back(static_cast<uint32_t>(share));
    return {static_cast<uint32_t>(d.parts), static_cast<uint32_t>(recipe.train.gradient_accumulation_steps),
            std::move(shares), d.exchange == "bf16"};
}

ExchangePlan Division::plan(std::span<const program::StoreChunk> chunks, const Recipe& recipe,
                            const graph::Graph& described, PlannedRanks planned, double micro_seconds) const {
    if (ranks_ == 1) return {};
    planned.ranks = ranks_;
    if (planned.micro_seconds > 0.0) micro_seconds = planned.micro_seconds;
    return kind_ == Kind::islands
               ? plan_averages(chunks, recipe, planned)
               : plan_exchange(chunks, recipe, parts_of_step(recipe), described, planned, micro_seconds);
}

} // namespace hekla::train
