#include "drawing/layered_layout.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>

namespace hekla::drawing {
namespace {

constexpr double kGap = 14;      // between neighbors in a layer
constexpr double kLayerGap = 26; // between layers
constexpr double kPadding = 12;  // inside a box
constexpr double kTitle = 16;    // of a box, above its content
constexpr double kWay = 10;      // of a dummy node

// An element of a layer in a box: a child, a port where a value enters or leaves the box, or a dummy node of a long
// edge.
struct LayerSlot {
    std::size_t item = kNobody;  // a child
    std::size_t value = kNobody; // of a port or dummy node
    int layer = 0;
    double width = 0, height = 0;
    double x = 0, y = 0;                                           // x of the center and y of the top, inside the box
    std::vector<std::pair<std::size_t, std::size_t>> above, below; // (slot, value) of neighbors in the next layers
};

struct Box {
    std::vector<std::size_t> children;
    std::map<std::size_t, std::size_t> slot_of;                        // child -> slot
    std::map<std::size_t, std::size_t> entry, exit;                    // value -> slot
    std::set<std::tuple<std::size_t, std::size_t, std::size_t>> edges; // (from slot, to slot, value)
    std::vector<LayerSlot> slots;
    std::vector<std::vector<std::size_t>> layers;
    std::vector<std::vector<std::size_t>> lines; // slots that each drawn edge passes, then its value
    std::vector<std::size_t> line_values;
};

class Layout {
public:
    explicit Layout(std::vector<LayoutItem>& items) : items_(items), boxes_(items.size()) {
        for (std::size_t i = 1; i < items.size(); ++i) {
            Box& box = boxes_[items[i].parent];
            box.children.push_back(i);
            box.slot_of[i] = box.slots.size();
            box.slots.push_back({.item = i, .above = {}, .below = {}});
        }
    }

    void add(const LayoutEdge& edge) {
        std::vector<std::size_t> from = chain(edge.from), to = chain(edge.to);
        std::size_t common = 0;
        while (common + 1 < from.size() && common + 1 < to.size() && from[common + 1] == to[common + 1]) ++common;
        const std::size_t v = edge.value;
        for (std::size_t depth = from.size() - 2; depth > common; --depth) {
            Box& box = boxes_[from[depth]];
            box.edges.emplace(box.slot_of[from[depth + 1]], port(box, box.exit, v), v);
        }
        Box& shared = boxes_[from[common]];
        shared.edges.emplace(shared.slot_of[from[common + 1]], shared.slot_of[to[common + 1]], v);
        for (std::size_t depth = common + 1; depth + 1 < to.size(); ++depth) {
            Box& box = boxes_[to[depth]];
            box.edges.emplace(port(box, box.entry, v), box.slot_of[to[depth + 1]], v);
        }
    }

    std::vector<LayoutLine> run() {
        for (std::size_t i = items_.size(); i-- > 0;) // children have higher numbers than their boxes
            if (items_[i].is_box) arrange(i);
        items_[0].x = items_[0].y = 0;
        std::vector<LayoutLine> lines;
        for (std::size_t i = 0; i < items_.size(); ++i)
            if (items_[i].is_box) place_children(i);
        for (std::size_t i = 0; i < items_.size(); ++i)
            if (items_[i].is_box) draw(i, lines);
        return lines;
    }

private:
    std::vector<std::size_t> chain(std::size_t item) const { // from the root to the item
        std::vector<std::size_t> result;
        for (; item != kNobody; item = items_[item].parent) result.push_back(item);
        std::ranges::reverse(result);
        return result;
    }

    static std::size_t port(Box& box, std::map<std::size_t, std::size_t>& ports, std::size_t value) {
        const auto [found, fresh] = ports.emplace(value, box.slots.size());
        if (fresh) box.slots.push_back({.value = value, .width = kWay, .above = {}, .below = {}});
        return found->second;
    }

    void arrange(std::size_t index) {
        Box& box = boxes_[index];
        for (LayerSlot& slot : box.slots)
            if (slot.item != kNobody) {
                slot.width = items_[slot.item].width;
                slot.height = items_[slot.item].height;
            }
        find_layers(box);
        add_ways(box);
        order(box);
        coordinates(index, box);
    }

