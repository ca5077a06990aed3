#include "plugin/instances/optimizer_instance.hpp"

#include <algorithm>

namespace hekla::plugin {
namespace {

hk_optimized table_of(const OptimizedParameter& parameter) {
    hk_optimized table{};
    table.struct_size = sizeof table;
    table.rank = static_cast<uint32_t>(parameter.shape.rank());
    std::ranges::copy(parameter.shape.dims(), table.dims);
    table.flags = parameter.flags;
    return table;
}

} // namespace

Status OptimizerInstance::create(const PartSpec& spec, std::set<std::string>& read) {
    instance_.what = fmt::format("optimizer '{}'", spec.id);
    HK_TRY(open_instance(registry_, HK_OPTIMIZER_INTERFACE, spec.id, instance_));
    return create_instance(
        registry_, instance_, spec.config, read,
        [&](const hk_config* config, void** self, hk_error* e) { return instance_.table->create(config, self, e); });
}

Result<bool> OptimizerInstance::takes(const OptimizedParameter& parameter) const {
    if (instance_.table->takes == nullptr) return true;
    const hk_optimized table = table_of(parameter);
    int32_t taken = 1;
    HK_TRY(call(registry_, instance_, fmt::format("{}: takes() of {}", instance_.what, parameter.shape.text()), "takes",
                [&](hk_error* e) { return instance_.table->takes(instance_.self, &table, &taken, e); }));
    return taken != 0;
}

Result<UpdateGraph> OptimizerInstance::update(const OptimizedParameter& parameter, OwnOperations* own) const {
    const std::string what = fmt::format("{}: build() for a parameter {}", instance_.what, parameter.shape.text());
    Joint joint;
    joint.own = own;
    graph::Builder& builder = joint.builder;
    hk_builder view(joint, next_tag());
    const auto field = [&](const char* name, const graph::Shape& shape) {
        return handle_of(&view, builder.input(name, graph::Kind::float_, shape));
    };
    const hk_optimized table = table_of(parameter);
    const hk_update_values values{sizeof(hk_update_values),
                                  field(kUpdateParameter, parameter.shape),
                                  field(kUpdateGradient, parameter.shape),
                                  field(kUpdateLearningRate, {}),
                                  field(kUpdateStep, {}),
                                  0};
    hk_value updated = 0;
    HK_TRY(describe_inside(registry_, instance_, view, what, "build", [&](hk_builder* b, hk_error* e) {
        return instance_.table->build(instance_.self, b, &table, &values, &updated, e);
    }));
    HK_ASSIGN(const graph::ValueId value, given_value(view, updated, parameter.shape, what));
    builder.output(kUpdateParameter, value);
    HK_ASSIGN(const graph::Graph described, builder.finish());
    return update_of(described, what);
}

} // namespace hekla::plugin
