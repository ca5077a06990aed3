#include "train/update/alternation.hpp"

#include "base/nearest_name.hpp"
#include "graph/gradient/loss_parameters.hpp"
#include "program/lowering/optimizer.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>

namespace hekla::train {
namespace {

// Returns the losses that an entry of train.alternate names.
Result<std::set<std::size_t>> losses_of(std::string_view entry, std::span<const std::string> names) {
    std::set<std::size_t> losses;
    for (std::size_t begin = 0; begin <= entry.size();) {
        const std::size_t end = std::min(entry.find('+', begin), entry.size());
        const std::string_view name = entry.substr(begin, end - begin);
        begin = end + 1;
        bool found = false;
        for (std::size_t i = 0; i < names.size(); ++i)
            if (names[i] == name) {
                found = true;
                losses.insert(i);
            }
        if (found) continue;
        const std::string_view near = nearest_name(name, names);
        return invalid_argument(fmt::format("train.alternate: no loss is named '{}'{}; the losses are {}", name,
                                            near.empty() ? "" : fmt::format(", did you mean '{}'?", near),
                                            fmt::join(names, ", ")));
    }
    return losses;
}

} // namespace

Alternation::Alternation() : turns_{{{}, {0}, 1.0}}, classes_{{{}, program::kOptimizerState}}, cycle_{0} {}

Result<Alternation> Alternation::create(const TrainSection& section, const graph::Graph& described,
                                        const std::set<std::string, std::less<>>& frozen) {
    Alternation result;
    const std::vector<std::string>& cycle = section.alternate;
    HK_ASSIGN(const std::vector<graph::LossGroup> groups, graph::loss_groups(described, frozen));
    if (cycle.empty()) return result;
    std::vector<std::string> names;
    for (const graph::LossTerm& loss : described.losses) names.push_back(loss.name);
    if (!graph::losses_name_parameters(described))
        return invalid_argument(fmt::format("train.alternate: the losses ({}) do not name the parameters that they "
                                            "train, so no step could leave some as they are: remove the key, or name "
                                            "them in the objective by for_parameters",
                                            fmt::join(names, ", ")));
    result.turns_.clear();
    result.classes_.clear();
    result.cycle_.clear();
    for (const std::string& entry : cycle) {
        HK_ASSIGN(std::set<std::size_t> losses, losses_of(entry, names));
        const auto same = std::ranges::find(result.turns_, losses, &Turn::losses);
        result.cycle_.push_back(static_cast<std::size_t>(same - result.turns_.begin()));
        if (same == result.turns_.end()) result.turns_.push_back({std::move(losses), {}, 0.0});
    }
    for (const std::size_t turn : result.cycle_)
        result.turns_[turn].share += 1.0 / static_cast<double>(result.cycle_.size());
    for (std::size_t i = 0; i < names.size(); ++i)
        if (std::ranges::none_of(result.turns_, [i](const Turn& turn) { return turn.losses.contains(i); }))
            return invalid_argument(fmt::format("train.alternate: no step minimizes the loss '{}': add it, or join it "
                                                "to another one with '+', as in \"{}+{}\"",
                                                names[i], cycle.front(), names[i]));
    // Parameters by the turns that update them.
    std::map<std::string, std::vector<std::size_t>> turns_by_parameter;
    for (std::size_t turn = 0; turn < result.turns_.size(); ++turn)
        for (const graph::LossGroup& group : groups) {
            const bool counts = std::ranges::any_of(
                group.losses, [&](std::size_t loss) { return result.turns_[turn].losses.contains(loss); });
            for (const std::string& parameter : group.parameters) {
                std::vector<std::size_t>& turns = turns_by_parameter[parameter];
                if (counts && (turns.empty() || turns.back() != turn)) turns.push_back(turn);
            }
        }
    std::map<std::vector<std::size_t>, std::size_t> known;
    for (const auto& [parameter, turns] : turns_by_parameter) {
        const auto [at, fresh] = known.try_emplace(turns, result.classes_.size());
        if (fresh) {
            result.classes_.push_back({{}, fmt::format("{}.{}", program::kOptimizerState, at->second)});
            for (const std::size_t turn : turns) result.turns_[turn].classes.push_back(at->second);
        }
        result.classes_[at->second].parameters.insert(parameter);
    }
    if (section.fp16)
        return unsupported("train.alternate: train.fp16 has one loss scale for all parameters: set train.bf16 instead, "
                           "or remove the key");
    return result;
}

} // namespace hekla::train
