// Reinforcement learning through the program: rewards rise, a stopped run continues with the same bits at every step,
// sums over micro-batches equal those of the whole, and bad input is one clear error.
#include "tasks.hpp"

#include <cmath>
#include <doctest/doctest.h>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

using hekla::test::Arguments;
using hekla::test::has;
using hekla::test::joined;
using hekla::test::last_evaluation;
using hekla::test::Place;
using hekla::test::Ran;
using hekla::test::succeed;
using nlohmann::json;

namespace reinforcement_test {
namespace {

namespace fs = std::filesystem;

// Learns to repeat two letters from nothing.
const char* const kEcho = R"([model]
architecture = "gpt2"
n_layer = 1
n_head = 2
n_embd = 32
n_positions = 16
resid_pdrop = 0.1
embd_pdrop = 0.1
attn_pdrop = 0.1
[objective]
id = "ppo"
num_ppo_epochs = 2
kl_coef = 0.01
vf_coef = 0.5
[head]
id = "lm+value"
[rollout]
batch = 32
response_length = 4
local_rollout_forward_batch_size = 16
num_sample_generations = 3
[rewards.echo]
id = "exact_match"
column = "answer"
partial = true
[data]
train = "echo.jsonl"
valid = "echo.jsonl"
[train]
per_device_train_batch_size = 16
context_length = 8
max_steps = 240
learning_rate = 0.01
lr_scheduler_type = "constant"
weight_decay = 0.0
eval_steps = 0
save_steps = 0
logging_steps = 40
seed = 3
[output]
dir = "echo"
)";

void write_files(const Place& place) {
    std::string echo, mixed;
    for (const char a : {'a', 'b', 'c'})
        for (const char b : {'a', 'b', 'c'}) {
            const std::string word{a, b};
            echo += json{{"prompt", word + ">"}, {"answer", word}, {"completion", word}}.dump() + "\n";
        }
    place.write("echo.jsonl", echo);
    place.write("echo.toml", kEcho);
}

std::vector<json> logged(const Place& place, const std::string& run, bool without_time = false) {
    std::istringstream lines(place.read(run + "/train_log.jsonl"));
    std::vector<json> all;
    for (std::string line; std::getline(lines, line);) {
        json record = json::parse(line);
        if (without_time) {
            for (const char* key : {"seconds", "tokens_per_second"}) record.erase(key);
            if (record.contains("metrics"))
                for (const char* name : {"rollout/generate_seconds", "rollout/likelihood_seconds",
                                         "rollout/reward_seconds", "rollout/logp_difference_max"}) // of the first texts
                    record["metrics"].erase(name);
        }
        all.push_back(std::move(record));
    }
    return all;
}

double metric(const json& step, const char* name) { return step["metrics"][name].get<double>(); }

// A recipe without the keys of ppo.
void write_grpo(const Place& place) {
    std::string text = kEcho;
    for (const char* line : {"num_ppo_epochs = 2\n", "kl_coef = 0.01\n", "vf_coef = 0.5\n"})
        text.erase(text.find(line), std::string(line).size());
    const auto change = [&](const std::string& from, const std::string& to) {
        text.replace(text.find(from), from.size(), to);
    };
    change("id = \"ppo\"", "id = \"grpo\"\nbeta = 0.1\nnum_iterations = 2");
    change("lm+value", "lm");
    change("response_length", "num_generations = 4\nresponse_length");
    change("dir = \"echo\"", "dir = \"grpo\"");
    place.write("grpo.toml", text);
}

} // namespace

