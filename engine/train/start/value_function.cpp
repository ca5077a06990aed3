#include "train/start/value_function.hpp"

#include "base/json.hpp"
#include "infer/open/model.hpp"
#include "infer/open/model_tensors.hpp"
#include "infer/open/weights_folder.hpp"
#include "model/finite.hpp"
#include "model/folder.hpp"
#include "model/stacked_tensors.hpp"
#include "plugin/composition/compose.hpp"
#include "plugin/composition/composition_spec.hpp"
#include "plugin/composition/model_names.hpp"
#include "plugin/composition/plugin_set.hpp"
#include "program/parameter_store.hpp"
#include "text/tokenizer.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace hekla::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view kCopyOfPolicy = "policy";
constexpr std::string_view kNotOfValue = "(the policy's)"; // before names that a folder cannot have

// Returns the graph with the value function's tensors under the names of its own model.
graph::Graph with_own_names(const graph::Graph& described) {
    constexpr std::string_view kPrefix = plugin::kValueFunction;
    graph::Graph own = described;
    for (graph::Node& node : own.nodes)
        if (node.op == graph::Op::parameter || node.op == graph::Op::buffer) {
            const std::string name = node.text("name");
            node.set("name", name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : std::string(kNotOfValue) + name);
        }
    return own;
}

// Uploads stored tensors, and zeros for parameters that are not stored.
Status upload_found(const graph::Graph& own, std::vector<plugin::StoredTensor> found, const std::string& where,
                    program::ParameterStore& store) {
    std::set<std::string> loaded;
    for (plugin::StoredTensor& tensor : found) {
        if (!tensor.tensor.buffer) HK_TRY(model::check_finite(*tensor.stored).with_context(where));
        loaded.insert(tensor.tensor.name);
        tensor.tensor.name = plugin::kValueFunction + tensor.tensor.name;
        HK_TRY(infer::upload(store, tensor));
    }
    for (const plugin::ModelTensor& tensor : plugin::model_tensors(own))
        if (!tensor.buffer && !tensor.name.starts_with(kNotOfValue) && !loaded.contains(tensor.name))
            HK_TRY(store.upload(plugin::kValueFunction + tensor.name,
                                std::vector<float>(static_cast<std::size_t>(tensor.shape.elements()), 0.0F)));
    return {};
}

bool is_of_value(const std::string& name) { return !name.starts_with(kNotOfValue); }

Status copy_policy(const graph::Graph& described, program::ParameterStore& store) {
    const std::vector<plugin::ModelTensor> all = plugin::model_tensors(described);
    for (const plugin::ModelTensor& tensor : all) {
        if (!tensor.name.starts_with(plugin::kValueFunction)) continue;
        const std::string name = tensor.name.substr(std::string_view(plugin::kValueFunction).size());
        const bool shared = std::ranges::find(all, name, &plugin::ModelTensor::name) != all.end();
        if (tensor.buffer) {
            if (!shared) continue; // it has its described values
            HK_ASSIGN(const ResourceArray<std::byte> bytes, store.download_state(program::buffer_state(name)));
            HK_TRY(store.upload_state(program::buffer_state(tensor.name), bytes));
        } else if (shared) {
            HK_ASSIGN(const ResourceArray<float> values, store.download(name));
            HK_TRY(store.upload(tensor.name, values));
        } else { // the head
            HK_TRY(
                store.upload(tensor.name, std::vector<float>(static_cast<std::size_t>(tensor.shape.elements()), 0.0F)));
        }
    }
    return {};
}

} // namespace

