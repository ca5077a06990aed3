// Small models and data for tests of tasks, from raw files to a score.
#pragma once

#include "program.hpp"

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace hekla::test {

inline constexpr const char* kModel = R"([model]
architecture = "bert"
hidden_size = 16
num_hidden_layers = 2
num_attention_heads = 2
intermediate_size = 32
max_position_embeddings = 32
)";

inline constexpr const char* kTask = R"([objective]
id = "classification"
[head]
id = "classifier"
[data]
train = "train.tsv"
valid = "valid.tsv"
format = "tsv"
columns = ["text", "label"]
[train]
max_steps = 6
context_length = 24
per_device_train_batch_size = 8
learning_rate = 1e-3
eval_steps = 3
save_steps = 2
warmup_steps = 1
[output]
dir = "run"
)";

// A small decoder that completes prompts; [data] follows.
inline constexpr const char* kCompletion = R"([model]
architecture = "gpt2"
n_embd = 16
n_layer = 1
n_head = 2
n_positions = 16
[objective]
id = "completion"
[head]
id = "lm"
[tokenizer]
kind = "char"
[output]
dir = "run"
)";

// A small encoder-decoder that translates translations(); [train] and [output] follow.
inline constexpr const char* kTranslator = R"([model]
architecture = "t5"
d_model = 32
d_kv = 16
d_ff = 64
num_layers = 2
num_heads = 2
dropout_rate = 0.0
[objective]
id = "seq2seq"
[head]
id = "lm"
[data]
train = "pairs.tsv"
valid = "pairs.tsv"
format = "tsv"
columns = ["source", "target"]
[tokenizer]
kind = "words"
vocab_size = 40
)";

// Pairs of numbers and their translations; exchanged: the last is translated first.
inline std::string translations(bool exchanged = false) {
    const char* const numbers[] = {"one", "two", "three", "four", "five"};
    const char* const others[] = {"un", "deux", "trois", "quatre", "cinq"};
    std::string text;
    for (int i = 0; i < 100; ++i) {
        const std::string first = others[i % 5], second = others[i / 5 % 5];
        text += std::string(numbers[i % 5]) + " and " + numbers[i / 5 % 5] + "\t" +
                (exchanged ? second + " et " + first : first + " et " + second) + "\n";
    }
    return text;
}

// Sentences in which one word decides the label.
inline std::string rows(int begin, int end) {
    std::string text;
    for (int i = begin; i < end; ++i) {
        const bool good = i * 7919 % 3 != 0;
        text += "film " + std::string(static_cast<std::size_t>(i % 4), 'x') + (good ? " good " : " bad ") +
                std::to_string(i * 31 % 100) + "\t" + (good ? "positive" : "negative") + "\n";
    }
    return text;
}

inline void write_task(const Place& place) {
    place.write("train.tsv", rows(0, 60));
    place.write("valid.tsv", rows(100, 121));
    place.write("task.toml", std::string(kModel) + kTask);
}

// Returns the lines of a run's log that are steps of its training.
inline std::vector<nlohmann::json> training_steps(const Place& place, const std::string& run) {
    std::istringstream lines(place.read(run + "/train_log.jsonl"));
    std::vector<nlohmann::json> steps;
    for (std::string line; std::getline(lines, line);)
        if (nlohmann::json record = nlohmann::json::parse(line); record.contains("learning_rate"))
            steps.push_back(std::move(record));
    return steps;
}

inline nlohmann::json last_evaluation(const Place& place, const std::string& run) {
    std::istringstream lines(place.read(run + "/train_log.jsonl"));
    nlohmann::json last;
    for (std::string line; std::getline(lines, line);)
        if (nlohmann::json record = nlohmann::json::parse(line); record.contains("eval_loss")) last = std::move(record);
    return last;
}

} // namespace hekla::test
