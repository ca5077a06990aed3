#include "check/trial.hpp"

#include "base/file.hpp"
#include "base/host.hpp"
#include "base/philox.hpp"
#include "batch/collate.hpp"
#include "batch/drawn_example.hpp"
#include "data/batcher.hpp"
#include "gpu/context.hpp"
#include "hekla/plugin/architecture.h"
#include "hekla/plugin/combiner.h"
#include "hekla/plugin/head.h"
#include "hekla/plugin/objective.h"
#include "hekla/plugin/optimizer.h"
#include "plugin/composition/compose.hpp"
#include "plugin/composition/plugin_set.hpp"
#include "plugin/host/joint.hpp"
#include "program/runtime.hpp"
#include "train/recipe/tokenizer_choice.hpp"
#include "train/start/initialize.hpp"
#include "train/start/model_spec.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::check {
namespace {

using nlohmann::json;

constexpr std::array<const char*, 8> kWords{"ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen"};
constexpr int kExamples = 32;
constexpr int64_t kLength = 24; // of rows: two sentences and special tokens
constexpr int64_t kMostParameters = 4000000;

void tell(const json& line) {
    std::printf("%s\n", line.dump(-1, ' ', false, json::error_handler_t::replace).c_str());
    std::fflush(stdout); // so that a crash does not lose it
}

std::vector<std::string> sentence(RandomStream& random) {
    std::vector<std::string> words;
    const uint64_t count = 3 + random.next_below(4);
    for (uint64_t i = 0; i < count; ++i) words.emplace_back(kWords[random.next_below(kWords.size())]);
    return words;
}

// Returns a value for one column that can be predicted from the texts of the row.
json value_of(const plugin::ColumnNeed& need, bool of_words, const std::vector<std::string>& words,
              RandomStream& random) {
    const std::string text = fmt::format("{}", fmt::join(words, " "));
    switch (need.kind) {
    case HK_COLUMN_WORDS: return words;
    case HK_COLUMN_CHOICES: return json{text, "hen hen"};
    case HK_COLUMN_CLASSES: {
        const auto label = [](const std::string& word) { return word < "dog" ? "early" : "late"; };
        if (!of_words) return label(words.front());
        json labels = json::array();
        for (const std::string& word : words) labels.push_back(label(word));
        return labels;
    }
    case HK_COLUMN_NUMBERS: return static_cast<double>(words.size());
    case HK_COLUMN_MESSAGES:
        return json{{{"role", "user"}, {"content", text}}, {{"role", "assistant"}, {"content", words.front()}}};
    case HK_COLUMN_SPANS: return words[random.next_below(words.size())];
    default: return text;
    }
}

Status write_data(const Trial& trial, const std::vector<plugin::ColumnNeed>& needs, train::Recipe& recipe) {
    RandomStream random(trial.seed(), 1);
    std::string content;
    const bool of_words =
        std::ranges::any_of(needs, [](const plugin::ColumnNeed& need) { return need.kind == HK_COLUMN_WORDS; });
    const bool of_choices =
        std::ranges::any_of(needs, [](const plugin::ColumnNeed& need) { return need.kind == HK_COLUMN_CHOICES; });
    for (int i = 0; i < kExamples; ++i) {
        const std::vector<std::string> words = sentence(random);
        if (needs.empty()) {
            content += fmt::format("{} .\n{}", fmt::join(words, " "), i % 4 == 3 ? "\n" : "");
            continue;
        }
        json row;
        int targets = 0; // texts to be predicted
        for (const plugin::ColumnNeed& need : needs) {
            // Start positions within a text are optional, and are left out here.
            if (need.optional && need.kind == HK_COLUMN_NUMBERS) continue;
            row[need.name] = value_of(need, of_words, words, random);
            // Of two texts to be predicted, the other is a different one.
            if (need.target && need.kind == HK_COLUMN_TOKENS && targets++ > 0) row[need.name] = "hen hen";
            // The correct choice.
            if (of_choices && need.kind == HK_COLUMN_CLASSES) row[need.name] = "0";
            if (of_choices && need.kind == HK_COLUMN_NUMBERS) row[need.name] = 0;
        }
        content += row.dump() + "\n";
    }
    const std::filesystem::path file = trial.folder() / (needs.empty() ? "text.txt" : "rows.jsonl");
    HK_TRY(write_file_atomically(file, content));
    recipe.data.train = {file.string()};
    recipe.data.valid = recipe.data.train;
    if (of_choices) recipe.data.labels = {"0", "1"};
    if (std::ranges::any_of(needs, [](const plugin::ColumnNeed& need) { return need.kind == HK_COLUMN_MESSAGES; }))
        recipe.data.chat_template = "alpaca";
    return {};
}

// Returns an error that is not caused by the plugin.
Status not_tried(std::string why) { return Status(Code::cancelled, std::move(why)); }

// Returns the "check" member of the manifest for a body, head or objective of this id.
json check_of(const plugin::Registry& registry, const char* interface_id, const std::string& id) {
    const Result<plugin::Registry::Entry> entry = registry.find(interface_id, id);
    return entry.ok() ? entry->provided->check.parse() : json::object();
}

} // namespace

