#include "observatory.hpp"

#include "failure.hpp"

namespace observatory {

void Observatory::change() {
    const std::vector<std::function<void()>> changes = std::exchange(changes_, {});
    if (!changes.empty()) wait_for_frames();
    for (const auto& change : changes) change();
    take_opened();
    if (!std::exchange(look_again_, false) || model_ == nullptr) return;
    wait_for_frames();
    looking.look(*model_, text);
}

void Observatory::open(const std::string& path) {
    if (opening_) return;
    opening_ = true;
    problem_.clear();
    engine.jobs().add([this, path] {
        std::shared_ptr<Model> model;
        std::optional<std::string> problem;
        try {
            model = std::make_shared<Model>(engine.context(), engine.program(), path);
        } catch (const Failure& failure) { problem = failure.what(); }
        const std::lock_guard guard(mutex_);
        opened_ = std::move(model);
        open_problem_ = std::move(problem);
    });
}

void Observatory::take_opened() {
    const std::lock_guard guard(mutex_);
    if (open_problem_) {
        problem_ = *std::exchange(open_problem_, std::nullopt);
        opening_ = false;
    }
    if (opened_ == nullptr) return;
    opening_ = false;
    wait_for_frames();
    model_ = std::move(opened_);
    ++model_number_;
    looking.forget();
    look_again_ = true;
}

void Observatory::train(const std::string& recipe, const std::vector<std::string>& overrides) {
    training_problem.clear();
    training.reset();
    try {
        training = std::make_unique<Training>(engine, recipe, overrides);
    } catch (const Failure& failure) { training_problem = failure.what(); }
}

} // namespace observatory
