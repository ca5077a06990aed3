// The first stage of a training: what it reads before it describes a model. Recipe, checkpoint, tokenizer and data.
#pragma once

#include "base/temporary_folder.hpp"
#include "generate/settings.hpp"
#include "model/checkpoint.hpp"
#include "plugin/composition/composition_spec.hpp"
#include "text/tokenizer.hpp"
#include "train/ranks/division.hpp"
#include "train/run/run_context.hpp"
#include "train/run/run_data.hpp"
#include "train/run/run_folder.hpp"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace hekla::train {

struct RankStart;

class ExampleOrigin;

struct PreparedRun {
    // Reads what `recipe` names. origin: origin_of() the recipe. owned: the run's folder, if a training uses it.
    // from_rank_0: what another rank than 0 begins with. `context` must outlive the result. Errors: files and keys;
    // failed_precondition if the recipe differs from the checkpoint's.
    static Result<std::unique_ptr<PreparedRun>> read(const Recipe& recipe, const RunContext& context, Purpose purpose,
                                                     std::unique_ptr<ExampleOrigin> origin, RunFolder owned = {},
                                                     std::unique_ptr<RankStart> from_rank_0 = nullptr);
    ~PreparedRun();
    // Tokenizes the data for the objective of a model.
    Status open_data(const plugin::Composition& composition);
    void resolve_epochs(); // replaces train.max_steps where the recipe counts epochs of the open data
    // Checks that there is validation data, if the training needs some.
    Status check_validation() const;
    // Tells how texts become ids, in a run that begins.
    Status tell_text_rules(const plugin::CompositionSpec& policy, const plugin::Composition& composition) const;
    // Writes what a run's folder has of this, which is kept from now on. failed_precondition without Purpose::train.
    Status start(const plugin::Composition& composition);

    // Lengths of rows, ascending, the recipe's context length last.
    std::vector<int64_t> row_lengths() const;
    // The same for evaluations, in which every row is one example.
    std::vector<int64_t> evaluation_lengths() const;
    int64_t evaluation_batch() const;
    double examples_per_step() const;
    // The settings of generation: of the run, or of the model that it begins with.
    Result<generate::FolderSettings> generation_settings(const plugin::Composition& composition) const;

    const RunContext& context;
    Purpose purpose;
    Recipe recipe; // resolved step by step: train.fit and num_train_epochs have been applied after all stages
    std::filesystem::path folder; // of the run
    RunFolder owned;              // Purpose::train
    Division division;
    std::optional<model::Checkpoint> checkpoint; // to resume from
    std::unique_ptr<ExampleOrigin> origin;
    text::TextRules text_rules; // those of the recipe; a resumed run keeps those that it began with
    std::unique_ptr<text::Tokenizer> tokenizer;

private:
    std::optional<TemporaryFolder> temporary_; // tokenized text, if the run has no folder for it

public:
    RunData data; // may have files in temporary_

private:
    PreparedRun(const Recipe& given, const RunContext& shared, Purpose why, RunFolder locked,
                std::unique_ptr<ExampleOrigin> of);
    std::vector<int64_t> lengths(bool several) const;
    Status read_all();
    Status find_checkpoint();
    Status same_run();
    Status read_data();
    Result<std::unique_ptr<text::Tokenizer>> find_tokenizer() const;
    Status open_tokenizer();
    Status save_generation_settings(const plugin::Composition& composition) const;
    Status save_chat_template() const;
    std::filesystem::path first_generation_settings() const;

    std::unique_ptr<RankStart> from_rank_0_;
    std::optional<double> held_out_; // of the run that is resumed or joined; unset: the recipe's
};

} // namespace hekla::train