    static void find_layers(Box& box) {
        for (LayerSlot& slot : box.slots) slot.layer = slot.item == kNobody ? 0 : 1;
        // Edges between children point forward in the children's order, which is also the order of their slots.
        int last = 1;
        for (const std::size_t child : box.children) {
            const std::size_t at = box.slot_of[child];
            last = std::max(last, box.slots[at].layer);
            for (auto e = box.edges.lower_bound({at, 0, 0}); e != box.edges.end() && std::get<0>(*e) == at; ++e) {
                LayerSlot& to = box.slots[std::get<1>(*e)];
                if (to.item != kNobody) to.layer = std::max(to.layer, box.slots[at].layer + 1);
            }
        }
        // A child without incoming edges is placed right above its first reader.
        std::vector<bool> has_above(box.slots.size(), false);
        for (const auto& [from, to, value] : box.edges) has_above[to] = true;
        for (const std::size_t child : box.children) {
            const std::size_t at = box.slot_of[child];
            if (has_above[at]) continue;
            int first = 0;
            for (auto e = box.edges.lower_bound({at, 0, 0}); e != box.edges.end() && std::get<0>(*e) == at; ++e) {
                const LayerSlot& to = box.slots[std::get<1>(*e)];
                if (to.item != kNobody && (first == 0 || to.layer < first)) first = to.layer;
            }
            if (first > 1) box.slots[at].layer = first - 1;
        }
        for (const auto& [value, at] : box.exit) box.slots[at].layer = last + 1;
    }

    // Adds a dummy node in each layer that an edge crosses; edges of one value from one slot share them.
    static void add_ways(Box& box) {
        std::map<std::tuple<std::size_t, std::size_t, int>, std::size_t> ways;
        const auto connect = [&](std::size_t above, std::size_t below, std::size_t value) {
            auto& down = box.slots[above].below;
            if (std::ranges::find(down, std::pair{below, value}) != down.end()) return;
            down.emplace_back(below, value);
            box.slots[below].above.emplace_back(above, value);
        };
        for (const auto& [from, to, value] : box.edges) {
            std::size_t at = from;
            std::vector<std::size_t> line{from};
            for (int layer = box.slots[from].layer + 1; layer < box.slots[to].layer; ++layer) {
                const auto [found, fresh] = ways.emplace(std::tuple{from, value, layer}, box.slots.size());
                if (fresh)
                    box.slots.push_back({.value = value, .layer = layer, .width = kWay, .above = {}, .below = {}});
                connect(at, found->second, value);
                at = found->second;
                line.push_back(at);
            }
            connect(at, to, value);
            line.push_back(to);
            box.lines.push_back(std::move(line));
            box.line_values.push_back(value);
        }
        int last = 0;
        for (const LayerSlot& slot : box.slots) last = std::max(last, slot.layer);
        box.layers.assign(static_cast<std::size_t>(last) + 1, {});
        for (std::size_t i = 0; i < box.slots.size(); ++i)
            box.layers[static_cast<std::size_t>(box.slots[i].layer)].push_back(i);
    }

    // Returns the distance from a slot's center at which a value's line meets it: boxes are met at their ports.
    double offset(std::size_t slot, std::size_t value, const Box& box, bool at_top) const {
        const std::size_t item = box.slots[slot].item;
        if (item == kNobody || !items_[item].is_box) return 0;
        const Box& inner = boxes_[item];
        const auto& ports = at_top ? inner.entry : inner.exit;
        const auto found = ports.find(value);
        return found == ports.end() ? 0 : inner.slots[found->second].x - items_[item].width / 2;
    }

    double wish(const Box& box, std::size_t at, bool from_above) const {
        const auto& neighbors = from_above ? box.slots[at].above : box.slots[at].below;
        double sum = 0;
        for (const auto& [other, value] : neighbors)
            sum += box.slots[other].x + offset(other, value, box, !from_above) - offset(at, value, box, from_above);
        return sum / static_cast<double>(neighbors.size());
    }

    // Places a layer from left to right with minimal gaps, in its order, centered around 0.
    static void pack(Box& box, const std::vector<std::size_t>& layer) {
        double width = -kGap;
        for (const std::size_t at : layer) width += box.slots[at].width + kGap;
        double x = -width / 2;
        for (const std::size_t at : layer) {
            box.slots[at].x = x + box.slots[at].width / 2;
            x += box.slots[at].width + kGap;
        }
    }

    void order(Box& box) const {
        for (const auto& layer : box.layers) pack(box, layer);
        const auto sweep = [&](std::vector<std::size_t>& layer, bool from_above) {
            std::map<std::size_t, double> wishes;
            for (const std::size_t at : layer) {
                const auto& neighbors = from_above ? box.slots[at].above : box.slots[at].below;
                wishes[at] = neighbors.empty() ? box.slots[at].x : wish(box, at, from_above);
            }
            std::ranges::stable_sort(layer, {}, [&](std::size_t at) { return wishes[at]; });
            pack(box, layer);
        };
        for (int round = 0; round < 4; ++round) {
            for (auto& layer : box.layers) sweep(layer, true);
            for (std::size_t i = box.layers.size(); i-- > 0;) sweep(box.layers[i], false);
        }
    }

