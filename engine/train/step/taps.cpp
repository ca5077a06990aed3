#include "train/step/taps.hpp"

#include "graph/output.hpp"
#include "graph/passes/taps.hpp"
#include "model/safetensors.hpp"
#include "program/program.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace hekla::train {

void TapSum::add(std::span<const double> values) {
    const auto finite_before = static_cast<double>(elements_ - nans_ - infinities_);
    double count = 0.0, sum = 0.0;
    for (const double x : values) {
        if (x == 0.0) ++zeros_;
        if (std::isnan(x)) {
            ++nans_;
        } else if (std::isinf(x)) {
            ++infinities_;
        } else {
            const bool first = finite_before + count == 0.0;
            minimum_ = first ? x : std::min(minimum_, x);
            maximum_ = first ? x : std::max(maximum_, x);
            sum += x;
            ++count;
        }
    }
    elements_ += values.size();
    if (count == 0.0) return;
    const double mean = sum / count;
    double squares = 0.0;
    for (const double x : values)
        if (std::isfinite(x)) squares += (x - mean) * (x - mean);
    const double all = finite_before + count, distance = mean - mean_;
    squares_ += squares + distance * distance * finite_before * count / all;
    mean_ += distance * count / all;
}

TapStatistics TapSum::statistics(const std::string& name) const {
    TapStatistics s;
    s.name = name;
    s.elements = elements_;
    s.nans = nans_;
    s.infinities = infinities_;
    if (elements_ > 0) s.zeros = static_cast<double>(zeros_) / static_cast<double>(elements_);
    const auto finite = static_cast<double>(elements_ - nans_ - infinities_);
    if (finite == 0.0) {
        s.mean = s.deviation = s.minimum = s.maximum = std::numeric_limits<double>::quiet_NaN();
        return s;
    }
    s.mean = mean_;
    s.deviation = std::sqrt(squares_ / finite);
    s.minimum = minimum_;
    s.maximum = maximum_;
    return s;
}

Result<Taps> Taps::create(const TapSection& section, int64_t logging_steps, const graph::Graph& described) {
    Taps taps;
    if (section.names.empty()) {
        if (!section.values.empty() || section.every != 0)
            return invalid_argument(fmt::format("tap.{} needs tap.names, the taps to store: patterns of names, such as "
                                                "[\"*\"]",
                                                section.values.empty() ? "every" : "values"));
        return taps;
    }
    if (section.values.empty() && section.every != 0)
        return invalid_argument(
            fmt::format("tap.every = {} needs tap.values, the folder for the values of taps", section.every));
    std::error_code problem;
    if (!section.values.empty() && std::filesystem::exists(section.values, problem) &&
        !std::filesystem::is_directory(section.values, problem))
        return invalid_argument(fmt::format(
            "tap.values = {}: it is a file; expected a folder, which is created if it does not exist", section.values));
    const Result<std::vector<std::string>> selected = graph::selected_taps(described, section.names);
    if (!selected.ok()) return selected.status().with_context("tap.names");
    taps.names_ = selected.value();
    taps.sums_.resize(taps.names_.size());
    taps.folder_ = section.values;
    taps.every_ = section.every > 0 ? section.every : logging_steps;
    return taps;
}

void Taps::begin_step(int64_t step) {
    step_ = step;
    micro_ = 0;
    sums_.assign(names_.size(), TapSum());
}

Status Taps::read(program::Program& program) {
    if (step_ == 0) return {};
    std::vector<program::HostTensor> values;
    for (std::size_t i = 0; i < names_.size(); ++i) {
        HK_ASSIGN(program::HostTensor tensor,
                  program.read_output(graph::output_name(graph::OutputKind::tap, names_[i])));
        std::vector<double> numbers;
        if (tensor.kind == graph::Kind::int32)
            numbers.assign(tensor.ints().begin(), tensor.ints().end());
        else
            numbers.assign(tensor.floats().begin(), tensor.floats().end());
        sums_[i].add(numbers);
        values.push_back(std::move(tensor));
    }
    ++micro_;
    return !folder_.empty() && step_ % every_ == 0 ? write(values) : Status();
}

std::vector<TapStatistics> Taps::statistics() const {
    std::vector<TapStatistics> all;
    for (std::size_t i = 0; i < names_.size(); ++i) all.push_back(sums_[i].statistics(names_[i]));
    return all;
}

Status Taps::write(const std::vector<program::HostTensor>& values) const {
    std::error_code problem;
    std::filesystem::create_directories(folder_, problem);
    if (problem)
        return io_error(
            fmt::format("tap.values = {}: cannot create the folder: {}", folder_.string(), problem.message()));
    std::vector<model::TensorSource> tensors;
    for (std::size_t i = 0; i < names_.size(); ++i) {
        model::TensorSource source;
        source.name = names_[i];
        source.dtype = values[i].kind == graph::Kind::int32 ? model::DType::i32 : model::DType::f32;
        source.dims = values[i].shape.vector();
        source.stream = [&tensor = values[i]](const model::Sink& sink) -> Status { return sink(tensor.bytes); };
        tensors.push_back(std::move(source));
    }
    const std::string name = micro_ == 1 ? fmt::format("step-{}.safetensors", step_)
                                         : fmt::format("step-{}-micro-batch-{}.safetensors", step_, micro_);
    return model::write_safetensors_file(folder_ / name, tensors, {{"format", "pt"}, {"step", std::to_string(step_)}})
        .status();
}

} // namespace hekla::train