TEST_CASE("ppo: a short run learns to repeat its prompt, and shows it") {
    const Place place;
    write_files(place);
    const Arguments quick{"echo.toml",
                          "train.eval_steps=240",
                          "train.learning_rate=0.003",
                          "rollout.batch=64",
                          "train.per_device_train_batch_size=32",
                          "objective.num_ppo_epochs=4"};
    const Ran ran = succeed(place.run(joined({"train"}, quick)));
    const std::vector<json> steps = logged(place, "echo");
    REQUIRE(steps.size() == 241);
    CHECK(metric(steps[0], "reward") < 0.4);
    CHECK(metric(steps[239], "reward") > 0.8);
    CHECK(last_evaluation(place, "echo")["eval_reward"].get<double>() > 0.9);
    CHECK(last_evaluation(place, "echo")["eval_loss"] == -last_evaluation(place, "echo")["eval_reward"].get<double>());
    CHECK(has(ran.err, "| reward 0.")); // first in a line of progress
    // The first ratio is 1: what is trained is what has written. Two programs compute it, so the last bits may differ.
    CHECK(std::abs(metric(steps[0], "val/ratio") - 1.0) < 1e-5);
    CHECK(metric(steps[0], "policy/approxkl_avg") < 1e-10);
    CHECK(metric(steps[0], "policy/clipfrac_avg") == 0.0);
    CHECK(metric(steps[0], "objective/kl") ==
          doctest::Approx(0.0).epsilon(1e-5));     // and the reference is the same model
    CHECK(metric(steps[0], "values/mean") == 0.0); // the value head begins at 0
    CHECK(metric(steps[0], "rollout/logp_difference_max") < 1e-4);
    for (const char* name :
         {"objective/entropy", "objective/rlhf_reward", "objective/non_score_reward", "completions/mean_length",
          "completions/clipped_ratio", "val/num_eos_tokens", "val/clipfrac_avg", "rewards/echo/mean", "episode"})
        CHECK_MESSAGE(steps[239]["metrics"].contains(name), name);
    CHECK(steps[0]["losses"].contains("loss/policy_avg"));
    CHECK(steps[0]["losses"].contains("loss/value_avg"));
    CHECK(has(place.read("echo/rl.svg"), "objective/kl"));
    CHECK(has(place.read("echo/texts.html"), "after step 240"));
    // The newest rollouts, and only those: 240 steps are 30 iterations of 8.
    CHECK(place.exists("echo/rollouts-30.jsonl"));
    CHECK_FALSE(place.exists("echo/rollouts-29.jsonl"));
    const json row =
        json::parse(place.read("echo/rollouts-30.jsonl").substr(0, place.read("echo/rollouts-30.jsonl").find('\n')));
    CHECK(row["logps"].size() == row["completion_ids"].size());
    CHECK(row["advantages"].size() == row["completion_ids"].size());
    CHECK(row["rewards"]["echo"] == row["score"]);
    // What is trained is a language model.
    const std::string text = succeed(place.run({"generate", "echo", "--prompt", "ca>", "--max-new-tokens", "4"})).out;
    CHECK_MESSAGE(has(text, "ca"), text);
    // A finished run is evaluated as it was trained.
    CHECK(has(succeed(place.run(joined({"eval"}, quick))).out, "reward"));
    CHECK(has(succeed(place.run(joined({"train", "--plan"}, quick))).out, "completions of an iteration"));
}

TEST_CASE("a run that stopped after any step continues with the same bits, inside an iteration and between two") {
    const Place place;
    write_files(place);
    write_grpo(place);
    const std::vector<std::pair<std::string, Arguments>> runs{{"echo", {"train", "echo.toml", "objective.kl_target=1"}},
                                                              {"grpo", {"train", "grpo.toml"}}};
    for (const auto& [name, train] : runs) {
        CAPTURE(name);
        const Arguments whole = joined(train, {"train.max_steps=9", "train.save_steps=1", "train.save_total_limit=20"});
        succeed(place.run(whole));
        const std::string trained = place.read(name + "/model.safetensors"),
                          written = place.read(name + "/rollouts-3.jsonl");
        const std::vector<json> log = logged(place, name, true);
        // An iteration has 4 steps: its completions are saved inside it.
        CHECK_FALSE(place.exists(name + "/checkpoint-4/rollouts.safetensors"));
        CHECK(place.exists(name + "/checkpoint-6/rollouts.safetensors"));
        for (const int stopped : {7, 4, 2, 1}) { // what later ones have left is removed
            CAPTURE(stopped);
            for (int step = stopped + 1; step <= 9; ++step)
                fs::remove_all(place.path(name + "/checkpoint-" + std::to_string(step)));
            // Another number of completions at a time changes nothing.
            Arguments again = whole;
            if (stopped == 4) again.emplace_back("rollout.local_rollout_forward_batch_size=5");
            CHECK(has(succeed(place.run(again)).err, "resuming after step " + std::to_string(stopped)));
            CHECK((place.read(name + "/model.safetensors") == trained));
            CHECK((place.read(name + "/rollouts-3.jsonl") == written));
            CHECK((logged(place, name, true) == log));
        }
        // A step is replayed from the checkpoint before it, or its iteration is begun again.
        CHECK(has(succeed(place.run({"replay", name, "--step", "6"})).out, "loss"));
        // Other numbers of steps in an iteration do not fit.
        fs::remove_all(place.path(name + "/checkpoint-9"));
        const Ran refused = place.run(joined(whole, {"train.per_device_train_batch_size=8"}));
        CHECK(refused.status == 1);
        CHECK_MESSAGE(has(refused.err, "an iteration had 4 steps, and has 8 now"), refused.err);
    }
}

