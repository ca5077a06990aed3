// The picture of a graph: well-formed and complete, with nodes that do not overlap.
#include "drawing/layered_layout.hpp"
#include "drawing/svg.hpp"
#include "graph/gradient.hpp"
#include "graph/passes/simplify.hpp"
#include "random_graph.hpp"

namespace hekla::test::svg_test {
namespace {

using namespace hekla::drawing;

// Checks that tags open and close in order, and that attributes have no stray brackets or quotes.
bool well_formed(const std::string& text) {
    std::vector<std::string> open;
    for (std::size_t at = 0; at < text.size();) {
        if (text[at] != '<') {
            if (text[at] == '>') return false;
            ++at;
            continue;
        }
        const std::size_t end = text.find('>', at);
        if (end == std::string::npos) return false;
        const std::string tag = text.substr(at + 1, end - at - 1);
        if (tag.find('<') != std::string::npos || std::ranges::count(tag, '"') % 2 != 0) return false;
        if (tag[0] == '/') {
            if (open.empty() || open.back() != tag.substr(1)) return false;
            open.pop_back();
        } else if (!tag.ends_with('/')) {
            open.push_back(tag.substr(0, tag.find(' ')));
        }
        at = end + 1;
    }
    return open.empty();
}

} // namespace

TEST_CASE("random graphs become well-formed pictures with all their nodes") {
    for (uint64_t seed = 0; seed < 30; ++seed) {
        CAPTURE(seed);
        const RandomGraph random = random_graph(seed);
        const std::string picture = svg(random.graph, {.title = "a < b & \"c\""});
        CHECK(well_formed(picture));
        CHECK(picture.find("a &lt; b &amp; &quot;c&quot;") != std::string::npos);
        CHECK(picture.find("nan") == std::string::npos);
        for (const Node& node : random.graph.nodes)
            if (!is_leaf(node.op))
                CHECK(picture.find(fmt::format(">%{} {}<", node.outputs[0], info(node.op).name)) != std::string::npos);
        const Result<Graph> gradient = differentiate(random.graph);
        REQUIRE(gradient.ok());
        CHECK(well_formed(svg(gradient.value())));
    }
    CHECK(well_formed(svg(Graph{})));
}

TEST_CASE("a layout has separate nodes inside their boxes, and edges pointing down") {
    RandomStream random(5, 5);
    for (int round = 0; round < 20; ++round) {
        std::vector<LayoutItem> items{{.is_box = true}};
        std::vector<std::size_t> nodes;
        std::vector<std::size_t> open{0};
        for (int i = 0; i < 60; ++i) {
            if (random.next_below(6) == 0 && open.size() < 4) {
                items.push_back({.parent = open.back(), .is_box = true});
                open.push_back(items.size() - 1);
            } else if (random.next_below(8) == 0 && open.size() > 1 && nodes.size() > 0 &&
                       items.size() - 1 != open.back()) {
                open.pop_back();
            }
            items.push_back({.parent = open.back(),
                             .width = 20 + static_cast<double>(random.next_below(60)),
                             .height = 10 + static_cast<double>(random.next_below(30))});
            nodes.push_back(items.size() - 1);
        }
        std::vector<LayoutEdge> edges;
        for (std::size_t i = 1; i < nodes.size(); ++i)
            for (int k = 0; k < 2; ++k) {
                const std::size_t from = random.next_below(i);
                edges.push_back({nodes[from], nodes[i], from});
            }
        const std::vector<LayoutLine> lines = layout(items, edges);
        const auto inside = [](const LayoutItem& a, const LayoutItem& b) {
            return a.x >= b.x && a.y >= b.y && a.x + a.width <= b.x + b.width && a.y + a.height <= b.y + b.height;
        };
        const auto overlap = [](const LayoutItem& a, const LayoutItem& b) {
            return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
        };
        for (std::size_t i = 1; i < items.size(); ++i) {
            CHECK(inside(items[i], items[items[i].parent]));
            for (std::size_t j = 1; j < i; ++j)
                if (items[i].parent == items[j].parent) CHECK(!overlap(items[i], items[j]));
        }
        for (const LayoutEdge& edge : edges) CHECK(items[edge.from].y + items[edge.from].height <= items[edge.to].y);
        CHECK(lines.size() >= edges.size() / 2);
        for (const LayoutLine& line : lines)
            for (std::size_t i = 1; i < line.points.size(); ++i) CHECK(line.points[i].y >= line.points[i - 1].y);
    }
}

} // namespace hekla::test::svg_test
