// The column "resume" of docs/recipes.md is true: for every key of every section a run is continued with another value,
// and is refused, warns or continues silently as the table of keys has it.
#include "base/file.hpp"
#include "program/harness.hpp"
#include "support/test_folder.hpp"
#include "train/recipe/recipe_file.hpp"
#include "train/recipe/recipe_sections.hpp"
#include "train/run/run_context.hpp"
#include "train/training_loop.hpp"
#include "train/training_run.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>

namespace resume_columns_test {

using namespace hekla;
using namespace hekla::test;
using namespace hekla::train;

namespace fs = std::filesystem;

namespace {

constexpr const char* kModel = R"([model]
architecture = "gpt2"
n_layer = 1
n_head = 2
n_embd = 16
n_positions = 32
)";
constexpr const char* kTraining = R"(max_steps = 4
context_length = 30
per_device_train_batch_size = 4
eval_steps = 2
save_steps = 2
learning_rate = 0.01
)";

// Recipes that together use every section. `{}` is the folder of all files.
const std::map<std::string, std::string>& recipes() {
    static const auto& kAll = *new std::map<std::string, std::string>{
        {"text", std::string(kModel) + R"([data]
train = "{}/a.txt"
valid = "{}/b.txt"
[tokenizer]
add_roles = {eos = "[E]"}
[train]
)" + kTraining},
        {"scheduled", R"([model]
architecture = "gated"
[data]
train = "{}/a.txt"
valid = "{}/b.txt"
[schedules.gate]
kind = "linear"
value = 0.5
end_value = 1.0
end_step = 4
[train]
)" + std::string(kTraining)},
        {"parts", std::string(kModel) + R"([data]
train = "{}/a.txt"
valid = "{}/b.txt"
[distributed]
parts = 1
[train]
gradient_accumulation_steps = 2
)" + kTraining},
        {"tapped", R"([model]
architecture = "gan"
[objective]
id = "adversarial"
[head]
id = ""
[data]
train = "{}/a.txt"
valid = "{}/b.txt"
[tap]
names = ["generator.*"]
[train]
)" + std::string(kTraining)},
        {"held-out", std::string(kModel) + R"([data]
train = "{}/a.txt"
valid_fraction = 0.2
[train]
)" + kTraining},
        {"table", std::string(kModel) + R"([objective]
id = "completion"
[data]
train = "{}/rows.jsonl"
valid = "{}/rows.jsonl"
columns = {completion = "a"}
[data.templates]
prompt = "{q}:"
[train]
)" + kTraining},
        {"classes", std::string(kModel) + R"([objective]
id = "classification"
[head]
id = "classifier"
[data]
train = "{}/classes.csv"
valid = "{}/classes.csv"
columns = {text = "text", label = "label"}
labels = ["no", "yes"]
header = true
[tokenizer]
add_roles = {pad = "[PAD]"}
[train]
)" + kTraining},
        {"chat", std::string(kModel) + R"([objective]
id = "chat"
[data]
train = "{}/talks.jsonl"
valid = "{}/talks.jsonl"
chat_template = "{}/dated.jinja"
chat_date = "2026-01-30"
[tokenizer]
add = ["<|im_start|>", "<|im_end|>"]
[train]
)" + kTraining},
        {"adapter", R"([model]
from = "{}/text"
[adapter]
id = "lora"
r = 2
[data]
train = "{}/a.txt"
valid = "{}/b.txt"
[train]
)" + std::string(kTraining)},
        {"mixed", R"([model]
from = "{}/text"
[adapter]
id = "lora"
r = 2
names = ["a", "b"]
route_by = "who"
[objective]
id = "completion"
[data]
train = "{}/rows.jsonl"
valid = "{}/rows.jsonl"
columns = {prompt = "q", completion = "a"}
[train]
)" + std::string(kTraining)},
        {"named", R"([model]
from = "{}/text"
[adapters.x]
id = "lora"
r = 2
[adapters.y]
from = "{}/adapter"
train = true
[combine]
how = 'stack(x, y)'
[data]
train = "{}/a.txt"
valid = "{}/b.txt"
[train]
)" + std::string(kTraining)},
        {"teacher", R"([model]
from = "{}/text"
[teacher]
from = "{}/text"
[objective]
id = "dpo"
[data]
train = "{}/pairs.jsonl"
valid = "{}/pairs.jsonl"
[train]
)" + std::string(kTraining)},
        {"ppo", R"([model]
from = "{}/text"
[reference]
from = "{}/text"
[value]
from = "{}/text"
[objective]
id = "ppo"
num_ppo_epochs = 1
ptx_coef = 0.5
[rollout]
batch = 8
response_length = 4
local_rollout_forward_batch_size = 4
num_sample_generations = 0
[rewards.length]
id = "length"
target = 4
[data]
train = "{}/prompts.jsonl"
valid = "{}/prompts.jsonl"
pretrain = "{}/a.txt"
[train]
)" + std::string(kTraining)},
    };
    return kAll;
}

