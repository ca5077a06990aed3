// A recipe: one TOML file that says everything of a run, with the reference trainers' names where they have one.
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace hekla::train {

struct ModelSection {
    std::string architecture;                         // a plugin's id
    std::string from;                                 // or a model folder, whose weights the run begins with
    nlohmann::json config = nlohmann::json::object(); // every other key of [model]: the architecture's
};

struct PluginSection {
    std::string id;
    nlohmann::json config = nlohmann::json::object(); // every other key
};

struct DataSection {
    std::vector<std::string> train; // files, folders, patterns
    std::vector<std::string> valid; // empty: the end of train
    double valid_fraction = 0.1;    // of the tokens, where valid is empty
    std::string format = "text";
    std::string order = "random"; // "random" windows with replacement, or "shuffle": each once an epoch
    std::string cache;            // folder of token files; empty: <output>/cache
};

struct TokenizerSection {
    std::string kind = "char"; // "char", "bpe" (trained on the data), or "from"
    int64_t vocab_size = 4096;
    std::string from; // a folder or tokenizer.json
};

struct TrainSection {
    int64_t max_steps = 1000;
    double learning_rate = 1e-3;
    double min_learning_rate = 0.0;
    std::string lr_scheduler_type = "cosine"; // cosine, linear, constant, inverse_sqrt
    int64_t warmup_steps = 0;
    double warmup_ratio = 0.0;   // of max_steps, where warmup_steps is 0
    std::string optim = "adamw"; // adamw, sgd
    double weight_decay = 0.1;
    double adam_beta1 = 0.9;
    double adam_beta2 = 0.95;
    double adam_epsilon = 1e-8;
    double momentum = 0.9;      // sgd
    double max_grad_norm = 1.0; // 0: no clipping
    int64_t per_device_train_batch_size = 8;
    int64_t per_device_eval_batch_size = 0; // 0: as training
    int64_t gradient_accumulation_steps = 1;
    int64_t context_length = 64;
    int64_t eval_steps = 250;  // 0: never
    int64_t eval_batches = 50; // 0: the whole validation text, once
    int64_t save_steps = 500;  // 0: only at the end
    int64_t save_total_limit = 3;
    int64_t logging_steps = 10;
    int64_t seed = 1337;
    int64_t max_bad_steps = 5; // skipped in a row before the run stops
    bool gradient_checkpointing = false;
    bool bf16 = false, fp16 = false; // what matrix products read is stored so; sums and updates stay float32
};

struct OutputSection {
    std::string dir;
};

struct Recipe {
    std::filesystem::path file; // for messages; empty for one made in memory
    ModelSection model;
    PluginSection objective{"clm", nlohmann::json::object()};
    PluginSection head{"lm", nlohmann::json::object()};
    DataSection data;
    TokenizerSection tokenizer;
    TrainSection train;
    OutputSection output;
};

// Reads a recipe and applies overrides ("train.max_steps=100", values as in TOML; a bare word is a text). Errors name
// file, line and key, what was expected, and the nearest known key. Paths in [data] are relative to the current folder.
Result<Recipe> read_recipe(const std::filesystem::path& file, const std::vector<std::string>& overrides = {});
Result<Recipe> parse_recipe(std::string_view text, const std::string& name,
                            const std::vector<std::string>& overrides = {});

// The resolved recipe as TOML, every key written out: reading it gives the same recipe.
std::string write_recipe(const Recipe& recipe);

// "section.key" -> value as TOML, of every key of the resolved recipe: two recipes are compared by these.
std::map<std::string, std::string> recipe_values(const Recipe& recipe);

} // namespace hekla::train
