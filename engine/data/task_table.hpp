// Rows of a table as examples of a task: texts become ids, labels classes, words pieces with the places where they
// begin.
#pragma once

#include "data/encoded.hpp"
#include "data/examples.hpp"
#include "data/row_store.hpp"
#include "text/tokenizer.hpp"
#include "text/tokenizer_trainer.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>

namespace hekla::data {

// A column of the task, and where the files have it.
struct TaskColumn {
    std::string name; // as the objective calls it
    int32_t kind = HK_COLUMN_TOKENS;
    bool optional = false;
    bool target = false;     // what is to be predicted
    std::string source;      // ColumnRequest::source
    std::string prefix = {}; // put before each of its texts
};

struct TaskTableOptions {
    std::vector<std::string> inputs;
    std::optional<ExampleFormat> format;
    std::optional<bool> header;
    std::vector<TaskColumn> columns;
    OnBadExample on_bad = OnBadExample::refuse;
    bool targets = true;    // false: columns that are to be predicted may be missing
    std::string group = {}; // a column of the files that the task does not read: see TaskTable::group. Empty: none
    std::size_t max_bytes = ExampleOptions().max_bytes;
    std::pmr::memory_resource* memory = std::pmr::new_delete_resource(); // of the texts, and of what is made of them
    // Asked every 256 rows by every function here that passes over all rows; true ends it with Code::cancelled. May be
    // empty.
    std::function<bool()> stop = {};
};

// The texts of a table as they stand in the files.
class TaskTable {
public:
    // Reads everything; what is large is kept on the disk (records.hpp). Errors: those of open_examples and of its
    // reader; no rows; those of Records.
    static Result<TaskTable> read(const TaskTableOptions& options);

    uint64_t size() const { return rows_.size(); }
    std::string place(uint64_t row) const; // "FILE: line N"
    // The text of a column, empty where the row has none; a list's items joined by spaces.
    std::string text(uint64_t row, std::string_view column) const;
    // What the row has in the column of TaskTableOptions::group; empty where it has none.
    std::string group(uint64_t row) const;

    // Every class that occurs and how often, by name. A pass over all rows.
    Result<std::map<std::string, uint64_t>> class_counts() const;
    // Their names in the order of their numbers: as numbers where all are, else as texts.
    static std::vector<std::string> classes(const std::map<std::string, uint64_t>& counts);
    // Gives the texts to a trainer of tokenizers.
    Status train(text::TokenizerTrainer& trainer) const;
    // Of the texts and of what is to be predicted: the same for the same rows.
    Result<Hash128> hash() const;
    // What identifies a row's texts, without what is to be predicted.
    uint64_t row_key(uint64_t row) const;

    struct Encoded {
        std::unique_ptr<StoredExamples> examples;
        std::vector<uint64_t> rows; // of this table, one an example: some may have been skipped
        std::string skipped;        // "3 with an unknown label (first: ...)"; empty if nothing was
        uint64_t tokens = 0, unknown_tokens = 0;
    };
    // `classes`: what labels may be; one that is none of them is bad, as is a number that is none.
    Result<Encoded> encode(const text::Tokenizer& tokenizer, std::span<const std::string> classes) const;
    const Skipped& skipped() const { return skipped_; } // while reading

private:
    TaskTableOptions options_;
    Example row(uint64_t number) const;
    Status check_stop(uint64_t row) const;

    Records rows_;
    std::vector<std::string> files_;
    Skipped skipped_;
};

// One row of a table from texts that a caller has, by column name; columns that are to be predicted are left out.
Result<EncodedExample> encode_texts(const text::Tokenizer& tokenizer, std::span<const TaskColumn> columns,
                                    const std::map<std::string, std::vector<std::string>>& texts);

} // namespace hekla::data
