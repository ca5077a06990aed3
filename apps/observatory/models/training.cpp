#include "models/training.hpp"

#include "failure.hpp"

#include <cmath>

namespace observatory {
namespace {

constexpr auto kBetweenSpreads = std::chrono::milliseconds(700);

} // namespace

Training::Training(Engine& engine, const std::string& recipe, const std::vector<std::string>& overrides)
    : engine_(engine) {
    hk::TrainingOptions options;
    options.recipe = recipe;
    options.overrides = overrides;
    options.step = [this](const hk_train_step& step) { note(step); };
    options.evaluation = [this](const hk_train_evaluation& evaluation) { note(evaluation); };
    options.message = [this](std::string_view message) {
        const std::lock_guard guard(mutex_);
        messages_.emplace_back(message);
    };
    hk::Error error;
    session_ = engine.cpp_context().train(std::move(options), error);
    if (error) throw Failure(error.message());
    id_ = session_.session().c().id;
    engine.add(session_.session().c(), Engine::Kind::training);
}

Training::~Training() { engine_.remove(session_.session().c()); }

void Training::note(const hk_train_step& s) {
    const auto step = static_cast<double>(s.step);
    {
        const std::lock_guard guard(mutex_);
        curves_.step = s.step;
        curves_.max_steps = s.max_steps;
        curves_.tokens_per_second = s.tokens_per_second;
        curves_.remaining_seconds = s.remaining_seconds;
        if (s.skipped != 0) ++curves_.skipped;
        if (std::isfinite(s.loss)) curves_.loss.add(step, s.loss);
        if (std::isfinite(s.gradient_norm)) curves_.gradient_norm.add(step, s.gradient_norm);
        curves_.learning_rate.add(step, s.learning_rate);
    }
    const auto now = std::chrono::steady_clock::now();
    if (!wants_spreads_ || id_ == 0 || now - counted_ < kBetweenSpreads) return;
    counted_ = now;
    count(s.step);
}

void Training::note(const hk_train_evaluation& e) {
    const std::lock_guard guard(mutex_);
    if (curves_.evaluation.values.empty() || e.loss < curves_.best) curves_.best = e.loss;
    const auto step = static_cast<double>(e.step);
    curves_.evaluation.add(step, e.loss);
    for (uint64_t i = 0; i < e.score_count; ++i)
        curves_.score(std::string(hk::view(e.scores[i].name))).add(step, e.scores[i].value);
}

// Computes the histograms within the step's callback, while the tensors do not change.
void Training::count(int64_t step) {
    const hk_session session{id_};
    std::vector<Spread> spreads;
    const auto give = [](void* user, const hk_parameter* p) {
        static_cast<std::vector<Spread>*>(user)->push_back({parameter_of(*p), {}, {}});
    };
    if (hk_session_parameters(session, &spreads, give, nullptr) != HK_OK) return;
    std::vector<hk_tensor> tensors;
    const auto find = [&](const std::string& name, int32_t what) {
        hk_tensor tensor{};
        tensor.struct_size = sizeof tensor;
        if (hk_session_parameter(session, hk::view(name), what, &tensor, nullptr) == HK_OK) tensors.push_back(tensor);
    };
    for (const Spread& one : spreads) find(one.parameter.name, HK_PARAMETER_VALUE);
    const std::size_t values = tensors.size();
    for (const Spread& one : spreads)
        if (one.parameter.learns) find(one.parameter.name, HK_PARAMETER_GRADIENT);
    if (values != spreads.size()) return;
    try {
        if (histograms_ == nullptr) histograms_ = std::make_unique<Histograms>(engine_.device());
        const std::vector<Histogram> all = histograms_->take(tensors);
        std::size_t gradient = values;
        for (std::size_t i = 0; i < values; ++i) {
            spreads[i].values = all[i];
            if (spreads[i].parameter.learns && gradient < all.size()) spreads[i].gradients = all[gradient++];
        }
    } catch (const Failure& failure) { // exceptions must not pass through Hekla
        const std::lock_guard guard(mutex_);
        messages_.emplace_back(std::string("histograms: ") + failure.what());
        wants_spreads_ = false;
        return;
    }
    const std::lock_guard guard(mutex_);
    spreads_ = std::move(spreads);
    spreads_at_ = step;
}

Curves Training::curves() const {
    const std::lock_guard guard(mutex_);
    return curves_;
}

std::vector<std::string> Training::messages() const {
    const std::lock_guard guard(mutex_);
    return messages_;
}

std::pair<int64_t, std::vector<Spread>> Training::spreads() const {
    const std::lock_guard guard(mutex_);
    return {spreads_at_, spreads_};
}

} // namespace observatory
