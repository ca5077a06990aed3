// Forms of rows: how the JSON files of common data sets name what conversations, completions and preferences are read
// from. The form is recognized by the keys of the first rows; every row must have it.
#pragma once

#include "base/status.hpp"
#include "data/example.hpp"
#include "data/example_rows.hpp"

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::data {

// The form of rows, for the columns of one task.
class RowForm {
public:
    // A column that is made of one or several keys of a row.
    enum class Kind { key, conversation, turns, alpaca_prompt };
    struct Source {
        Kind kind = Kind::key;
        std::string key = {};    // of a conversation: the list; of turns: the first message of the user; of a key: it
        std::string input = {};  // of turns and alpaca_prompt: a text that follows `key` where the row has it
        std::string answer = {}; // of turns
    };

    // Returns the form of the first rows of a file: the first of those that are known whose keys they all have. Nothing
    // if the columns are not those of a conversation, completion or preference, if one has a source or a template, or
    // if no form matches.
    static std::optional<RowForm> recognize(std::span<const nlohmann::json> rows, Columns columns);
    // Returns what can be recognized for these columns, for messages; empty if nothing can.
    static std::string known(Columns columns);

    // "Alpaca (instruction, input, output)".
    const std::string& description() const { return description_; }
    const Source& source(std::size_t column) const { return sources_[column]; }
    // Returns the value of a column whose source is not of Kind::key.
    Result<Value> compose(const nlohmann::ordered_json& row, std::size_t column) const;

private:
    std::string description_;
    std::vector<Source> sources_; // by column
};

} // namespace hekla::data
