#include "api/training.hpp"

#include "api/boundary.hpp"

namespace hekla::api {
namespace {

train::TrainerEvents events_of(const hk_train_options& o, const CallEnvironment& place) {
    train::TrainerEvents events;
    if (o.step != nullptr)
        events.step = [o](const train::StepReport& r) {
            const hk_train_step s{sizeof(hk_train_step),
                                  r.skipped ? 1 : 0,
                                  r.step,
                                  r.max_steps,
                                  r.loss,
                                  r.loss_z,
                                  r.gradient_norm,
                                  r.learning_rate,
                                  r.seconds,
                                  r.tokens_per_second,
                                  r.share_of_peak,
                                  r.remaining_seconds};
            o.step(o.user, &s);
        };
    if (o.evaluation != nullptr)
        events.evaluation = [o](const train::EvaluationReport& r) {
            std::vector<hk_score> scores;
            for (const auto& [name, value] : r.scores) scores.push_back({view(name), value});
            const hk_train_evaluation e{
                sizeof(hk_train_evaluation), r.best ? 1 : 0, r.step, r.loss, r.seconds, scores.data(), scores.size()};
            o.evaluation(o.user, &e);
        };
    if (o.message != nullptr) events.message = [o](const std::string& m) { o.message(o.user, view(m)); };
    events.stop = [o, stopping = place.stopping] { return stopping() || (o.stop != nullptr && o.stop(o.user) != 0); };
    events.scalars = place.scalars;
    events.own_threads = place.own_threads;
    return events;
}

} // namespace

Result<std::unique_ptr<train::Trainer>> trainer_of(const CallEnvironment& place, const hk_train_options* options,
                                                   train::Purpose purpose) {
    HK_TRY(complete(options, "hk_train_options"));
    HK_ASSIGN(const train::Recipe recipe,
              train::read_recipe(string_of(options->recipe), texts(options->overrides, options->override_count)));
    return train::Trainer::create(recipe, place.registry, place.device, place.log, events_of(*options, place), purpose);
}

} // namespace hekla::api
