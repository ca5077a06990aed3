// A document: one row of a task's data set, as texts.
#pragma once

#include "base/stop_poll.hpp"
#include "harness/task.hpp"

#include <map>
#include <string>
#include <vector>

namespace hekla::harness {

struct Document {
    uint64_t id = 0;                // its number in the data set
    std::string place;              // "FILE: line N"
    nlohmann::ordered_json columns; // those that the task reads
    std::string text;               // doc_to_text
    std::string target;             // doc_to_target; of multiple_choice the right choice
    std::string prefix;             // gen_prefix
    std::vector<std::string> choices;
    std::size_t gold = 0; // the right choice
};

// Reads all documents of a data set of the task. Errors contain file and line: those of the reader; a target that is
// not one of the choices, or whose index is out of range; two equal choices; an empty choice.
Result<std::vector<Document>> read_documents(const Task& task, const std::string& dataset, const StopPoll& stop);

// Returns Task::samples as documents. Errors: as read_documents(); a sample that lacks a column.
Result<std::vector<Document>> sample_documents(const Task& task);

} // namespace hekla::harness
