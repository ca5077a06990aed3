// hekla eval MODEL --tasks: language models on tasks, with the metrics and files of lm-evaluation-harness.
#pragma once

#include "command.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace hekla::app {

struct EvaluatedModel;

struct TaskArguments {
    std::vector<std::string> models, tasks, adapters;
    std::string output;               // folder; empty: none
    std::vector<int64_t> num_fewshot; // empty: the tasks' own
    int64_t limit = 0;                // 0: all documents
    uint64_t seed = 1234;
    std::string chat_template; // "": plain text; "auto": the model's; otherwise a name or a file
    std::string chat_date;     // that the template prints, "2026-01-31"; "": now
    std::string system_instruction;
    bool fewshot_as_multiturn = true;
    bool log_samples = false, json = false;
    bool reference = false; // the float64 interpreter instead of the device
};

// Evaluates the models, of which each has a name for messages, on the tasks, without writing anything. `results` of a
// model are ordered by task, then by the number of demonstrations.
Result<std::vector<EvaluatedModel>> evaluate_on_tasks(const Globals& globals, const TaskArguments& arguments,
                                                      const std::vector<std::string>& names);

// Returns the exit status. `tasks` may begin with "list": then the tasks of the rest are listed.
int run_eval_tasks(const Globals& globals, const TaskArguments& arguments);

} // namespace hekla::app
