// kill -9 while a model learns from its own completions: while it writes them, between the parts of an iteration,
// inside an epoch, and while a checkpoint is written. The training resumes and ends with the bits of an undisturbed
// one.
#include "cases.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

using namespace hekla::test;

namespace rollout_kill_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const char* const kRecipe = R"([model]
architecture = "gpt2"
n_layer = 1
n_head = 2
n_embd = 16
n_positions = 16
[objective]
id = "ppo"
num_ppo_epochs = 2
kl_target = 1.0
[head]
id = "lm+value"
[rollout]
batch = 32
response_length = 6
local_rollout_forward_batch_size = 8
[rewards.echo]
id = "exact_match"
column = "answer"
partial = true
[data]
valid_fraction = 0.0
train = "echo.jsonl"
[tokenizer]
kind = "char"
[train]
per_device_train_batch_size = 8
gradient_accumulation_steps = 2
context_length = 10
max_steps = 16
eval_steps = 0
save_steps = 1
save_total_limit = 3
)";

void write_files(const TestFolder& folder) {
    folder.write("echo.jsonl", echo_rows());
    folder.write("recipe.toml", kRecipe);
}

std::vector<std::string> arguments(const std::string& dir) { return {"train", "recipe.toml", "output.dir=" + dir}; }

// What a run has made: its weights, its log without times, and the newest completions.
std::string made(const TestFolder& folder, const std::string& dir) {
    std::string all = folder.read(dir + "/model.safetensors") + folder.read(dir + "/rollouts-4.jsonl");
    std::istringstream lines(folder.read(dir + "/train_log.jsonl"));
    for (std::string line; std::getline(lines, line);) {
        json record = json::parse(line);
        for (const char* key : {"seconds", "tokens_per_second"}) record.erase(key);
        for (const char* part : {"generate", "likelihood", "reward"})
            record["metrics"].erase(std::string("rollout/") + part + "_seconds");
        all += record.dump() + "\n";
    }
    return all;
}

void survives(int kills) {
    const TestFolder folder;
    write_files(folder);
    succeeds(run(folder, arguments("undisturbed")));
    const auto begin_time = std::chrono::steady_clock::now();
    succeeds(run(folder, arguments("timed")));
    const double whole = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_time).count();
    const std::string expected = made(folder, "undisturbed");
    CHECK(made(folder, "timed") == expected);
    double latest = whole; // moment of a kill, in seconds: adapts to other load of the machine

    std::mt19937 random(20261126);
    int killed = 0, resumed = 0, ended = 0;
    while (killed < kills) {
        REQUIRE(ended < 4 * kills + 8); // the kills come too late
        Process process(folder, arguments("run"));
        wait_between(random, 0.1 * latest, latest);
        process.send(SIGKILL);
        const Ran one = process.wait();
        CAPTURE(one.err);
        CHECK(!has(one.err, "error"));
        if (has(one.err, "resuming after step")) ++resumed;
        const bool kill = one.status == 128 + SIGKILL;
        CHECK((kill || one.status == 0));
        if (kill) {
            ++killed;
            latest *= 1.05;
            continue;
        }
        ++ended;
        latest = std::max(0.1, 0.8 * latest);
        CHECK(made(folder, "run") == expected);
        fs::remove_all(folder / "run");
    }
    MESSAGE(killed, " kills, ", resumed, " resumed, ", ended, " ended in between; ", whole, " s for a run");
    if (kills >= 10) CHECK(resumed > 0);
    succeeds(run(folder, arguments("run")));
    CHECK(made(folder, "run") == expected);
}

} // namespace

TEST_SUITE("long") {
    TEST_CASE("a run with rollouts killed fifty times") { survives(50); }
}

} // namespace rollout_kill_test
