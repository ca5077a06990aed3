// Reinforcement learning through the program: rewards rise, a stopped run continues with the same bits at every step,
// sums over micro-batches equal those of the whole, and bad input is one clear error.
#include "tasks.hpp"

#include <cmath>
#include <cstring>
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

TEST_CASE("a run that stopped after any step continues with the same bits, inside an iteration and between two" *
          doctest::test_suite("long")) {
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

TEST_CASE("ppo: a value function with a network of its own learns, resumes with the same bits, and is saved apart" *
          doctest::test_suite("long")) {
    const Place place;
    write_files(place);
    const Arguments own{"train",
                        "echo.toml",
                        "head.id=lm",
                        "value.from=policy",
                        "train.max_steps=9",
                        "train.save_steps=1",
                        "train.save_total_limit=20"};
    succeed(place.run(own));
    const std::string trained = place.read("echo/model.safetensors"),
                      values = place.read("echo/value/model.safetensors"),
                      written = place.read("echo/rollouts-3.jsonl");
    const std::vector<json> log = logged(place, "echo", true);
    CHECK(metric(log[0], "values/mean") == 0.0); // its head begins at 0
    CHECK(metric(log[8], "values/mean") != 0.0);
    CHECK(std::abs(metric(log[0], "val/ratio") - 1.0) < 1e-5);
    // Neither in the model nor in a checkpoint is it among the language model's tensors.
    CHECK_FALSE(has(trained, "value."));
    CHECK_FALSE(has(trained, "v_head"));
    CHECK_FALSE(has(place.read("echo/checkpoint-6/model.safetensors"), "value."));
    CHECK(has(values, "v_head.summary.weight"));
    CHECK(has(succeed(place.run({"generate", "echo", "--prompt", "ca>", "--max-new-tokens", "4"})).out, "ca>"));
    succeed(place.run({"inspect", "echo/value"}));
    for (const int stopped : {7, 4, 1}) {
        CAPTURE(stopped);
        for (int step = stopped + 1; step <= 9; ++step)
            fs::remove_all(place.path("echo/checkpoint-" + std::to_string(step)));
        CHECK(has(succeed(place.run(own)).err, "resuming after step " + std::to_string(stopped)));
        CHECK((place.read("echo/model.safetensors") == trained));
        CHECK((place.read("echo/value/model.safetensors") == values));
        CHECK((place.read("echo/rollouts-3.jsonl") == written));
        CHECK((logged(place, "echo", true) == log));
    }
    // The policy begins as one without its own value function does, and another run begins with a trained one.
    succeed(place.run({"train", "echo.toml", "train.max_steps=1", "output.dir=shared"}));
    CHECK(metric(logged(place, "shared")[0], "reward") == metric(log[0], "reward"));
    succeed(place.run({"train", "echo.toml", "head.id=lm", "model.from=echo", "value.from=echo/value",
                       "train.max_steps=2", "output.dir=next"}));
    CHECK(metric(logged(place, "next")[0], "values/mean") != 0.0);
    // A folder's own value head is used; a language model has none, and its begins at 0.
    succeed(place.run({"train", "echo.toml", "head.id=lm", "model.from=echo", "value.from=shared", "train.max_steps=1",
                       "output.dir=head"}));
    CHECK(metric(logged(place, "head")[0], "values/mean") != 0.0);
    succeed(place.run({"train", "echo.toml", "head.id=lm", "model.from=echo", "value.from=echo", "train.max_steps=1",
                       "output.dir=fresh"}));
    CHECK(metric(logged(place, "fresh")[0], "values/mean") == 0.0);
    const auto refused = [&](Arguments more, const std::string& message) {
        more.insert(more.begin(), {"train", "echo.toml"});
        const Ran ran = place.run(more);
        CHECK(ran.status == 1);
        CHECK_MESSAGE(has(ran.err, message), ran.err);
    };
    refused({"value.from=policy", "output.dir=none"}, "head.id = \"lm+value\" is a value function on the policy's");
    refused({"value.from=missing", "head.id=lm", "output.dir=none"}, "value.from: missing");
    refused({"value.from=policy", "head.id=lm", "model.from=echo", "adapter.id=lora", "output.dir=none"},
            "with an adapter the value function shares the frozen network");
    refused({"value.from=policy", "head.id=lm", "objective.id=clm", "rewards.echo=", "output.dir=none"},
            "[value] is for objectives");
    refused({"value.from=policy", "head.id=lm", "prune.from_mask=mask.safetensors", "output.dir=none"},
            "a mask (prune.from_mask) is of one network: remove [value]");
    refused({"head.id=lm+value", "output.dir=echo"}, "head.id");
    place.write("other.jsonl", json{{"prompt", "xyz"}, {"answer", "zz"}}.dump() + "\n");
    succeed(place.run({"train", "echo.toml", "data.train=other.jsonl", "data.valid=other.jsonl", "train.max_steps=1",
                       "output.dir=other"}));
    refused({"value.from=other", "head.id=lm", "output.dir=none"}, "that model has another tokenizer");
    write_grpo(place);
    const Ran grpo = place.run({"train", "grpo.toml", "value.from=policy", "output.dir=none"});
    CHECK_MESSAGE(has(grpo.err, "objective 'grpo' needs no value function"), grpo.err);
}

TEST_CASE("ppo: parameters of a value function with its own network, or of the policy, can be frozen" *
          doctest::test_suite("long")) {
    const Place place;
    write_files(place);
    const auto train = [&](const std::string& freeze, const std::string& steps, const std::string& run) {
        return succeed(
            place.run({"train", "echo.toml", "head.id=lm", "value.from=policy", "rollout.batch=16",
                       "train.freeze=[\"" + freeze + "\"]", "train.max_steps=" + steps, "output.dir=" + run}));
    };
    CHECK(has(train("value.transformer.*", "1", "one").err, "16 of 34 parameters are frozen"));
    train("value.transformer.*", "4", "four");
    const auto tensor = [&](const std::string& run, const std::string& name) {
        const std::string file = place.read(run + "/model.safetensors");
        uint64_t size = 0;
        std::memcpy(&size, file.data(), sizeof size);
        const json at = json::parse(file.substr(8, size)).at(name).at("data_offsets");
        return file.substr(8 + size + at[0].get<std::size_t>(), at[1].get<std::size_t>() - at[0].get<std::size_t>());
    };
    const std::string weight = "transformer.h.0.mlp.c_fc.weight";
    CHECK((tensor("one/value", weight) == tensor("four/value", weight)));
    CHECK((tensor("one/value", "v_head.summary.weight") != tensor("four/value", "v_head.summary.weight")));
    CHECK((tensor("one", weight) != tensor("four", weight)));
    train("body", "1", "first"); // of the policy
    train("body", "4", "fourth");
    CHECK((tensor("first", weight) == tensor("fourth", weight)));
    CHECK((tensor("first/value", weight) != tensor("fourth/value", weight)));
}

TEST_CASE("ppo: text that is mixed in adds its loss, and a weight of 0 changes no bit" * doctest::test_suite("long")) {
    const Place place;
    write_files(place);
    std::string text;
    for (int i = 0; i < 40; ++i) text += i % 3 == 0 ? "abcab>" : "cba>bc";
    place.write("text.txt", text);
    const Arguments short_run{"train", "echo.toml", "train.max_steps=9", "train.save_steps=1",
                              "train.save_total_limit=20"};
    succeed(place.run(joined(short_run, {"output.dir=without"})));
    succeed(place.run(joined(short_run, {"output.dir=zero", "objective.ptx_coef=0", "data.pretrain=text.txt"})));
    CHECK((place.read("zero/model.safetensors") == place.read("without/model.safetensors")));
    const Arguments mixed = joined(short_run, {"output.dir=mixed", "objective.ptx_coef=0.5", "data.pretrain=text.txt"});
    succeed(place.run(mixed));
    const std::string trained = place.read("mixed/model.safetensors");
    const std::vector<json> log = logged(place, "mixed", true), without = logged(place, "without", true);
    for (const json& step : log)
        CHECK(step["loss"].get<double>() == doctest::Approx(step["losses"]["loss/policy_avg"].get<double>() +
                                                            0.5 * step["losses"]["loss/value_avg"].get<double>() +
                                                            0.5 * step["losses"]["loss/ptx"].get<double>())
                                                .epsilon(1e-4));
    // The first rollouts are the same, and so are their losses: rows of text change nothing of theirs.
    for (const char* name : {"loss/policy_avg", "loss/value_avg"})
        CHECK(log[0]["losses"][name].get<double>() ==
              doctest::Approx(without[0]["losses"][name].get<double>()).epsilon(1e-4).scale(1e-2));
    CHECK(std::abs(metric(log[0], "val/ratio") - 1.0) < 1e-5);
    CHECK(log[8]["losses"]["loss/ptx"].get<double>() < log[0]["losses"]["loss/ptx"].get<double>());
    for (const int stopped : {6, 3}) { // inside an iteration
        CAPTURE(stopped);
        for (int step = stopped + 1; step <= 9; ++step)
            fs::remove_all(place.path("mixed/checkpoint-" + std::to_string(step)));
        succeed(place.run(mixed));
        CHECK((place.read("mixed/model.safetensors") == trained));
        CHECK((logged(place, "mixed", true) == log));
    }
    // A temperature divides the logits of completions, not those of texts; micro-batches add up.
    const Arguments warm{"train",
                         "echo.toml",
                         "train.max_steps=2",
                         "objective.ptx_coef=0.5",
                         "data.pretrain=text.txt",
                         "rollout.temperature=0.7"};
    succeed(place.run(joined(warm, {"output.dir=warm"})));
    succeed(place.run(joined(
        warm, {"output.dir=parts", "train.per_device_train_batch_size=4", "train.gradient_accumulation_steps=4"})));
    const std::vector<json> one = logged(place, "warm"), parts = logged(place, "parts");
    CHECK(std::abs(metric(one[0], "val/ratio") - 1.0) < 1e-5);
    CHECK(one[0]["losses"]["loss/ptx"].get<double>() ==
          doctest::Approx(log[0]["losses"]["loss/ptx"].get<double>()).epsilon(1e-4));
    for (std::size_t i = 0; i < 2; ++i)
        CHECK(parts[i]["grad_norm"].get<double>() == doctest::Approx(one[i]["grad_norm"].get<double>()).epsilon(1e-3));
    const auto refused = [&](Arguments more, const std::string& message) {
        more.insert(more.begin(), {"train", "echo.toml"});
        more.emplace_back("output.dir=none");
        const Ran ran = place.run(more);
        CHECK(ran.status == 1);
        CHECK_MESSAGE(has(ran.err, message), ran.err);
    };
    refused({"objective.ptx_coef=0.5"}, "set data.pretrain to its files");
    refused({"objective.ptx_coef=-1"}, "ptx_coef");
    refused({"objective.ptx_coef=0.5", "data.pretrain=none.txt"}, "none.txt");
    place.write("short.txt", "abc");
    refused({"objective.ptx_coef=0.5", "data.pretrain=short.txt"}, "the text has 3 tokens, and a row needs 9");
    write_grpo(place);
    const Ran grpo = place.run({"train", "grpo.toml", "data.pretrain=text.txt", "output.dir=none"});
    CHECK_MESSAGE(has(grpo.err, "objective 'grpo' reads none"), grpo.err);
}

TEST_CASE("grpo: every kind of loss is the same for one large batch and for micro-batches" *
          doctest::test_suite("long")) {
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

TEST_CASE("references and rewards: a folder, the network without its adapter, a reward model" *
          doctest::test_suite("long")) {
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
    const Ran writes = place.run({"train", "both.toml", "rewards.scorer.from=first", "output.dir=none"});
    CHECK(writes.status == 1);
    CHECK_MESSAGE(has(writes.err,
                      "rewards.scorer.from: first: gives a text no number and no class, expected a model that "
                      "gives a text one number"),
                  writes.err);
}

TEST_CASE("preferences: pairs and rankings of a model's own completions, by a reward") {
    const Place place;
    write_files(place);
    succeed(place.run({"train", "echo.toml", "train.max_steps=8", "output.dir=first"}));
    const Arguments sampled{"preferences",  "first", "--prompts",        "echo.jsonl", "--reward",
                            "exact_match",  "--set", "column=answer",    "--set",      "partial=true",
                            "--per-prompt", "8",     "--max-new-tokens", "4"};
    const Ran ran = succeed(place.run(joined(sampled, {"-o", "pairs.jsonl"})));
    CHECK_MESSAGE(has(ran.out, "pairs of 9 prompts"), ran.out);
    const auto lines_of = [&](const std::string& file) {
        std::istringstream lines(place.read(file));
        std::vector<json> all;
        for (std::string line; std::getline(lines, line);) all.push_back(json::parse(line));
        return all;
    };
    const std::vector<json> pairs = lines_of("pairs.jsonl");
    REQUIRE(pairs.size() > 0);
    for (const json& pair : pairs) {
        CHECK(pair["prompt"].get<std::string>().size() == 3);
        CHECK(pair["chosen"] != pair["rejected"]);
        CHECK(pair["chosen_score"].get<double>() > pair["rejected_score"].get<double>());
    }
    // The same draws again, and more pairs of them.
    succeed(place.run(joined(sampled, {"-o", "again.jsonl"})));
    CHECK((place.read("again.jsonl") == place.read("pairs.jsonl")));
    const Ran printed = succeed(place.run(joined(sampled, {"-o", "-"})));
    CHECK((printed.out == place.read("pairs.jsonl")));
    CHECK_MESSAGE(has(printed.err, "pairs of 9 prompts"), printed.err);
    CHECK(!place.exists("-"));
    succeed(place.run(joined(sampled, {"-o", "all.jsonl", "--all-pairs"})));
    CHECK(lines_of("all.jsonl").size() > pairs.size());
    succeed(place.run(joined(sampled, {"-o", "rankings.jsonl", "--rankings"})));
    for (const json& one : lines_of("rankings.jsonl")) {
        REQUIRE(one["ranking"].size() >= 2);
        for (std::size_t i = 1; i < one["scores"].size(); ++i)
            CHECK(one["scores"][i - 1].get<double>() > one["scores"][i].get<double>());
    }
    // Objectives read what is written.
    std::string recipe = kEcho;
    recipe = recipe.substr(0, recipe.find("[objective]")) + R"([objective]
id = "orpo"
[data]
train = "pairs.jsonl"
valid = "pairs.jsonl"
[train]
max_steps = 2
context_length = 8
[output]
dir = "learned"
)";
    place.write("orpo.toml", recipe);
    succeed(place.run({"train", "orpo.toml"}));
    const auto refused = [&](Arguments more, const std::string& message) {
        const Ran bad = place.run(joined(joined(sampled, {"-o", "none.jsonl"}), more));
        CHECK(bad.status != 0);
        CHECK_MESSAGE(has(bad.err, message), bad.err);
        CHECK_FALSE(place.exists("none.jsonl"));
    };
    refused({"--set", "column=anser"}, "anser");
    refused({"--set", "partiel=true"}, "partiel");
    refused({"--set", "partial"}, "expected KEY=VALUE");
    refused({"--margin", "5"}, "no completion is better than another one");
    refused({"--rankings", "--all-pairs"}, "remove one");
    const auto other = [&](Arguments given, const std::string& message) {
        const Ran bad = place.run(joined(given, {"-o", "none.jsonl"}));
        CHECK(bad.status == 1);
        CHECK_MESSAGE(has(bad.err, message), bad.err);
    };
    other({"preferences", "first", "--prompts", "echo.jsonl", "--reward", "exact"}, "there is no reward 'exact'");
    other({"preferences", "nothing", "--prompts", "echo.jsonl", "--reward", "length", "--set", "target=2"}, "nothing");
    other({"preferences", "first", "--prompts", "echo.jsonl", "--reward", "length", "--set", "target=2",
           "--max-new-tokens", "14"},
          "echo.jsonl: line 1: a prompt of 3 tokens and a completion of 14 exceed the model's 16 positions");
    other({"preferences", "first", "--prompts", "echo.jsonl", "--reward", "length"},
          "--set: rewards.length: the key 'target' is missing");
    const auto elsewhere = [&](const std::string& output, const std::string& message) {
        const Ran bad = place.run(joined(sampled, {"-o", output}));
        CHECK(bad.status == 1);
        CHECK_MESSAGE(has(bad.err, message), bad.err);
        CHECK_FALSE(has(bad.err, "llvmpipe")); // before a device is created
    };
    elsewhere("nowhere/pairs.jsonl", "-o nowhere/pairs.jsonl: the folder nowhere does not exist: make it first");
    elsewhere("first", "-o 'first': expected the name of a file");
    place.write("empty.jsonl", "{\"prompt\": \"ab>\"}\n{\"prompt\": \"\"}\n");
    other({"preferences", "first", "--prompts", "empty.jsonl", "--reward", "length", "--set", "target=2"}, "line 2");
}

TEST_CASE("frontier: a reward over the divergence, of a run, of models and of the best of n") {
    const Place place;
    write_files(place);
    succeed(place.run({"train", "echo.toml", "train.max_steps=8", "output.dir=first"}));
    const Arguments gold{"model.from=first", "rewards.gold.id=length", "rewards.gold.target=2",
                         "rewards.gold.weight=0"};
    succeed(place.run(joined(joined({"train", "echo.toml"}, gold), {"train.max_steps=8", "output.dir=ppo"})));
    const Arguments draw = joined({"frontier", "echo.toml"}, gold);
    const Ran ran = succeed(place.run(joined(draw, {"--gold", "gold", "--run", "ppo", "--run",
                                                    "same=first/checkpoint-8", "--best-of", "4", "-o", "front"})));
    CHECK_MESSAGE(has(ran.out, "best of 4"), ran.out);
    const json all = json::parse(place.read("front/frontier.json"));
    REQUIRE(all["series"].size() == 3);
    const std::vector<json> log = logged(place, "ppo");
    const json &run = all["series"][0]["points"], &same = all["series"][1]["points"],
               &best = all["series"][2]["points"];
    REQUIRE(run.size() == 2); // iterations of 4 steps
    CHECK(run[0]["kl"].get<double>() == metric(log[0], "objective/kl"));
    CHECK(run[1]["gold"].get<double>() == metric(log[4], "rewards/gold/mean"));
    CHECK(same[0]["kl"].get<double>() == 0.0); // the reference itself
    CHECK(same[0]["texts"].get<int>() == 9);
    REQUIRE(best.size() == 2);
    CHECK(best[0]["kl"].get<double>() == 0.0);
    CHECK(best[1]["kl"].get<double>() == doctest::Approx(std::log(4.0) - 0.75));
    CHECK(best[1]["trained"].get<double>() >= best[0]["trained"].get<double>());
    CHECK(has(place.read("front/frontier.svg"), "square root of the KL divergence"));
    const auto refused = [&](Arguments more, const std::string& message) {
        const Ran bad = place.run(joined(draw, joined(more, {"-o", "none"})));
        CHECK(bad.status == 1);
        CHECK_MESSAGE(has(bad.err, message), bad.err);
        CHECK_FALSE(place.exists("none"));
    };
    refused({"--gold", "golden", "--run", "ppo"}, "has no [rewards.golden]; it has echo, gold");
    refused({"--gold", "gold"}, "give --run FOLDER or --best-of N");
    refused({"--gold", "gold", "--run", "first"}, "has no 'rewards/gold/mean'");
    refused({"--gold", "gold", "--run", "nowhere"}, "there is no folder nowhere");
    refused({"--gold", "gold", "--run", "ppo", "--run", "ppo"}, "another run has the name 'ppo'");
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
    refused({"rewards.other.id=model"}, "rewards.other: the key 'from' is missing");
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