TEST_CASE("grpo: every kind of loss is the same for one large batch and for micro-batches") {
    const Place place;
    write_files(place);
    write_grpo(place);
    succeed(place.run({"train", "grpo.toml", "train.max_steps=4", "output.dir=first"})); // ratios that are not 1 later
    for (const char* type : {"grpo", "bnpo", "dr_grpo", "dapo"}) {
        CAPTURE(type);
        std::vector<json> whole;
        for (const auto& [rows, parts] : {std::pair{16, 1}, {4, 4}, {2, 8}}) {
            const std::string run = std::string(type) + std::to_string(rows);
            succeed(place.run({"train", "grpo.toml", "model.from=first", std::string("objective.loss_type=") + type,
                               "train.max_steps=3", "train.per_device_train_batch_size=" + std::to_string(rows),
                               "train.gradient_accumulation_steps=" + std::to_string(parts), "output.dir=" + run}));
            const std::vector<json> steps = logged(place, run);
            if (whole.empty()) whole = steps;
            REQUIRE(steps.size() == 3);
            CHECK(metric(steps[0], "reward") == metric(whole[0], "reward"));
            for (std::size_t i = 0; i < 3; ++i) {
                CHECK(steps[i]["loss"].get<double>() ==
                      doctest::Approx(whole[i]["loss"].get<double>()).epsilon(1e-4).scale(1e-2));
                CHECK(steps[i]["grad_norm"].get<double>() ==
                      doctest::Approx(whole[i]["grad_norm"].get<double>()).epsilon(1e-3));
            }
        }
    }
}

TEST_CASE("references and rewards: a folder, the network without its adapter, a reward model") {
    const Place place;
    write_files(place);
    write_grpo(place);
    succeed(place.run({"train", "grpo.toml", "objective.beta=0", "train.max_steps=8", "output.dir=first"}));
    // With an adapter the reference shares the body's weights, and begins equal to the policy.
    succeed(place.run({"train", "grpo.toml", "model.from=first", "adapter.id=lora", "adapter.r=2", "train.max_steps=6",
                       "output.dir=adapted"}));
    std::vector<json> steps = logged(place, "adapted");
    CHECK(metric(steps[0], "objective/kl") == 0.0);
    CHECK(metric(steps[5], "kl") > 0.0);
    CHECK(std::filesystem::file_size(place.path("adapted/model.safetensors")) <
          std::filesystem::file_size(place.path("first/model.safetensors")) / 2);
    succeed(place.run(
        {"train", "grpo.toml", "model.from=first", "reference.from=adapted", "train.max_steps=2", "output.dir=other"}));
    CHECK(metric(logged(place, "other")[0], "objective/kl") != 0.0);
    // A reward model and a rule together.
    std::string pairs;
    for (int i = 0; i < 20; ++i) pairs += json{{"prompt", "ab>"}, {"chosen", "ab"}, {"rejected", "cc"}}.dump() + "\n";
    place.write("pairs.jsonl", pairs);
    std::string reward = kEcho;
    reward = reward.substr(0, reward.find("[objective]")) + R"([objective]
id = "reward"
[head]
id = "classifier"
num_labels = 1
pooling = "last"
[data]
train = "pairs.jsonl"
[train]
max_steps = 10
context_length = 8
learning_rate = 0.01
eval_steps = 0
[output]
dir = "scorer"
)";
    place.write("reward.toml", reward);
    succeed(place.run({"train", "reward.toml"}));
    place.write("both.toml",
                place.read("grpo.toml") + "[rewards.scorer]\nid = \"model\"\nfrom = \"scorer\"\nclip = 0.5\n");
    succeed(place.run({"train", "both.toml", "train.max_steps=2", "output.dir=both"}));
    steps = logged(place, "both");
    CHECK(metric(steps[0], "reward") ==
          doctest::Approx(metric(steps[0], "rewards/echo/mean") + metric(steps[0], "rewards/scorer/mean")));
    CHECK(std::abs(metric(steps[0], "rewards/scorer/mean")) <= 0.5);
}

