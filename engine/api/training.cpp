#include "api/training.hpp"

#include "api/boundary.hpp"
#include "api/report_arrays.hpp"
#include "api/report_fields.hpp"
#include "train/ranks/rank_server.hpp"
#include "train/recipe/recipe_file.hpp"
#include "train/training_loop.hpp"
#include "train/training_run.hpp"

#include <exception>
#include <limits>
#include <new>

namespace hekla::api {
namespace {

train::TrainerEvents events_of(const hk_train_options& o, const CallEnvironment& place) {
    train::TrainerEvents events;
    if (o.step != nullptr)
        events.step = [o](const train::StepRecord& record) {
            hk_train_step step{};
            ReportArrays arrays;
            fill(step, record, arrays);
            o.step(o.user, &step);
        };
    if (o.evaluation != nullptr)
        events.evaluation = [o](const train::EvaluationRecord& record) {
            hk_train_evaluation evaluation{};
            ReportArrays arrays;
            fill(evaluation, record, arrays);
            o.evaluation(o.user, &evaluation);
        };
    if (o.message != nullptr) events.message = [o](const std::string& m) { o.message(o.user, view(m)); };
    if (o.abandoned != nullptr) events.abandoned = [o](const std::string& m) { o.abandoned(o.user, view(m)); };
    events.stop = [o, stop = place.stop] { return stop.stopped() || (o.stop != nullptr && o.stop(o.user) != 0); };
    events.scalars = place.scalars;
    events.own_threads = place.own_threads;
    return events;
}

} // namespace

Result<std::unique_ptr<train::TrainingRun>> training_run_of(const CallEnvironment& place,
                                                            const hk_train_options* options, train::Purpose purpose,
                                                            exchange::Communicator* ranks) {
    HK_TRY(complete(options, "hk_train_options"));
    HK_ASSIGN(const train::Recipe recipe,
              train::read_recipe(string_of(options->recipe), texts(options->overrides, options->override_count)));
    return train::TrainingRun::create(recipe, place.registry, place.device, place.log, events_of(*options, place),
                                      purpose, ranks);
}

namespace {

Result<train::TrainerResult> train_with(const CallEnvironment& place, const hk_train_options* options,
                                        exchange::Communicator& ranks) {
    if (ranks.rank() == 0) {
        HK_ASSIGN(const std::unique_ptr<train::TrainingRun> run,
                  training_run_of(place, options, train::Purpose::train, &ranks));
        return train::TrainingLoop(*run).run();
    }
    hk_train_options silent = *options;
    silent.step = nullptr;
    silent.evaluation = nullptr;
    silent.message = nullptr;
    silent.stop = nullptr;
    HK_ASSIGN(const std::unique_ptr<train::TrainingRun> run,
              training_run_of(place, &silent, train::Purpose::join, &ranks));
    HK_TRY(train::serve_rank_0(*run));
    train::TrainerResult none;
    none.best_evaluation = std::numeric_limits<double>::quiet_NaN();
    return none;
}

} // namespace

Result<train::TrainerResult> train_by(const CallEnvironment& place, const hk_train_options* options) {
    exchange::Communicator ranks;
    if (options->communicator != nullptr) ranks = exchange::Communicator(*options->communicator);
    Result<train::TrainerResult> result = internal_error("the training did not begin");
    try {
        result = train_with(place, options, ranks);
    } catch (const std::bad_alloc&) { result = out_of_memory("out of memory"); } catch (const std::exception& e) {
        result = internal_error(e.what());
    }
    // Also after an exception: the other ranks wait for this one.
    if (!result.ok()) ranks.fail(result.status());
    return result;
}

} // namespace hekla::api
