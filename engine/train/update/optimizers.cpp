#include "train/update/optimizers.hpp"

#include "model/finite.hpp"
#include "model/weights.hpp"
#include "program/parameter_store.hpp"
#include "program/runtime.hpp"
#include "train/recipe/recipe_reader.hpp"
#include "train/run/state_tensor.hpp"
#include "train/update/update_program.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>

namespace hekla::train {
namespace {

namespace fs = std::filesystem;

// A state of an optimizer that is a graph.
StateTensor update_state(program::ParameterStore& store, const UpdateTensor& tensor) {
    const auto bytes = static_cast<std::size_t>(tensor.shape.elements()) * sizeof(float);
    const auto differs = [tensor](const std::string& found) {
        return fmt::format("its optimizer's state '{}' is {}, and the optimizer of this recipe keeps {}: choose "
                           "another [output] dir, or put the old keys of [optimizer] back",
                           tensor.name, found, tensor.shape.text());
    };
    StateTensor state;
    state.source.name = tensor.name;
    state.source.dtype = model::DType::f32;
    state.source.dims = tensor.shape.vector();
    state.source.stream = [&store, name = tensor.state, bytes](const model::Sink& sink) -> Status {
        HK_ASSIGN(const ResourceArray<std::byte> content, store.download_state(name));
        return sink(std::span(content).first(bytes));
    };
    state.source = model::finite_source(std::move(state.source));
    state.missing = differs("missing");
    state.load = [&store, tensor, differs](const model::TensorView& stored, const fs::path& folder) -> Status {
        if (stored.dims != tensor.shape.vector())
            return failed_precondition(
                fmt::format("{}: {}", folder.string(), differs(model::format_dims(stored.dims))));
        if (const Status finite = model::check_finite(stored); !finite.ok())
            return corrupt(fmt::format("{}: {}; remove this folder to resume from an older checkpoint", folder.string(),
                                       finite.message()));
        std::vector<float> values(static_cast<std::size_t>(tensor.shape.elements()));
        HK_TRY(model::load_float32(stored, values));
        return store.upload_state(tensor.state, std::as_bytes(std::span(values)));
    };
    return state;
}

// Counters and bias corrections.
Result<StateTensor> counter_state(program::ParameterStore& store, const std::string& name) {
    HK_ASSIGN(const uint64_t bytes, store.state_bytes(name));
    StateTensor state;
    state.source.name = "state." + name;
    state.source.dtype = model::DType::u8;
    state.source.dims = {static_cast<int64_t>(bytes)};
    state.source.stream = [&store, name](const model::Sink& sink) -> Status {
        HK_ASSIGN(const ResourceArray<std::byte> content, store.download_state(name));
        return sink(content);
    };
    // A float32 run that resumes in float16 starts from the initial loss scale.
    state.optional = name == program::kLossScaleState;
    state.load = [&store, name](const model::TensorView& stored, const fs::path&) {
        return store.upload_state(name, stored.bytes);
    };
    return state;
}

} // namespace

Result<Optimizers> Optimizers::create(program::Runtime& runtime, program::ParameterStore& store,
                                      const TrainSection& settings, const Alternation& alternation,
                                      const std::vector<std::string>& reached, const OptimizerRules& rules) {
    Optimizers made;
    made.store_ = &store;
    made.alternation_ = &alternation;
    for (const Alternation::Class& one : alternation.classes()) {
        std::vector<std::string> parameters;
        std::ranges::copy_if(reached, std::back_inserter(parameters),
                             [&](const std::string& name) { return one.contains(name); });
        OptimizerRules of_class = rules;
        of_class.state = one.state;
        HK_ASSIGN(std::unique_ptr<Optimizer> optimizer,
                  Optimizer::create(runtime, store, settings, parameters, of_class));
        made.all_.push_back(std::move(optimizer));
        for (std::string& name : Optimizer::states(settings, one.state)) made.states_.push_back(std::move(name));
    }
    return made;
}

std::vector<Optimizer*> Optimizers::of_turn(std::size_t turn) const {
    std::vector<Optimizer*> all;
    for (const std::size_t one : alternation_->turns()[turn].classes) all.push_back(all_[one].get());
    return all;
}

uint32_t Optimizers::updates(int64_t step, const StepOutcome& outcome) const {
    return alternation_->on() ? static_cast<uint32_t>(step + 1) : outcome.applied; // classes count their own
}

Status Optimizers::rehearse() {
    for (const auto& optimizer : all_) HK_TRY(optimizer->rehearse());
    return {};
}

Status Optimizers::reset() {
    for (const auto& optimizer : all_) HK_TRY(optimizer->reset_tensors());
    for (const std::string& name : states_) HK_TRY(store_->zero_state(name));
    return {};
}

Result<std::vector<StateTensor>> Optimizers::state() const {
    std::vector<StateTensor> all;
    for (const auto& optimizer : all_)
        for (const UpdateTensor& tensor : optimizer->tensors()) all.push_back(update_state(*store_, tensor));
    for (const std::string& name : states_) {
        HK_ASSIGN(StateTensor state, counter_state(*store_, name));
        all.push_back(std::move(state));
    }
    return all;
}

} // namespace hekla::train