std::string name_of(const plugin::Provided& provided) {
    std::string_view kind = provided.interface_id;
    if (kind.starts_with("hekla.")) kind.remove_prefix(6);
    return fmt::format("{} '{}'", kind.substr(0, kind.find('/')), provided.id);
}

bool is_causal(const plugin::Provided& provided, const json& config) {
    if (provided.causal == "yes") return true;
    const auto key = config.find(provided.causal);
    return !provided.causal.empty() && key != config.end() && *key == true;
}

void Trial::done() const { tell({{"done", true}}); }
void Trial::doing(const std::string& what) const { tell({{"doing", what}}); }
void Trial::fail(const std::string& what) { tell({{"failed", what}}); }
void Trial::note(const std::string& what) { tell({{"noted", what}}); }
void Trial::skip(const std::string& why) { tell({{"skipped", why}}); }
void Trial::require(const Status& status, const std::string& what) {
    if (!status.ok()) fail(fmt::format("{}: {}", what, status.message()));
}

std::string bad_refusal(const Status& status) {
    if (status.ok()) return {};
    const std::string& message = status.message();
    if (message.empty() || message.find("the plugin gave no reason") != std::string::npos)
        return "refused without a reason";
    if (message.find("the plugin threw an exception") != std::string::npos) return message;
    return {};
}

Result<train::Recipe> small_recipe(const Trial& trial, const plugin::Provided& provided) {
    const json check = provided.check.parse();
    const std::string id(provided.id);
    const bool is_body = provided.interface_id == HK_ARCHITECTURE_INTERFACE;
    const bool is_head = provided.interface_id == HK_HEAD_INTERFACE;
    const bool is_adapter = provided.interface_id == HK_ADAPTER_INTERFACE;
    const bool is_optimizer = provided.interface_id == HK_OPTIMIZER_INTERFACE;
    const bool causal = provided.causal == "yes" || is_optimizer;
    train::Recipe recipe;
    recipe.model.architecture = is_body ? id : check.value("architecture", causal ? "gpt2" : "bert");
    const json body =
        is_body ? check : check_of(trial.registry(), HK_ARCHITECTURE_INTERFACE, recipe.model.architecture);
    recipe.model.config = body.value("config", json::object());
    if (is_adapter) {
        recipe.adapter.id = id;
        recipe.adapter.config = check.value("config", json::object());
    }
    if (is_optimizer) {
        recipe.optimizer.name = id;
        recipe.optimizer.options = check.value("config", json::object());
    }
    if (provided.interface_id == HK_COMBINER_INTERFACE) {
        const train::AdaptersSection low_rank{"lora", "", true, {{"r", 2}, {"target_modules", "all-linear"}}};
        const bool alike = check.value("branches", "") == "lora";
        recipe.adapters = {
            {"a", low_rank},
            {"b", alike ? low_rank : train::AdaptersSection{"bottleneck", "", true, {{"reduction_factor", 2}}}},
            {"c", low_rank}};
        recipe.combine = {id + "(a, b, c)", check.value("config", json::object())};
    }
    recipe.objective.id = provided.interface_id == HK_OBJECTIVE_INTERFACE
                              ? id
                              : check.value("objective", is_head  ? "classification"
                                                         : causal ? "clm"
                                                                  : "mlm");
    recipe.objective.config = check.value("objective_config", json::object());
    const json objective = check_of(trial.registry(), HK_OBJECTIVE_INTERFACE, recipe.objective.id);
    recipe.head.id = check.value("head", is_head ? id : objective.value("head", causal ? "lm" : "mlm"));
    recipe.head.config = check.value("head_config", json::object());
    recipe.tokenizer.kind = "words";
    recipe.tokenizer.vocab_size = 256; // some objectives have a hundred special tokens
    recipe.data.order = "shuffle";
    recipe.data.valid_fraction = 0.0;
    train::TrainSection& t = recipe.train;
    t.context_length = kLength;
    t.per_device_train_batch_size = 8;
    t.max_steps = 2;
    t.learning_rate = check.value("learning_rate", 3e-3);
    t.lr_scheduler_type = "constant";
    t.weight_decay = 0.0;
    t.eval_steps = 0;
    t.save_steps = 0;
    t.seed = static_cast<int64_t>(trial.seed());
    recipe.output.dir = (trial.folder() / "run").string();
    HK_ASSIGN(const std::vector<plugin::ColumnNeed> needs,
              plugin::objective_columns(trial.registry(), recipe.objective.id, recipe.objective.config));
    HK_TRY(write_data(trial, needs, recipe));
    return recipe;
}