    // Moves slots towards their neighbors, pushing others aside only to keep the gaps.
    void relax(Box& box, const std::vector<std::size_t>& layer, bool from_above) const {
        if (layer.empty()) return;
        std::vector<double> left, right;
        const auto apart = [&](std::size_t a, std::size_t b) {
            return (box.slots[a].width + box.slots[b].width) / 2 + kGap;
        };
        std::vector<double> wishes;
        for (const std::size_t at : layer) {
            const auto& neighbors = from_above ? box.slots[at].above : box.slots[at].below;
            wishes.push_back(neighbors.empty() ? box.slots[at].x : wish(box, at, from_above));
        }
        for (std::size_t i = 0; i < layer.size(); ++i)
            left.push_back(i == 0 ? wishes[0] : std::max(wishes[i], left[i - 1] + apart(layer[i - 1], layer[i])));
        right = wishes;
        for (std::size_t i = layer.size() - 1; i-- > 0;)
            right[i] = std::min(wishes[i], right[i + 1] - apart(layer[i], layer[i + 1]));
        for (std::size_t i = 0; i < layer.size(); ++i) box.slots[layer[i]].x = (left[i] + right[i]) / 2;
    }

    void coordinates(std::size_t index, Box& box) {
        for (int round = 0; round < 6; ++round) {
            for (const auto& layer : box.layers) relax(box, layer, true);
            for (std::size_t i = box.layers.size(); i-- > 0;) relax(box, box.layers[i], false);
        }
        for (const auto& layer : box.layers) relax(box, layer, true);
        double left = 0, right = 0;
        bool any = false;
        for (const LayerSlot& slot : box.slots) {
            left = any ? std::min(left, slot.x - slot.width / 2) : slot.x - slot.width / 2;
            right = any ? std::max(right, slot.x + slot.width / 2) : slot.x + slot.width / 2;
            any = true;
        }
        double y = kTitle;
        for (const auto& layer : box.layers) {
            double height = 0;
            bool items = false;
            for (const std::size_t at : layer) {
                height = std::max(height, box.slots[at].height);
                items = items || box.slots[at].item != kNobody;
            }
            for (const std::size_t at : layer) {
                LayerSlot& slot = box.slots[at];
                slot.y = y + (slot.item == kNobody ? 0 : (height - slot.height) / 2);
                if (slot.item == kNobody) slot.height = height;
                slot.x += kPadding - left;
            }
            y += height + (items ? kLayerGap : 0);
        }
        LayoutItem& item = items_[index];
        item.width = right - left + 2 * kPadding;
        item.height = y - kLayerGap + kPadding;
        for (const auto& [value, at] : box.entry) box.slots[at].y = 0;
        for (const auto& [value, at] : box.exit) box.slots[at].y = item.height;
    }

    void place_children(std::size_t index) {
        for (const LayerSlot& slot : boxes_[index].slots) {
            if (slot.item == kNobody) continue;
            LayoutItem& child = items_[slot.item];
            child.x = items_[index].x + slot.x - child.width / 2;
            child.y = items_[index].y + slot.y;
        }
    }

    void draw(std::size_t index, std::vector<LayoutLine>& lines) const {
        const Box& box = boxes_[index];
        const LayoutItem& item = items_[index];
        for (std::size_t l = 0; l < box.lines.size(); ++l) {
            const std::size_t value = box.line_values[l];
            LayoutLine line;
            const auto& along = box.lines[l];
            for (std::size_t i = 0; i < along.size(); ++i) {
                const LayerSlot& slot = box.slots[along[i]];
                const bool first = i == 0, last = i + 1 == along.size();
                const double x = item.x + slot.x;
                const bool port = slot.item == kNobody && (first || last);
                if (!first) line.points.push_back({x + offset(along[i], value, box, true), item.y + slot.y});
                if (!last) {
                    const double bottom = port ? slot.y : slot.y + slot.height;
                    line.points.push_back({x + offset(along[i], value, box, false), item.y + bottom});
                }
                if (last) line.arrow = slot.item != kNobody && !items_[slot.item].is_box;
            }
            lines.push_back(std::move(line));
        }
    }

    std::vector<LayoutItem>& items_;
    std::vector<Box> boxes_;
};

} // namespace

std::vector<LayoutLine> layout(std::vector<LayoutItem>& items, const std::vector<LayoutEdge>& edges) {
    Layout layout(items);
    for (const LayoutEdge& edge : edges) layout.add(edge);
    return layout.run();
}

} // namespace hekla::drawing
