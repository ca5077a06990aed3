#include "train/update/moving_average.hpp"

#include "graph/builder.hpp"
#include "model/finite.hpp"
#include "model/weights.hpp"
#include "program/estimate.hpp"
#include "program/parameter_store.hpp"
#include "program/program.hpp"
#include "program/runtime.hpp"
#include "train/run/state_tensor.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::train {
namespace {

constexpr const char* kDecay = "decay"; // step scalar

std::string state_of(const std::string& name) { return "average." + name; }

std::span<const float> floats_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}

// The program of an update, for the tensors of a table.
struct Update {
    graph::Graph graph;
    program::CompileOptions options;
};

// Builds average + (weight - average) * (1 - decay), for every parameter.
Result<Update> update_of(const std::vector<program::ParameterEntry>& table, const std::vector<std::string>& names) {
    using graph::Op;
    graph::Builder b;
    Update update;
    update.options.gradients = program::Gradients::ignore;
    const graph::ValueId step =
        b(Op::sub, {b.fill(graph::Kind::float32, graph::Shape{}, 1.0), b.step_scalar(kDecay, 0.0)});
    for (const std::string& name : names) {
        const graph::Shape& shape = std::ranges::find(table, name, &program::ParameterEntry::name)->shape;
        const std::string state = state_of(name);
        const graph::ValueId weight = b.parameter(name, shape, 0, 0.0, 0.0, 0),
                             average = b.input(state, graph::Kind::float32, shape);
        b.output(state, b(Op::add, {average, b(Op::mul, {b(Op::sub, {weight, average}), step})}));
        update.options.state_inputs[state] = state;
        update.options.state_outputs[state] = state;
    }
    HK_ASSIGN(update.graph, b.finish());
    return update;
}

} // namespace

Result<MovingAverage> MovingAverage::create(program::Runtime& runtime, program::ParameterStore& store,
                                            std::vector<std::string> names, double decay,
                                            const exchange::Communicator& ranks) {
    MovingAverage average;
    if (decay == 0.0 || ranks.rank() != 0) return average;
    average.store_ = &store;
    average.names_ = std::move(names);
    average.decay_ = decay;
    HK_ASSIGN(const Update update, update_of(store.table(), average.names_));
    HK_ASSIGN(average.program_, program::Program::compile(runtime, update.graph, store, update.options));
    return average;
}

Status MovingAverage::estimate(program::Estimator& estimator, const program::Lowering& step, double decay) {
    if (decay == 0.0) return {};
    HK_ASSIGN(const Update update, update_of(estimator.table(), program::parameters_reached(estimator.table(), step)));
    return estimator.add(update.graph, update.options, 1.0, &program::Estimate::optimizer).status();
}

Status MovingAverage::begin() {
    for (const std::string& name : names_) {
        HK_ASSIGN(const ResourceArray<float> values, store_->download(name));
        HK_TRY(store_->upload_state(state_of(name), std::as_bytes(std::span(values))));
    }
    return {};
}

Status MovingAverage::update(uint32_t applied) {
    if (program_ == nullptr) return {};
    const auto n = static_cast<double>(applied);
    HK_TRY(program_->set_scalar(kDecay, static_cast<float>(std::min(decay_, (1.0 + n) / (10.0 + n)))));
    return program_->run();
}

Status MovingAverage::rehearse() {
    std::vector<ResourceArray<std::byte>> before;
    for (const std::string& name : names_) {
        HK_ASSIGN(ResourceArray<std::byte> content, store_->download_state(state_of(name)));
        before.push_back(std::move(content));
    }
    HK_TRY(update(0));
    for (std::size_t i = 0; i < names_.size(); ++i) HK_TRY(store_->upload_state(state_of(names_[i]), before[i]));
    return {};
}

Status MovingAverage::swap() {
    for (const std::string& name : names_) {
        HK_ASSIGN(const ResourceArray<float> weights, store_->download(name));
        HK_ASSIGN(const ResourceArray<std::byte> bytes, store_->download_state(state_of(name)));
        HK_TRY(store_->upload(name, floats_of(bytes).first(weights.size())));
        HK_TRY(store_->upload_state(state_of(name), std::as_bytes(std::span(weights))));
    }
    return {};
}

StateFile MovingAverage::state() const {
    StateFile file{"ema"};
    for (const std::string& name : names_) {
        const graph::Shape shape = store_->find(name)->shape;
        StateTensor& tensor = file.tensors.emplace_back();
        tensor.source.name = name;
        tensor.source.dtype = model::DType::f32;
        tensor.source.dims = shape.vector();
        tensor.source.stream = [store = store_, name,
                                size = static_cast<std::size_t>(shape.elements())](const model::Sink& sink) -> Status {
            HK_ASSIGN(const ResourceArray<std::byte> bytes, store->download_state(state_of(name)));
            return sink(std::span(bytes).first(size * sizeof(float)));
        };
        tensor.source = model::finite_source(std::move(tensor.source));
        tensor.load = [store = store_, name, shape](const model::TensorView& stored,
                                                    const std::filesystem::path& folder) -> Status {
            if (stored.dims != shape.vector())
                return corrupt(fmt::format("{}: the average of {} is {}, this model has {}", folder.string(), name,
                                           model::format_dims(stored.dims), shape.text()));
            std::vector<float> values(static_cast<std::size_t>(shape.elements()));
            HK_TRY(model::load_float32(stored, values));
            return store->upload_state(state_of(name), std::as_bytes(std::span(values)));
        };
    }
    return file;
}

} // namespace hekla::train
