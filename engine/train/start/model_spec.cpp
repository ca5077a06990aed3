#include "train/start/model_spec.hpp"

#include "base/json.hpp"
#include "hekla/plugin/architecture.h"
#include "hekla/plugin/head.h"
#include "hekla/plugin/objective.h"
#include "infer/open/model.hpp"
#include "infer/open/weights_folder.hpp"
#include "model/folder.hpp"
#include "plugin/composition/named_model.hpp"
#include "plugin/instances/rollout_use.hpp"
#include "text/text_encoder.hpp"
#include "train/recipe/recipe_adapters.hpp"
#include "train/start/value_function.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::train {
namespace {

using nlohmann::json;

bool knows(const plugin::Provided& provided, std::string_view key) {
    return std::ranges::find(provided.parameters, key) != provided.parameters.end();
}

bool lacks(const json& config, std::string_view key) {
    const auto found = config.find(key);
    return found == config.end() || found->is_null();
}

// Sets ids of special tokens that the configuration leaves to the tokenizer.
void complete_ids(const plugin::Provided& architecture, const text::Tokenizer& tokenizer, bool rows, json& config) {
    const auto role = [&](text::TokenRole which) { return tokenizer.special(which); };
    const auto set = [&](const char* key, std::optional<int32_t> id) {
        if (id && lacks(config, key) && knows(architecture, key)) config[key] = *id;
    };
    const std::optional<int32_t> pad = role(text::TokenRole::pad), eos = role(text::TokenRole::eos),
                                 bos = role(text::TokenRole::bos), separator = role(text::TokenRole::separator);
    // Rows of different lengths need padding; without a padding token, the end token is the usual choice.
    set("pad_token_id", pad ? pad : rows ? eos : std::nullopt);
    set("eos_token_id", eos ? eos : separator);
    set("bos_token_id", bos ? bos : role(text::TokenRole::cls));
    // T5 starts its decoder with padding, the others with the end token.
    const std::optional<int32_t> start = eos ? eos : bos ? bos : separator;
    set("decoder_start_token_id", architecture.id == "t5" && pad ? pad : start ? start : pad);
}

// Writes the ids of an adapter's prompt_tuning_init_text, with the tokens that the tokenizer has around a text, to
// prompt_tuning_init_ids: plugins of adapters see no tokenizer. An adapter that was trained before has them.
Status divide_prompt_text(const text::Tokenizer& tokenizer, json& config) {
    const char *text_key = "prompt_tuning_init_text", *ids_key = "prompt_tuning_init_ids";
    if (!config.is_object() || lacks(config, text_key) || !config[text_key].is_string()) return {};
    const std::string text = config[text_key].get<std::string>();
    if (text.empty() || (!lacks(config, ids_key) && !config[ids_key].empty())) return {};
    const text::TextEncoder encoder(tokenizer);
    Result<std::vector<int32_t>> ids = encoder.encode(text::TextUse::prompt, text);
    if (!ids.ok()) return ids.status().with_context(text_key);
    const std::vector<int32_t> after = encoder.document_frame().after;
    ids->insert(ids->end(), after.begin(), after.end());
    config[ids_key] = ids.take();
    return {};
}

bool grows(const Recipe& recipe) { return !recipe.tokenizer.add.empty() || !recipe.tokenizer.add_roles.empty(); }

// Sets the number of layers that remain after model.layers.
Status cut_layers(const Recipe& recipe, json& config) {
    for (const char* key : {"num_hidden_layers", "n_layers", "n_layer", "num_layers"}) {
        const auto depth = config.find(key);
        if (depth == config.end() || !depth->is_number_integer() || config.value("is_encoder_decoder", false)) continue;
        for (const int64_t layer : recipe.model.layers)
            if (layer >= depth->get<int64_t>())
                return invalid_argument(
                    fmt::format("model.layers: there is no layer {}: {} has {} = {}, counted from 0", layer,
                                recipe.model.from, key, depth->dump()));
        *depth = recipe.model.layers.size();
        return {};
    }
    return unsupported(
        fmt::format("model.layers: the layers of {} cannot be chosen: its configuration has not one number "
                    "of layers",
                    recipe.model.from));
}

// Returns the teacher with the head that it was trained with. Its outputs are valid only for ids of its own tokenizer.
Result<plugin::CompositionSpec> teacher_spec(const Recipe& recipe, const plugin::Registry& registry,
                                             const text::Tokenizer& tokenizer) {
    HK_ASSIGN(const std::filesystem::path from, infer::weights_folder(recipe.teacher.from));
    HK_ASSIGN(const model::ModelFolder folder, model::ModelFolder::open(from));
    HK_ASSIGN(plugin::CompositionSpec spec, infer::stored_spec(registry, folder));
    if (!spec.adapters.empty())
        return unsupported(fmt::format("teacher.from = {}: a teacher with an adapter is not possible", from.string()));
    HK_ASSIGN(const std::unique_ptr<text::Tokenizer> own, text::load_tokenizer(from));
    if (own->hash() != tokenizer.hash())
        return invalid_argument(fmt::format("teacher.from = {}: the teacher has another tokenizer than this run: set "
                                            "tokenizer.from to the teacher's folder",
                                            recipe.teacher.from));
    return spec;
}

Status balance_classes(std::span<const uint64_t> counts, json& objective_config) {
    const auto given = objective_config.find("class_weights");
    if (given == objective_config.end() || !given->is_string()) return {};
    if (*given != "balanced")
        return invalid_argument(
            fmt::format("objective.class_weights = {}: expected \"balanced\", or a number a class", given->dump()));
    if (counts.empty())
        return invalid_argument("objective.class_weights = \"balanced\": the data has no classes to be counted");
    uint64_t all = 0;
    for (const uint64_t count : counts) all += count;
    json weights = json::array();
    for (const uint64_t count : counts) // a declared class without examples counts as one example
        weights.push_back(static_cast<double>(all) / static_cast<double>(counts.size() * std::max<uint64_t>(count, 1)));
    *given = std::move(weights);
    return {};
}

// Gives the objective the keys of [rollout] that its losses depend on.
Status set_rollout_keys(const Recipe& recipe, const plugin::Registry& registry, json& objective_config) {
    if (!plugin::learns_from_rollouts(registry, recipe.objective.id)) return {};
    HK_ASSIGN(const plugin::Registry::Entry entry, registry.find(HK_OBJECTIVE_INTERFACE, recipe.objective.id));
    for (const auto& [key, value] : {std::pair("temperature", json(recipe.rollout.temperature)),
                                     std::pair("response_length", json(recipe.rollout.response_length))}) {
        if (!knows(*entry.provided, key)) continue;
        if (objective_config.contains(key) && objective_config[key] != value)
            return invalid_argument(fmt::format("objective.{} = {}, and rollout.{} = {}: remove the former, it is the "
                                                "same number",
                                                key, objective_config[key].dump(), key, value.dump()));
        objective_config[key] = value;
    }
    return {};
}

} // namespace

