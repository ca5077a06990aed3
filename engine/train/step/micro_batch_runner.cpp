#include "train/step/micro_batch_runner.hpp"

#include "graph/output.hpp"
#include "program/gradient_reader.hpp"
#include "program/program.hpp"

#include <fmt/format.h>

#include <limits>
#include <set>

namespace hekla::train {

LossSum::LossSum(const graph::Graph& described)
    : described_(&described), losses_(described.losses.size() > 1 ? described.losses.size() : 0),
      sums_(1 + losses_ + 2 * described.metrics.size()) {}

void LossSum::add(std::span<const double> micro) {
    for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i] += micro[i];
}

StepLoss LossSum::result(std::span<const double> counts) const {
    const auto mean = [](double sum, double count) {
        return count > 0.0 ? sum / count : std::numeric_limits<double>::quiet_NaN();
    };
    StepLoss loss;
    loss.total = sums_[0];
    for (std::size_t i = 0; i < losses_; ++i)
        loss.losses.emplace_back(described_->losses[i].name, mean(sums_[1 + i], counts[i]));
    for (std::size_t i = 0; i < described_->metrics.size(); ++i) {
        const double* const metric = &sums_[1 + losses_ + 2 * i];
        loss.metrics.emplace_back(described_->metrics[i].name, mean(metric[0], metric[1]));
    }
    return loss;
}

Status set_fields(program::Program& program, const data::Batch& batch) {
    for (const data::Field& field : batch.fields)
        if (program.has_input(field.name)) HK_TRY(program.set_input(field.name, field.bytes)); // not all are read
    return {};
}

Status add_counts(const graph::Graph& described, std::span<const data::Batch> micro, std::vector<double>& counts) {
    counts.resize(described.losses.size(), 0.0);
    for (const data::Batch& batch : micro) {
        if (batch.loss_counts.size() != counts.size())
            return internal_error(fmt::format("a batch has the counts of {} losses; the model has {} losses",
                                              batch.loss_counts.size(), counts.size()));
        for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += batch.loss_counts[i];
    }
    return {};
}

StepTokens tokens_of(std::span<const data::Batch> micro) {
    StepTokens tokens;
    for (const data::Batch& batch : micro) {
        tokens.all += static_cast<double>(batch.rows) * static_cast<double>(batch.length);
        tokens.labels += batch.label_tokens;
    }
    return tokens;
}

Status MicroBatchRunner::begin(std::span<const data::Batch> micro, std::span<const double> counts, double scale) {
    pending_.clear();
    scale_ = scale;
    const std::vector<graph::LossTerm>& terms = described_.losses;
    std::set<int64_t> lengths;
    for (const data::Batch& batch : micro) lengths.insert(batch.length);
    for (const int64_t length : lengths)
        for (std::size_t i = 0; i < counts.size(); ++i) {
            program::Program& program = options_.program_of(length);
            const std::string name = fmt::format("loss_scale.{}", i);
            if (program.has_scalar(name)) // otherwise it does not count in this step
                HK_TRY(program.set_scalar(name, counts[i] > 0.0 ? static_cast<float>(scale_) *
                                                                      static_cast<float>(terms[i].weight / counts[i])
                                                                : 0.0f));
        }
    return {};
}

Result<program::Replay> MicroBatchRunner::prepare(const data::Batch& batch, int64_t step,
                                                  const Submission& submission) {
    program::Program& program = options_.program_of(batch.length);
    HK_TRY(set_fields(program, batch));
    if (options_.set_inputs) HK_TRY(options_.set_inputs(program, batch));
    program::RunScalars scalars;
    scalars.seed = options_.seed;
    scalars.step = static_cast<uint32_t>(step);
    scalars.first_example = submission.index * static_cast<uint32_t>(options_.rows);
    scalars.accumulate = submission.accumulate;
    return program::Replay{&program, scalars};
}

Status MicroBatchRunner::submit(const data::Batch& batch, int64_t step, const Submission& submission) {
    HK_ASSIGN(const program::Replay replay, prepare(batch, step, submission));
    std::vector<program::Replay> replays{replay};
    for (program::Program* const after : submission.after) replays.push_back({after, {}});
    HK_TRY(program::Program::submit(replays));
    pending_.push_back(replay.program);
    return {};
}

Result<std::vector<uint64_t>> MicroBatchRunner::submit_by_range(const data::Batch& batch, int64_t step,
                                                                const Submission& submission,
                                                                const program::GradientReader& reader) {
    HK_ASSIGN(const program::Replay replay, prepare(batch, step, submission));
    HK_ASSIGN(std::vector<uint64_t> values, replay.program->submit_by_range(replay.scalars, reader));
    pending_.push_back(replay.program);
    return values;
}

Result<std::vector<double>> MicroBatchRunner::read_oldest() {
    program::Program& program = *pending_.front();
    pending_.pop_front();
    if (options_.observe) HK_TRY(options_.observe(program));
    const std::size_t age = !pending_.empty() && pending_.front() == &program ? 1 : 0;
    std::vector<double> numbers;
    const auto read = [&](const std::string& name) -> Status {
        HK_ASSIGN(const float number, program.read_scalar_output(name, age));
        numbers.push_back(static_cast<double>(number));
        return {};
    };
    using graph::output_name, graph::OutputKind;
    HK_TRY(read(graph::kLossOutput));
    numbers[0] /= scale_;
    if (described_.losses.size() > 1)
        for (std::size_t term = 0; term < described_.losses.size(); ++term)
            HK_TRY(read(output_name(OutputKind::loss_sum, term)));
    for (const graph::Metric& metric : described_.metrics) {
        HK_TRY(read(output_name(OutputKind::metric_sum, metric.name)));
        HK_TRY(read(output_name(OutputKind::metric_count, metric.name)));
    }
    return numbers;
}

} // namespace hekla::train
