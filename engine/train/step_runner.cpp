#include "train/step_runner.hpp"

#include <fmt/format.h>

#include <limits>
#include <set>

namespace hekla::train {

Status set_fields(program::Program& program, const data::Batch& batch) {
    for (const data::Field& field : batch.fields)
        if (program.has_input(field.name)) HK_TRY(program.set_input(field.name, field.bytes)); // not all are read
    return {};
}

Status StepRunner::begin_gradients(const std::vector<data::Batch>& micro, int64_t step) {
    return begin(micro, step, nullptr);
}

Status StepRunner::begin_update(const std::vector<data::Batch>& micro, int64_t step, double learning_rate) {
    HK_TRY(optimizer_.set(learning_rate));
    return begin(micro, step, &optimizer_.program());
}

// The mean over all micro-batches: each divides by the counts of all.
Status StepRunner::set_loss_scales(const std::vector<data::Batch>& micro) {
    const std::vector<graph::LossTerm>& terms = described_.losses;
    counts_.assign(terms.size(), 0.0);
    std::set<int64_t> lengths;
    for (const data::Batch& batch : micro) {
        if (batch.loss_counts.size() != terms.size())
            return internal_error(fmt::format("a batch has the counts of {} losses; the model has {} losses",
                                              batch.loss_counts.size(), terms.size()));
        for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += batch.loss_counts[i];
        lengths.insert(batch.length);
    }
    HK_ASSIGN(scale_, optimizer_.loss_scale());
    for (const int64_t length : lengths)
        for (std::size_t i = 0; i < counts_.size(); ++i)
            HK_TRY(options_.program_of(length).set_scalar(
                fmt::format("loss_scale.{}", i),
                counts_[i] > 0.0 ? static_cast<float>(scale_) * static_cast<float>(terms[i].weight / counts_[i])
                                 : 0.0f));
    return {};
}

Status StepRunner::begin(const std::vector<data::Batch>& micro, int64_t step, program::Program* after) {
    pending_.clear();
    total_ = 0.0;
    sums_.assign(described_.losses.size() > 1 ? described_.losses.size() : 0, 0.0);
    metrics_.assign(described_.metrics.size(), {});
    HK_TRY(set_loss_scales(micro));
    for (std::size_t i = 0; i < micro.size(); ++i) {
        if (pending_.size() == 2) HK_TRY(read_oldest());
        program::Program& program = options_.program_of(micro[i].length);
        HK_TRY(set_fields(program, micro[i]));
        if (options_.set_inputs) HK_TRY(options_.set_inputs(program, micro[i]));
        program::RunScalars scalars;
        scalars.seed = options_.seed;
        scalars.step = static_cast<uint32_t>(step);
        scalars.first_example = static_cast<uint32_t>(i) * static_cast<uint32_t>(options_.rows);
        scalars.accumulate = i > 0;
        const program::Replay replays[] = {{&program, scalars}, {after, {}}};
        const bool with_after = after != nullptr && i + 1 == micro.size();
        HK_TRY(program::Program::submit(std::span(replays, with_after ? 2 : 1)));
        pending_.push_back(&program);
    }
    return {};
}

Status StepRunner::read_oldest() {
    program::Program& program = *pending_.front();
    pending_.pop_front();
    const std::size_t age = !pending_.empty() && pending_.front() == &program ? 1 : 0;
    HK_ASSIGN(const float part, program.read_scalar_output("loss", age));
    total_ += static_cast<double>(part) / scale_;
    for (std::size_t term = 0; term < sums_.size(); ++term) {
        HK_ASSIGN(const float sum, program.read_scalar_output(fmt::format("loss_sum.{}", term), age));
        sums_[term] += static_cast<double>(sum);
    }
    for (std::size_t m = 0; m < metrics_.size(); ++m) {
        const std::string& name = described_.metrics[m].name;
        HK_ASSIGN(const float sum, program.read_scalar_output("metric_sum." + name, age));
        HK_ASSIGN(const float count, program.read_scalar_output("metric_count." + name, age));
        metrics_[m].first += static_cast<double>(sum);
        metrics_[m].second += static_cast<double>(count);
    }
    return {};
}

Result<StepLoss> StepRunner::end_gradients() {
    while (!pending_.empty()) HK_TRY(read_oldest());
    StepLoss loss;
    loss.total = total_;
    const auto mean = [](double sum, double count) {
        return count > 0.0 ? sum / count : std::numeric_limits<double>::quiet_NaN();
    };
    for (std::size_t i = 0; i < sums_.size(); ++i)
        loss.losses.emplace_back(described_.losses[i].name, mean(sums_[i], counts_[i]));
    for (std::size_t i = 0; i < metrics_.size(); ++i)
        loss.metrics.emplace_back(described_.metrics[i].name, mean(metrics_[i].first, metrics_[i].second));
    return loss;
}

Result<TakenStep> StepRunner::end_update() {
    TakenStep result;
    HK_ASSIGN(result.loss, end_gradients());
    HK_ASSIGN(result.outcome, optimizer_.outcome());
    return result;
}

} // namespace hekla::train