json objective_before_data(const Recipe& recipe) {
    json config = recipe.objective.config;
    if (const auto given = config.find("class_weights"); given != config.end() && given->is_string())
        config.erase(given);
    return config;
}

Result<plugin::CompositionSpec> model_spec(const Recipe& recipe, const plugin::Registry& registry,
                                           const text::Tokenizer& tokenizer, const DataFacts& data,
                                           const text::TextRules& rules) {
    const auto& [classes, class_counts, numbers] = data;
    plugin::CompositionSpec spec;
    spec.architecture = recipe.model.architecture;
    spec.config = recipe.model.config;
    if (!recipe.model.from.empty()) {
        HK_ASSIGN(const std::filesystem::path from, infer::weights_folder(recipe.model.from));
        HK_ASSIGN(const model::ModelFolder folder, model::ModelFolder::open(from));
        spec.file = (from / "config.json").string();
        HK_ASSIGN(json config, parse_json_object(folder.config_json(), spec.file));
        const json as_stored = config;
        if (const auto own = config.find("hekla"); own != config.end()) {
            if (own->is_object() && own->contains("base"))
                return unsupported(fmt::format(
                    "model.from = {}: holds a trained adapter without a body: name the folder of the body, \"{}\"",
                    recipe.model.from, own->at("base").value("absolute", own->at("base").value("folder", ""))));
            config.erase(own); // the old run's head and objective
        }
        if (!classes.empty() || numbers)
            for (const char* key : {"id2label", "label2id", "num_labels", "problem_type"}) config.erase(key);
        if (!recipe.model.layers.empty()) HK_TRY(cut_layers(recipe, config));
        // New tokens are appended to those of the model, so its tables grow.
        for (const char* key : {"vocab_size", "source_vocab_size", "target_vocab_size"})
            if (const auto size = config.find(key); size != config.end() && size->is_number_integer() &&
                                                    size->get<int64_t>() < tokenizer.vocabulary_size() && grows(recipe))
                *size = tokenizer.vocabulary_size();
        if (!spec.architecture.empty()) {
            HK_ASSIGN(const plugin::Registry::Entry entry, registry.find(HK_ARCHITECTURE_INTERFACE, spec.architecture));
            if (const plugin::Ancestor* ancestor = entry.provided->ancestor(folder.model_type())) {
                if (has_adapters(recipe))
                    return unsupported(fmt::format("model.from = {}: an adapter leaves the body as its folder has it, "
                                                   "which is a {}, not a {}",
                                                   recipe.model.from, folder.model_type(), spec.architecture));
                const json theirs = std::exchange(config, json::object());
                for (const auto& [from_key, key] : ancestor->keys)
                    if (!lacks(theirs, from_key)) config[key] = theirs[from_key];
            } else if (const plugin::Texts types = entry.provided->model_types;
                       !folder.model_type().empty() && !types.empty() &&
                       std::ranges::find(types, folder.model_type()) == types.end()) {
                return invalid_argument(fmt::format("model.architecture = \"{}\" cannot compute model.from = {}, whose "
                                                    "model_type is \"{}\": leave model.architecture out",
                                                    spec.architecture, recipe.model.from, folder.model_type()));
            }
        }
        for (const auto& [key, value] : recipe.model.config.items()) config[key] = value;
        spec.config = std::move(config);
        spec.refuse_unknown_keys = false;
        if (spec.architecture.empty()) {
            HK_ASSIGN(const plugin::NamedModel named, plugin::named_model(registry, as_stored, spec.file));
            spec.architecture = named.architecture.provided->id;
        }
    }
    if (!recipe.teacher.from.empty()) {
        HK_ASSIGN(plugin::CompositionSpec teacher, teacher_spec(recipe, registry, tokenizer));
        spec.teacher = std::make_shared<const plugin::CompositionSpec>(std::move(teacher));
    }
    HK_ASSIGN(const plugin::Registry::Entry architecture, registry.find(HK_ARCHITECTURE_INTERFACE, spec.architecture));
    if (!spec.config.contains("vocab_size")) {
        for (const char* key : {"source_vocab_size", "target_vocab_size"})
            if (knows(*architecture.provided, key) && lacks(spec.config, key))
                spec.config[key] = tokenizer.vocabulary_size();
        if (knows(*architecture.provided, "vocab_size") || !knows(*architecture.provided, "source_vocab_size"))
            spec.config["vocab_size"] = tokenizer.vocabulary_size();
    }
    if (const auto size = spec.config.find("vocab_size");
        size != spec.config.end() && size->is_number_integer() && size->get<int64_t>() < tokenizer.vocabulary_size())
        return invalid_argument(
            fmt::format("model.vocab_size = {} is less than the tokenizer's {} ids: leave it out, or make it larger",
                        size->get<int64_t>(), tokenizer.vocabulary_size()));
    complete_ids(*architecture.provided, tokenizer, !classes.empty() || numbers, spec.config);
    // Others read the ends of texts from config.json, with defaults of their own.
    if (recipe.model.from.empty())
        for (const auto& [key, role] :
             {std::pair("bos_token_id", text::TokenRole::bos), std::pair("eos_token_id", text::TokenRole::eos)})
            if (const auto id = tokenizer.special(role); id && !knows(*architecture.provided, key))
                spec.notes[key] = *id;

    HK_ASSIGN(const std::vector<RecipeAdapter> adapters, read_adapters(recipe));
    for (const RecipeAdapter& adapter : adapters) {
        spec.adapters.push_back(adapter.spec);
        HK_TRY(divide_prompt_text(tokenizer, spec.adapters.back().part.config).with_context(adapter.key));
    }
    spec.adapter_rows = static_cast<int64_t>(recipe.adapter.names.size());
    spec.combination = recipe.combine.how;
    if (spec.combination.empty() && !recipe.adapters.empty()) spec.combination = recipe.adapters.begin()->first;
    spec.combination_config = recipe.combine.config;
    spec.head = recipe.head.id;
    spec.head_config = recipe.head.config;
    spec.objective = recipe.objective.id;
    spec.objective_config = recipe.objective.config;
    HK_TRY(balance_classes(class_counts, spec.objective_config));
    HK_TRY(set_rollout_keys(recipe, registry, spec.objective_config));
    spec.context_length = recipe.train.context_length;
    spec.packs_rows = packs_rows(recipe.data);
    spec.prefix = recipe.data.prefix;
    spec.text_rules = rules;
    HK_ASSIGN(spec.value, value_spec(recipe, registry, tokenizer, spec));
    const int64_t labels = numbers ? 1 : static_cast<int64_t>(classes.size());
    if (labels == 0) return spec;
    for (json* config : {&spec.config, &spec.head_config})
        if (const auto given = config->find("num_labels"); given != config->end() && *given != labels && !numbers)
            return invalid_argument(
                fmt::format("num_labels = {}, but the data has {} classes: leave it out, or name the "
                            "classes in data.labels",
                            given->dump(), labels));
    json names = json::object(), ids = json::object();
    for (std::size_t i = 0; i < classes.size(); ++i) {
        names[fmt::format("{}", i)] = classes[i];
        ids[classes[i]] = i;
    }
    const bool native = knows(*architecture.provided, "num_labels");
    json& place = native ? spec.config : spec.notes; // a body without classes keeps their names for readers
    if (!classes.empty()) {
        place["id2label"] = std::move(names);
        place["label2id"] = std::move(ids);
        spec.config.erase("num_labels");
    } else {
        if (native && lacks(spec.config, "num_labels")) spec.config["num_labels"] = labels;
        spec.notes["problem_type"] = "regression";
    }
    const auto head = registry.find(HK_HEAD_INTERFACE, spec.head);
    if (head.ok() && knows(*head->provided, "num_labels") && !spec.head_config.contains("num_labels"))
        spec.head_config["num_labels"] = labels;
    return spec;
}

} // namespace hekla::train
