#include "graph/output.hpp"

namespace hekla::graph {
namespace {

std::string_view prefix_of(OutputKind kind) {
    switch (kind) {
    case OutputKind::loss_sum: return "loss_sum.";
    case OutputKind::loss_count: return "loss_count.";
    case OutputKind::metric_sum: return "metric_sum.";
    case OutputKind::metric_count: return "metric_count.";
    case OutputKind::gradient: return "grad.";
    case OutputKind::port: return "port.";
    case OutputKind::tap: return "tap.";
    case OutputKind::buffer_update: return "buffer_update.";
    }
    return {};
}

} // namespace

std::string output_name(OutputKind kind, std::string_view of) {
    std::string name(prefix_of(kind));
    name += of;
    return name;
}

std::string output_name(OutputKind kind, std::size_t of) { return output_name(kind, std::to_string(of)); }

std::optional<std::string_view> output_of(OutputKind kind, std::string_view name) {
    const std::string_view prefix = prefix_of(kind);
    if (!name.starts_with(prefix)) return std::nullopt;
    return name.substr(prefix.size());
}

std::vector<std::pair<std::string, ValueId>> outputs_of(const Graph& graph, OutputKind kind) {
    std::vector<std::pair<std::string, ValueId>> found;
    for (const auto& [name, value] : graph.outputs)
        if (const std::optional<std::string_view> of = output_of(kind, name)) found.emplace_back(*of, value);
    return found;
}

} // namespace hekla::graph
