// Buffers that training writes, in float64: after many steps on one batch, without changes of the parameters,
// evaluation computes what training computes. So it is for running statistics and for averages of weights.
#include "check/tests.hpp"
#include "data/batcher.hpp"
#include "graph/operations/buffer_update.hpp"
#include "graph/reference.hpp"
#include "hekla/plugin/architecture.h"
#include "hekla/plugin/graph.h"
#include "plugin/composition/compose.hpp"
#include "plugin/host/joint.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace hekla::check {
namespace {

constexpr int kSteps = 300;       // a decay of 0.9 leaves 2e-14 of the initial values
constexpr double kSettled = 1e-7; // relative change in a step
// Of an output, relative to its largest element. Running variances are unbiased: with n values, n / (n - 1) times the
// variance that training divides by.
constexpr double kAlike = 0.02;

double largest(const std::vector<double>& values) {
    double most = 0.0;
    for (const double value : values) most = std::max(most, std::abs(value));
    return most;
}

double difference(const std::vector<double>& a, const std::vector<double>& b) {
    double most = 0.0;
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
        most = std::isfinite(a[i] - b[i]) ? std::max(most, std::abs(a[i] - b[i])) : HUGE_VAL;
    return most;
}

bool draws_numbers(const graph::Graph& graph) { return std::ranges::any_of(graph.nodes, graph::is_random); }

// The network in both modes, and the buffers between them.
class Buffers {
public:
    Buffers(Trial& trial, std::string name, graph::Graph training, graph::Graph evaluation, graph::Feeds feeds)
        : trial_(trial), name_(std::move(name)), training_(std::move(training)), evaluation_(std::move(evaluation)),
          feeds_(std::move(feeds)), updates_(graph::buffer_updates(training_)) {}

    Status run() {
        if (updates_.empty()) {
            trial_.skip(name_ + ": writes no buffers");
            return {};
        }
        trial_.doing(fmt::format("{}: {} steps on one batch", name_, kSteps));
        HK_ASSIGN(const bool settled, settle());
        if (!settled) return {};
        if (draws_numbers(training_)) {
            trial_.note(name_ + ": draws random numbers in training, so that evaluation is not compared with it");
            return {};
        }
        trial_.doing(name_ + ": evaluated with the buffers that training wrote");
        return compare();
    }

private:
    // Returns false if the buffers do not settle, or are not finite, which is reported.
    Result<bool> settle() {
        std::vector<graph::ValueId> wanted;
        for (const graph::BufferUpdate& update : updates_) wanted.push_back(training_.outputs.at(update.output));
        for (int step = 1; step <= kSteps; ++step) {
            HK_ASSIGN(std::vector<graph::Tensor> after, graph::evaluate(training_, feeds_, wanted));
            bool settled = true;
            for (std::size_t i = 0; i < updates_.size(); ++i) {
                graph::Tensor& buffer = feeds_.buffers[updates_[i].buffer];
                const double most = largest(after[i].data);
                if (!(most <= static_cast<double>(std::numeric_limits<float>::max())) ||
                    std::ranges::any_of(after[i].data, [](double value) { return std::isnan(value); })) {
                    trial_.fail(fmt::format("{}: the buffer '{}' is not finite after {} steps on one batch", name_,
                                            updates_[i].buffer, step));
                    return false;
                }
                settled = settled && !buffer.data.empty() &&
                          difference(after[i].data, buffer.data) <= kSettled * std::max(1e-3, most);
                buffer = std::move(after[i]);
            }
            if (settled) return true;
        }
        trial_.note(fmt::format("{}: its buffers still change after {} steps on one batch", name_, kSteps));
        return false;
    }

    Status compare() {
        std::vector<std::string> names;
        std::vector<graph::ValueId> trained, evaluated;
        for (const auto& [name, value] : training_.outputs) {
            const auto other = evaluation_.outputs.find(name);
            if (other == evaluation_.outputs.end() || training_.shape(value) != evaluation_.shape(other->second) ||
                training_.value(value).kind == graph::Kind::int32)
                continue;
            names.push_back(name);
            trained.push_back(value);
            evaluated.push_back(other->second);
        }
        HK_ASSIGN(const std::vector<graph::Tensor> expected, graph::evaluate(training_, feeds_, trained));
        HK_ASSIGN(const std::vector<graph::Tensor> found, graph::evaluate(evaluation_, feeds_, evaluated));
        for (std::size_t i = 0; i < names.size(); ++i) {
            const double apart =
                difference(found[i].data, expected[i].data) / std::max(1e-9, largest(expected[i].data));
            if (apart <= kAlike) continue;
            trial_.fail(fmt::format("{}: with the buffers after many steps on one batch, {} in evaluation differs by "
                                    "{:.3g} of its largest element from training on the same batch: a buffer gets "
                                    "another value than evaluation reads",
                                    name_, names[i], apart));
        }
        return {};
    }

    Trial& trial_;
    std::string name_;
    graph::Graph training_, evaluation_;
    graph::Feeds feeds_;
    std::vector<graph::BufferUpdate> updates_;
};

} // namespace

Status test_buffers(Trial& trial) {
    for (const plugin::Provided& provided : trial.manifest().provides) {
        if (provided.interface_id != HK_ARCHITECTURE_INTERFACE) continue;
        HK_ASSIGN(const Small small, small_network(trial, provided));
        constexpr int64_t kRows = 16; // many values for each statistic
        const auto examples = std::span(small.examples).first(std::min<std::size_t>(kRows, small.examples.size()));
        HK_ASSIGN(const std::vector<data::Field> fields, batch_of(small, examples, kRows, small.length, 1));
        HK_ASSIGN(const std::vector<plugin::BatchField> described,
                  small.composition->batch_fields(kRows, small.length));
        HK_ASSIGN(graph::Graph training, small.composition->build(HK_MODE_TRAIN, described, {}, true));
        HK_ASSIGN(graph::Graph evaluation, small.composition->build(HK_MODE_EVALUATE, described, {}, true));
        graph::Feeds feeds = feeds_of(evaluation, fields, trial.seed());
        feeds.parameters.merge(feeds_of(training, fields, trial.seed()).parameters);
        HK_TRY(Buffers(trial, name_of(provided), std::move(training), std::move(evaluation), std::move(feeds)).run());
    }
    return {};
}

} // namespace hekla::check
