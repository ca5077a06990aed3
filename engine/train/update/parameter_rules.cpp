#include "train/update/parameter_rules.hpp"

#include "base/name_pattern.hpp"
#include "base/nearest_name.hpp"
#include "model/parameter_names.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <functional>
#include <iterator>
#include <optional>
#include <vector>

namespace hekla::train {
namespace {

std::optional<int64_t> number_of(std::string_view text) {
    int64_t value = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (problem != std::errc() || end != text.data() + text.size() || text.empty()) return {};
    return value;
}

bool in_decoder(std::string_view name) { return name.find("decoder.") != std::string_view::npos; }

bool is_embedding(std::string_view name) {
    for (const char* word : {"embed", "wte", "wpe", "shared.", "relative_attention_bias"})
        if (name.find(word) != std::string_view::npos) return true;
    return false;
}

} // namespace

// Returns the number after the first part of a name that means "layer" or "block" in one of the families.
std::optional<LayerNumber> layer_number(std::string_view name) {
    std::string_view before;
    for (std::size_t at = 0; at < name.size();) {
        const std::size_t dot = std::min(name.find('.', at), name.size());
        const std::string_view part = name.substr(at, dot - at);
        const bool list = before == "layer" || before == "layers" || before == "h" || before == "block" ||
                          before == "blocks" || before == "attentions" || before == "albert_layer_groups";
        if (list)
            if (const std::optional<int64_t> number = number_of(part)) return LayerNumber{*number, at, part.size()};
        before = part;
        at = dot + 1;
    }
    return {};
}

Depth depths(std::span<const std::string> names, const std::set<std::string>& body) {
    Depth depth;
    int64_t encoder = 0, decoder = 0;
    for (const std::string& name : names)
        if (const auto layer = body.contains(name) ? layer_number(name) : std::nullopt)
            (in_decoder(name) ? decoder : encoder) = std::max(in_decoder(name) ? decoder : encoder, layer->number + 1);
    depth.layers = encoder + decoder;
    for (const std::string& name : names) {
        const auto layer = body.contains(name) ? layer_number(name) : std::nullopt;
        if (layer)
            depth.of[name] = 1 + layer->number + (in_decoder(name) ? encoder : 0);
        else
            depth.of[name] = body.contains(name) && is_embedding(name) ? 0 : depth.layers + 1;
    }
    return depth;
}

Result<std::vector<std::string>> selected_parameters(std::string_view key, const std::string& selector,
                                                     std::span<const std::string> names,
                                                     const std::set<std::string>& body) {
    const Depth depth = depths(names, body);
    std::function<bool(const std::string&)> takes = [&](const std::string& name) {
        return hekla::matches(selector, name);
    };
    if (selector == "body") takes = [&](const std::string& name) { return body.contains(name); };
    if (selector == "embeddings") takes = [&](const std::string& name) { return depth.of.at(name) == 0; };
    if (selector.starts_with("layers:")) {
        const std::string_view range = std::string_view(selector).substr(7);
        const std::size_t dash = range.find('-');
        const auto first = number_of(range.substr(0, dash));
        const auto last = dash == std::string_view::npos ? first : number_of(range.substr(dash + 1));
        if (!first || !last || *first < 0 || *last < *first || *last >= depth.layers)
            return invalid_argument(
                fmt::format("{}: '{}': expected layers:FIRST-LAST within 0 to {}", key, selector, depth.layers - 1));
        takes = [&depth, a = *first, b = *last](const std::string& name) {
            return depth.of.at(name) >= a + 1 && depth.of.at(name) <= b + 1;
        };
    }
    std::vector<std::string> selected;
    std::ranges::copy_if(names, std::back_inserter(selected), takes);
    return selected;
}

Status selects_nothing(std::string_view key, const std::string& selector, std::span<const std::string> names) {
    const std::string_view near = nearest_name(selector, names);
    return invalid_argument(
        fmt::format("{}: no parameter matches '{}'{}", key, selector,
                    near.empty() ? "; `hekla inspect` lists their names" : fmt::format("; the nearest is '{}'", near)));
}

Result<ParameterRules> parameter_rules(const Recipe& recipe, std::span<const std::string> names,
                                       const std::set<std::string>& body) {
    const TrainSection& t = recipe.train;
    const Depth depth = depths(names, body);
    ParameterRules rules;
    for (const std::string& pattern : t.freeze) {
        HK_ASSIGN(const std::vector<std::string> selected, selected_parameters("train.freeze", pattern, names, body));
        if (selected.empty()) return selects_nothing("train.freeze", pattern, names);
        rules.frozen.insert(selected.begin(), selected.end());
    }
    if (rules.frozen.size() == names.size())
        return invalid_argument("train.freeze leaves nothing to train: leave the head out of it");
    rules.body_frozen = std::ranges::all_of(
        names, [&](const std::string& name) { return !body.contains(name) || rules.frozen.contains(name); });
    for (const auto& [pattern, rate] : t.learning_rates)
        if (std::ranges::none_of(names, [&, &p = pattern](const std::string& name) { return hekla::matches(p, name); }))
            return selects_nothing("train.learning_rates", pattern, names);
    if (!t.learning_rates.empty() && t.learning_rate <= 0.0)
        return invalid_argument("train.learning_rates needs a train.learning_rate above 0");
    for (const std::string& name : names) {
        double factor = std::pow(t.layer_lr_decay, static_cast<double>(depth.layers + 1 - depth.of.at(name)));
        for (const auto& [pattern, rate] : t.learning_rates)
            if (hekla::matches(pattern, name)) {
                factor = rate / t.learning_rate;
                break;
            }
        if (factor != 1.0) rules.factors[name] = factor;
    }
    return rules;
}

} // namespace hekla::train
