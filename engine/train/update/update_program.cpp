#include "train/update/update_program.hpp"

#include "graph/rewrite.hpp"
#include "plugin/instances/update_graph.hpp"
#include "program/lowering/optimizer_state.hpp"

#include <cstddef>
#include <fmt/format.h>

namespace hekla::train {
namespace {

using graph::Kind;
using graph::Op;
using graph::ValueId;
using program::OptimizerState;
using program::StoreTensor;

// Adds the updates to one graph. No two updates share a node other than leaves, so that each is computed and written
// before the next one.
class UpdateWriter {
public:
    explicit UpdateWriter(std::string decision) : decision_(std::move(decision)) {}

    Status add(const PlannedUpdate& planned) {
        const plugin::UpdateGraph& update = *planned.update;
        builder_.scope_begin(planned.parameter);
        ValueId parameter = graph::kNone;
        std::vector<ValueId> now(update.graph.values.size(), graph::kNone); // new ids of the update's values
        for (const graph::Node& old : update.graph.nodes) {
            graph::Node node = old;
            for (ValueId& input : node.inputs) input = now[input];
            std::vector<ValueId> outputs;
            if (node.op == Op::input) {
                outputs = {given(planned, node.text("field"), update.graph.shape(node.outputs[0]))};
                if (node.text("field") == plugin::kUpdateParameter) parameter = outputs[0];
            } else {
                graph::copy_node(builder_, node, outputs);
            }
            if (!builder_.ok()) return builder_.status();
            for (std::size_t i = 0; i < outputs.size(); ++i) now[old.outputs[i]] = outputs[i];
        }
        const ValueId updated = now[update.graph.outputs.at(plugin::kUpdateParameter)];
        if (parameter == graph::kNone) parameter = given(planned, plugin::kUpdateParameter, builder_.shape(updated));
        const std::size_t first = program_.options.store_updates.size();
        replace(fmt::format("parameter {}", planned.parameter), {StoreTensor::Kind::parameter, planned.parameter},
                parameter, updated);
        for (const plugin::UpdateState& state : update.states) {
            const std::string field = plugin::kUpdateState + state.name;
            const UpdateTensor tensor{state_of(planned, state.name),
                                      fmt::format("{}.{}", state.name, planned.parameter), state.shape,
                                      static_cast<float>(state.initial)};
            replace(tensor.state, {StoreTensor::Kind::state, tensor.state}, given(planned, field, state.shape),
                    now[update.graph.outputs.at(field)]);
            program_.states.push_back(tensor);
        }
        builder_.scope_end();
        if (!builder_.ok()) return builder_.status();
        const auto last = static_cast<uint32_t>(builder_.graph().nodes.size() - 1);
        for (std::size_t i = first; i < program_.options.store_updates.size(); ++i)
            program_.options.store_updates[i].after = last;
        return {};
    }

    Result<UpdateProgram> finish() {
        program_.options.gradients = program::Gradients::ignore;
        HK_ASSIGN(program_.graph, builder_.finish());
        return std::move(program_);
    }

private:
    static std::string state_of(const PlannedUpdate& planned, const std::string& state) {
        return fmt::format("optimizer.{}.{}", state, planned.parameter);
    }

    // Returns the value of an update's field.
    ValueId given(const PlannedUpdate& planned, const std::string& field, const graph::Shape& shape) {
        if (field == plugin::kUpdateParameter) return builder_.parameter(planned.parameter, shape, 0, 0.0, 0.0, 0);
        if (field == plugin::kUpdateGradient) {
            const std::string name = fmt::format("gradient {}", planned.parameter);
            program_.options.store_inputs[name] = {StoreTensor::Kind::gradient, planned.parameter};
            return builder_(Op::mul, {builder_.input(name, Kind::float_, shape),
                                      word(offsetof(OptimizerState, factor), Kind::float_)});
        }
        if (field == plugin::kUpdateLearningRate) {
            ValueId rate = builder_.step_scalar(program::kLearningRate, 0.0);
            if (planned.factor != 1.0)
                rate = builder_(Op::mul, {rate, builder_.fill(Kind::float32, {}, planned.factor)});
            return builder_(Op::cast, {rate}, {{"kind", static_cast<int64_t>(Kind::float_)}});
        }
        if (field == plugin::kUpdateStep)
            return builder_(Op::cast, {word(offsetof(OptimizerState, applied), Kind::int32)},
                            {{"kind", static_cast<int64_t>(Kind::float_)}});
        const std::string state = state_of(planned, field.substr(std::string_view(plugin::kUpdateState).size()));
        program_.options.store_inputs[state] = {StoreTensor::Kind::state, state};
        return builder_.input(state, Kind::float_, shape);
    }

    // Returns a word of the optimizer's state, which is the decision about the step.
    ValueId word(std::size_t offset, Kind kind) {
        const std::string name = fmt::format("decision {}", offset / 4);
        program_.options.store_inputs[name] = {StoreTensor::Kind::state, decision_,
                                               static_cast<int64_t>(sizeof(OptimizerState) / 4), offset / 4};
        return builder_.input(name, kind, {});
    }

    void replace(const std::string& output, StoreTensor tensor, ValueId before, ValueId after) {
        const ValueId applied = builder_(
            Op::compare, {word(offsetof(OptimizerState, skip), Kind::int32), builder_.fill(Kind::int32, {}, 0.0)},
            {{"relation", static_cast<int64_t>(graph::Relation::equal)}});
        builder_.output(output, builder_(Op::where, {applied, after, before}));
        program_.options.store_updates.push_back({output, std::move(tensor), 0});
    }

    std::string decision_; // name of the state
    graph::Builder builder_;
    UpdateProgram program_;
};

} // namespace

Result<UpdateProgram> update_program(std::span<const PlannedUpdate> updates, const std::string& decision) {
    UpdateWriter writer(decision);
    for (const PlannedUpdate& planned : updates)
        HK_TRY(writer.add(planned).with_context(fmt::format("the update of '{}'", planned.parameter)));
    return writer.finish();
}

} // namespace hekla::train
