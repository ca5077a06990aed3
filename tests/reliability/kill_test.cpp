// kill -9 at random moments of a training: every restart resumes, and the result equals that of an undisturbed run, bit
// for bit.
#include "cases.hpp"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>
#include <sys/wait.h>
#include <thread>

using namespace hekla::test;
using nlohmann::json;

namespace fs = std::filesystem;

namespace {

// Step -> losses as text, since equal text means equal bits.
std::map<int64_t, std::string> losses_of(const std::string& log) {
    std::map<int64_t, std::string> losses;
    for (std::size_t begin = 0; begin < log.size(); begin = log.find('\n', begin) + 1) {
        const json record = json::parse(log.substr(begin, log.find('\n', begin) - begin));
        std::string& line = losses[record["step"].get<int64_t>()];
        for (const char* key : {"loss", "grad_norm", "learning_rate", "eval_loss"})
            if (record.contains(key)) line += std::string(key) + "=" + record[key].dump() + " ";
    }
    return losses;
}

bool is_temporary(const std::string& name) { return has(name, ".tmp") || has(name, ".old-"); }

void survives(int kills, int steps, int save_steps) {
    const TestFolder folder;
    begin(folder);
    const std::vector<std::string> arguments{"train",
                                             "recipe.toml",
                                             "train.max_steps=" + std::to_string(steps),
                                             "train.save_steps=" + std::to_string(save_steps),
                                             "train.eval_steps=" + std::to_string(3 * save_steps),
                                             "train.save_total_limit=2"};
    std::vector<std::string> undisturbed = arguments;
    undisturbed.push_back("output.dir=undisturbed");
    succeeds(run(folder, undisturbed)); // compiles the kernels
    fs::remove_all(folder / "undisturbed");
    const auto begin_time = std::chrono::steady_clock::now();
    succeeds(run(folder, undisturbed));
    const double whole = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_time).count();

    // A run is killed after a random time, but not before it can have started, since it would never make progress.
    std::mt19937 random(20240607);
    int killed = 0, ended = 0, resumed = 0;
    while (killed < kills) {
        REQUIRE(ended < kills); // the kills come too late
        Process process(folder, arguments);
        wait_between(random, 0.02, std::max(0.1, whole));
        process.send(SIGKILL);
        const Ran one = process.wait();
        CAPTURE(one.err);
        CHECK(!has(one.err, "error"));
        if (has(one.err, "resuming after step")) ++resumed;
        if (one.status == 128 + SIGKILL) {
            ++killed;
        } else {
            REQUIRE(one.status == 0);
            ++ended; // it finished before the kill: start over
            CHECK(folder.read("run/model.safetensors") == folder.read("undisturbed/model.safetensors"));
            fs::remove_all(folder / "run");
        }
    }
    const Ran last = run(folder, arguments);
    succeeds(last);
    MESSAGE(killed, " kills, ", resumed, " resumed, ", ended, " ended in between; a whole run takes ", whole, " s");
    if (kills >= 10) CHECK(resumed > 0);

    CHECK(losses_of(folder.read("run/train_log.jsonl")) == losses_of(folder.read("undisturbed/train_log.jsonl")));
    CHECK(losses_of(folder.read("run/train_log.jsonl")).size() == static_cast<std::size_t>(steps));
    const std::string final_checkpoint = "checkpoint-" + std::to_string(steps);
    for (const std::string& file : {std::string("model.safetensors"), final_checkpoint + "/model.safetensors",
                                    final_checkpoint + "/optimizer.safetensors", std::string("best")}) {
        CAPTURE(file);
        CHECK(folder.exists("undisturbed/" + file));
        CHECK(folder.read("run/" + file) == folder.read("undisturbed/" + file));
    }
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder / "run")) {
        CAPTURE(entry.path().string());
        CHECK(!is_temporary(entry.path().filename().string()));
    }
}

} // namespace

TEST_CASE("killed three times") { survives(3, 60, 5); }

TEST_SUITE("long") {
    TEST_CASE("killed fifty times") { survives(50, 300, 10); }
}

TEST_CASE("the first Ctrl+C saves a checkpoint that a run resumes from") {
    const TestFolder folder;
    begin(folder);
    const std::vector<std::string> arguments{"train", "recipe.toml", "train.max_steps=100000", "train.save_steps=0",
                                             "train.eval_steps=0"};
    Process process(folder, arguments);
    wait_for_step(folder, process, 3);
    process.send(SIGINT);
    const Ran stopped = process.wait();
    CAPTURE(stopped.err);
    CHECK(stopped.status == 128 + SIGINT); // so that a script does not continue as if the training were complete
    CHECK(has(stopped.err, "stopped after step"));
    const std::string log = folder.read("run/train_log.jsonl");
    const int64_t step = json::parse(log.substr(log.rfind('{')))["step"];
    CHECK(folder.exists("run/checkpoint-" + std::to_string(step) + "/MANIFEST.json"));
    const Ran on = train(folder, {"train.max_steps=" + std::to_string(step + 2), "train.eval_steps=0"});
    succeeds(on);
    CHECK(has(on.err, "resuming after step " + std::to_string(step)));
}

