// What an adapter computes at a layer against what the layer computes with the adapter's merged weight, in float64.
#include "check/tests.hpp"
#include "data/batcher.hpp"
#include "graph/reference.hpp"
#include "graph/shape.hpp"
#include "hekla/plugin/adapter.h"
#include "hekla/plugin/graph.h"
#include "plugin/composition/compose.hpp"
#include "plugin/composition/plugin_set.hpp"
#include "plugin/host/site.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace hekla::check {
namespace {

constexpr double kMergeTolerance = 1e-12; // relative to the largest element; both are float64 sums, in different orders

// A layer at which the adapter acts.
struct Pair {
    std::string site;
    graph::ValueId adapted = graph::kNone, alone = graph::kNone;
};

std::vector<Pair> pairs_of(const graph::Graph& graph) {
    std::vector<Pair> pairs;
    for (const auto& [output, value] : graph.outputs) {
        if (!output.starts_with(plugin::kAdapted)) continue;
        const std::string name = output.substr(std::string_view(plugin::kAdapted).size()); // "3.h.0.attn.c_attn"
        pairs.push_back({name.substr(name.find('.') + 1), value, graph.outputs.at(plugin::kAlone + name)});
    }
    return pairs;
}

// Returns the greatest difference of two tensors, relative to the largest element of `right`; NaN if one is not finite.
double relative_difference(const graph::Tensor& got, const graph::Tensor& right) {
    double worst = 0.0, largest = 0.0;
    for (std::size_t i = 0; i < right.data.size(); ++i) {
        const double apart = std::abs(got.data[i] - right.data[i]);
        if (!std::isfinite(apart)) return std::nan("");
        worst = std::max(worst, apart);
        largest = std::max(largest, std::abs(right.data[i]));
    }
    return worst > 0.0 ? worst / largest : 0.0;
}

} // namespace

Status test_merge(Trial& trial) {
    for (const plugin::Provided& provided : trial.manifest().provides) {
        if (provided.interface_id != HK_ADAPTER_INTERFACE) continue;
        const std::string name = name_of(provided);
        HK_ASSIGN(const Small small, small_network(trial, provided));
        HK_ASSIGN(const std::vector<data::Field> fields,
                  batch_of(small, std::span(small.examples).first(2), 2, small.length, 1));
        plugin::BuildRequest request;
        request.mode = HK_MODE_EVALUATE;
        HK_ASSIGN(request.fields, small.composition->batch_fields(2, small.length));
        request.merge_pairs = true;
        trial.doing(name + ": adapt() and merge() at every site");
        const Result<plugin::Described> described = small.composition->describe(request);
        if (described.code() == Code::unsupported) {
            trial.skip(fmt::format("{}: nothing to compare: {}", name, described.message()));
            continue;
        }
        HK_TRY(described.status());
        const std::vector<Pair> pairs = pairs_of(described->graph);
        std::size_t others = 0; // sites of residual sums and attention
        for (const plugin::Site& site : described->sites)
            others += site.wanted && (site.kind == HK_SITE_RESIDUAL || site.kind == HK_SITE_ATTENTION) ? 1 : 0;
        const std::string no_weight = fmt::format("{}: {} sites have no weight that could be merged", name, others);
        if (pairs.empty())
            trial.skip(others > 0 ? no_weight : name + ": acts at no layer of its small network");
        else if (others > 0)
            trial.note(no_weight);
        std::vector<graph::ValueId> wanted;
        for (const Pair& pair : pairs) wanted.insert(wanted.end(), {pair.adapted, pair.alone});
        HK_ASSIGN(const std::vector<graph::Tensor> values,
                  graph::evaluate(described->graph, feeds_of(described->graph, fields, trial.seed()), wanted));
        std::size_t wrong = 0, worst = 0;
        double largest = 0.0;
        for (std::size_t i = 0; i < pairs.size(); ++i) {
            const double apart = relative_difference(values[2 * i], values[2 * i + 1]);
            if (apart <= kMergeTolerance) continue;
            ++wrong;
            if (!(apart <= largest)) largest = apart, worst = i; // NaN too
        }
        if (wrong > 0)
            trial.fail(fmt::format("{}: at '{}', adapt() and the layer with the weight and bias of merge() differ by "
                                   "{:.3g} of the largest element; {} of {} sites differ by more than {:g}",
                                   name, pairs[worst].site, largest, wrong, pairs.size(), kMergeTolerance));
    }
    return {};
}

} // namespace hekla::check
