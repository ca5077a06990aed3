#include "drawing/svg.hpp"

#include "base/svg.hpp"
#include "drawing/layered_layout.hpp"
#include "graph/text.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::drawing {
namespace {

using namespace hekla::graph;

constexpr double kCharacter = 6.1; // upper bound of a character's width at the font size below
constexpr double kLine = 13;

const char* color(Op op) {
    if (is_leaf(op)) return "#ffffff";
    if (is_pointwise(op)) return "#fff3c4";
    if (op <= Op::flip) return "#eceff1";  // shape
    if (op <= Op::top_k) return "#ffe0b2"; // reduce
    if (op <= Op::truncated_normal) return "#f8d7ea";
    if (op <= Op::avg_pool2d_gradient) return "#cfe2ff"; // matrix, convolution
    if (op <= Op::log_softmax) return "#d5f0d5";         // norm
    if (op <= Op::scatter) return "#d7f3f1";             // position, lookup
    if (op <= Op::lstm) return "#e3d7ff";                // attention, recurrent
    if (op == Op::cross_entropy || op == Op::linear_cross_entropy || op == Op::linear_cross_entropy_with_gradient)
        return "#ffd6d6";
    if (op <= Op::with_gradient) return "#f5f5f5"; // mode
    if (op == Op::own) return "#fff1b8";
    return "#d0dcea"; // gradient, decode
}

std::string shortened(std::string text) {
    constexpr std::size_t kMost = 34;
    if (text.size() <= kMost) return text;
    // Do not cut inside a UTF-8 character.
    std::size_t cut = text.size() - (kMost - 3);
    while (cut < text.size() && (static_cast<unsigned char>(text[cut]) & 0xc0) == 0x80) ++cut;
    return "..." + text.substr(cut);
}

struct Drawing {
    std::vector<LayoutItem> items{{.is_box = true}};
    std::vector<ScopeId> scope_of{0}; // of boxes
    std::vector<NodeId> node_of{0};   // of nodes
    std::vector<std::size_t> item_of; // by node; kNobody: shown inside its readers
    std::vector<LayoutEdge> edges;
    std::vector<std::vector<std::string>> labels; // by node: lines of text
    std::vector<std::string> tips;                // by node: its line in print()
};

// The lines of print() that make nodes, in order.
std::vector<std::string> node_lines(const Graph& graph) {
    const std::string text = print(graph);
    std::vector<std::string> lines;
    for (std::size_t at = text.find('\n') + 1; at < text.size() && lines.size() < graph.nodes.size();) {
        const std::size_t end = text.find('\n', at);
        const std::string line = text.substr(at, end - at);
        at = end + 1;
        const bool node = !line.starts_with("scope ") && !line.starts_with("operation ") &&
                          !line.starts_with("gradient ") && !line.starts_with('|');
        if (node) lines.push_back(line);
    }
    return lines;
}

std::vector<ScopeId> path_of(const Graph& graph, ScopeId scope) {
    std::vector<ScopeId> path;
    for (; scope != 0; scope = graph.scopes[scope].parent) path.push_back(scope);
    std::ranges::reverse(path);
    return path;
}

bool is_drawn(Op op) { return !is_leaf(op) || op == Op::input || op == Op::positions; }

// Returns the text of a leaf that is not drawn, for its reader.
std::string leaf_text(const Graph& graph, ValueId value) {
    const Node& node = graph.producer(value);
    if (const char* attribute = leaf_name_attribute(node.op)) return node.text(attribute);
    if (node.op == Op::fill) return fmt::format("{}", node.real("value"));
    return fmt::format("{} {}", info(node).name, graph.shape(value).text());
}

Drawing prepare(const Graph& graph, const SvgOptions& options) {
    Drawing d;
    d.item_of.assign(graph.nodes.size(), kNobody);
    d.labels.resize(graph.nodes.size());
    d.tips = node_lines(graph);
    std::vector<std::size_t> order(graph.nodes.size()); // number of nodes drawn before it
    std::size_t drawn = 0;
    // A scope is one box for each uninterrupted sequence of its nodes, so that lines between boxes point down.
    std::vector<std::pair<ScopeId, std::size_t>> open;
    for (NodeId id = 0; id < graph.nodes.size(); ++id) {
        const Node& node = graph.nodes[id];
        order[id] = drawn;
        if (!is_drawn(node.op)) continue;
        ++drawn;
        const std::vector<ScopeId> path = path_of(graph, node.scope);
        std::size_t same = 0;
        while (same < path.size() && same < open.size() && open[same].first == path[same]) ++same;
        open.resize(same);
        for (; same < path.size(); ++same) {
            d.items.push_back({.parent = open.empty() ? 0 : open.back().second, .is_box = true});
            d.scope_of.push_back(path[same]);
            d.node_of.push_back(0);
            open.emplace_back(path[same], d.items.size() - 1);
        }
        std::vector<std::string>& label = d.labels[id];
        label.push_back(is_leaf(node.op) && leaf_name_attribute(node.op) != nullptr
                            ? node.text(leaf_name_attribute(node.op))
                            : fmt::format("%{} {}", node.outputs[0], info(node).name));
        label.push_back(
            fmt::format("{} {}", kind_name(graph.kind(node.outputs[0])), graph.shape(node.outputs[0]).text()));
        std::vector<ValueId> seen;
        for (const ValueId input : node.inputs) {
            if (input == kNone || std::ranges::find(seen, input) != seen.end()) continue;
            seen.push_back(input);
            const NodeId from = graph.value(input).node;
            if (d.item_of[from] == kNobody)
                label.push_back(shortened(leaf_text(graph, input)));
            else if (order[id] - order[from] > options.longest_line)
                label.push_back(fmt::format("reads %{}", input));
        }
        if (node.region != 0) label.push_back(fmt::format("recompute {}", node.region));
        for (const auto& [name, value] : graph.outputs)
            if (graph.value(value).node == id) label.push_back(shortened("output " + name));
        for (const LossTerm& loss : graph.losses)
            if (graph.value(loss.sum).node == id) label.push_back(shortened("loss " + loss.name));
        std::size_t widest = 0;
        for (const std::string& line : label) widest = std::max(widest, line.size());
        d.item_of[id] = d.items.size();
        d.items.push_back({.parent = open.empty() ? 0 : open.back().second,
                           .width = 14 + kCharacter * static_cast<double>(widest),
                           .height = 8 + kLine * static_cast<double>(label.size())});
        d.scope_of.push_back(0);
        d.node_of.push_back(id);
        for (const ValueId input : seen) {
            const NodeId from = graph.value(input).node;
            if (d.item_of[from] != kNobody && order[id] - order[from] <= options.longest_line)
                d.edges.push_back({d.item_of[from], d.item_of[id], input});
        }
    }
    return d;
}

std::string path_data(const LayoutLine& line) {
    std::string data = fmt::format("M{:.1f} {:.1f}", line.points[0].x, line.points[0].y);
    for (std::size_t i = 1; i < line.points.size(); ++i) {
        const LayoutPoint a = line.points[i - 1], b = line.points[i];
        if (a.x == b.x) {
            data += fmt::format("V{:.1f}", b.y);
        } else { // starts at a leaf and arrives vertically
            const double bend = (a.y + b.y) / 2;
            data += fmt::format("C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}", a.x, bend, b.x, bend, b.x, b.y);
        }
    }
    return data;
}

} // namespace

