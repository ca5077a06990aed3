// Completions that a model writes for the prompts of a table, several for each, and their scores. A completion is a
// function of (seed, number of the prompt, number of the completion), whatever is written with it.
#pragma once

#include "base/stop_poll.hpp"
#include "data/task_table.hpp"
#include "infer/open/model.hpp"
#include "reward/reward_set.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace hekla::app {

// Shows lines of progress on standard error, each in place of the one before; nothing where it is not a terminal.
class ShownProgress {
public:
    ShownProgress();
    ~ShownProgress() { end(); }
    ShownProgress(const ShownProgress&) = delete;
    ShownProgress& operator=(const ShownProgress&) = delete;
    void show(const std::string& line);
    void end();

private:
    bool terminal_, open_ = false;
};

struct Prompts {
    data::TaskTable table;
    std::vector<uint64_t> rows; // of the table
    std::vector<std::vector<int32_t>> ids;
    std::size_t longest = 1; // in tokens

    std::size_t size() const { return rows.size(); }
};

// Reads the column "prompt" of tables, and those that rewards read. prefix: put before each prompt. limit: above 0: at
// most that many, evenly spaced. begin: the ids that prompts of the model begin with (infer::PromptStyle). Errors name
// file and line: those of the files; an empty prompt.
Result<Prompts> read_prompts(const std::vector<std::string>& files, const std::vector<std::string>& columns,
                             const text::TextEncoder& encoder, std::span<const int32_t> begin,
                             const std::string& prefix, uint64_t limit, const StopPoll& stop);

struct SamplingOptions {
    int64_t per_prompt = 1;
    int64_t length = 32; // tokens of a completion at most, with its end token
    double temperature = 1.0;
    uint64_t seed = 1337;
    bool ends = true; // at the tokenizer's end token
    StopPoll stop = {};
    std::function<void(std::size_t done, std::size_t all)> progress = {};
};

struct SampledText {
    std::vector<int32_t> ids; // with the end token
    std::string text;         // without special tokens
    bool ended = false;
};

// Returns per_prompt completions of each prompt, prompt after prompt. Errors: a tokenizer without an end token; a
// prompt that leaves no room for a completion, with its place; those of generation. cancelled: options.stop.
Result<std::vector<SampledText>> sample_completions(const infer::Model& model, const Prompts& prompts,
                                                    const SamplingOptions& options);

// Returns the scores of these completions, in their order.
Result<reward::Scores> score_completions(const reward::RewardSet& rewards, const Prompts& prompts,
                                         std::span<const SampledText> texts, int64_t per_prompt);

} // namespace hekla::app
