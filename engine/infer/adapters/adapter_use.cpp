#include "infer/adapters/adapter_use.hpp"

#include "base/home_folder.hpp"
#include "base/json.hpp"
#include "base/nearest_name.hpp"
#include "base/read_real.hpp"
#include "base/utf8.hpp"
#include "model/finite.hpp"
#include "plugin/composition/combination.hpp"
#include "plugin/composition/model_names.hpp"
#include "plugin/composition/plugin_set.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>

namespace hekla::infer {
namespace {

// Returns an error that names the nearest tensor of the model.
Status no_module(const std::string& where, const std::string& tensor, const std::string& name,
                 std::span<const plugin::ModelTensor> model) {
    std::vector<std::string> names;
    for (const plugin::ModelTensor& known : model) names.push_back(known.name);
    const std::string_view near = nearest_name(name, names);
    return corrupt(fmt::format("{}: tensor {} belongs to no module that the adapter acts at{}", where,
                               model::in_quotes(tensor),
                               near.empty() ? "" : fmt::format("; the nearest is '{}'", near)));
}

Result<std::vector<StoredAdapter>> open_adapters(std::span<const AdapterUse> uses) {
    std::vector<StoredAdapter> adapters;
    for (const AdapterUse& use : uses) {
        Result<StoredAdapter> adapter = open_stored_adapter(use.folder);
        if (!adapter.ok()) return adapter.status().with_context(fmt::format("adapter '{}'", use.name));
        adapters.push_back(adapter.take());
    }
    return adapters;
}

// Sets UsedAdapters::slots.
Status read_slots(std::span<const AdapterUse> uses, UsedAdapters& used) {
    for (std::size_t i = 0; i < uses.size(); ++i) {
        Result<SlotContent> content = slot_content(used.adapters[i]);
        if (!content.ok()) return content.status().with_context(fmt::format("adapter '{}'", uses[i].name));
        used.slots.push_back(content.take());
    }
    return {};
}

constexpr std::string_view kCombineKey = "combine."; // '.' is not in the name of an adapter

// Reads "combine.KEY=VALUE".
Status add_combine_key(std::string_view given, Combined& combine) {
    if (const std::size_t at = find_invalid_utf8(given); at < given.size())
        return invalid_argument(fmt::format("'{}...': byte {} is not valid UTF-8", given.substr(0, at), at + 1));
    const std::size_t equals = given.find('=');
    const std::string key(given.substr(0, equals).substr(kCombineKey.size()));
    if (equals == std::string_view::npos || key.empty() || equals + 1 == given.size())
        return invalid_argument(fmt::format(
            "'{}' does not match combine.KEY=VALUE, such as combine.how=arrow(a, b) or combine.top_k=1", given));
    const std::string value(given.substr(equals + 1));
    if (key == "how" ? !combine.how.empty() : combine.config.contains(key))
        return invalid_argument(fmt::format("combine.{} is given twice: remove one", key));
    if (key == "how") {
        combine.how = value;
        return {};
    }
    Result<nlohmann::json> parsed = parse_json(value, "combine." + key);
    combine.config[key] = parsed.ok() ? parsed.take() : nlohmann::json(value);
    return {};
}

Status check_combine(const AdapterUses& uses) {
    const auto& [how, config] = uses.combine;
    if (how.empty() && !config.empty())
        return invalid_argument(
            fmt::format("combine.{} is given without combine.how, the combiner that reads it, such as arrow(a, b)",
                        config.begin().key()));
    if (how.empty()) return {};
    std::vector<std::string> names;
    for (const AdapterUse& use : uses.each) names.push_back(use.name);
    if (names.empty())
        return invalid_argument(
            fmt::format("combine.how is '{}', but no adapters are given: give each as NAME=FOLDER", how));
    HK_TRY(plugin::parse_combination(how, names).status().with_context("combine.how"));
    for (const AdapterUse& use : uses.each)
        if (use.scale != 1.0)
            return invalid_argument(fmt::format("adapter '{}' has the scale {}, which does not act with combine.how = "
                                                "'{}': remove the scale, or use average(...) with combine.weights",
                                                use.name, use.scale, how));
    return {};
}

Status check_not_combined(const AdapterUses& uses) {
    if (uses.combine.how.empty()) return {};
    return unsupported(fmt::format("combine.how is '{}', which acts on every row, but rows choose their adapters or "
                                   "slots: remove the combination, or the choice by rows and the slots",
                                   uses.combine.how));
}

} // namespace

Result<AdapterUse> parse_adapter_use(std::string_view text) {
    AdapterUse use;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos || equals + 1 == text.size())
        return invalid_argument(fmt::format("the adapter '{}' does not match NAME=FOLDER or NAME=FOLDER:SCALE", text));
    use.name = text.substr(0, equals);
    HK_TRY(plugin::check_adapter_name(use.name));
    std::string_view folder = text.substr(equals + 1);
    if (const std::size_t colon = folder.rfind(':'); colon != std::string_view::npos) {
        const char* const end = folder.data() + folder.size();
        double scale = 1.0;
        const auto [last, problem] = read_real(folder.data() + colon + 1, end, scale);
        if (problem == std::errc() && last == end) {
            if (!std::isfinite(scale))
                return invalid_argument(
                    fmt::format("the adapter '{}': its scale is not finite; expected a number", text));
            use.scale = scale;
            folder = folder.substr(0, colon);
        }
    }
    use.folder = from_home(std::string(folder));
    return use;
}

