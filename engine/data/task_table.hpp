// Rows of a table as examples of a task: texts become ids, labels become classes, words become tokens with the position
// of each word.
#pragma once

#include "base/hash.hpp"
#include "base/status.hpp"
#include "data/encoded.hpp"
#include "data/examples.hpp"
#include "data/row_store.hpp"
#include "data/task_column.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>

namespace hekla::text {
class ChatTemplate;
class TextEncoder;
class TokenizerTrainer;
} // namespace hekla::text

namespace hekla::data {

struct TaskTableOptions {
    std::vector<std::string> inputs;
    std::optional<ExampleFormat> format;
    std::optional<bool> header;
    std::vector<TaskColumn> columns;
    OnBadExample on_bad = OnBadExample::refuse;
    bool of_recipe = false; // errors of bad examples mention data.on_bad
    bool targets = true;    // false: target columns may be missing
    // Columns of the files that the task does not read: see TaskTable::group and adapter. Empty: none.
    std::string group = {}, adapter = {};
    std::size_t max_bytes = ExampleOptions().max_bytes;
    std::pmr::memory_resource* memory = std::pmr::new_delete_resource(); // of the texts and the encoded examples
    ReadOptions reading = {}; // `stop` also ends the table's own passes over its rows
};

// The texts of a table as they are in the files.
class TaskTable {
public:
    // Reads everything; large tables are stored on disk (row_store.hpp). Errors: those of open_examples and of its
    // reader; no rows; those of Records.
    static Result<TaskTable> read(const TaskTableOptions& options);

    uint64_t size() const { return rows_.size(); }
    std::string place(uint64_t row) const; // "FILE: line N"
    // Returns the text of a column, empty if the row has none; a list's items are joined by spaces, the contents of
    // messages by line ends.
    std::string text(uint64_t row, std::string_view column) const;
    // Returns the value in the column TaskTableOptions::group; empty if the row has none.
    std::string group(uint64_t row) const;
    // The same of TaskTableOptions::adapter: the name of the row's adapter.
    std::string adapter(uint64_t row) const;

    // Returns every class that occurs and its count, by name. Reads all rows.
    Result<std::map<std::string, uint64_t>> class_counts() const;
    // Returns the names in the order of their ids: sorted as numbers if all are numbers, otherwise as texts.
    static std::vector<std::string> classes(const std::map<std::string, uint64_t>& counts);
    // Passes the texts to a tokenizer trainer.
    Status train(text::TokenizerTrainer& trainer) const;
    // Returns a hash of texts and targets, equal for equal rows.
    Result<Hash128> hash() const;
    // Returns a key of a row's texts, without the targets.
    uint64_t row_key(uint64_t row) const;

    struct Encoded {
        std::unique_ptr<StoredExamples> examples;
        std::vector<uint64_t> rows; // of this table, one per example; rows may have been skipped
        std::string skipped;        // "3 with an unknown label (first: ...)"; empty if none was
        uint64_t tokens = 0, unknown_tokens = 0;
    };
    // Returns whether a column of a row has messages, which a chat template writes as text.
    bool has_messages() const { return has_messages_; }
    // `classes`: the valid labels. A row with another label, or with an invalid number, is bad. chat: for messages;
    // null only without them. every: 2 encodes every second row, as a sample.
    Result<Encoded> encode(const text::TextEncoder& encoder, std::span<const std::string> classes,
                           const text::ChatTemplate* chat = nullptr, uint64_t every = 1) const;
    const Skipped& skipped() const { return skipped_; } // while reading
    const std::string& form() const { return form_; }   // ExampleReader::form()

private:
    TaskTableOptions options_;
    std::vector<std::string> others() const; // columns that the task does not read, after its own
    Example row(uint64_t number) const;

    Records rows_;
    std::vector<std::string> files_;
    Skipped skipped_;
    std::string form_;
    bool has_messages_ = false;
};

// Encodes one row from texts by column name, without targets.
Result<EncodedExample> encode_texts(const text::TextEncoder& encoder, std::span<const TaskColumn> columns,
                                    const std::map<std::string, std::vector<std::string>>& texts);

} // namespace hekla::data
