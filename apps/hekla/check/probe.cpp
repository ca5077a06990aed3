#include "check/probe.hpp"

#include "base/philox.hpp"
#include "data/batcher.hpp"
#include "graph/gradient/loss_parameters.hpp"
#include "graph/output.hpp"
#include "graph/passes/simplify.hpp"
#include "hekla/plugin/graph.h"
#include "infer/open/model_tensors.hpp"
#include "plugin/composition/compose.hpp"
#include "plugin/host/joint.hpp"
#include "program/host_tensor.hpp"
#include "program/lowering/lower.hpp"
#include "program/lowering/storage16.hpp"
#include "program/parameter_store.hpp"
#include "program/program.hpp"
#include "program/runtime.hpp"
#include "train/step/training_graph.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace hekla::check {
namespace {

using program::Storage;

constexpr double kLargestHalf = 65504.0;

const char* precision_name(Storage precision) {
    return precision == Storage::f16 ? "float16" : precision == Storage::bf16 ? "bfloat16" : "float32";
}

// The worst element of a tensor, and the error of the whole tensor.
struct Comparison {
    double error = 0.0;
    std::size_t worst = 0;
};

// floor: the smallest magnitude that an error is relative to. Elements beyond `most` are skipped.
Comparison compare(const std::vector<double>& got, const std::vector<double>& right, Storage precision, double floor,
                   double most = std::numeric_limits<double>::infinity()) {
    Comparison c;
    double largest = 0.0, worst = -1.0, squares = 0.0, differences = 0.0;
    bool finite = true;
    for (std::size_t i = 0; i < right.size(); ++i) {
        if (std::abs(right[i]) > most) continue;
        const double difference = std::abs(got[i] - right[i]);
        largest = std::max(largest, std::abs(right[i]));
        squares += right[i] * right[i];
        differences += difference * difference;
        if (std::isnan(difference) ? finite : difference > worst) worst = difference, c.worst = i;
        finite = finite && std::isfinite(difference);
    }
    const double count = std::max<double>(1.0, static_cast<double>(right.size()));
    if (precision == Storage::f32)
        c.error = std::max(worst, 0.0) / std::max(largest, floor);
    else
        c.error = std::sqrt(differences / count) / std::max(std::sqrt(squares / count), floor);
    if (!finite) c.error = std::numeric_limits<double>::quiet_NaN();
    return c;
}

// Returns the largest accepted error of a tensor. of_rounding: see RoundedResults. In 16 bits, of 13,208 tensors of all
// networks here, errors above 0.001 were at most 1.4 times as large as that.
double tolerance(Storage precision, double of_rounding) {
    return precision == Storage::f32 ? 2e-4 : std::max(0.005, 2.0 * of_rounding);
}

// What storing and multiplying in 16 bits does to results, in the interpreter: every value that the device rounds is
// rounded up or down at random. That depends on the network: where rounding takes a ReLU across its kink, or scores
// that are not scaled make attention sharp, some gradients in bfloat16 are off by a fifth.
class RoundedResults {
public:
    static Result<RoundedResults> evaluate(const program::Runtime& runtime, const graph::Graph& graph,
                                           const graph::Feeds& feeds, std::span<const graph::ValueId> wanted,
                                           const program::CompileOptions& options) {
        RoundedResults all;
        if (options.precision == Storage::f32) return all;
        HK_ASSIGN(const program::Lowering lowering, program::lower(graph, runtime.limits(), options));
        std::vector<bool> chosen = lowering.stored_in_16_bits;
        for (graph::ValueId value = 1; value < chosen.size(); ++value)
            chosen[value] = chosen[value] || program::read_as_factor(lowering, value);
        constexpr uint64_t kDraws = 8;
        for (uint64_t draw = 0; draw < kDraws; ++draw) {
            RandomStream random(draw, 17);
            HK_ASSIGN(std::vector<graph::Tensor> drawn,
                      graph::evaluate_rounded(graph, feeds, wanted, chosen,
                                              [&](double x) { return round_at_random(x, options.precision, random); }));
            all.draws_.push_back(std::move(drawn));
        }
        return all;
    }

