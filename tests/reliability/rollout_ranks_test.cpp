// Reinforcement learning by several ranks: they divide the completions, and the result is that of one, bit for bit,
// before and after a resume inside an iteration.
#include "cases.hpp"

#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

using namespace hekla::test;

namespace rollout_ranks_test {
namespace {

using nlohmann::json;

const char* const kRecipe = R"([model]
architecture = "gpt2"
n_layer = 1
n_head = 2
n_embd = 16
n_positions = 16
[rollout]
batch = 24
response_length = 5
local_rollout_forward_batch_size = 5
[rewards.echo]
id = "exact_match"
column = "answer"
partial = true
[data]
train = "echo.jsonl"
valid = "echo.jsonl"
[tokenizer]
kind = "char"
[distributed]
parts = 3
[train]
per_device_train_batch_size = 4
gradient_accumulation_steps = 3
context_length = 10
max_steps = 8
eval_steps = 4
eval_batches = 1
save_steps = 1
save_total_limit = 100
lr_scheduler_type = "constant"
)";

void write_files(const TestFolder& folder) {
    folder.write("echo.jsonl", echo_rows());
    folder.write("recipe.toml", kRecipe);
}

const std::vector<std::string> kPpo{"objective.id=ppo", "objective.num_ppo_epochs=2", "objective.kl_target=1.0",
                                    "head.id=lm+value"};
const std::vector<std::string> kGrpo{"objective.id=grpo", "objective.beta=0.1", "rollout.num_generations=4",
                                     "rollout.local_rollout_forward_batch_size=16", "head.id=lm"};

Ran train_by(const TestFolder& folder, const std::vector<std::string>& objective, const std::string& dir, int ranks,
             int steps) {
    std::vector<std::string> arguments = objective;
    arguments.push_back("output.dir=" + dir);
    arguments.push_back("train.max_steps=" + std::to_string(steps));
    if (ranks > 1) arguments.insert(arguments.end(), {"--devices", ranks == 2 ? "0,0" : "0,0,0"});
    return train(folder, arguments);
}

// What must not depend on the ranks: the log without times, the weights and moments, and completions with what is known
// of their tokens.
struct Made {
    std::string log, files, completions;
};

Made made(const TestFolder& folder, const std::string& dir, int steps, const std::string& iteration) {
    Made m;
    std::istringstream lines(folder.read(dir + "/train_log.jsonl"));
    for (std::string line; std::getline(lines, line);) {
        const json record = json::parse(line);
        for (const char* key : {"step", "loss", "grad_norm", "eval_loss", "scores"})
            if (record.contains(key)) m.log += std::string(key) + " " + record[key].dump() + "\n";
        if (!record.contains("metrics")) continue;
        json metrics = record["metrics"];
        for (const char* part : {"generate_seconds", "likelihood_seconds", "reward_seconds", "logp_difference_max"})
            CHECK(metrics.erase(std::string("rollout/") + part) == 1); // the last is of the first rows of every rank
        m.log += metrics.dump() + "\n";
    }
    const std::string checkpoint = dir + "/checkpoint-" + std::to_string(steps);
    for (const std::string& name :
         {dir + "/model.safetensors", checkpoint + "/model.safetensors", checkpoint + "/optimizer.safetensors"})
        m.files += folder.read(name);
    m.completions = folder.read(dir + "/rollouts-" + iteration + ".jsonl");
    CHECK(!m.files.empty());
    return m;
}

// Trains by several numbers of ranks, and compares what is written.
void same_by_ranks(const std::string& name, const std::vector<std::string>& objective, const std::string& last,
                   std::initializer_list<int> numbers) {
    CAPTURE(name);
    const TestFolder folder;
    write_files(folder);
    std::optional<Made> expected;
    for (const int ranks : numbers) {
        CAPTURE(ranks);
        const std::string dir = name + std::to_string(ranks);
        const Ran ended = train_by(folder, objective, dir, ranks, 8);
        succeeds(ended);
        REQUIRE(folder.exists(dir + "/rollouts-" + last + ".jsonl"));
        const Made result = made(folder, dir, 8, last);
        if (!expected) expected = result;
        CHECK(result.log == expected->log);
        CHECK(result.completions == expected->completions);
        CHECK_MESSAGE((result.files == expected->files), "weights or moments differ");
    }
}

} // namespace

TEST_CASE("ranks divide the completions of grpo") { same_by_ranks("grpo", kGrpo, "4", {1, 2}); }

TEST_CASE("ranks divide the completions of ppo and grpo, also with averages" * doctest::test_suite("long")) {
    std::vector<std::string> averaged = kGrpo;
    averaged.push_back("train.ema_decay=0.5");
    same_by_ranks("ppo", kPpo, "2", {1, 2, 3});
    same_by_ranks("grpo", kGrpo, "4", {1, 3});
    same_by_ranks("averaged", averaged, "4", {1, 2, 3});
}

TEST_CASE("a run with rollouts goes on with other numbers of ranks inside an iteration" * doctest::test_suite("long")) {
    const TestFolder folder;
    write_files(folder);
    succeeds(train_by(folder, kPpo, "undisturbed", 1, 7));
    int step = 0;
    for (const int ranks : {2, 1, 3}) {
        step += ranks == 1 ? 1 : 3;
        const Ran ended = train_by(folder, kPpo, "run", ranks, step);
        succeeds(ended);
        CHECK(!has(ended.err, "changed settings: distributed"));
    }
    REQUIRE(step == 7);
    CHECK_MESSAGE((folder.read("run/model.safetensors") == folder.read("undisturbed/model.safetensors")),
                  "the weights differ");
    CHECK(folder.read("run/rollouts-2.jsonl") == folder.read("undisturbed/rollouts-2.jsonl"));
}

TEST_CASE("an error of one rank's completions ends all, and islands have no rollouts") {
    const TestFolder folder;
    write_files(folder);
    std::vector<std::string> missing = kGrpo;
    missing.push_back("rewards.echo.column=none");
    fails(train_by(folder, missing, "missing", 2, 8), {"none"});
    std::vector<std::string> islands = kGrpo;
    islands.insert(islands.end(),
                   {"distributed.mode=diloco", "distributed.parts=0", "train.eval_steps=0", "train.save_steps=0"});
    fails(train_by(folder, islands, "islands", 2, 8), {"objective 'grpo' learns from rollouts", "remove `mode`"});
}

} // namespace rollout_ranks_test