// One change: the recipe, the override, and what must be given with it.
struct Change {
    std::string recipe, key;
    std::vector<std::string> overrides;
};

// "key=value" for one recipe; several overrides where a key needs others.
const std::vector<Change>& all_changes() {
    static const auto& kAll = *new std::vector<Change>{
        {"text", "model.architecture", {"model.architecture=llama"}},
        {"adapter", "model.from", {"model.from={}/moved"}},
        {"adapter", "model.from", {"model.from={}/second"}},
        {"text", "model.layers", {"model.layers=[0]", "model.from={}/adapter"}},
        {"teacher", "teacher.from", {"teacher.from={}/moved"}},
        {"teacher", "teacher.from", {"teacher.from={}/second"}},
        {"ppo", "reference.from", {"reference.from={}/moved"}},
        {"ppo", "reference.from", {"reference.from={}/second"}},
        {"ppo", "value.from", {"value.from={}/moved"}},
        {"adapter", "adapter.id", {"adapter.id=ia3"}},
        {"adapter", "adapter.from", {"adapter.from={}/adapter", "adapter.id=", "adapter.r="}},
        {"mixed", "adapter.names", {"adapter.names=[\"b\", \"a\"]"}},
        {"mixed", "adapter.route_by", {"adapter.route_by=whom"}},
        {"named", "adapters.NAME.id", {"adapters.x.id=ia3", "adapters.x.r="}},
        {"named", "adapters.NAME.from", {"adapters.y.from={}/moved"}},
        {"named", "adapters.NAME.train", {"adapters.y.train=false"}},
        {"named", "combine.how", {"combine.how=\"average(x, y)\""}},
        {"text", "objective.id", {"objective.id=prefix_lm"}},
        {"text", "head.id", {"head.id=mlm"}},
        {"text", "data.train", {"data.train={}/c.txt"}},
        {"held-out", "data.valid", {"data.valid={}/b.txt"}},
        {"classes", "data.test", {"data.test={}/classes.csv"}},
        {"ppo", "data.pretrain", {"data.pretrain={}/b.txt"}},
        {"held-out", "data.valid_fraction", {"data.valid_fraction=0.4"}},
        {"text", "data.format", {"data.format=text"}},
        {"table", "data.columns", {"data.columns={completion = \"q\"}"}},
        {"table", "data.prefix", {"data.prefix={completion = \" \"}"}},
        {"table", "data.templates", {"data.templates={prompt = \"Q: {q}\"}"}},
        {"chat", "data.chat_template", {"data.chat_template=chatml", "data.chat_date="}},
        {"chat", "data.chat_date", {"data.chat_date=\"2026-01-31\""}},
        {"table", "data.special_tokens", {"data.special_tokens=text"}},
        {"table", "data.group", {"data.group=a"}},
        {"classes", "data.header", {"data.header=false", "data.columns={text = 1, label = 2}", "data.on_bad=skip"}},
        {"classes", "data.labels", {"data.labels=[\"yes\", \"no\"]"}},
        {"text", "data.on_bad", {"data.on_bad=skip"}},
        {"text", "data.max_bytes", {"data.max_bytes=4096"}},
        {"text", "data.max_decompressed_bytes", {"data.max_decompressed_bytes=1048576"}},
        {"text", "data.max_compression_ratio", {"data.max_compression_ratio=100"}},
        {"text", "data.documents", {"data.documents=line"}},
        {"text", "data.order", {"data.order=shuffle"}},
        {"classes", "data.class_balanced", {"data.class_balanced=true"}},
        {"text", "data.cache", {"data.cache={}/cache"}},
        {"text", "tokenizer.kind", {"tokenizer.kind=bpe"}},
        {"text", "tokenizer.vocab_size", {"tokenizer.vocab_size=300"}},
        {"text", "tokenizer.lower_case", {"tokenizer.lower_case=false"}},
        {"adapter", "tokenizer.from", {"tokenizer.from={}/moved"}},
        {"text", "tokenizer.add", {"tokenizer.add=[\"[A]\"]"}},
        {"text", "tokenizer.add_roles", {"tokenizer.add_roles={eos = \"[F]\"}"}},
        {"text", "train.max_steps", {"train.max_steps=5"}},
        {"text", "train.num_train_epochs", {"train.num_train_epochs=1"}},
        {"text", "train.learning_rate", {"train.learning_rate=0.02"}},
        {"text", "train.min_learning_rate", {"train.min_learning_rate=0.001"}},
        {"text", "train.lr_scheduler_type", {"train.lr_scheduler_type=linear"}},
        {"text", "train.warmup_steps", {"train.warmup_steps=1"}},
        {"text", "train.warmup_ratio", {"train.warmup_ratio=0.5"}},
        {"text", "train.optim", {"train.optim=sgd"}},
        {"text", "train.moments_dtype", {"train.moments_dtype=bfloat16"}},
        {"text", "train.moments_memory", {"train.moments_memory=system"}},
        {"adapter", "train.frozen_dtype", {"train.frozen_dtype=bfloat16"}},
        {"text", "train.weight_decay", {"train.weight_decay=0.2"}},
        {"text", "train.adam_beta1", {"train.adam_beta1=0.8"}},
        {"text", "train.adam_beta2", {"train.adam_beta2=0.9"}},
        {"text", "train.adam_epsilon", {"train.adam_epsilon=1e-6"}},
        {"text", "train.momentum", {"train.momentum=0.5"}},
        {"text", "train.max_grad_norm", {"train.max_grad_norm=0.5"}},
        {"text", "train.per_device_train_batch_size", {"train.per_device_train_batch_size=2"}},
        {"text", "train.per_device_eval_batch_size", {"train.per_device_eval_batch_size=2"}},
        {"text", "train.gradient_accumulation_steps", {"train.gradient_accumulation_steps=2"}},
        {"text", "train.context_length", {"train.context_length=20"}},
        {"text", "train.eval_steps", {"train.eval_steps=1"}},
        {"text", "train.eval_batches", {"train.eval_batches=1"}},
        {"classes", "train.metric_for_best_model", {"train.metric_for_best_model=accuracy"}},
        {"text", "train.load_best_model_at_end", {"train.load_best_model_at_end=true"}},
        {"text", "train.early_stopping_patience", {"train.early_stopping_patience=3"}},
        {"text", "train.alternate", {"train.alternate=[\"a\", \"b\"]"}},
        {"text", "train.freeze", {"train.freeze=[\"embeddings\"]"}},
        {"text", "train.layer_lr_decay", {"train.layer_lr_decay=0.9"}},
        {"text", "train.learning_rates", {"train.learning_rates={\"*\" = 0.02}"}},
        {"table", "train.group_by_length", {"train.group_by_length=true"}},
        {"text", "train.save_steps", {"train.save_steps=1"}},
        {"text", "train.save_total_limit", {"train.save_total_limit=1"}},
        {"text", "train.logging_steps", {"train.logging_steps=1"}},
        {"text", "train.seed", {"train.seed=2"}},
        {"text", "train.max_bad_steps", {"train.max_bad_steps=2"}},
        {"text", "train.gradient_checkpointing", {"train.gradient_checkpointing=true"}},
        {"text", "train.recompute", {"train.recompute=[\"norms\"]"}},
        {"text", "train.fit", {"train.fit=true"}},
        {"text", "train.ema_decay", {"train.ema_decay=0.9"}},
        {"text", "train.disable_dropout", {"train.disable_dropout=true"}},
        {"text", "train.bf16", {"train.bf16=true"}},
        {"text", "train.fp16", {"train.fp16=true"}},
        {"text", "optimizer.name", {"optimizer.name=lion"}},
        {"text", "optimizer.rules", {"optimizer.name=adamw", "optimizer.rules={\"*.bias\" = \"sgd\"}"}},
        {"parts", "distributed.parts", {"distributed.parts=2"}},
        {"text", "distributed.batch", {"distributed.batch=rank"}},
        {"text", "distributed.shares", {"distributed.shares=[1]"}},
        {"text", "distributed.balance", {"distributed.balance=measured"}},
        {"text", "distributed.exchange", {"distributed.exchange=bf16"}},
        {"text", "distributed.mode", {"distributed.mode=diloco"}},
        {"text", "distributed.inner_steps", {"distributed.inner_steps=2"}},
        {"text", "distributed.outer_learning_rate", {"distributed.outer_learning_rate=0.5"}},
        {"text", "distributed.outer_momentum", {"distributed.outer_momentum=0.5"}},
        {"text", "distributed.outer_exchange", {"distributed.outer_exchange=f16"}},
        {"text", "distributed.bucket", {"distributed.bucket=32"}},
        {"text", "distributed.check_every", {"distributed.check_every=1"}},
        {"text", "distributed.timeout", {"distributed.timeout=30"}},
        {"text", "prune.amount", {"prune.amount=0.3"}},
        {"text", "prune.rounds", {"prune.rounds=2"}},
        {"text", "prune.scope", {"prune.scope=layer"}},
        {"text", "prune.rewind_step", {"prune.rewind_step=1"}},
        {"text", "prune.reinitialize", {"prune.reinitialize=random"}},
        {"text", "prune.mask", {"prune.mask=random"}},
        {"text", "prune.exclude", {"prune.exclude=[\"body\"]"}},
        {"text", "prune.from_mask", {"prune.from_mask={}/mask.safetensors"}},
        {"text", "prune.weights_from", {"prune.from_mask={}/mask.safetensors", "prune.weights_from={}/text"}},
        {"scheduled", "schedules.NAME.kind", {"schedules.gate.kind=cosine"}},
        {"scheduled", "schedules.NAME.value", {"schedules.gate.value=0.25"}},
        {"scheduled", "schedules.NAME.end_value", {"schedules.gate.end_value=0.25"}},
        {"scheduled", "schedules.NAME.end_step", {"schedules.gate.end_step=3"}},
        {"scheduled", "schedules.NAME.warmup_steps", {"schedules.gate.warmup_steps=1"}},
        {"scheduled",
         "schedules.NAME.warmup_value",
         {"schedules.gate.warmup_steps=1", "schedules.gate.warmup_value=0.25"}},
        {"scheduled",
         "schedules.NAME.values",
         {"schedules.gate.kind=steps", "schedules.gate.value=", "schedules.gate.end_value=", "schedules.gate.end_step=",
          "schedules.gate.values=[[1, 0.5]]"}},
        {"tapped", "tap.names", {"tap.names=[\"*\"]"}},
        {"tapped", "tap.values", {"tap.values={}/taps"}},
        {"tapped", "tap.every", {"tap.every=2", "tap.values={}/taps"}},
        {"table", "generate.examples", {"generate.examples=2"}},
        {"table", "generate.examples_while_training", {"generate.examples_while_training=1"}},
        {"ppo", "rollout.batch", {"rollout.batch=4"}},
        {"ppo", "rollout.num_generations", {"rollout.num_generations=2"}},
        {"ppo", "rollout.response_length", {"rollout.response_length=3"}},
        {"ppo", "rollout.temperature", {"rollout.temperature=0.5"}},
        {"ppo", "rollout.stop_token", {"rollout.stop_token=none"}},
        {"ppo", "rollout.missing_eos_penalty", {"rollout.missing_eos_penalty=1"}},
        {"ppo", "rollout.local_rollout_forward_batch_size", {"rollout.local_rollout_forward_batch_size=2"}},
        {"ppo", "rollout.total_episodes", {"rollout.total_episodes=64"}},
        {"ppo", "rollout.num_sample_generations", {"rollout.num_sample_generations=1"}},
        {"ppo", "rewards.NAME.id", {"rewards.second.id=length", "rewards.second.target=2"}},
        {"ppo", "rewards.NAME.weight", {"rewards.length.weight=0.5"}},
        {"ppo", "rewards.NAME.clip", {"rewards.length.clip=1"}},
        {"text", "plugins.isolate", {"plugins.isolate=true"}},
        {"text", "output.dir", {}}, // every case has another folder
    };
    return kAll;
}

