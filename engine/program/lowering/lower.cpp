#include "program/lowering/lower.hpp"

#include "graph/output.hpp"
#include "program/lowering/chain.hpp"
#include "program/lowering/choose.hpp"
#include "program/lowering/concat.hpp"
#include "program/lowering/epilogue.hpp"
#include "program/lowering/families.hpp"
#include "program/lowering/loop.hpp"
#include "program/lowering/pointwise.hpp"
#include "program/lowering/storage16.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <set>

namespace hekla::program {

namespace {

using graph::Op;

struct Family {
    LowerNode lower;
    std::initializer_list<Op> operations;
};
// All other operations with kernels are pointwise.
const Family kFamilies[] = {
    {lower_shape,
     {Op::reshape, Op::transpose, Op::slice, Op::pad, Op::broadcast, Op::flip, Op::unslice, Op::once, Op::state_read,
      Op::state_write, Op::for_parameters, Op::tap, Op::site, Op::incoming_gradient, Op::with_gradient}},
    {lower_concat, {Op::concat}},
    {lower_leaf,
     {Op::input, Op::parameter, Op::buffer, Op::constant, Op::fill, Op::iota, Op::positions, Op::step_scalar}},
    {lower_random, {Op::random_uniform, Op::random_normal, Op::truncated_normal}},
    {lower_matmul, {Op::matmul, Op::linear}},
    {lower_row_linear, {Op::row_linear, Op::row_linear_gradient}},
    {lower_windows,
     {Op::patches, Op::patches_gradient, Op::max_pool2d, Op::max_pool2d_gradient, Op::avg_pool2d,
      Op::avg_pool2d_gradient}},
    {lower_attention, {Op::attention, Op::attention_gradient, Op::attention_cached}},
    {lower_norm, {Op::layer_norm, Op::rms_norm, Op::layer_norm_gradient, Op::rms_norm_gradient}},
    {lower_softmax, {Op::softmax, Op::log_softmax, Op::softmax_gradient}},
    {lower_cross_entropy, {Op::cross_entropy, Op::cross_entropy_gradient}},
    {lower_linear_cross_entropy,
     {Op::linear_cross_entropy, Op::linear_cross_entropy_gradient, Op::linear_cross_entropy_with_gradient}},
    {lower_reduce, {Op::sum, Op::mean, Op::max, Op::logsumexp, Op::argmax}},
    {lower_embedding, {Op::embedding, Op::embedding_gradient}},
    {lower_gather, {Op::gather, Op::scatter_add, Op::scatter}},
    {lower_scan, {Op::cumsum, Op::cumprod, Op::cummax, Op::logcumsumexp, Op::scan_linear, Op::top_k}},
    {lower_rotary, {Op::rotary}},
    {lower_recurrent, {Op::gru, Op::lstm, Op::gru_gradient, Op::lstm_gradient}},
    {lower_own, {Op::own}},
};

// Returns null for an operation without a kernel.
LowerNode family_of(Op op) {
    for (const Family& family : kFamilies)
        if (std::ranges::find(family.operations, op) != family.operations.end()) return family.lower;
    return graph::is_pointwise(op) ? lower_pointwise : nullptr;
}

// The values that the caller requested, by name, checked.
struct Wanted {
    std::vector<std::pair<std::string, graph::ValueId>> outputs;
    std::vector<std::pair<std::string, graph::ValueId>> gradients; // by parameter
    std::vector<std::pair<std::string, graph::ValueId>> states;    // state name -> value
    std::vector<std::pair<std::string, graph::ValueId>> sums;      // state name -> value that is added
    std::vector<std::pair<std::string, graph::ValueId>> updates;   // of CompileOptions::store_updates, in their order
};

std::optional<graph::ValueId> find_output(const graph::Graph& graph, const std::string& name) {
    if (const auto it = graph.outputs.find(name); it != graph.outputs.end()) return it->second;
    using graph::output_name, graph::OutputKind;
    for (std::size_t i = 0; i < graph.losses.size(); ++i) {
        if (name == output_name(OutputKind::loss_sum, i)) return graph.losses[i].sum;
        if (name == output_name(OutputKind::loss_count, i)) return graph.losses[i].count;
    }
    for (const graph::Metric& metric : graph.metrics) {
        if (name == output_name(OutputKind::metric_sum, metric.name)) return metric.sum;
        if (name == output_name(OutputKind::metric_count, metric.name)) return metric.count;
    }
    return std::nullopt;
}

Result<Wanted> find_wanted(const graph::Graph& graph, const CompileOptions& options) {
    Wanted wanted;
    for (const std::string& name : options.outputs) {
        const auto value = find_output(graph, name);
        if (!value) {
            std::string known;
            for (const auto& [output, unused] : graph.outputs) known += (known.empty() ? "" : ", ") + output;
            return not_found(
                fmt::format("the graph has no output '{}'; it has: {}", name, known.empty() ? "none" : known));
        }
        wanted.outputs.emplace_back(name, *value);
    }
    if (options.gradients != Gradients::ignore)
        wanted.gradients = graph::outputs_of(graph, graph::OutputKind::gradient);
    for (const auto& [name, state] : options.state_outputs) {
        const auto value = find_output(graph, name);
        if (!value)
            return not_found(fmt::format("the graph has no output '{}' to write to the state '{}'", name, state));
        wanted.states.emplace_back(state, *value);
    }
    for (const auto& [name, state] : options.state_sums) {
        const auto value = find_output(graph, name);
        if (!value) return not_found(fmt::format("the graph has no output '{}' to add to the state '{}'", name, state));
        wanted.sums.emplace_back(state, *value);
    }
    for (const StoreUpdate& update : options.store_updates) {
        const auto value = find_output(graph, update.output);
        if (!value)
            return not_found(
                fmt::format("the graph has no output '{}' to write to '{}'", update.output, update.tensor.name));
        wanted.updates.emplace_back(update.output, *value);
    }
    return wanted;
}

// Sets Lowering::needed and Lowering::read.
void find_needed(Lowering& lowering, const Wanted& wanted) {
    const graph::Graph& graph = *lowering.graph;
    std::vector<bool>& needed = lowering.needed;
    needed.assign(graph.nodes.size(), false);
    lowering.read.assign(graph.values.size(), false);
    const auto need = [&](graph::ValueId value) {
        needed[graph.value(value).node] = true;
        lowering.read[value] = true;
    };
    for (const auto* list : {&wanted.outputs, &wanted.gradients, &wanted.states, &wanted.sums, &wanted.updates})
        for (const auto& [name, value] : *list) need(value);
    for (std::size_t n = graph.nodes.size(); n-- > 0;) {
        // An append to a cache is always needed.
        if (graph.nodes[n].op == Op::attention_cached) needed[n] = true;
        if (!needed[n]) continue;
        for (const graph::ValueId input : graph.nodes[n].inputs)
            if (input != graph::kNone) need(input);
    }
}

// Adds to the gradient arena, or overwrites it, depending on the replay's RunScalars.
void accumulate(Lowering& lowering, const View& from, const View& gradient) {
    const View runtime = lowering.runtime();
    const View source = lowering.contiguous(from);
    Dispatch dispatch;
    dispatch.shader = "pointwise/accumulate";
    dispatch.record = make_record(kernels::pointwise::AccumulateRecord{
        .x = source, .gradient = gradient, .runtime = runtime, .count = word(from.elements())});
    dispatch.groups = elementwise_groups(from.elements());
    dispatch.bytes = 3.0 * static_cast<double>(from.bytes());
    lowering.append(std::move(dispatch));
}

Status is_float32(const View& added, const std::string& name) {
    if (added.storage == Storage::f32) return {};
    return internal_error(fmt::format("what is added to '{}' is not float32", name));
}

// Adds gradients to the gradient arena as soon as they are computed, so that their memory is free again.
class GradientAccumulator {
public:
    GradientAccumulator(Lowering& lowering, const Wanted& wanted) : lowering_(lowering) {
        if (lowering.options.gradients == Gradients::accumulate) pending_ = wanted.gradients;
    }
    Status add_computed() {
        for (std::size_t i = 0; i < pending_.size();) {
            const auto& [name, value] = pending_[i];
            const View view = lowering_.view(value);
            if (view.resource == 0) {
                ++i;
                continue;
            }
            HK_TRY(is_float32(view, name));
            accumulate(lowering_, view, lowering_.named(ResourceKind::gradient, name, view.shape, Storage::f32));
            pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(i));
        }
        return {};
    }

private:
    Lowering& lowering_;
    std::vector<std::pair<std::string, graph::ValueId>> pending_;
};

// Writes views to tensors, in two steps if one's new content is a view of another's old content.
void replace(Lowering& lowering, std::vector<std::pair<View, View>> moves) {
    std::set<ResourceId> replaced;
    for (const auto& [from, to] : moves) replaced.insert(to.resource);
    for (auto& [from, to] : moves) {
        if (!replaced.contains(from.resource)) continue;
        const std::string name = lowering.resources[to.resource].name;
        const View aside = lowering.allocate(from.shape, from.storage, "new content of " + name);
        lowering.copy(from, aside);
        from = aside;
    }
    for (const auto& [from, to] : moves) lowering.copy(from, to);
}

// Replaces tensors of the store as soon as nothing reads their old content, so that the new one needs no memory until
// the end.
class StoreUpdater {
public:
    StoreUpdater(Lowering& lowering, const Wanted& wanted) : lowering_(lowering), wanted_(wanted) {}
    // Writes the updates after nodes before this one, which are all lowered.
    void write_before(graph::NodeId node) {
        const std::vector<StoreUpdate>& updates = lowering_.options.store_updates;
        while (next_ < updates.size() && updates[next_].after < node) {
            const uint32_t after = updates[next_].after;
            std::vector<std::pair<View, View>> moves;
            for (; next_ < updates.size() && updates[next_].after == after; ++next_) {
                const graph::ValueId value = wanted_.updates[next_].second;
                const View& view = lowering_.view(value);
                lowering_.current = lowering_.graph->value(value).node;
                moves.emplace_back(view, lowering_.stored(updates[next_].tensor, view.shape, view.storage));
            }
            replace(lowering_, std::move(moves));
        }
    }

private:
    Lowering& lowering_;
    const Wanted& wanted_;
    std::size_t next_ = 0;
};

Status keep(Lowering& lowering, const Wanted& wanted, const CompileOptions& options) {
    // An output that is also written to a state, or shared by two names, is copied for all but the first.
    if (options.gradients == Gradients::overwrite)
        for (const auto& [name, value] : wanted.gradients) {
            const View view = lowering.view(value);
            lowering.current = lowering.graph->value(value).node;
            HK_TRY(is_float32(view, name));
            if (!lowering.move_to(view, ResourceKind::gradient, name))
                lowering.copy(view, lowering.named(ResourceKind::gradient, name, view.shape, Storage::f32));
        }
    for (const auto& [name, value] : wanted.outputs) {
        const View view = lowering.view(value);
        lowering.current = lowering.graph->value(value).node;
        if (!lowering.move_to(view, ResourceKind::output, name))
            lowering.copy(view, lowering.named(ResourceKind::output, name, view.shape, view.storage));
    }
    // Written last.
    std::vector<std::pair<View, View>> moves;
    for (const auto& [name, value] : wanted.states) {
        const View& view = lowering.view(value);
        lowering.current = lowering.graph->value(value).node;
        moves.emplace_back(view, lowering.named(ResourceKind::state, name, view.shape, view.storage));
    }
    replace(lowering, std::move(moves));
    for (const auto& [name, value] : wanted.sums) {
        const View view = lowering.view(value);
        lowering.current = lowering.graph->value(value).node;
        if (view.elements() == 0) continue;
        HK_TRY(is_float32(view, name));
        accumulate(lowering, view, lowering.named(ResourceKind::state, name, view.shape, Storage::f32));
    }
    return {};
}

// Converts all float32 parameters that products read to 16 bits: together, because each dispatch costs time.
void convert_parameters(Lowering& lowering) {
    const graph::Graph& graph = *lowering.graph;
    std::vector<View> parameters;
    for (graph::NodeId id = 0; id < graph.nodes.size(); ++id) {
        if (!lowering.needed[id]) continue;
        const graph::Node& node = graph.nodes[id];
        for (std::size_t i = 0; i < node.inputs.size(); ++i) {
            if (!is_factor_of_product(node, i)) continue;
            graph::ValueId value = node.inputs[i];
            while (makes_view(graph.producer(value).op)) value = graph.producer(value).inputs[0];
            if (graph.producer(value).op != Op::parameter || graph.kind(value) != graph::Kind::float_) continue;
            const View view = lowering.parameter(graph.producer(value).text("name"), graph.shape(value));
            if (parameters.empty()) lowering.current = id;
            if (view.storage == Storage::f32) parameters.push_back(view);
        }
    }
    lowering.copy_as_16_bit(parameters);
}

// All other kernels support only 32-bit storage.
Status reads_what_is_stored(const Lowering& lowering, graph::NodeId id) {
    const graph::Node& node = lowering.graph->nodes[id];
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
        if (node.inputs[i] != graph::kNone && bytes_of(lowering.view(node.inputs[i]).storage) == 2 &&
            !reads_16_bits(*lowering.graph, node, i))
            return unsupported("this kernel reads 32-bit storage, and an input is stored in 16 bits");
    return {};
}

Status fits_32_bits(const graph::Graph& graph, graph::NodeId id) {
    constexpr int64_t kMost = int64_t{1} << 31;
    const char* named = graph::leaf_name_attribute(graph.nodes[id].op);
    const std::string name = named != nullptr ? fmt::format("'{}' ", graph.nodes[id].text(named)) : "";
    for (const graph::ValueId output : graph.nodes[id].outputs)
        if (graph.shape(output).elements() >= kMost)
            return unsupported(fmt::format("the tensor {}{} has {} elements; kernels count to {}", name,
                                           graph.shape(output).text(), graph.shape(output).elements(), kMost));
    return {};
}

} // namespace

