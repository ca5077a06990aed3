#include "train/moving_average.hpp"

#include "graph/builder.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::train {
namespace {

constexpr const char* kDecay = "decay"; // step scalar

std::string state_of(const std::string& name) { return "average." + name; }

std::span<const float> floats_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}

} // namespace

// Builds average + (weight - average) * (1 - decay), for every parameter.
Result<MovingAverage::Update> MovingAverage::update_of(const std::vector<program::ParameterEntry>& table,
                                                       const std::vector<std::string>& names) {
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

Result<std::unique_ptr<MovingAverage>> MovingAverage::create(program::Runtime& runtime, program::ParameterStore& store,
                                                             std::vector<std::string> names, double decay) {
    std::unique_ptr<MovingAverage> average(new MovingAverage());
    average->store_ = &store;
    average->names_ = std::move(names);
    average->decay_ = decay;
    HK_ASSIGN(const Update update, update_of(store.table(), average->names_));
    HK_ASSIGN(average->program_, program::Program::compile(runtime, update.graph, store, update.options));
    return average;
}

Status MovingAverage::begin() {
    for (const std::string& name : names_) {
        HK_ASSIGN(const ResourceArray<float> values, store_->download(name));
        HK_TRY(store_->upload_state(state_of(name), std::as_bytes(std::span(values))));
    }
    return {};
}

Status MovingAverage::update(uint32_t applied) {
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

std::vector<model::TensorSource> MovingAverage::tensors() const {
    std::vector<model::TensorSource> all;
    for (const std::string& name : names_) {
        model::TensorSource source;
        source.name = name;
        source.dtype = model::DType::f32;
        source.dims = store_->find(name)->shape.vector();
        source.stream = [this, name, size = static_cast<std::size_t>(store_->find(name)->shape.elements())](
                            const model::Sink& sink) -> Status {
            HK_ASSIGN(const ResourceArray<std::byte> bytes, store_->download_state(state_of(name)));
            return sink(std::span(bytes).first(size * sizeof(float)));
        };
        all.push_back(std::move(source));
    }
    return all;
}

Status MovingAverage::load(const model::Weights& weights) {
    for (const std::string& name : names_) {
        HK_ASSIGN(const model::TensorView* tensor, weights.get(name));
        const graph::Shape& shape = store_->find(name)->shape;
        if (tensor->dims != shape.vector())
            return corrupt(fmt::format("{}: {} is {}, this model has {}", weights.path().string(), name,
                                       model::format_dims(tensor->dims), shape.text()));
        std::vector<float> values(static_cast<std::size_t>(shape.elements()));
        HK_TRY(model::load_float32(*tensor, values));
        HK_TRY(store_->upload_state(state_of(name), std::as_bytes(std::span(values))));
    }
    return {};
}

} // namespace hekla::train
