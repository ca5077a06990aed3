#include "graph/operations/buffer_update.hpp"

#include "graph/builder.hpp"

#include "graph/operations/rules.hpp"
#include "graph/operations/shape_rule.hpp"
#include "graph/output.hpp"

#include <fmt/format.h>

namespace hekla::graph {

std::vector<BufferUpdate> buffer_updates(const Graph& graph) {
    std::vector<BufferUpdate> updates;
    for (const auto& [buffer, value] : outputs_of(graph, OutputKind::buffer_update))
        updates.push_back({buffer, output_name(OutputKind::buffer_update, buffer), graph.shape(value)});
    return updates;
}

namespace {

Result<Outputs> buffer_update_outputs(const Rule& r) {
    const Op made_by = r.graph.producer(r.node.inputs[0]).op;
    if (made_by != Op::buffer)
        return r.error("buffer is a result of {}, expected a value of buffer()", info(made_by).name);
    HK_TRY(r.expect(1, r.shape(0)));
    return one(r.kind(1), r.shape(1));
}

// Registers the update and returns its value. An error if the buffer has one already.
std::vector<ValueId> expand_buffer_update(Builder& b, const Node& node) {
    const std::string name = b.graph().producer(node.inputs[0]).text("name");
    const std::string output = output_name(OutputKind::buffer_update, name);
    if (b.graph().outputs.contains(output)) {
        b.fail(invalid_argument(fmt::format("buffer_update: buffer '{}' is updated twice; expected one update, which "
                                            "combines both",
                                            name)));
        return {};
    }
    b.output(output, node.inputs[1]);
    return {node.inputs[1]};
}

} // namespace

const OperationRules buffer_update_rules{buffer_update_outputs, nullptr, nullptr, expand_buffer_update};

} // namespace hekla::graph
