// A recipe: one TOML file that says everything of a run, with the reference trainers' names where they have one.
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace hekla::train {

struct ModelSection {
    std::string architecture;    // a plugin's id
    std::string from;            // or a model folder, whose weights the run begins with
    std::vector<int64_t> layers; // of `from`, from 0, that the body is made of, in this order; empty: all
    nlohmann::json config = nlohmann::json::object(); // every other key of [model]: the architecture's
};

struct PluginSection {
    std::string id;
    nlohmann::json config = nlohmann::json::object(); // every other key
};

// A model in a folder that the objective learns from: frozen, in the same graph.
struct TeacherSection {
    std::string from; // a run or a model's folder; empty: there is none
};

struct DataSection {
    std::vector<std::string> train; // files, folders, patterns; with format "parallel" a file a column
    std::vector<std::string> valid; // empty: a part of train
    std::vector<std::string> test;  // looked at by `hekla eval --test` alone
    double valid_fraction = 0.1; // where valid is empty: of the tokens, from the end; of a table's rows, by their hash
    std::string format; // of tables: data::ExampleFormat's names; empty: by the first file's name. Else plain text
    // Of tables: the objective's column -> the file's, by name, by number from 1, or (parallel) by place in `train`.
    std::map<std::string, std::string> columns;
    // Of tables: the objective's column -> what is put before each of its texts (T5's "translate English to French: ").
    // Texts that are given to a trained model (predict, generate) are taken as they are.
    std::map<std::string, std::string> prefix;
    std::string group;          // of tables: a column of the files by which `hekla eval` tells scores apart; "": none
    std::optional<bool> header; // of csv and tsv; not given: yes, unless columns are numbers
    std::vector<std::string> labels;      // the classes in the order of their numbers; empty: those that train has
    std::string on_bad = "error";         // "error", or "skip": bad examples are left out, counted and said
    int64_t max_bytes = 1 << 20;          // of an example of a table: a line, a record, a sentence
    std::string documents = "blank_line"; // where a document of plain text ends: data::DocumentEnd's names
    std::string order =
        "random";                // windows: "random" with replacement, or "shuffle": each once an epoch, as rows always
    bool class_balanced = false; // every class is drawn equally often, for training
    std::string cache;           // folder of token files; empty: <output>/cache
};

struct TokenizerSection {
    // Trained on the data: "char", "bpe" (of bytes), "wordpiece", "unigram" (SentencePiece), "words"; or "from"; not
    // given: "from" where the model is, else "char"
    std::string kind;
    int64_t vocab_size = 4096;
    bool lower_case = true;       // wordpiece, words
    std::string from;             // a folder or tokenizer.json
    std::vector<std::string> add; // special tokens put behind those it has; an embedding that is loaded grows with them
    std::map<std::string, std::string> add_roles; // the same with what they are for: "separator" -> "[DELIM]"
};

struct TrainSection {
    int64_t max_steps = 1000;
    double num_train_epochs = 0.0; // above 0: as many steps as these passes over the training data take
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
    int64_t eval_batches = -1; // 0: all of the validation data, once; -1: 50 of plain text, all of a table
    // Which evaluation is the best: "loss", or a score ("accuracy"), of which more is better.
    std::string metric_for_best_model = "loss";
    int64_t early_stopping_patience = 0; // evaluations without a better one before the run ends; 0: never
    // Parameters that stay as they are: patterns of names, "body", "embeddings", "layers:0-3"
    // (train/parameter_rules.hpp).
    std::vector<std::string> freeze;
    double layer_lr_decay = 1.0; // of the learning rate, for every layer that stands behind
    std::vector<std::pair<std::string, double>> learning_rates; // pattern of names -> rate at the peak
    bool group_by_length = false;        // rows of a batch are about as long, and no longer than they need
    bool load_best_model_at_end = false; // the run's folder gets the best checkpoint's weights instead of the last ones
    int64_t save_steps = 500;            // 0: only at the end
    int64_t save_total_limit = 3;
    int64_t logging_steps = 10;
    int64_t seed = 1337;
    int64_t max_bad_steps = 5; // skipped in a row before the run stops
    bool gradient_checkpointing = false;
    // The largest micro-batch whose step fits the device is chosen before the first step, the batch of a step staying
    // as large as it is; and gradient_checkpointing, where nothing fits without.
    bool fit = false;
    double ema_decay = 0.0;          // above 0: an average of the weights is evaluated and saved at the end
    bool bf16 = false, fp16 = false; // what matrix products read is stored so; sums and updates stay float32
};

// How texts are written where an evaluation scores them: objectives that teach to write a text for an example.
struct GenerateSection {
    int64_t examples = -1; // by `hekla eval`: so many; 0: none; -1: all rows of a table, no windows of plain text
    int64_t examples_while_training = 0; // in each evaluation of a run
    nlohmann::json options =
        nlohmann::json::object(); // every other key: generate/options.hpp's, as transformers has them
};

struct PluginsSection {
    bool isolate = false; // collate and decode run in worker processes (plugin/compose.hpp)
};

struct OutputSection {
    std::string dir;
};

struct Recipe {
    std::filesystem::path file; // for messages; empty for one made in memory
    ModelSection model;
    PluginSection objective{"clm", nlohmann::json::object()};
    TeacherSection teacher;
    PluginSection adapter; // id "": none. The body of model.from is frozen, and this learns
    PluginSection head{"lm", nlohmann::json::object()};
    DataSection data;
    TokenizerSection tokenizer;
    TrainSection train;
    GenerateSection generate;
    PluginsSection plugins;
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