Result<std::shared_ptr<const plugin::CompositionSpec>> value_spec(const Recipe& recipe,
                                                                  const plugin::Registry& registry,
                                                                  const text::Tokenizer& tokenizer,
                                                                  const plugin::CompositionSpec& policy) {
    const std::string& folder = recipe.value.from;
    if (folder.empty()) return std::shared_ptr<const plugin::CompositionSpec>();
    plugin::CompositionSpec spec;
    if (folder == kCopyOfPolicy) {
        spec.architecture = policy.architecture;
        spec.config = policy.config;
        spec.refuse_unknown_keys = policy.refuse_unknown_keys;
    } else {
        const Result<fs::path> from = infer::weights_folder(folder);
        if (!from.ok()) return from.status().with_context("value.from");
        HK_ASSIGN(const model::ModelFolder opened, model::ModelFolder::open(from.value()));
        HK_ASSIGN(spec, infer::stored_spec(registry, opened));
        if (!spec.adapters.empty())
            return unsupported(fmt::format(
                "value.from = {}: the folder has an adapter, and a value function is a network without one: name the "
                "folder of its body, or merge them with `hekla adapter combine`",
                folder));
        HK_ASSIGN(const std::unique_ptr<text::Tokenizer> own, text::load_tokenizer(from.value()));
        if (own->hash() != tokenizer.hash())
            return invalid_argument(fmt::format("value.from = {}: that model has another tokenizer than this run, so "
                                                "it cannot read what the policy writes: set tokenizer.from to that "
                                                "folder, or choose another one",
                                                folder));
    }
    spec.head = "value";
    spec.head_config = json::object();
    spec.context_length = policy.context_length;
    return std::make_shared<const plugin::CompositionSpec>(std::move(spec));
}

Status start_value(const Recipe& recipe, const plugin::Composition& composition, const graph::Graph& described,
                   program::ParameterStore& store, const std::function<void(const std::string&)>& message) {
    if (composition.value() == nullptr) return {};
    if (recipe.value.from == kCopyOfPolicy) return copy_policy(described, store);
    HK_ASSIGN(const fs::path from, infer::weights_folder(recipe.value.from));
    HK_ASSIGN(const model::ModelFolder folder, model::ModelFolder::open(from));
    const graph::Graph own = with_own_names(described);
    // The folder's own head, of a reward model or a language model, is not read; a value head is.
    model::NameRules rules = plugin::model_rules(composition.value()->architecture().names);
    rules.ignorable.emplace_back("*");
    for (const plugin::ModelTensor& tensor : plugin::model_tensors(own))
        if (tensor.name.starts_with("v_head.")) rules.may_be_missing.push_back(tensor.name);
    HK_ASSIGN(plugin::FoundTensors found,
              plugin::find_some_tensors(own, folder.weights().tensors(), folder.weights().path().string(), rules,
                                        is_of_value));
    message(fmt::format("value function: {} tensors of {}", found.tensors.size(), from.string()));
    return upload_found(own, std::move(found.tensors), folder.weights().path().string(), store);
}

Status load_value(const fs::path& checkpoint, const graph::Graph& described, program::ParameterStore& store) {
    HK_ASSIGN(const model::Weights weights, model::Weights::open(checkpoint, kValueWeights));
    const graph::Graph own = with_own_names(described);
    HK_ASSIGN(plugin::FoundTensors found,
              plugin::find_some_tensors(own, weights.tensors(), weights.path().string(), {}, is_of_value));
    return upload_found(own, std::move(found.tensors), weights.path().string(), store);
}

Status save_value(const fs::path& folder, const plugin::CompositionSpec& spec, const plugin::Registry& registry,
                  const text::Tokenizer& tokenizer, const graph::Graph& described, program::ParameterStore& store) {
    HK_ASSIGN(const std::unique_ptr<plugin::Composition> composition,
              plugin::Composition::create(registry, spec, &tokenizer));
    HK_ASSIGN(const std::string text, composition->write_config());
    HK_ASSIGN(nlohmann::ordered_json config, parse_ordered_json_object(text, "config.json"));
    config.erase("architectures"); // of the folder that it began with, which had another head
    config["hekla"] = {{"architecture", spec.architecture},
                       {"head", spec.head},
                       {"head_config", spec.head_config},
                       {"context_length", spec.context_length}};
    model::ModelContents contents;
    contents.config_json = config.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
    contents.tensors = model::divide_stacks(infer::value_tensor_sources(store, described),
                                            plugin::model_rules(composition->architecture().names).stacks);
    HK_TRY(model::save_folder(folder, contents, model::OnExisting::replace));
    return tokenizer.save(folder);
}

} // namespace hekla::train