TEST_CASE("SIGTERM and SIGHUP save a checkpoint too, and the exit status names the signal") {
    const TestFolder folder;
    begin(folder);
    for (const int signal : {SIGTERM, SIGHUP}) {
        CAPTURE(signal);
        const std::string dir = "signal-" + std::to_string(signal);
        Process process(folder, {"train", "recipe.toml", "train.max_steps=100000", "train.save_steps=0",
                                 "train.eval_steps=0", "output.dir=" + dir});
        wait_for_step(folder, process, 3, dir);
        process.send(signal);
        const Ran stopped = process.wait();
        CAPTURE(stopped.err);
        CHECK(stopped.status == 128 + signal);
        CHECK(has(stopped.err, "stopped after step"));
        const std::string log = folder.read(dir + "/train_log.jsonl");
        const int64_t step = json::parse(log.substr(log.rfind('{')))["step"];
        CHECK(folder.exists(dir + "/checkpoint-" + std::to_string(step) + "/MANIFEST.json"));
    }
}

TEST_CASE("a closed output does not end a training") {
    const TestFolder folder;
    begin(folder);
    // Standard output and error are a pipe whose reader ends after the first line.
    const std::string command =
        "cd '" + folder.path().string() + "' && XDG_DATA_HOME=. ; export XDG_DATA_HOME; { '" + HEKLA_PROGRAM +
        "' train recipe.toml train.max_steps=30 --json 2>&1; echo $? > status; }" + " | head -n 1 > first";
    REQUIRE(std::system(command.c_str()) == 0);
    CHECK(folder.read("status") != "141\n"); // 128 + SIGPIPE
    CHECK(!folder.read("first").empty());
    CHECK(folder.exists("run/checkpoint-30/MANIFEST.json"));
    CHECK(folder.exists("run/model.safetensors"));
}

