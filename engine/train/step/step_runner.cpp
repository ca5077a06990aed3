#include "train/step/step_runner.hpp"

#include "program/program.hpp"
#include "train/step/loss_counts.hpp"
#include "train/update/optimizer.hpp"

namespace hekla::train {

Status StepRunner::begin_gradients(const std::vector<data::Batch>& micro, int64_t step) {
    return begin(micro, step, {});
}

Status StepRunner::begin_update(const std::vector<data::Batch>& micro, int64_t step, double learning_rate) {
    std::vector<program::Program*> updates;
    std::vector<double> counts;
    HK_TRY(add_counts(described_, micro, counts));
    // Without a label there is nothing to learn: decay and momentum would still move the weights.
    if (!any_label(counts)) learning_rate = 0.0;
    for (Optimizer* const optimizer : optimizers_) {
        HK_TRY(optimizer->set(learning_rate, micro.size()));
        updates.insert(updates.end(), optimizer->programs().begin(), optimizer->programs().end());
    }
    return begin(micro, step, updates);
}

Status StepRunner::begin(const std::vector<data::Batch>& micro, int64_t step,
                         std::span<program::Program* const> after) {
    sum_.emplace(described_);
    counts_.clear();
    tokens_ = tokens_of(micro);
    HK_TRY(
        add_counts(described_, micro, counts_)); // the mean over all micro-batches: each divides by the counts of all
    HK_ASSIGN(const double scale, optimizers_.front()->loss_scale());
    HK_TRY(runner_.begin(micro, counts_, scale));
    for (std::size_t i = 0; i < micro.size(); ++i) {
        if (runner_.is_full()) HK_TRY(read_oldest());
        const bool last = i + 1 == micro.size();
        HK_TRY(runner_.submit(micro[i], step,
                              {static_cast<uint32_t>(i), i > 0, last ? after : std::span<program::Program* const>()}));
    }
    return {};
}

Status StepRunner::read_oldest() {
    HK_ASSIGN(const std::vector<double> numbers, runner_.read_oldest());
    sum_->add(numbers);
    return {};
}

Result<StepLoss> StepRunner::end_gradients() {
    while (runner_.pending() > 0) HK_TRY(read_oldest());
    return sum_->result(counts_);
}

Result<TakenStep> StepRunner::end_update() {
    TakenStep result;
    HK_ASSIGN(result.loss, end_gradients());
    HK_ASSIGN(result.outcome, optimizers_.front()->outcome());
    for (std::size_t i = 1; i < optimizers_.size(); ++i) HK_TRY(optimizers_[i]->outcome().status());
    result.tokens = tokens_;
    result.labels = any_label(counts_);
    return result;
}

} // namespace hekla::train
