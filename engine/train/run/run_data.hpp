// The data of a run: the recipe's [data] section as examples of the columns that the objective reads.
#pragma once

#include "base/stop_poll.hpp"
#include "batch/collate.hpp"
#include "batch/rows_by_length.hpp"
#include "data/class_balance.hpp"
#include "data/corpus.hpp"
#include "data/encoded.hpp"
#include "data/length_groups.hpp"
#include "data/task_table.hpp"
#include "data/window_order.hpp"
#include "plugin/composition/compose.hpp"
#include "train/recipe/recipe.hpp"
#include "train/start/model_spec.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hekla::train {

// One of the training, validation and test data.
class Split {
public:
    uint64_t size() const { return order_.examples_per_epoch(); } // examples per epoch
    const data::EncodedExamples& examples() const { return *examples_; }
    // Returns the example that a run draws at position `number`. Thread: any, several at once.
    batch::DrawnExample draw(uint64_t number) const;
    // Returns example i of size(), in the order of the data.
    batch::DrawnExample at(uint64_t i) const;
    // Makes the fields of a batch of this split's examples, as batch::make_fields() does. Errors: those of the
    // objective, with the file and line of the row that it refuses. Thread: any, several at once.
    Status make_fields(const plugin::Composition& composition, std::span<const batch::DrawnExample> examples,
                       uint64_t seed, int64_t batch, int64_t length, std::vector<data::Field>& fields,
                       std::pmr::memory_resource* memory, uint64_t step) const;
    // Returns all examples, or, with a limit above 0, that many, evenly spaced and the same ones every time. Each is
    // assigned the shortest of `lengths` (ascending) that holds it; the longest truncates it.
    std::vector<batch::RowLength> spread(const plugin::Composition& composition, std::span<const int64_t> lengths,
                                         uint64_t limit) const;
    // Returns the file and line of example i of a table, and the text of a column; empty without a table.
    std::string place(uint64_t i) const;
    std::string text(uint64_t i, std::string_view column) const;
    std::string group(uint64_t i) const; // its value in the column data.group

private:
    friend class RunData;
    std::shared_ptr<const data::EncodedExamples> examples_;
    std::shared_ptr<const data::LengthGroups> groups_;  // replaces order_ if rows are grouped by length
    std::shared_ptr<const data::ClassBalance> balance_; // replaces order_ if classes are balanced
    data::WindowOrder order_, sequence_;
    std::shared_ptr<const data::TaskTable> table_;
    std::vector<uint64_t> rows_; // of the table
};

// The column of the text that is mixed with rollouts.
inline constexpr const char* kPretrainColumn = "pretrain";

class RunData {
public:
    // Reads tables now, because their classes determine the model; open() reads the rest. needs: the columns that the
    // objective reads, none where it reads plain text. memory: of texts and examples; it outlives this. stop: asked
    // while anything here is read, encoded or trained; true ends it with Code::cancelled.
    static Result<RunData> read(const Recipe& recipe, const std::vector<plugin::ColumnNeed>& needs,
                                std::pmr::memory_resource* memory = std::pmr::new_delete_resource(),
                                StopPoll stop = {});

    // Sets the share of the training data that is held out (train/run/held_out.hpp), before open(). Default: that of a
    // run that begins.
    void hold_out(double share) { held_out_ = share; }
    double held_out() const { return held_out_; }

    bool is_table() const { return !columns_.empty(); }
    uint64_t table_rows() const { return train_table_ != nullptr ? train_table_->size() : 0; }
    const std::vector<std::string>& classes() const { return classes_; } // empty if the task has none
    DataFacts facts() const;                                             // points into this
    const std::vector<data::TaskColumn>& columns() const { return columns_; }
    // The template that wrote the messages of the data; null where it has none, or before open().
    const text::ChatTemplate* chat() const { return chat_ ? &*chat_ : nullptr; }
    std::optional<int32_t> turn_end() const { return turn_end_; } // the token that ends the assistant's turn

    // Trains a tokenizer on the training texts.
    Result<std::unique_ptr<text::Tokenizer>> train_tokenizer(text::TokenizerTrainer& trainer) const;

    // Tokenizes the columns that the composition's objective reads. cache_folder: for token files (plain text in
    // windows). `message`: called with one line about what was found. own_threads: false: uses only this thread.
    // Errors: texts that are too short, and invalid data.
    Status open(const text::Tokenizer& tokenizer, const plugin::Composition& composition,
                const std::filesystem::path& cache_folder, const std::function<void(const std::string&)>& message,
                bool own_threads = true);

    const Split& train() const { return *train_; }
    const Split* valid() const { return valid_ ? &*valid_ : nullptr; }
    // Returns why the run has nothing to validate on, with numbers and keys; empty if it has.
    const std::string& without_valid() const { return without_valid_; }
    const Split* test() const { return test_ ? &*test_ : nullptr; }
    // The text that an objective mixes with rollouts (data.pretrain); null without it. Its examples have a column
    // "text".
    const Split* pretrain() const { return pretrain_ ? &*pretrain_ : nullptr; }
    // Returns a value that is equal for equal training data and tokenizer. A run resumes only with the same.
    const std::string& identity() const { return identity_; }

private:
    Status open_windows(const text::Tokenizer& tokenizer, const plugin::Composition& composition,
                        const std::filesystem::path& cache_folder,
                        const std::function<void(const std::string&)>& message, bool own_threads);
    Status open_documents(const text::Tokenizer& tokenizer, const plugin::Composition& composition,
                          const std::function<void(const std::string&)>& message);
    Status open_tables(const text::Tokenizer& tokenizer, const plugin::Composition& composition,
                       const std::function<void(const std::string&)>& message);
    Status open_pretrain(const text::Tokenizer& tokenizer, const std::filesystem::path& cache_folder,
                         const std::function<void(const std::string&)>& message, bool own_threads);
    // Chooses the chat template, if a table has messages.
    Status open_chat(const text::Tokenizer& tokenizer, const std::function<void(const std::string&)>& message);
    Status set_chat_date();
    // Sets the adapter of an example by the name in its row, and counts it.
    Status choose_adapter(const data::TaskTable& table, uint64_t row, data::EncodedExample& example,
                          std::vector<uint64_t>& of_adapter) const;
    Result<Split> split_of(std::shared_ptr<const data::EncodedExamples> examples, uint64_t window,
                           const std::string& name) const;

    // Returns the text of without_valid(). all: the training data, "10 rows"; least: what it would need.
    std::string nothing_held_out(const std::string& all, const std::string& least) const;

    const Recipe* recipe_ = nullptr;
    StopPoll stop_;
    std::pmr::memory_resource* memory_ = std::pmr::new_delete_resource();
    std::vector<data::TaskColumn> columns_;
    std::vector<std::string> classes_;
    std::vector<uint64_t> class_counts_; // of each class in the training table
    std::shared_ptr<data::TaskTable> train_table_, valid_table_, test_table_;
    std::shared_ptr<data::Dataset> texts_, pretrain_texts_; // windows
    std::optional<text::ChatTemplate> chat_;
    std::optional<int32_t> turn_end_;
    std::optional<Split> train_, valid_, test_, pretrain_;
    double held_out_ = 0.0;
    std::string without_valid_;
    std::string identity_;
};

} // namespace hekla::train
