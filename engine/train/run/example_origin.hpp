// Where a training's examples come from, through all of its stages: the files of [data] as they are, or rollouts, which
// the model writes at the start of each iteration.
#pragma once

#include "train/ranks/division.hpp"
#include "train/run/batch_source.hpp"

#include <memory>
#include <optional>
#include <vector>

namespace hekla::plugin {
struct ColumnNeed;
class Registry;
} // namespace hekla::plugin
namespace hekla::program {
struct CompileOptions;
class Estimator;
} // namespace hekla::program

namespace hekla::train {

struct PreparedRun;
struct DescribedTraining;
class Validation;
struct ValidationContext;

// All of it outlives the training's stages, which call it in this order.
class ExampleOrigin {
public:
    virtual ~ExampleOrigin() = default;

    // What the recipe's [train] disable_dropout is if it does not say. needs: columns of the objective. resumes: the
    // run may be of a version without that default.
    virtual std::optional<bool> disables_dropout(const std::vector<plugin::ColumnNeed>& needs, bool resumes) const = 0;
    // What Division::check_supported() has to know.
    virtual Division::Used use(const Recipe& recipe) const = 0;
    // Makes `needs`, columns of the objective, those that are read from the data. Errors: sections of the recipe that
    // belong to the other origin.
    virtual Status choose_columns(const Recipe& recipe, const plugin::Registry& registry,
                                  std::vector<plugin::ColumnNeed>& needs) const = 0;

    // Describes what it adds to a training that has its composition.
    virtual Status describe(DescribedTraining& /*training*/) const { return {}; }
    virtual void warn_of(const DescribedTraining& /*training*/, const graph::Graph& /*step*/) const {}
    // Whether every epoch has the same rows.
    virtual bool repeats_rows() const = 0;
    // Replaces train.max_steps where the recipe counts examples.
    virtual void resolve_steps(PreparedRun& /*run*/, const DescribedTraining& /*training*/) const {}
    // Checks that there is something to learn.
    virtual Status check_labels(const PreparedRun& run, const DescribedTraining& training) const = 0;
    // Adds what evaluations allocate besides the training.
    virtual Status estimate_evaluations(program::Estimator& /*estimator*/, const DescribedTraining& /*training*/,
                                        const program::CompileOptions& /*options*/) const {
        return {};
    }
    // Adds what making examples allocates; returns bytes on the host.
    virtual Result<uint64_t> estimate_examples(program::Estimator& /*estimator*/,
                                               const DescribedTraining& /*training*/) const {
        return 0;
    }

    struct Opened {
        std::unique_ptr<BatchSource> source;
        std::unique_ptr<Validation> validation;
    };
    virtual Result<Opened> open(const ValidationContext& context) const = 0;
};

} // namespace hekla::train