TEST_CASE("a signal ends the reading of a large table") {
    const TestFolder folder;
    begin(folder);
    std::string rows = "text\tlabel\n";
    for (int64_t i = 0; i < 700'000; ++i)
        rows += "line " + std::to_string(i * 7919 % 100000) + " of a text\t" + (i % 2 == 0 ? "a\n" : "b\n");
    folder.write("rows.tsv", rows);
    Process process(folder, {"train", "recipe.toml", "data.train=rows.tsv", "objective.id=classification",
                             "head.id=classification", "tokenizer.kind=words"});
    REQUIRE(process.wait_until_handled(SIGTERM));
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    REQUIRE(process.running());
    CHECK(!folder.exists("run/train_log.jsonl"));
    process.send(SIGTERM);
    const Ran stopped = process.wait();
    CAPTURE(stopped.err);
    CHECK(stopped.status == 128 + SIGTERM);
    CHECK(has(stopped.err, "stopped before the first step"));
    CHECK(!folder.exists("run"));
}

TEST_CASE("a signal ends a prediction while it reads a large table") {
    const TestFolder folder;
    begin(folder);
    folder.write("train.tsv", "text\tlabel\na line\ta\nsome text\tb\nline of text\ta\n");
    folder.write("recipe.toml", R"([model]
architecture = "bert"
hidden_size = 16
num_hidden_layers = 1
num_attention_heads = 2
intermediate_size = 32
max_position_embeddings = 32
[objective]
id = "classification"
[head]
id = "classifier"
[data]
valid_fraction = 0.0
train = "train.tsv"
[tokenizer]
kind = "words"
[train]
max_steps = 1
context_length = 16
eval_steps = 0
[output]
dir = "run"
)");
    succeeds(train(folder));
    std::string rows = "text\n";
    for (int64_t i = 0; i < 700'000; ++i) rows += "line " + std::to_string(i * 7919 % 100000) + " of a text\n";
    folder.write("rows.tsv", rows);
    for (const int signal : {SIGINT, SIGTERM}) {
        Process process(folder, {"predict", "run", "--file", "rows.tsv"});
        REQUIRE(process.wait_until_handled(signal));
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
        REQUIRE(process.running());
        process.send(signal);
        const Ran stopped = process.wait();
        CAPTURE(stopped.err);
        CHECK(stopped.status == 128 + signal);
        CHECK(has(stopped.err, "stopped while reading data"));
        CHECK(stopped.out.empty());
    }
}

TEST_CASE("a signal ends preferences without a file, and the same command makes it again") {
    const TestFolder folder;
    begin(folder);
    succeeds(train(folder, {"train.max_steps=1", "train.eval_steps=0"}));
    folder.write("prompts.jsonl", "{\"prompt\": \"line\"}\n{\"prompt\": \"text\"}\n");
    const auto command = [](const char* per_prompt) {
        return std::vector<std::string>{
            "preferences",   "run",      "--prompts",    "prompts.jsonl", "--reward", "exact_match",      "--set",
            "column=prompt", "--set",    "partial=true", "--stop-token",  "none",     "--max-new-tokens", "8",
            "--per-prompt",  per_prompt, "-o",           "pairs.jsonl"};
    };
    Process process(folder, command("60000"));
    for (int i = 0; i < 3000 && process.running() && !has(process.errors(), "hekla: "); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(10)); // the device is there
    REQUIRE(process.wait_until_handled(SIGINT));
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    REQUIRE(process.running());
    process.send(SIGINT);
    const Ran stopped = process.wait();
    CAPTURE(stopped.err);
    CHECK(stopped.status == 128 + SIGINT);
    CHECK(has(stopped.err, "; pairs.jsonl is not written: the same command makes it from the beginning"));
    CHECK(stopped.out.empty());
    for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
        CHECK_MESSAGE(!has(entry.path().filename().string(), "pairs"), entry.path().string());
    succeeds(run(folder, command("64")));
    const std::string whole = folder.read("pairs.jsonl");
    CHECK(!whole.empty());
    succeeds(run(folder, command("64"))); // it is replaced
    CHECK(folder.read("pairs.jsonl") == whole);
}

TEST_CASE("a signal ends the training of a tokenizer, and its folder is not written") {
    const TestFolder folder;
    std::string text;
    for (int64_t i = 0; i < 2'000'000; ++i)
        text += "line " + std::to_string(i * 7919 % 1'000'003) + " of a text that is long enough.\n";
    folder.write("large.txt", text);
    folder.write("small.txt", text.substr(0, 2'000'000));
    const auto stops = [&](const char* kind, const char* file, const char* awaited) {
        CAPTURE(kind);
        Process process(folder, {"tokenize", "train", "--kind", kind, "--vocab-size", "8000", file, "-o", "t"});
        for (int i = 0; i < 3000 && process.running() && !has(process.errors(), awaited); ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        REQUIRE(process.wait_until_handled(SIGINT));
        process.send(SIGINT);
        const Ran stopped = process.wait();
        CAPTURE(stopped.err);
        CHECK(stopped.status == 128 + SIGINT);
        CHECK(has(stopped.err, "hekla: error: stopped "));
        CHECK(!folder.exists("t"));
        return stopped.err;
    };
    stops("bpe", "large.txt", "");
    CHECK(!has(stops("unigram", "large.txt", ""), "optimizes"));
    stops("unigram", "small.txt", "SentencePiece optimizes its pieces; ");
}

TEST_CASE("a collate that never returns: it is named, and a signal saves and ends without it") {
    const TestFolder folder;
    begin(folder);
    Process process(folder, {"--plugin-path", HEKLA_BROKEN_PLUGINS, "train", "recipe.toml",
                             "objective.id=hangs_in_collate", "train.save_steps=0", "train.eval_steps=0"});
    wait_for_step(folder, process, 6); // 24 examples
    for (int i = 0; i < 6000 && !has(process.errors(), "waiting for collate()"); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    process.send(SIGTERM);
    const Ran stopped = process.wait();
    CAPTURE(stopped.err);
    CHECK(stopped.status == 128 + SIGTERM);
    CHECK(has(stopped.err, "waiting for collate() of objective 'hangs_in_collate'"));
    CHECK(has(stopped.err, "hangs_in_collate.so"));
    CHECK(has(stopped.err, "plugins.isolate = true"));
    CHECK(folder.exists("run/checkpoint-6/MANIFEST.json"));
}

TEST_CASE("Ctrl+C ends generation with the text so far, and is not a failure") {
    const TestFolder folder;
    begin(folder);
    succeeds(train(folder, {"model.n_positions=40000", "train.max_steps=1", "train.eval_steps=0"}));
    for (const char* beams : {"1", "2"}) {
        Process process(folder,
                        {"generate", "run", "--prompt", "of a text", "--max-new-tokens", "39000", "--beams", beams});
        REQUIRE(process.wait_until_handled(SIGINT));
        std::this_thread::sleep_for(std::chrono::seconds(3));
        REQUIRE(process.running());
        process.send(SIGINT);
        const Ran stopped = process.wait();
        CAPTURE(stopped.err);
        CHECK(stopped.status == 0);
        CHECK(stopped.out.starts_with("of a text"));
        CHECK(has(stopped.err, "stopped after "));
    }
}

TEST_CASE("the second Ctrl+C exits immediately") {
    const TestFolder folder;
    begin(folder);
    // A step takes about a minute: the first Ctrl+C waits for it, the second does not.
    Process process(folder, {"train", "recipe.toml", "train.gradient_accumulation_steps=100000", "train.eval_steps=0"});
    for (int i = 0; i < 12000 && process.running() && !folder.exists("run/train_log.jsonl"); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    REQUIRE(process.running());
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    process.send(SIGINT);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    CHECK(process.running());
    process.send(SIGINT);
    CHECK(process.wait(5.0).status == 128 + SIGINT);
}

TEST_CASE("two trainings in one folder: the second is rejected, the first continues") {
    const TestFolder folder;
    begin(folder);
    Process first(folder, {"train", "recipe.toml", "train.max_steps=100000", "train.eval_steps=0"});
    wait_for_step(folder, first, 2);
    fails(train(folder), {"run", "another training", "process " + std::to_string(first.id()), "[output] dir"});
    CHECK(first.running());
    first.send(SIGINT);
    CHECK(first.wait().status == 128 + SIGINT);
}