TEST_CASE("reinforcement learning: bad input is one error that tells what to do") {
    const Place place;
    write_files(place);
    write_grpo(place);
    const auto refused = [&](Arguments more, const std::string& message) {
        more.insert(more.begin(), {"train", "echo.toml"});
        more.emplace_back("output.dir=none");
        const Ran ran = place.run(more);
        CHECK(ran.status == 1);
        CHECK_MESSAGE(has(ran.err, message), ran.err);
        CHECK_FALSE(place.exists("none"));
    };
    refused({"rollout.top_k=5"}, "rollout.top_k: completions are drawn from the distribution that is trained");
    refused({"rollout.temperatur=5"}, "[rollout] has no key 'temperatur'; did you mean 'temperature'?");
    refused({"rollout.temperature=0"}, "rollout.temperature");
    refused({"rollout.batch=24"}, "rollout.batch = 24 is not a multiple of the 16 rows of a step");
    refused({"rollout.num_generations=3"}, "rollout.batch = 32 is not a multiple of rollout.num_generations = 3");
    refused({"rollout.response_length=6"}, "exceed train.context_length = 8");
    refused({"rollout.stop_token=none", "rollout.missing_eos_penalty=1"}, "rollout.missing_eos_penalty");
    refused({"head.id=lm"}, "set head.id = \"lm+value\"");
    refused({"objective.kl_coef=0", "objective.kl_target=6"}, "kl_target");
    refused({"objective.temperature=2"}, "objective.temperature = 2, and rollout.temperature = 1.0");
    refused({"rewards.echo.column=anser"}, "anser");
    refused({"rewards.echo.id=exact"}, "there is no reward 'exact'");
    refused({"rewards.echo.partiel=true"}, "[rewards.echo] has no key 'partiel'; did you mean 'partial'?");
    refused({"rewards.other.id=model"}, "rewards.other.from: is missing");
    refused({"reference.from=base"}, "this recipe trains no adapter");
    refused({"reference.from=missing"}, "reference.from");
    refused({"teacher.from=missing", "tokenizer.kind=char"}, "missing");
    refused({"train.num_train_epochs=2"}, "set rollout.total_episodes or train.max_steps");
    refused({"objective.id=clm", "head.id=lm"}, "[rewards] is for objectives that learn from completions");
    refused({"model.architecture=bert"}, "architecture 'bert' uses the later ones too");
    const auto grpo = [&](Arguments more, const std::string& message) {
        more.insert(more.begin(), {"train", "grpo.toml"});
        more.emplace_back("output.dir=none");
        const Ran ran = place.run(more);
        CHECK(ran.status == 1);
        CHECK_MESSAGE(has(ran.err, message), ran.err);
    };
    grpo({"rollout.num_generations=1"}, "needs 2 or more");
    grpo({"objective.beta=0", "reference.from=first"}, "needs no reference with these keys");
    place.write("echo.jsonl", R"({"prompt": "a>", "answer": "a"})"
                              "\n"
                              R"({"prompt": "", "answer": "b"})"
                              "\n");
    refused({}, "line 2");
    place.write("echo.jsonl", R"({"prompt": "what?", "answer": "a"})"
                              "\n");
    // No completion can be scored.
    const Ran ran = place.run({"train", "echo.toml", "rewards.echo.id=arithmetic",
                               "rewards.echo.column=", "rollout.response_length=3", "output.dir=none"});
    CHECK(ran.status == 1);
}

} // namespace reinforcement_test
