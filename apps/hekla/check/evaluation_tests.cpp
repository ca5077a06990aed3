// Evaluation of a network, in float64: it is not random, and its losses are sums over the rows of a batch.
#include "check/probe.hpp"
#include "check/tests.hpp"
#include "data/batcher.hpp"
#include "hekla/plugin/graph.h"
#include "plugin/composition/compose.hpp"
#include "plugin/host/joint.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace hekla::check {
namespace {

constexpr double kSameSum = 1e-9; // relative; of float64 sums in another order

// The sums and counts of every loss of a batch.
struct Losses {
    std::vector<std::string> names;
    std::vector<double> sums, counts;
};

Result<Losses> losses_of(const Small& small, std::span<const data::EncodedExample> examples, int64_t rows,
                         uint64_t seed) {
    HK_ASSIGN(const std::vector<data::Field> fields, batch_of(small, examples, rows, small.length, 1));
    HK_ASSIGN(const std::vector<plugin::BatchField> described, small.composition->batch_fields(rows, small.length));
    HK_ASSIGN(const graph::Graph graph, small.composition->build(HK_MODE_EVALUATE, described));
    std::vector<graph::ValueId> wanted;
    for (const graph::LossTerm& loss : graph.losses) wanted.insert(wanted.end(), {loss.sum, loss.count});
    HK_ASSIGN(const std::vector<graph::Tensor> values, graph::evaluate(graph, feeds_of(graph, fields, seed), wanted));
    Losses all;
    for (std::size_t i = 0; i < graph.losses.size(); ++i) {
        all.names.push_back(graph.losses[i].name);
        all.sums.push_back(values[2 * i].data[0]);
        all.counts.push_back(values[2 * i + 1].data[0]);
    }
    return all;
}

bool same(double a, double b) { return std::abs(a - b) <= kSameSum * std::max(1.0, std::abs(b)); }

// Reports the first loss of `found` that differs from `expected`.
void compare_losses(Trial& trial, const std::string& name, const Losses& found, const Losses& expected,
                    const std::string& what, const std::string& hint) {
    for (std::size_t i = 0; i < expected.names.size(); ++i) {
        if (same(found.sums[i], expected.sums[i]) && same(found.counts[i], expected.counts[i])) continue;
        trial.fail(fmt::format("{}: the loss '{}' of {} has the sum {:.9g} and the count {:.9g}; {:.9g} and {:.9g} "
                               "were expected: {}",
                               name, expected.names[i], what, found.sums[i], found.counts[i], expected.sums[i],
                               expected.counts[i], hint));
        return;
    }
}

} // namespace

Status test_random(Trial& trial) {
    for (const plugin::Provided& provided : trial.manifest().provides) {
        HK_ASSIGN(Probe probe, evaluation_probe(trial, provided, 3));
        std::vector<std::string> names;
        std::vector<graph::ValueId> wanted;
        for (const auto& [output, value] : probe.graph.outputs) {
            names.push_back(output);
            wanted.push_back(value);
        }
        for (const graph::LossTerm& loss : probe.graph.losses) {
            names.push_back(fmt::format("the loss '{}'", loss.name));
            wanted.push_back(loss.sum);
        }
        trial.doing(probe.name + ": evaluated with two seeds");
        HK_ASSIGN(const std::vector<graph::Tensor> first, graph::evaluate(probe.graph, probe.feeds, wanted));
        ++probe.feeds.seed;
        HK_ASSIGN(const std::vector<graph::Tensor> second, graph::evaluate(probe.graph, probe.feeds, wanted));
        for (std::size_t i = 0; i < names.size(); ++i)
            if (first[i].data != second[i].data) {
                trial.fail(fmt::format("{}: {} depends on the seed in evaluation: random numbers belong in mode train "
                                       "alone",
                                       probe.name, names[i]));
                break;
            }
    }
    return {};
}

Status test_sums(Trial& trial) {
    for (const plugin::Provided& provided : trial.manifest().provides) {
        HK_ASSIGN(const Small small, small_network(trial, provided));
        const std::size_t count = std::min<std::size_t>(small.examples.size(), 3);
        const std::span examples = std::span(small.examples).first(count);
        const auto rows = static_cast<int64_t>(count);
        trial.doing(name_of(provided) + ": losses of a batch and of its rows");
        HK_ASSIGN(const Losses together, losses_of(small, examples, rows, trial.seed()));
        Losses added{together.names, std::vector<double>(together.names.size()),
                     std::vector<double>(together.names.size())};
        for (std::size_t row = 0; row < count; ++row) {
            HK_ASSIGN(const Losses one, losses_of(small, examples.subspan(row, 1), 1, trial.seed()));
            for (std::size_t i = 0; i < one.names.size(); ++i) {
                added.sums[i] += one.sums[i];
                added.counts[i] += one.counts[i];
            }
        }
        compare_losses(trial, name_of(provided), together, added, fmt::format("{} rows", rows),
                       "loss() takes a sum over rows and what it is a sum of, so that micro-batches add up to the loss "
                       "of one batch");
        trial.doing(name_of(provided) + ": losses of a batch with rows of padding");
        HK_ASSIGN(const Losses padded, losses_of(small, examples, rows + 2, trial.seed()));
        compare_losses(trial, name_of(provided), padded, together,
                       fmt::format("{} rows, of which 2 have no example,", rows + 2),
                       "rows of padding count as nothing: their labels are ignored, or their weights 0");
    }
    return {};
}

} // namespace hekla::check
