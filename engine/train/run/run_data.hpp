// The data of a run: the recipe's [data] section as examples of the columns that the objective reads.
#pragma once

#include "base/stop_poll.hpp"
#include "data/task_column.hpp"
#include "train/recipe/recipe.hpp"
#include "train/run/split.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hekla::data {
class Dataset;
struct EncodedExample;
class TaskTable;
} // namespace hekla::data
namespace hekla::plugin {
struct ColumnNeed;
class Composition;
} // namespace hekla::plugin
namespace hekla::text {
class ChatTemplate;
class Tokenizer;
class TokenizerTrainer;
} // namespace hekla::text

namespace hekla::train {

struct DataFacts;

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
    uint64_t table_rows() const;
    const data::TaskTable* table() const { return train_table_.get(); }  // of the training; null for plain text
    const std::vector<std::string>& classes() const { return classes_; } // empty if the task has none
    DataFacts facts() const;                                             // points into this
    const std::vector<data::TaskColumn>& columns() const { return columns_; }
    // The template that wrote the messages of the data; null where it has none, or before open().
    const text::ChatTemplate* chat() const { return chat_.get(); }
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
    std::shared_ptr<const text::ChatTemplate> chat_;
    std::optional<int32_t> turn_end_;
    std::optional<Split> train_, valid_, test_, pretrain_;
    double held_out_ = 0.0;
    std::string without_valid_;
    std::string identity_;
};

} // namespace hekla::train
