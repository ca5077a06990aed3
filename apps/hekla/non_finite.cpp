#include "non_finite.hpp"
#include "program/parameter_store.hpp"
#include "program/program.hpp"
#include "program/runtime.hpp"

#include "graph/reference.hpp"
#include "train/step/training_graph.hpp"

#include <cmath>
#include <cstring>
#include <fmt/format.h>

namespace hekla::app {
namespace {

using graph::Feeds;
using graph::Graph;
using graph::NodeId;
using graph::Op;
using graph::Tensor;

template<class T>
std::optional<NonFinite> non_finite_in(std::span<const T> values, const std::string& what, const graph::Shape& shape) {
    for (std::size_t i = 0; i < values.size(); ++i)
        if (!std::isfinite(values[i]))
            return NonFinite{what, fmt::format("element {} of {} is {}", i, shape.text(), values[i])};
    return std::nullopt;
}

// Returns whether a node computes something. Leaves are checked as parameters, or are always finite.
bool computes(const graph::Node& node) {
    return graph::leaf_name_attribute(node.op) == nullptr && node.op != Op::constant && node.op != Op::fill;
}

template<class T>
T read(const data::Field& field, std::size_t i) {
    T value;
    std::memcpy(&value, field.bytes.data() + i * sizeof value, sizeof value);
    return value;
}

class Search {
public:
    Search(program::Runtime& runtime, program::ParameterStore& store, const Graph& described,
           const std::vector<data::Batch>& batches, const train::Recipe& recipe)
        : runtime_(runtime), store_(store), described_(described), batches_(batches), recipe_(recipe) {}

    Result<NonFiniteSearch> run() {
        NonFiniteSearch result;
        HK_ASSIGN(result.device, in_parameters());
        if (result.device) return result;
        HK_ASSIGN(graph_, train::training_graph(described_));
        HK_TRY(count_losses());
        HK_ASSIGN(result.device, on_device());
        result.computed_exactly = true;
        HK_ASSIGN(result.exact, in_float64());
        return result;
    }

private:
    Result<std::optional<NonFinite>> in_parameters() {
        for (const program::ParameterEntry& entry : store_.table()) {
            HK_ASSIGN(const ResourceArray<float> values, store_.download(entry.name));
            auto found = non_finite_in(std::span<const float>(values),
                                       fmt::format("parameter {} (before the step)", entry.name), entry.shape);
            if (found) return found;
        }
        return std::optional<NonFinite>();
    }

    // Computes the divisor of each loss term: the total over all micro-batches.
    Status count_losses() {
        std::vector<double> counts(described_.losses.size(), 0.0);
        std::vector<graph::ValueId> wanted;
        for (const graph::LossTerm& term : described_.losses) wanted.push_back(term.count);
        for (std::size_t micro = 0; micro < batches_.size(); ++micro) {
            HK_ASSIGN(const std::vector<Tensor> values, graph::evaluate(described_, feeds(micro), wanted));
            for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += values[i].data[0];
        }
        for (std::size_t i = 0; i < counts.size(); ++i)
            scales_[fmt::format("loss_scale.{}", i)] = counts[i] > 0.0 ? described_.losses[i].weight / counts[i] : 0.0;
        return {};
    }

    uint32_t first_example(std::size_t micro) const {
        return static_cast<uint32_t>(micro) * static_cast<uint32_t>(recipe_.train.per_device_train_batch_size);
    }

    Feeds feeds(std::size_t micro) const {
        Feeds feeds;
        for (const data::Field& field : batches_[micro].fields) {
            const bool integer = field.kind == data::FieldKind::int32;
            Tensor tensor{integer ? graph::Kind::int32 : graph::Kind::float32, graph::Shape(field.shape), {}};
            for (std::size_t i = 0; i < field.bytes.size() / 4; ++i)
                tensor.data.push_back(integer ? static_cast<double>(read<int32_t>(field, i))
                                              : static_cast<double>(read<float>(field, i)));
            feeds.fields.emplace(field.name, std::move(tensor));
        }
        feeds.seed = static_cast<uint64_t>(recipe_.train.seed);
        feeds.step = static_cast<uint64_t>(batches_[micro].step);
        feeds.first_example = first_example(micro);
        return feeds;
    }