Result<AdapterUses> parse_adapter_uses(std::span<const std::string> texts) {
    AdapterUses uses;
    for (const std::string& text : texts) {
        if (text.starts_with(kCombineKey)) {
            HK_TRY(add_combine_key(text, uses.combine));
            continue;
        }
        HK_ASSIGN(AdapterUse use, parse_adapter_use(text));
        if (std::ranges::find(uses.each, use.name, &AdapterUse::name) != uses.each.end())
            return invalid_argument(fmt::format("two adapters have the name '{}'", use.name));
        uses.each.push_back(std::move(use));
    }
    HK_TRY(check_combine(uses));
    return uses;
}

Combined combination_of(const AdapterUses& uses, bool by_row) {
    if (!uses.combine.how.empty()) return uses.combine;
    std::vector<std::string> names;
    std::vector<double> scales;
    for (const AdapterUse& use : uses.each) {
        names.push_back(use.name);
        scales.push_back(use.scale);
    }
    const bool scaled = std::ranges::any_of(scales, [](double scale) { return scale != 1.0; });
    const char* how = by_row ? "fixed" : scaled ? "average" : "stack";
    Combined together{fmt::format("{}({})", how, fmt::join(names, ","))};
    if (scaled) together.config["weights"] = scales;
    if (scaled && !by_row) together.config["normalize"] = false;
    return together;
}

Result<UsedAdapters> use_adapters(const AdapterUses& uses, bool by_row, const SlotOptions& slots,
                                  plugin::CompositionSpec& spec) {
    UsedAdapters used;
    if (uses.each.empty() && slots.count == 0) return used;
    if (by_row || slots.count > 0) HK_TRY(check_not_combined(uses));
    if (!spec.adapters.empty())
        return unsupported(
            "the model's folder is that of an adapter; give the folder of its body as the model, and this "
            "folder as one of the adapters");
    HK_ASSIGN(used.adapters, open_adapters(uses.each));
    const auto fits = [](const StoredAdapter& adapter) { return not_in_a_slot(adapter).empty(); };
    if (slots.count > 0 || (by_row && std::ranges::all_of(used.adapters, fits))) {
        HK_TRY(read_slots(uses.each, used));
        HK_ASSIGN(plugin::AdapterSpec one, slots_spec(used.slots, slots));
        spec.adapters = {std::move(one)};
        return used;
    }
    for (std::size_t i = 0; i < uses.each.size(); ++i)
        spec.adapters.push_back({uses.each[i].name, {used.adapters[i].id, used.adapters[i].config}});
    Combined together = combination_of(uses, by_row);
    spec.combination = std::move(together.how);
    spec.combination_config = std::move(together.config);
    return used;
}

Result<UsedAdapters> read_slot_adapters(const AdapterUses& uses) {
    UsedAdapters used;
    HK_TRY(check_not_combined(uses));
    HK_ASSIGN(used.adapters, open_adapters(uses.each));
    HK_TRY(read_slots(uses.each, used));
    return used;
}

Result<std::vector<plugin::StoredTensor>> adapter_tensors(StoredAdapter& from, const std::string& name,
                                                          const AdaptedModelParts& model,
                                                          std::vector<std::string>& unused) {
    if (!from.weights.empty() && !model.weights.empty() && from.weights != model.weights)
        return failed_precondition(
            fmt::format("{}: was trained with another body (hash {}) than {} contains (hash {}): "
                        "name the body that it was trained with",
                        from.path.string(), from.weights, model.folder, model.weights));
    HK_TRY(from.name_tensors(model.sites));
    std::map<std::string_view, const plugin::ModelTensor*> known;
    for (const plugin::ModelTensor& tensor : model.tensors) known.emplace(tensor.name, &tensor);
    const std::string where = from.path.string(), own = plugin::kAdapter + (name.empty() ? name : name + ".");
    std::vector<plugin::StoredTensor> found;
    std::set<std::string> names;
    for (const model::TensorView& tensor : from.tensors()) {
        const bool of_adapter = tensor.name.starts_with(plugin::kAdapter);
        const bool of_body = !of_adapter && model.body.contains(tensor.name);
        if (of_body && !model.takes_body)
            return unsupported(
                fmt::format("{}: contains '{}' of the body, which was trained with the adapter; adapters "
                            "that are used together cannot have a body each: use it alone",
                            where, tensor.name));
        const std::string as =
            of_adapter ? own + tensor.name.substr(std::string_view(plugin::kAdapter).size()) : tensor.name;
        const auto place = known.find(as);
        const bool fits = place != known.end() && place->second->shape.vector() == tensor.dims;
        if (!of_adapter && !of_body && !(model.takes_head && fits)) { // another task's head
            unused.push_back(tensor.name);
            continue;
        }
        if (place == known.end()) return no_module(where, tensor.name, as, model.tensors);
        if (!fits)
            return corrupt(fmt::format("{}: {} is {}, expected {}: the adapter is of another size or body", where,
                                       tensor.name, model::format_dims(tensor.dims), place->second->shape.text()));
        HK_TRY(model::check_finite(tensor).with_context(where));
        found.push_back({*place->second, &tensor});
        names.insert(as);
    }
    for (const plugin::ModelTensor& tensor : model.tensors)
        if (tensor.name.starts_with(own) && !names.contains(tensor.name))
            return corrupt(fmt::format("{}: has no tensor '{}{}', which the adapter's configuration means", where,
                                       plugin::kAdapter, tensor.name.substr(own.size())));
    return found;
}

} // namespace hekla::infer
