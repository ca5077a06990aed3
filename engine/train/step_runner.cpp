#include "train/step_runner.hpp"

namespace hekla::train {

Status StepRunner::begin_gradients(const std::vector<data::Batch>& micro, int64_t step) {
    return begin(micro, step, {});
}

Status StepRunner::begin_update(const std::vector<data::Batch>& micro, int64_t step, double learning_rate) {
    HK_TRY(optimizer_.set(learning_rate, micro.size()));
    return begin(micro, step, optimizer_.programs());
}

Status StepRunner::begin(const std::vector<data::Batch>& micro, int64_t step,
                         std::span<program::Program* const> after) {
    sum_.emplace(described_);
    counts_.clear();
    tokens_ = tokens_of(micro);
    HK_TRY(
        add_counts(described_, micro, counts_)); // the mean over all micro-batches: each divides by the counts of all
    HK_ASSIGN(const double scale, optimizer_.loss_scale());
    HK_TRY(runner_.begin(micro, counts_, scale));
    for (std::size_t i = 0; i < micro.size(); ++i) {
        if (runner_.pending() == 2) HK_TRY(read_oldest());
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
    HK_ASSIGN(result.outcome, optimizer_.outcome());
    result.tokens = tokens_;
    return result;
}

} // namespace hekla::train
