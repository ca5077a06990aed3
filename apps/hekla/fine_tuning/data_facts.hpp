// What files of data tell about what can be learned from them.
#pragma once

#include "base/status.hpp"

#include <map>
#include <string>
#include <vector>

namespace hekla::app {

enum class Task { chat, completion, preference, classify, text };
const char* task_name(Task task); // as --task takes it
Result<Task> task_of_name(const std::string& name);
std::vector<std::string> task_names();

struct DataFacts {
    std::vector<std::string> inputs;
    std::string format;      // data.format, where the name of the file does not tell; empty otherwise
    std::string found;       // "rows of question and answer"
    std::vector<Task> tasks; // that can be learned from it, the most likely first; never empty
    bool messages = false;   // its texts are lists of messages, which a chat template writes
    std::string columns;     // data.columns of a table with labels, as TOML; empty otherwise
};

// Looks at the first file. Errors: none exists, it is empty, its format is not read, or its rows are none that a task
// reads: with the keys that were found and those that were expected.
Result<DataFacts> look_at_data(const std::vector<std::string>& inputs);

} // namespace hekla::app