// Keys with one value only.
const std::set<std::string> kOneValue{"prune.score"};

struct Runs {
    TestFolder folder;
    plugin::Registry registry = plugin::Registry::scan({HEKLA_PLUGIN_FOLDER, HEKLA_TRAIN_PLUGINS});
    Bench bench;
    std::vector<std::string> warnings;
    Log log{[this](Severity severity, std::string_view message) {
        if (severity >= Severity::warning) warnings.emplace_back(message);
    }};

    Runs() {
        std::string text, rows, classes = "text,label\n", talks, prompts, pairs;
        for (int i = 0; i < 30; ++i) {
            text += "the quick brown fox jumps over the lazy dog: QA? <|im_start|>\n\n";
            rows += fmt::format(R"({{"q": "fox {0}", "a": "dog {0}", "who": "{1}", "whom": "{1}"}})"
                                "\n",
                                "abc"[i % 3], "ab"[i % 2]);
            classes += fmt::format("the fox {},{}\n", "abc"[i % 3], i % 2 == 0 ? "no" : "yes");
            talks += R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})"
                     "\n";
            pairs +=
                fmt::format("{{\"prompt\": \"fox {}\", \"chosen\": \"dog\", \"rejected\": \"over\"}}\n", "abc"[i % 3]);
            prompts += fmt::format("{{\"prompt\": \"fox {}\"}}\n", "abc"[i % 3]);
        }
        write("a.txt", text);
        write("b.txt", text.substr(0, 600));
        write("c.txt", text + text.substr(0, 99));
        write("rows.jsonl", rows);
        write("classes.csv", classes);
        write("talks.jsonl", talks);
        write("prompts.jsonl", prompts);
        write("pairs.jsonl", pairs);
        write("dated.jinja",
              "{% for m in messages %}{{ strftime_now('%d') }}<|im_start|>{% generation %}{{ m.content }}<|im_end|>"
              "{% endgeneration %}{% endfor %}");
        train("text", "text");
        train("text", "second", {"train.seed=2"});
        fs::copy(path("text"), path("moved"), fs::copy_options::recursive);
        for (const auto& [name, recipe] : recipes())
            if (name != "text") train(name, name);
    }
    // Trains a recipe in the folder `run`, until a stop after step 2.
    void train(const std::string& name, const std::string& run, std::vector<std::string> overrides = {}) {
        overrides.push_back("output.dir=" + path(run));
        const Result<Recipe> recipe = read(name, overrides);
        REQUIRE_MESSAGE(recipe.ok(), recipe.message());
        const auto made = TrainingRun::create(recipe.value(), registry, *bench, log, {}, Purpose::train);
        REQUIRE_MESSAGE(made.ok(), name << ": " << made.message());
        const Result<TrainerResult> done = TrainingLoop(*made.value()).run();
        REQUIRE_MESSAGE(done.ok(), name << ": " << done.message());
        fs::remove_all(fs::path(path(run)) / "checkpoint-4");
    }
    std::string path(const std::string& name) const { return (folder.path() / name).string(); }
    void write(const std::string& name, const std::string& content) const {
        REQUIRE(write_file_atomically(folder.path() / name, content).ok());
    }
    std::string with_folder(std::string text) const {
        for (std::size_t at = 0; (at = text.find("{}", at)) != std::string::npos;)
            text.replace(at, 2, folder.path().string());
        return text;
    }
    Result<Recipe> read(const std::string& name, std::vector<std::string> overrides) const {
        for (std::string& one : overrides) one = with_folder(one);
        return parse_recipe(with_folder(recipes().at(name)) + "[output]\ndir = \"x\"\n", name + ".toml", overrides);
    }
};

} // namespace