    // Returns the largest finite error of wanted[i]. error_of: of a tensor's elements.
    template<class F>
    double largest(std::size_t i, F&& error_of) const {
        double worst = 0.0;
        for (const std::vector<graph::Tensor>& draw : draws_)
            if (const double error = error_of(draw[i].data); std::isfinite(error)) worst = std::max(worst, error);
        return worst;
    }

private:
    // Rounds up or down, on average to x, without limits of range: what leaves that of float16 is an error.
    static double round_at_random(double x, Storage precision, RandomStream& random) {
        if (x == 0.0 || !std::isfinite(x)) return x;
        const double unit = std::ldexp(1.0, std::ilogb(x) - (precision == Storage::f16 ? 10 : 7));
        const double below = std::floor(x / unit) * unit;
        return random.next_unit() * unit < x - below ? below + unit : below;
    }

    std::vector<std::vector<graph::Tensor>> draws_;
};

void say(Trial& trial, const std::string& name, const std::string& what, Storage precision, const Comparison& c,
         double of_rounding, double got, double right) {
    if (c.error <= tolerance(precision, of_rounding)) return;
    trial.fail(
        fmt::format("{}: {} on the device in {} is off by {:.2g} of its {}, worst at element {}: {:.7g}, in float64 "
                    "{:.7g}",
                    name, what, precision_name(precision), c.error, precision == Storage::f32 ? "largest" : "size",
                    c.worst, got, right));
}

Status upload_parameters(program::ParameterStore& store, const graph::Graph& graph, const graph::Feeds& feeds) {
    for (const auto& [name, tensor] : feeds.parameters) {
        if (store.find(name) == nullptr) continue;
        std::vector<float> values;
        for (const double value : tensor.data) values.push_back(static_cast<float>(value));
        HK_TRY(store.upload(name, values));
    }
    return infer::upload_described_buffers(store, graph);
}

Status set_fields(program::Program& program, const graph::Feeds& feeds) {
    for (const auto& [name, tensor] : feeds.fields)
        if (program.has_input(name)) HK_TRY(program.set_input(name, program::bytes_of(tensor)));
    return {};
}

// Returns the losses' counts, which a trainer divides by.
Result<std::vector<double>> loss_counts(const graph::Graph& training, std::size_t losses, const graph::Feeds& feeds) {
    std::vector<graph::ValueId> wanted;
    for (std::size_t i = 0; i < losses; ++i)
        wanted.push_back(training.outputs.at(graph::output_name(graph::OutputKind::loss_count, i)));
    HK_ASSIGN(const std::vector<graph::Tensor> counts, graph::evaluate(training, feeds, wanted));
    std::vector<double> all;
    for (const graph::Tensor& count : counts) all.push_back(count.data[0]);
    return all;
}

// Sets the scales as a trainer does.
void set_loss_scales(const graph::Graph& described, const std::vector<double>& counts, double scale,
                     graph::Feeds& feeds) {
    for (std::size_t i = 0; i < described.losses.size(); ++i)
        feeds.step_scalars[fmt::format("loss_scale.{}", i)] =
            counts[i] > 0.0 ? scale * described.losses[i].weight / counts[i] : 0.0;
}

struct Gradients {
    std::vector<std::string> names; // of parameters
    std::vector<graph::ValueId> values;
};
Gradients gradients_of(const graph::Graph& training) {
    Gradients all;
    for (const auto& [name, value] : graph::outputs_of(training, graph::OutputKind::gradient)) {
        all.names.push_back(name);
        all.values.push_back(value);
    }
    return all;
}

double root_mean_square(const std::vector<graph::Tensor>& tensors) {
    double squares = 0.0, count = 1.0;
    for (const graph::Tensor& tensor : tensors)
        for (const double value : tensor.data) squares += value * value, ++count;
    return std::sqrt(squares / count);
}

// Reports parameters that the losses which train them depend on, and that get no gradient. loss_of(parameter) evaluates
// those losses with the current feeds.
template<class F>
Status find_untrained(Trial& trial, const Probe& probe, const Gradients& gradients, graph::Feeds& feeds, F&& loss_of) {
    RandomStream random(trial.seed(), 13);
    for (auto& [name, tensor] : feeds.parameters) {
        if (std::ranges::find(gradients.names, name) != gradients.names.end()) continue;
        HK_ASSIGN(const double before, loss_of(name));
        const std::vector<double> held = tensor.data;
        for (double& value : tensor.data) value += 1e-2 * (random.next_unit() + 0.5);
        const Result<double> after = loss_of(name);
        tensor.data = held;
        HK_TRY(after.status());
        if (std::abs(after.value() - before) > 1e-9 * std::max(1.0, std::abs(before)))
            trial.fail(fmt::format("{}: the loss depends on {}, which gets no gradient: what is not trained is a "
                                   "buffer or a constant",
                                   probe.name, name));
    }
    return {};
}

Result<Probe> network_probe(const Trial& trial, const plugin::Provided& provided, int64_t rows, int32_t mode) {
    HK_ASSIGN(const Small small, small_network(trial, provided));
    const auto examples =
        std::span(small.examples).first(std::min<std::size_t>(static_cast<std::size_t>(rows), small.examples.size()));
    HK_ASSIGN(const std::vector<data::Field> fields, batch_of(small, examples, rows, small.length, 1));
    HK_ASSIGN(const std::vector<plugin::BatchField> described, small.composition->batch_fields(rows, small.length));
    Probe probe;
    probe.name = name_of(provided);
    HK_ASSIGN(probe.graph, small.composition->build(mode, described, {}, mode == HK_MODE_EVALUATE));
    probe.feeds = feeds_of(probe.graph, fields, trial.seed());
    round_parameters(probe.feeds);
    return probe;
}

} // namespace