    Result<std::optional<NonFinite>> on_device() {
        constexpr int64_t kMost = int64_t{64} << 20; // bytes of values read back per replay
        for (NodeId first = 0; first < graph_.nodes.size();) {
            Graph watched = graph_;
            program::CompileOptions options;
            options.gradients = program::Gradients::ignore;
            std::vector<std::pair<std::string, NodeId>> names;
            int64_t bytes = 0;
            NodeId next = first;
            for (; next < graph_.nodes.size() && bytes < kMost; ++next) {
                const graph::Node& node = graph_.nodes[next];
                if (!computes(node)) continue;
                for (const graph::ValueId value : node.outputs) {
                    if (graph_.kind(value) == graph::Kind::int32) continue;
                    names.emplace_back(fmt::format("watched.{}", value), next);
                    watched.outputs[names.back().first] = value;
                    options.outputs.push_back(names.back().first);
                    bytes += graph_.shape(value).elements() * 4;
                }
            }
            first = next;
            if (options.outputs.empty()) continue;
            HK_ASSIGN(auto found, watch(watched, options, names));
            if (found) return found;
        }
        return std::optional<NonFinite>();
    }

    Result<std::optional<NonFinite>> watch(const Graph& watched, const program::CompileOptions& options,
                                           const std::vector<std::pair<std::string, NodeId>>& names) {
        HK_ASSIGN(const auto program, program::Program::compile(runtime_, watched, store_, options));
        for (const auto& [name, scale] : scales_)
            if (program->has_scalar(name)) HK_TRY(program->set_scalar(name, static_cast<float>(scale)));
        for (std::size_t micro = 0; micro < batches_.size(); ++micro) {
            for (const data::Field& field : batches_[micro].fields)
                if (program->has_input(field.name)) HK_TRY(program->set_input(field.name, field.bytes));
            program::RunScalars scalars;
            scalars.seed = static_cast<uint64_t>(recipe_.train.seed);
            scalars.step = static_cast<uint32_t>(batches_[micro].step);
            scalars.first_example = first_example(micro);
            HK_TRY(program->run(scalars));
            for (const auto& [name, node] : names) {
                HK_ASSIGN(const program::HostTensor tensor, program->read_output(name));
                auto found = non_finite_in(tensor.floats(), graph_.describe(node), tensor.shape);
                if (found) return found;
            }
        }
        return std::optional<NonFinite>();
    }

    Result<std::optional<NonFinite>> in_float64() {
        Feeds of_store;
        for (const program::ParameterEntry& entry : store_.table()) {
            HK_ASSIGN(const ResourceArray<float> values, store_.download(entry.name));
            of_store.parameters[entry.name] = {graph::Kind::float_, entry.shape, {values.begin(), values.end()}};
        }
        std::vector<graph::ValueId> wanted;
        for (const auto& [name, value] : graph_.outputs) wanted.push_back(value);
        std::optional<NonFinite> found;
        for (std::size_t micro = 0; micro < batches_.size() && !found; ++micro) {
            Feeds given = feeds(micro);
            given.parameters = of_store.parameters;
            for (const auto& [name, scale] : scales_) given.step_scalars[name] = scale;
            const auto visit = [&](NodeId id, std::span<const Tensor> outputs) {
                for (const Tensor& tensor : outputs)
                    if (!found && computes(graph_.nodes[id]) && tensor.kind != graph::Kind::int32)
                        found = non_finite_in(std::span<const double>(tensor.data), graph_.describe(id), tensor.shape);
            };
            HK_TRY(graph::evaluate_visiting(graph_, given, wanted, visit).status());
        }
        return found;
    }

    program::Runtime& runtime_;
    program::ParameterStore& store_;
    const Graph& described_;
    const std::vector<data::Batch>& batches_;
    const train::Recipe& recipe_;
    Graph graph_; // with gradients
    std::map<std::string, double> scales_;
};

} // namespace

Result<NonFiniteSearch> find_non_finite(program::Runtime& runtime, program::ParameterStore& store,
                                        const Graph& described, const std::vector<data::Batch>& batches,
                                        const train::Recipe& recipe) {
    return Search(runtime, store, described, batches, recipe).run();
}

} // namespace hekla::app