std::string svg(const Graph& graph, const SvgOptions& options) {
    Drawing d = prepare(graph, options);
    const std::vector<LayoutLine> lines = layout(d.items, d.edges);
    const double title = options.title.empty() ? 0 : 24;
    const double width = std::max(d.items[0].width, 16 + 8 * static_cast<double>(options.title.size()));
    SvgWriter out(width, d.items[0].height + title, "monospace", 10);
    out.raw("<defs><marker id=\"arrow\" viewBox=\"0 0 6 6\" refX=\"6\" refY=\"3\" markerWidth=\"6\" markerHeight=\"6\" "
            "orient=\"auto\"><path d=\"M0 0L6 3L0 6z\" fill=\"#5f6b76\"/></marker></defs>\n");
    if (title > 0) out.text(12, 18, options.title, "font-size=\"13\" font-weight=\"bold\"");
    out.open_group(fmt::format("transform=\"translate(0 {:.0f})\"", title));
    for (std::size_t i = 1; i < d.items.size(); ++i) {
        const LayoutItem& item = d.items[i];
        if (!item.is_box) continue;
        out.open_group("", graph.scope_path(d.scope_of[i]));
        out.rect(item.x, item.y, item.width, item.height,
                 "rx=\"6\" fill=\"#3b6ea5\" fill-opacity=\"0.06\" stroke=\"#9db2c9\"");
        out.text(item.x + 6, item.y + 11, graph.scopes[d.scope_of[i]].name, "fill=\"#51718f\"");
        out.close_group();
    }
    for (const LayoutLine& line : lines)
        out.path(path_data(line), fmt::format("fill=\"none\" stroke=\"#5f6b76\" stroke-opacity=\"0.7\"{}",
                                              line.arrow ? " marker-end=\"url(#arrow)\"" : ""));
    for (std::size_t i = 1; i < d.items.size(); ++i) {
        const LayoutItem& item = d.items[i];
        if (item.is_box) continue;
        const NodeId id = d.node_of[i];
        const Node& node = graph.nodes[id];
        out.open_group("", d.tips[id]);
        out.rect(item.x, item.y, item.width, item.height,
                 fmt::format("rx=\"4\" fill=\"{}\" stroke=\"#5f6b76\"{}", color(node.op),
                             node.region != 0 ? " stroke-dasharray=\"4 2\"" : ""));
        double y = item.y + 13;
        for (std::size_t l = 0; l < d.labels[id].size(); ++l, y += kLine)
            out.text(item.x + item.width / 2, y, d.labels[id][l],
                     l == 0 ? "text-anchor=\"middle\" font-weight=\"bold\""
                            : "text-anchor=\"middle\" fill=\"#44505c\"");
        out.close_group();
    }
    out.close_group();
    return std::move(out).finish();
}

} // namespace hekla::drawing
