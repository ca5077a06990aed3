#include "train/update/prune_weights.hpp"

#include "base/philox.hpp"
#include "train/update/parameter_rules.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <functional>

namespace hekla::train {
namespace {

constexpr std::string_view kRandomMask = "random mask";

// A group of weights that are compared with each other: all, or those of one parameter.
using Group = std::vector<WeightMask::Tensors::iterator>;

// Calls use(place in the masks' bytes, key) for each kept weight of a group, always in the same order. The weights with
// the smallest keys are pruned.
using Visit = std::function<Status(const std::function<void(uint8_t& kept, uint32_t key)>& use)>;

// Prunes `count` of a group's kept weights: the threshold is found by two histograms over the upper and lower halves of
// the keys, and of the keys equal to it the first are pruned. No memory depends on the number of weights.
Status prune_smallest(const Visit& visit, int64_t count) {
    constexpr std::size_t kBins = 1 << 16;
    // Returns the bin that contains the weight number `count`, and how many of this bin are to be pruned.
    const auto bin_of = [](const std::vector<int64_t>& bins, int64_t left) {
        std::size_t bin = 0;
        while (left > bins[bin]) left -= bins[bin++];
        return std::pair(static_cast<uint32_t>(bin), left);
    };
    std::vector<int64_t> bins(kBins);
    HK_TRY(visit([&](uint8_t&, uint32_t key) { ++bins[key >> 16]; }));
    const auto [upper, in_upper] = bin_of(bins, count);
    std::ranges::fill(bins, 0);
    HK_TRY(visit([&, upper = upper](uint8_t&, uint32_t key) {
        if (key >> 16 == upper) ++bins[key & 0xFFFF];
    }));
    const auto [lower, at_threshold] = bin_of(bins, in_upper);
    const uint32_t threshold = upper << 16 | lower;
    int64_t left = at_threshold;
    return visit([&](uint8_t& kept, uint32_t key) {
        if (key < threshold || (key == threshold && left-- > 0)) kept = 0;
    });
}

// Visits kept weights with random keys.
Visit random_keys(const Group& group, uint64_t seed, uint64_t round) {
    return [&group, seed, round](const auto& use) -> Status {
        for (const auto& tensor : group) {
            RandomStream random(seed, hash64(tensor->first, hash64(kRandomMask, round)));
            for (uint8_t& kept : tensor->second.kept) {
                const uint32_t key = random.next_u32(); // also for pruned weights: its place is the weight's
                if (kept != 0) use(kept, key);
            }
        }
        return {};
    };
}

// Visits kept weights with their magnitudes, whose bits are in the order of the numbers.
Visit magnitudes(const Group& group, const model::Weights& trained) {
    return [&group, &trained](const auto& use) -> Status {
        std::vector<float> values;
        for (const auto& tensor : group) {
            HK_ASSIGN(const model::TensorView* stored, trained.get(tensor->first));
            if (stored->dims != tensor->second.dims)
                return corrupt(fmt::format("{}: '{}' is {}, and its mask is {}", trained.path().string(), tensor->first,
                                           model::format_dims(stored->dims), model::format_dims(tensor->second.dims)));
            std::vector<uint8_t>& kept = tensor->second.kept;
            values.resize(kept.size());
            HK_TRY(model::load_float32(*stored, values));
            for (std::size_t i = 0; i < kept.size(); ++i) {
                if (kept[i] == 0) continue;
                if (!std::isfinite(values[i]))
                    return corrupt(fmt::format("{}: element {} of '{}' is {}: it has no magnitude to compare",
                                               trained.path().string(), i, tensor->first, values[i]));
                use(kept[i], std::bit_cast<uint32_t>(std::abs(values[i])));
            }
        }
        return {};
    };
}

int64_t kept_in(const Group& group) {
    int64_t count = 0;
    for (const auto& tensor : group) count += tensor->second.kept_count();
    return count;
}

} // namespace

Result<WeightMask> prunable_weights(const Recipe& recipe, std::span<const program::ParameterEntry> table,
                                    const std::set<std::string>& body) {
    std::vector<std::string> names;
    for (const program::ParameterEntry& entry : table) names.push_back(entry.name);
    std::set<std::string> excluded;
    for (const std::string& pattern : recipe.prune.exclude) {
        HK_ASSIGN(const std::vector<std::string> matched, selected_parameters("prune.exclude", pattern, names, body));
        // A model without embeddings is not an error: they are the default.
        if (matched.empty() && pattern != "embeddings") return selects_nothing("prune.exclude", pattern, names);
        excluded.insert(matched.begin(), matched.end());
    }
    WeightMask mask;
    for (const program::ParameterEntry& entry : table)
        if (entry.trained && entry.shape.rank() >= 2 && !excluded.contains(entry.name))
            mask.keep_all(entry.name, entry.shape.vector());
    if (mask.weights() == 0)
        return invalid_argument(
            fmt::format("[prune] leaves nothing to prune: none of the {} parameters is trained, has "
                        "two or more dimensions and is not in prune.exclude: remove patterns from "
                        "prune.exclude",
                        table.size()));
    return mask;
}

Result<WeightMask> pruned_further(const WeightMask& mask, const model::Weights& trained, const Recipe& recipe,
                                  int64_t round) {
    const PruneSection& s = recipe.prune;
    WeightMask next = mask;
    std::vector<Group> groups;
    for (auto tensor = next.tensors().begin(); tensor != next.tensors().end(); ++tensor) {
        if (groups.empty() || s.scope == "layer") groups.emplace_back();
        groups.back().push_back(tensor);
    }
    for (const Group& group : groups) {
        const int64_t count = std::llround(s.amount * static_cast<double>(kept_in(group)));
        if (count == 0) continue;
        HK_TRY(prune_smallest(s.mask == "random" ? random_keys(group, static_cast<uint64_t>(recipe.train.seed),
                                                               static_cast<uint64_t>(round))
                                                 : magnitudes(group, trained),
                              count));
    }
    const int64_t before = mask.kept(), after = next.kept();
    if (after == 0 || after == before)
        return invalid_argument(fmt::format(
            "round {}: prune.amount = {} of the {} weights that are left prunes {} of them: choose fewer rounds", round,
            s.amount, before, after == 0 ? "all" : "none"));
    return next;
}

WeightMask shuffled(const WeightMask& mask, uint64_t seed) {
    WeightMask result = mask;
    for (auto tensor = result.tensors().begin(); tensor != result.tensors().end(); ++tensor) {
        const int64_t pruned = std::ssize(tensor->second.kept) - tensor->second.kept_count();
        std::ranges::fill(tensor->second.kept, uint8_t{1});
        if (pruned == 0) continue;
        const Group group{tensor};
        // Random keys cannot fail.
        if (!prune_smallest(random_keys(group, seed, 0), pruned).ok()) return mask;
    }
    return result;
}

} // namespace hekla::train
