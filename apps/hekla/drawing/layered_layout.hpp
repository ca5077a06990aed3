// Layered layout of nested boxes (Sugiyama, Tagawa and Toda 1981): longest-path layers, orders by barycenter, dummy
// nodes on long edges. For visualization; internal to the room.
#pragma once

#include <cstddef>
#include <vector>

namespace hekla::drawing {

inline constexpr std::size_t kNobody = static_cast<std::size_t>(-1);

struct LayoutPoint {
    double x = 0;
    double y = 0;
};

// A node of given size, or a box of children. Children are ordered such that edges point forward. Sizes, nesting and
// edges are given; layout() sets positions.
struct LayoutItem {
    std::size_t parent = kNobody; // kNobody: the root, which is item 0
    bool is_box = false;
    double width = 0, height = 0; // given for nodes, computed for boxes
    double x = 0, y = 0;          // computed: top left, absolute
};

struct LayoutEdge {
    std::size_t from = 0, to = 0; // nodes
    std::size_t value = 0;        // edges of one value share their path
};

// A part of one or several edges, within one box: a smooth line through these points.
struct LayoutLine {
    std::vector<LayoutPoint> points;
    bool arrow = false; // ends at a node
};

std::vector<LayoutLine> layout(std::vector<LayoutItem>& items, const std::vector<LayoutEdge>& edges);

} // namespace hekla::drawing