Result<Lowering> lower(const graph::Graph& graph, const Limits& limits, const CompileOptions& options) {
    HK_TRY(check_storage(limits, options.precision));
    Lowering lowering;
    lowering.graph = &graph;
    lowering.limits = limits;
    lowering.limits.generated_shaders = limits.generated_shaders && options.fused;
    lowering.options = options;
    lowering.views.resize(graph.values.size());

    HK_ASSIGN(const Wanted wanted, find_wanted(graph, options));
    find_needed(lowering, wanted);
    const std::vector<bool>& needed = lowering.needed;
    if (options.precision != Storage::f32) lowering.stored_in_16_bits = stored_in_16_bits(graph, needed);
    // Report errors before any work.
    for (graph::NodeId id = 0; id < graph.nodes.size(); ++id) {
        if (!needed[id]) continue;
        if (family_of(graph.nodes[id].op) == nullptr)
            return unsupported(fmt::format("{}: no kernel for this operation yet", graph.describe(id)));
        HK_TRY(fits_32_bits(graph, id).with_context(graph.describe(id)));
    }

    if (options.precision != Storage::f32) convert_parameters(lowering);
    std::vector<graph::ValueId> kept;
    for (const auto* list : {&wanted.outputs, &wanted.gradients, &wanted.states, &wanted.sums, &wanted.updates})
        for (const auto& [name, value] : *list) kept.push_back(value);
    const PointwiseGroups groups = group_pointwise(graph, needed, kept, lowering.limits);
    if (lowering.limits.kernels_of_gpus()) lowering.column_sums = find_column_sums(graph, needed);
    const FusedEpilogues epilogues = find_epilogues(lowering, kept, groups);
    GradientAccumulator gradients(lowering, wanted);
    StoreUpdater updates(lowering, wanted);
    for (graph::NodeId id = 0; id < graph.nodes.size(); ++id) {
        HK_TRY(gradients.add_computed());
        updates.write_before(id);
        if (!needed[id]) {
            const graph::Node& node = graph.nodes[id];
            if (node.op == Op::input) lowering.ignored_inputs.push_back(node.text("field"));
            if (node.op == Op::step_scalar) lowering.ignored_inputs.push_back(kScalarPrefix + node.text("name"));
            continue;
        }
        if (const FusedEpilogue* epilogue = epilogues.lowered_at(id)) {
            lowering.current = epilogue->node;
            HK_TRY(reads_what_is_stored(lowering, epilogue->node).with_context(graph.describe(epilogue->node)));
            const Op op = graph.nodes[epilogue->node].op;
            if (op == Op::linear)
                lower_linear(lowering, *epilogue);
            else if (op == Op::embedding_gradient)
                lower_embedding_gradient(lowering, *epilogue);
            else
                lower_norm_gradient(lowering, *epilogue);
            continue;
        }
        if (epilogues.inside(id)) continue;
        const bool is_computed =
            graph.nodes[id].op == Op::sum && lowering.view(graph.nodes[id].outputs[0]).resource != 0;
        if (is_computed) continue; // with a product
        lowering.current = id;
        HK_TRY(reads_what_is_stored(lowering, id).with_context(graph.describe(id)));
        if (const PointwiseGroup* group = groups.ending_at(id)) {
            HK_TRY(lower_group(lowering, *group).with_context(graph.describe(id)));
        } else if (!groups.inside(id)) {
            HK_TRY(family_of(graph.nodes[id].op)(lowering, id).with_context(graph.describe(id)));
        }
    }
    HK_TRY(gradients.add_computed());
    updates.write_before(static_cast<graph::NodeId>(graph.nodes.size()));
    HK_TRY(keep(lowering, wanted, options));
    if (options.choose) HK_TRY(lower_choose(lowering));
    if (options.chained && !options.timings) join_chains(lowering);
    return lowering;
}

} // namespace hekla::program
