// The small training that these tests kill, starve of resources and feed with invalid data.
#pragma once

#include "support/program.hpp"

#include <algorithm>
#include <chrono>
#include <doctest/doctest.h>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <vector>

namespace hekla::test {

inline constexpr const char* kRecipe = R"([model]
architecture = "gpt2"
n_layer = 1
n_head = 2
n_embd = 16
n_positions = 16
resid_pdrop = 0.1
[data]
train = "text.txt"
[tokenizer]
kind = "char"
[train]
max_steps = 12
context_length = 16
per_device_train_batch_size = 4
eval_steps = 6
eval_batches = 2
save_steps = 4
warmup_steps = 2
[output]
dir = "run"
)";

inline std::string some_text(int lines = 80) {
    std::string text;
    for (int i = 0; i < lines; ++i)
        text += "line " + std::to_string(i * 7919 % 1000) + " of a text that is long enough.\n";
    return text;
}

// Prompts of two letters whose right completion repeats them, as JSON lines.
inline std::string echo_rows() {
    std::string rows;
    for (const char a : {'a', 'b', 'c'})
        for (const char b : {'a', 'b', 'c'}) {
            const std::string word{a, b};
            rows += nlohmann::json{{"prompt", word + ">"}, {"answer", word}}.dump() + "\n";
        }
    return rows;
}

inline void begin(const TestFolder& folder) {
    folder.write("text.txt", some_text());
    folder.write("recipe.toml", kRecipe);
}

inline Ran train(const TestFolder& folder, std::vector<std::string> overrides = {}, const Surroundings& around = {}) {
    overrides.insert(overrides.begin(), {"train", "recipe.toml"});
    return run(folder, overrides, around);
}

// Lists what is in a folder, sorted, with sizes and times: an equal list means that nothing changed.
inline std::string listing(const std::filesystem::path& folder) {
    namespace fs = std::filesystem;
    if (!fs::exists(folder)) return "nothing";
    std::vector<std::string> lines;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
        struct stat info {};
        REQUIRE(::lstat(entry.path().c_str(), &info) == 0);
        if (S_ISDIR(info.st_mode)) {
            lines.push_back(entry.path().string() + "/");
            continue;
        }
        if (entry.path().filename() == ".lock") continue; // contains the last process
        lines.push_back(entry.path().string() + " " + std::to_string(info.st_size) + " " +
                        std::to_string(info.st_mtim.tv_sec) + "." + std::to_string(info.st_mtim.tv_nsec));
    }
    std::ranges::sort(lines);
    std::string all;
    for (const std::string& line : lines) all += line + "\n";
    return all;
}

// Waits a random time between two, in seconds.
inline void wait_between(std::mt19937& random, double from, double to) {
    std::this_thread::sleep_for(
        std::chrono::duration<double>(std::uniform_real_distribution<double>(from, to)(random)));
}

// Returns whether a training has made its last checkpoint.
inline bool is_finished(const TestFolder& folder, const std::string& dir, int steps) {
    return folder.exists(dir + "/checkpoint-" + std::to_string(steps));
}

inline int count_of(const std::string& text, const std::string& part) {
    int count = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
    return count;
}

// Checks for exit status 1 and one error, last in the output, with these parts: one line, or a list indented below it.
inline void fails(const Ran& ended, std::initializer_list<std::string> parts) {
    CAPTURE(ended.err);
    CAPTURE(ended.out);
    CHECK(ended.status == 1);
    CHECK(count_of(ended.err, "hekla: error: ") == 1);
    const std::size_t at = ended.err.find("hekla: error: ");
    REQUIRE(at != std::string::npos);
    const std::string line = ended.err.substr(at);
    for (std::size_t end = line.find('\n'); end + 1 < line.size(); end = line.find('\n', end + 1))
        CHECK(line[end + 1] == ' ');
    for (const std::string& part : parts) {
        CAPTURE(part);
        CHECK(has(line, part));
    }
    MESSAGE(line);
}

inline void succeeds(const Ran& ended) {
    CAPTURE(ended.err);
    CAPTURE(ended.out);
    REQUIRE(ended.status == 0);
}

// Waits until the run's log contains this step.
inline void wait_for_step(const TestFolder& folder, Process& process, int step, const std::string& dir = "run") {
    const std::string line = "{\"step\":" + std::to_string(step) + ",";
    for (int i = 0; i < 12000 && process.running(); ++i) {
        if (has(folder.read(dir + "/train_log.jsonl"), line)) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    CAPTURE(process.wait(0).err);
    FAIL("the training did not get there");
}

// Everything of a run that may depend on the number of ranks, and must not: what the log has of losses, and the files.
inline std::string outcome(const TestFolder& folder, const std::string& dir, int steps) {
    std::string text;
    const std::string log = folder.read(dir + "/train_log.jsonl");
    for (std::size_t begin = 0; begin < log.size(); begin = log.find('\n', begin) + 1) {
        const nlohmann::json record = nlohmann::json::parse(log.substr(begin, log.find('\n', begin) - begin));
        for (const char* key :
             {"step", "loss", "losses", "metrics", "grad_norm", "eval_loss", "eval_bleu", "eval_chrf", "skipped"})
            if (record.contains(key)) text += std::string(key) + " " + record[key].dump() + "\n";
    }
    const std::string checkpoint = dir + "/checkpoint-" + std::to_string(steps);
    for (const std::string& name :
         {dir + "/model.safetensors", checkpoint + "/model.safetensors", checkpoint + "/optimizer.safetensors"}) {
        CHECK(folder.exists(name));
        text += folder.read(name);
    }
    return text;
}

} // namespace hekla::test