Result<Probe> evaluation_probe(const Trial& trial, const plugin::Provided& provided, int64_t rows) {
    return network_probe(trial, provided, rows, HK_MODE_EVALUATE);
}

Result<Probe> training_probe(const Trial& trial, const plugin::Provided& provided, int64_t rows) {
    return network_probe(trial, provided, rows, HK_MODE_TRAIN);
}

void round_parameters(graph::Feeds& feeds) {
    for (auto& [name, tensor] : feeds.parameters)
        for (double& value : tensor.data) value = static_cast<double>(static_cast<float>(value));
}

Status compare_with_differences(Trial& trial, const Probe& probe) {
    HK_ASSIGN(const graph::Graph training, train::training_graph(probe.graph));
    graph::Feeds feeds = probe.feeds;
    HK_ASSIGN(const std::vector<double> counts, loss_counts(training, probe.graph.losses.size(), feeds));
    set_loss_scales(probe.graph, counts, 1.0, feeds);
    HK_ASSIGN(const std::vector<graph::LossGroup> groups, graph::loss_groups(probe.graph));
    const bool named = graph::losses_name_parameters(probe.graph);
    // Returns the sum of the losses that train a parameter.
    const auto loss_of = [&](const std::string& parameter) -> Result<double> {
        std::vector<std::size_t> terms;
        for (const graph::LossGroup& group : groups)
            if (!named || group.parameters.contains(parameter))
                terms.insert(terms.end(), group.losses.begin(), group.losses.end());
        std::vector<graph::ValueId> sums;
        for (const std::size_t i : terms)
            sums.push_back(training.outputs.at(graph::output_name(graph::OutputKind::loss_sum, i)));
        HK_ASSIGN(const std::vector<graph::Tensor> values, graph::evaluate(training, feeds, sums));
        double total = 0.0;
        for (std::size_t i = 0; i < terms.size(); ++i)
            total += feeds.step_scalars.at(fmt::format("loss_scale.{}", terms[i])) * values[i].data[0];
        return total;
    };
    const Gradients wanted = gradients_of(training);
    if (wanted.names.empty()) {
        trial.skip(probe.name + ": has no trained parameters");
        return {};
    }
    HK_TRY(find_untrained(trial, probe, wanted, feeds, loss_of));
    HK_ASSIGN(const std::vector<graph::Tensor> gradients, graph::evaluate(training, feeds, wanted.values));
    double largest = 0.0;
    for (const graph::Tensor& gradient : gradients)
        for (const double value : gradient.data) largest = std::max(largest, std::abs(value));
    RandomStream random(trial.seed(), 9);
    double worst = 0.0;
    std::string where;
    constexpr int kProbes = 40;
    for (int i = 0; i < kProbes; ++i) {
        const auto which = static_cast<std::size_t>(random.next_below(wanted.names.size()));
        std::vector<double>& values = feeds.parameters.at(wanted.names[which]).data;
        if (values.empty()) continue;
        const auto at = static_cast<std::size_t>(random.next_below(values.size()));
        const double held = values[at], step = 1e-5 * std::max(1.0, std::abs(held));
        const auto loss_at = [&](double h) {
            values[at] = held + h;
            Result<double> value = loss_of(wanted.names[which]);
            values[at] = held;
            return value;
        };
        HK_ASSIGN(const double here, loss_at(0.0));
        HK_ASSIGN(const double above, loss_at(step));
        HK_ASSIGN(const double below, loss_at(-step));
        const double fine = (above - below) / (2.0 * step);
        // If the slopes on both sides differ, there is a kink between them and no gradient to compare with.
        const double scale = std::max({std::abs(fine), 1e-3 * largest, 1e-12});
        if (std::abs((above - here) - (here - below)) / step > 1e-3 * scale) continue;
        const double difference = std::abs(gradients[which].data[at] - fine) / scale;
        if (difference <= worst) continue;
        worst = difference;
        where = fmt::format("{}[{}]: {:.9g}, by finite differences {:.9g}", wanted.names[which], at,
                            gradients[which].data[at], fine);
    }
    if (worst > 1e-4)
        trial.fail(fmt::format("{}: the gradient is off by {:.2g} of itself at {}", probe.name, worst, where));
    return {};
}

