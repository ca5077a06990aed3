// Calls of plugins that describe a piece inside the description of another: an adapter or combiner at a site.
#pragma once

#include "plugin/host/joint.hpp"
#include "plugin/host/site.hpp"
#include "plugin/instances/instance.hpp"

#include <fmt/format.h>

namespace hekla::plugin {

// Calls f(builder, error) with the plugin's view of the graph. Errors: its own; it leaves a scope or region open,
// offers a port, or adds a loss or metric.
template<class Table, class F>
Status describe_inside(const Registry& registry, const Instance<Table>& instance, hk_builder& view,
                       const std::string& what, const char* function, F&& f) {
    const Joint& joint = view.joint;
    const std::size_t ports = joint.ports.size(), losses = joint.builder.graph().losses.size(),
                      metrics = joint.builder.graph().metrics.size();
    hk_error error;
    HK_ASSIGN(const int32_t code,
              code_of(registry, instance, what, function, error, [&](hk_error* e) { return f(&view, e); }));
    if (!joint.builder.ok()) return status_of(joint.builder.status(), code, error, what);
    HK_TRY(status_of(code, error, what));
    if (view.open_scopes != 0 || view.open_region)
        return failed_precondition(fmt::format("{}: a scope or region is still open after it", what));
    const graph::Graph& graph = joint.builder.graph();
    if (joint.ports.size() != ports || graph.losses.size() != losses || graph.metrics.size() != metrics)
        return failed_precondition(fmt::format("{}: it offers a port or adds a loss or metric", what));
    return {};
}

// Returns the value of a handle that the plugin gave, which must be float and have this shape.
inline Result<graph::ValueId> given_value(hk_builder& view, hk_value handle, const graph::Shape& wanted,
                                          const std::string& what) {
    graph::Builder& builder = view.joint.builder;
    const graph::ValueId value = value_of(&view, handle, "the plugin");
    if (!builder.ok()) return builder.status().with_context(what);
    if (value == graph::kNone) return invalid_argument(fmt::format("{}: it gives no value", what));
    const graph::Shape found = builder.shape(value);
    if (!graph::is_float(builder.kind(value)) || found != wanted)
        return invalid_argument(fmt::format("{}: it gives {} {}, expected float {}", what,
                                            graph::kind_name(builder.kind(value)), found.text(), wanted.text()));
    return value;
}

// A site as plugins see it; points into it.
inline hk_adapter_site table_of(const Site& site) {
    return {sizeof(hk_adapter_site),
            site.kind,
            {site.name.data(), site.name.size()},
            {site.parameter.data(), site.parameter.size()},
            {site.bias.data(), site.bias.size()},
            site.in,
            site.out,
            site.index,
            site.flags,
            0};
}

} // namespace hekla::plugin