TEST_SUITE("long") {
    TEST_CASE("a resume with another value of a key does what the table of keys tells") {
        Runs runs;
        std::map<std::string, Resume> columns;
        for (const RecipeSection& section : recipe_sections())
            for (const RecipeKey& key : section.keys)
                if (!key.name.empty()) columns[key.section + "." + key.name] = key.resume;
        REQUIRE(columns.size() > 130);
        std::set<std::string> covered = kOneValue;
        for (const Change& change : all_changes()) {
            CAPTURE(change.key);
            REQUIRE(columns.contains(change.key));
            covered.insert(change.key);
            const std::string run = runs.path("case");
            fs::remove_all(run);
            fs::copy(runs.path(change.recipe), run, fs::copy_options::recursive);
            std::vector<std::string> overrides = change.overrides;
            overrides.push_back("output.dir=" + run);
            const Result<Recipe> recipe = runs.read(change.recipe, overrides);
            CHECK_MESSAGE(recipe.ok(), recipe.message());
            if (!recipe.ok()) continue;
            runs.warnings.clear();
            const auto resumed =
                TrainingRun::create(recipe.value(), runs.registry, *runs.bench, runs.log, {}, Purpose::train);
            std::string warned;
            for (const std::string& warning : runs.warnings)
                if (warning.find("with changed settings: ") != std::string::npos) warned += warning;
            CAPTURE(warned);
            CAPTURE(resumed.message());
            // Of several keys that are changed together the message may name any.
            const auto named = [&](const std::string& message) {
                return std::ranges::any_of(change.overrides, [&](const std::string& one) {
                    const std::string key = one.substr(0, one.find('='));
                    return message.find(key.substr(key.rfind('.') + 1)) != std::string::npos;
                });
            };
            switch (columns[change.key]) {
            case Resume::refused:
            case Resume::split:
                CHECK(!resumed.ok());
                CHECK(named(resumed.message()));
                break;
            case Resume::warned:
            case Resume::learning:
            case Resume::fitted:
                CHECK(resumed.ok());
                CHECK(named(warned));
                break;
            case Resume::data:
            case Resume::rows: { // formats and bad rows do not change these files
                const bool same = change.key == "data.format" || change.key == "data.on_bad";
                CHECK(resumed.ok() == same);
                CHECK((same || resumed.message().find("was trained on other data") != std::string::npos));
                break;
            }
            case Resume::model:
                if (change.overrides.front().ends_with("/moved")) {
                    CHECK(resumed.ok());
                } else {
                    CHECK(!resumed.ok());
                    CHECK(resumed.message().find("another") != std::string::npos);
                }
                break;
            case Resume::free:
                CHECK(resumed.ok());
                CHECK(warned.empty());
                break;
            }
        }
        for (const auto& [key, resume] : columns) CHECK_MESSAGE(covered.contains(key), key);
    }
}

} // namespace resume_columns_test