Status compare_outputs(Trial& trial, program::Runtime& runtime, const Probe& probe, Storage precision,
                       bool count_accesses) {
    std::vector<graph::ValueId> wanted;
    std::vector<std::string> names;
    for (const auto& [name, value] : probe.graph.outputs) {
        // The result of a comparison can change if two candidates differ by less than a rounding error.
        if (precision != Storage::f32 && probe.graph.value(value).kind == graph::Kind::int32) continue;
        names.push_back(name);
        wanted.push_back(value);
    }
    HK_ASSIGN(const std::vector<graph::Tensor> right, graph::evaluate(probe.graph, probe.feeds, wanted));
    trial.doing(fmt::format("{}: computed on the device in {}", probe.name, precision_name(precision)));
    HK_ASSIGN(const graph::Graph simple, graph::simplify(probe.graph));
    HK_ASSIGN(const auto store, program::ParameterStore::create(runtime, program::parameter_table(simple)));
    HK_TRY(upload_parameters(*store, simple, probe.feeds));
    program::CompileOptions options;
    options.outputs = names;
    options.gradients = program::Gradients::ignore;
    options.count_accesses = count_accesses;
    options.precision = precision;
    HK_ASSIGN(const auto program, program::Program::compile(runtime, simple, *store, options));
    HK_TRY(set_fields(*program, probe.feeds));
    HK_TRY(program->run({.seed = probe.feeds.seed}));
    std::vector<graph::ValueId> of_simple;
    for (const std::string& name : names) of_simple.push_back(simple.outputs.at(name));
    HK_ASSIGN(const RoundedResults rounded, RoundedResults::evaluate(runtime, simple, probe.feeds, of_simple, options));
    for (std::size_t i = 0; i < names.size(); ++i) {
        HK_ASSIGN(const program::HostTensor host, program->read_output(names[i]));
        const std::vector<double> got = program::tensor_of(host).data;
        const auto compared = [&](const std::vector<double>& values) {
            return precision == Storage::f16 ? compare(values, right[i].data, precision, 1e-6, kLargestHalf)
                                             : compare(values, right[i].data, precision, 1e-6);
        };
        const Comparison c = compared(got);
        const double of_rounding =
            rounded.largest(i, [&](const std::vector<double>& values) { return compared(values).error; });
        if (!got.empty())
            say(trial, probe.name, names[i], precision, c, of_rounding, got[c.worst], right[i].data[c.worst]);
    }
    if (!count_accesses) return {};
    HK_ASSIGN(const std::vector<program::AccessCounts> outside, program->access_counts());
    for (const program::AccessCounts& one : outside)
        if (one.loads > 0 || one.stores > 0)
            trial.fail(
                fmt::format("{}: {} accesses memory outside its tensors: {} loads, {} stores (which were clamped)",
                            probe.name, one.name, one.loads, one.stores));
    if (const gpu::ValidationCounts counts = runtime.gpu().device->validation_counts(); counts.errors > 0)
        trial.fail(fmt::format("{}: Vulkan's validation reports {} errors, the first: {}", probe.name, counts.errors,
                               counts.first));
    return {};
}

