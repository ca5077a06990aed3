#include "graph/operations/buffer_update.hpp"

#include "graph/output.hpp"

#include <fmt/format.h>

namespace hekla::graph {

std::vector<BufferUpdate> buffer_updates(const Graph& graph) {
    std::vector<BufferUpdate> updates;
    for (const auto& [buffer, value] : outputs_of(graph, OutputKind::buffer_update))
        updates.push_back({buffer, output_name(OutputKind::buffer_update, buffer), graph.shape(value)});
    return updates;
}

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

} // namespace hekla::graph
