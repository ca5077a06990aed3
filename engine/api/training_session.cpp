#include "api/training_session.hpp"
#include "api/call_environment.hpp"

#include "api/boundary.hpp"
#include "api/capture.hpp"
#include "api/training.hpp"
#include "train/training_loop.hpp"
#include "train/training_run.hpp"

namespace hekla::api {

TrainingSession::TrainingSession(const hk_train_options& options) : given_(options) {
    hk_session_callbacks host{};
    host.user = options.user;
    host.step = options.step;
    host.evaluation = options.evaluation;
    host.message = options.message;
    host.stop = options.stop;
    callbacks_.replace(host);
}

Result<std::shared_ptr<Session>> TrainingSession::create(const std::shared_ptr<Context>& context,
                                                         const hk_train_options& options,
                                                         const hk_session_options* own) {
    const auto session = make<TrainingSession>(options);
    HK_TRY(session->start(context, own));
    return std::shared_ptr<Session>(session);
}

hk_train_options TrainingSession::own_options() {
    hk_train_options options = given_.get();
    options.user = this;
    options.step = [](void* user, const hk_train_step* step) {
        auto& session = *static_cast<TrainingSession*>(user);
        session.step_ = step->step;
        if (const auto capture = session.capture()) capture->loss(session.handle(), step->step, step->loss);
        session.tell<&hk_session_callbacks::step>(step);
    };
    if (options.evaluation != nullptr)
        options.evaluation = [](void* user, const hk_train_evaluation* evaluation) {
            static_cast<TrainingSession*>(user)->tell<&hk_session_callbacks::evaluation>(evaluation);
        };
    if (options.message != nullptr)
        options.message = [](void* user, hk_string message) {
            static_cast<TrainingSession*>(user)->tell<&hk_session_callbacks::message>(message);
        };
    options.abandoned = nullptr; // a session waits for its plugins
    if (options.stop != nullptr)
        options.stop = [](void* user) -> int32_t {
            return static_cast<TrainingSession*>(user)->asked_to_stop() ? 1 : 0;
        };
    return options;
}

Status TrainingSession::work() {
    const hk_train_options options = own_options();
    Result<std::unique_ptr<train::TrainingRun>> made = training_run_of(environment(), &options, train::Purpose::train);
    if (made.code() == Code::cancelled && !stop_requested()) { // by the host's callback, while data was being read
        const std::lock_guard guard(mutex_);
        stopped_ = true;
        return {};
    }
    HK_ASSIGN(const std::unique_ptr<train::TrainingRun> run, std::move(made));
    step_ = run->step();
    publish_scalars(run->scalars().names());
    set_progress(0.7);
    HK_TRY(calibrate([&] { return run->rehearse(); }));
    const PublishedStore published(*this, run->store());
    HK_TRY(enter_metered_mode(Phase::working));
    HK_ASSIGN(const train::TrainerResult result, train::TrainingLoop(*run).run());
    const std::lock_guard guard(mutex_);
    stopped_ = result.stopped;
    return {};
}

} // namespace hekla::api