Status compare_gradients(Trial& trial, program::Runtime& runtime, const Probe& probe, Storage precision) {
    HK_ASSIGN(const graph::Graph training, train::training_graph(probe.graph));
    const Gradients wanted = gradients_of(training);
    if (wanted.names.empty()) return {};
    graph::Feeds feeds = probe.feeds;
    HK_ASSIGN(const std::vector<double> counts, loss_counts(training, probe.graph.losses.size(), feeds));
    trial.doing(fmt::format("{}: gradients on the device in {}", probe.name, precision_name(precision)));
    HK_ASSIGN(const auto store,
              program::ParameterStore::create(runtime, program::parameter_table(probe.graph), {.gradients = true}));
    HK_TRY(upload_parameters(*store, training, feeds));
    program::CompileOptions options;
    options.precision = precision;
    HK_ASSIGN(const auto program, program::Program::compile(runtime, training, *store, options));
    HK_TRY(set_fields(*program, feeds));
    // As a trainer does in float16: the largest scale that does not overflow, to lose little to underflow.
    for (double scale = precision == Storage::f16 ? 65536.0 : 1.0;; scale /= 2.0) {
        set_loss_scales(probe.graph, counts, scale, feeds);
        for (const auto& [name, value] : feeds.step_scalars)
            if (program->has_scalar(name)) HK_TRY(program->set_scalar(name, static_cast<float>(value)));
        HK_TRY(program->run({.seed = feeds.seed}));
        HK_ASSIGN(const std::vector<graph::Tensor> right, graph::evaluate(training, feeds, wanted.values));
        const double usual = root_mean_square(right);
        std::vector<std::vector<double>> got;
        bool finite = true;
        for (const std::string& name : wanted.names) {
            HK_ASSIGN(const ResourceArray<float> values, store->download(name, program::StoreArena::gradients));
            got.emplace_back(values.begin(), values.end());
            finite = finite && std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
        }
        if (!finite && scale > 1.0) continue;
        HK_ASSIGN(const RoundedResults rounded,
                  RoundedResults::evaluate(runtime, training, feeds, wanted.values, options));
        for (std::size_t i = 0; i < wanted.names.size(); ++i) {
            // A gradient that is negligible next to the others consists of rounding errors.
            const double floor = std::max(1e-12, (precision == Storage::f32 ? 0.1 : 0.3) * usual);
            const Comparison c = compare(got[i], right[i].data, precision, floor);
            const double of_rounding = rounded.largest(i, [&](const std::vector<double>& values) {
                return compare(values, right[i].data, precision, floor).error;
            });
            if (!got[i].empty())
                say(trial, probe.name, fmt::format("the gradient of {}", wanted.names[i]), precision, c, of_rounding,
                    got[i][c.worst], right[i].data[c.worst]);
        }
        return {};
    }
}

Status compare_orders(Trial& trial, program::Runtime& runtime, const Probe& probe) {
    HK_ASSIGN(const graph::Graph simple, graph::simplify(probe.graph));
    std::vector<std::string> names;
    for (const auto& [name, value] : simple.outputs) names.push_back(name);
    const auto outcome = [&](bool reversed) -> Result<std::vector<program::HostTensor>> {
        HK_ASSIGN(const auto store, program::ParameterStore::create(runtime, program::parameter_table(simple)));
        HK_TRY(upload_parameters(*store, simple, probe.feeds));
        program::CompileOptions options;
        options.outputs = names;
        options.gradients = program::Gradients::ignore;
        options.reversed_invocations = reversed;
        HK_ASSIGN(const auto program, program::Program::compile(runtime, simple, *store, options));
        HK_TRY(set_fields(*program, probe.feeds));
        HK_TRY(program->run({.seed = probe.feeds.seed}));
        std::vector<program::HostTensor> all;
        for (const std::string& name : names) {
            HK_ASSIGN(program::HostTensor one, program->read_output(name));
            all.push_back(std::move(one));
        }
        return all;
    };
    trial.doing(probe.name + ": computed on the device twice, and with its invocations in the opposite order");
    HK_ASSIGN(const std::vector<program::HostTensor> first, outcome(false));
    HK_ASSIGN(const std::vector<program::HostTensor> second, outcome(false));
    HK_ASSIGN(const std::vector<program::HostTensor> reversed, outcome(true));
    for (std::size_t i = 0; i < names.size(); ++i) {
        const auto differs = [&](const program::HostTensor& other) {
            const auto [here, there] = std::ranges::mismatch(first[i].bytes, other.bytes);
            return here == first[i].bytes.end() ? -1 : (here - first[i].bytes.begin()) / 4;
        };
        if (const auto at = differs(second[i]); at >= 0)
            trial.fail(
                fmt::format("{}: {} has another element {} the second time: what an operation computes depends on "
                            "more than what it reads",
                            probe.name, names[i], at));
        else if (const auto turned = differs(reversed[i]); turned >= 0)
            trial.fail(fmt::format("{}: {} has another element {} where the invocations run in the opposite order: two "
                                   "of them store the same element, or one reads what another writes",
                                   probe.name, names[i], turned));
    }
    return {};
}

} // namespace hekla::check