Result<Small> small_network(const Trial& trial, const plugin::Provided& provided) {
    Small small;
    HK_ASSIGN(train::Recipe recipe, small_recipe(trial, provided));
    small.recipe = std::make_unique<train::Recipe>(std::move(recipe));
    const train::Recipe& r = *small.recipe;
    HK_ASSIGN(const std::vector<plugin::ColumnNeed> needs,
              plugin::objective_columns(trial.registry(), r.objective.id, r.objective.config));
    HK_ASSIGN(small.data, train::RunData::read(r, needs));
    HK_ASSIGN(const plugin::Registry::Entry objective, trial.registry().find(HK_OBJECTIVE_INTERFACE, r.objective.id));
    const auto trainer = train::tokenizer_trainer(r.tokenizer, objective.provided->roles);
    HK_ASSIGN(small.tokenizer, small.data.train_tokenizer(*trainer));
    HK_ASSIGN(small.spec, train::model_spec(r, trial.registry(), *small.tokenizer, small.data.facts()));
    HK_ASSIGN(small.composition, plugin::Composition::create(trial.registry(), small.spec, small.tokenizer.get()));
    if (!small.composition->can_collate())
        return not_tried(fmt::format("objective '{}' does not make batches", r.objective.id));
    HK_TRY(small.data.open(*small.tokenizer, *small.composition, trial.folder() / "cache", [](const std::string&) {}));
    small.length = kLength;
    const train::Split& split = small.data.train();
    for (uint64_t i = 0; i < std::min<uint64_t>(split.size(), kExamples); ++i)
        small.examples.push_back(split.at(i).example);
    HK_ASSIGN(const std::vector<plugin::BatchField> fields, small.composition->batch_fields(2, kLength));
    HK_ASSIGN(const graph::Graph graph, small.composition->build(HK_MODE_EVALUATE, fields));
    int64_t parameters = 0;
    for (const auto& [name, value] : graph.parameters()) parameters += graph.shape(value).elements();
    if (parameters > kMostParameters)
        return not_tried(fmt::format("its smallest known network has {} parameters, which takes too long: set a small "
                                     "configuration in the manifest: \"check\": {{\"config\": {{...}}}}",
                                     parameters));
    return small;
}

Result<std::vector<data::Field>> batch_of(const Small& small, std::span<const data::EncodedExample> examples,
                                          int64_t batch, int64_t length, uint64_t seed) {
    std::vector<batch::DrawnExample> drawn;
    for (const data::EncodedExample& example : examples) drawn.push_back({example, 0});
    std::vector<data::Field> fields;
    HK_TRY(batch::make_fields(*small.composition, drawn, &small.data.train().examples(), seed, batch, length, fields));
    return fields;
}

graph::Feeds feeds_of(const graph::Graph& graph, std::span<const data::Field> fields, uint64_t seed) {
    graph::Feeds feeds;
    feeds.seed = seed;
    for (const data::Field& field : fields) feeds.fields[field.name] = batch::tensor_of(field);
    for (const graph::Node& node : graph.nodes) {
        if (node.op != graph::Op::parameter) continue;
        const std::string& name = node.text("name");
        const std::vector<float> begin = train::initial_values(node, seed);
        RandomStream random(seed, hash64("noise of " + name));
        graph::Tensor tensor;
        tensor.shape = graph::Shape(node.ints("shape"));
        for (const float value : begin) tensor.data.push_back(static_cast<double>(value) + 0.05 * random.next_normal());
        feeds.parameters[name] = std::move(tensor);
    }
    return feeds;
}

Result<std::unique_ptr<program::Runtime>> make_runtime(const Trial& trial, const DeviceSetting& setting) {
    gpu::ContextOptions options;
    options.cache = folder_cache(trial.cache_folder());
    options.memory.poison = true; // makes missing writes visible
    // A software driver's subgroup size is its vector width, in floats.
    if (setting.subgroup > 0) set_environment("LP_NATIVE_VECTOR_WIDTH", fmt::format("{}", setting.subgroup * 32));
    if (setting.shared_memory_bytes > 0) options.device.overrides.shared_memory_bytes = setting.shared_memory_bytes;
    if (setting.assisted) options.device.validation = gpu::Validation::gpu_assisted;
    Result<gpu::Context> context = gpu::create_context(options);
    if (!context.ok()) {
        const bool lacking = setting.assisted && context.status().code() == Code::not_found;
        return lacking ? not_tried(context.message()) : context.status();
    }
    const uint32_t lanes = context->capabilities().subgroup_size;
    if (setting.subgroup > 0 && lanes != setting.subgroup)
        return not_tried(fmt::format("subgroups of {} have {} lanes; train.device tries those",
                                     context->capabilities().device_name, lanes));
    return program::Runtime::create(context.take(), {});
}

} // namespace hekla::check
