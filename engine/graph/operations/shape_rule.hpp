// What the shape rules share: the node under inspection, checks and messages. Internal to the room; the only entry
// point is infer_outputs().
#pragma once

#include "graph/graph.hpp"

#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <span>

namespace hekla::graph {

using Output = std::pair<Kind, Shape>;
using Outputs = std::vector<Output>;

// The node under inspection, with accessors and checks for rules.
struct Rule {
    const Graph& graph;
    const Node& node;

    const char* name() const { return info(node).name; }
    bool has(std::size_t i) const { return i < node.inputs.size() && node.inputs[i] != kNone; }
    const Shape& shape(std::size_t i) const { return graph.shape(node.inputs[i]); }
    Kind kind(std::size_t i) const { return graph.kind(node.inputs[i]); }
    std::string text(std::size_t i) const { return has(i) ? shape(i).text() : "none"; }
    const char* input_name(std::size_t i) const { return info(node).inputs[i].name; }

    template<class... Args>
    Status error(fmt::format_string<Args...> format, Args&&... args) const {
        return invalid_argument(fmt::format("{}: {}", name(), fmt::format(format, std::forward<Args>(args)...)));
    }

    Result<int> axis(std::string_view attribute, const Shape& of) const { return axis(node.integer(attribute), of); }
    Result<int> axis(int64_t value, const Shape& of) const {
        const int64_t rank = of.rank();
        if (value < -rank || value >= rank) return error("axis {} is outside {}", value, of.text());
        return static_cast<int>(from_start(value, of.rank()));
    }
    Status rank(std::size_t i, int expected, const char* form) const {
        if (shape(i).rank() == expected) return {};
        return error("{} is {}, expected {}", input_name(i), text(i), form);
    }
    // Checks that input i, if present, has exactly this shape.
    Status expect(std::size_t i, const Shape& expected) const {
        if (!has(i) || shape(i) == expected) return {};
        return error("{} is {}, expected {}", input_name(i), text(i), expected.text());
    }
};

// Far above any memory; keeps products of dimensions inside 64 bits.
inline constexpr int64_t kMaxElements = int64_t{1} << 46;

inline Status sizes_ok(const Rule& r, std::span<const int64_t> dims) {
    if (dims.size() > kMaxRank) return r.error("{} dimensions, at most {} are possible", dims.size(), kMaxRank);
    int64_t product = 1;
    for (const int64_t dim : dims) {
        if (dim < 0) return r.error("[{}] has a negative dimension", fmt::join(dims, ", "));
        if (dim != 0 && product > kMaxElements / dim) return r.error("[{}] is too large", fmt::join(dims, ", "));
        product *= dim;
    }
    return {};
}

// Checks the attribute softcap.
inline Status soft_cap_ok(const Rule& r) {
    const double softcap = r.node.real("softcap");
    if (softcap >= 0 && std::isfinite(softcap)) return {};
    return r.error("softcap is {}, expected a positive number, or 0 for none", softcap);
}

inline Kind joined(Kind a, Kind b) {
    if (a == Kind::int32 && b == Kind::int32) return Kind::int32;
    return a == Kind::float32 || b == Kind::float32 ? Kind::float32 : Kind::float_;
}

inline Result<Outputs> one(Kind kind, const Shape& shape) { return Outputs{{kind, shape}}; }
inline Result<Outputs> like_first_input(const Rule& r) { return one(r.kind(0), r.shape(0)); }
// The same for operations along an axis.
inline Result<Outputs> along_axis(const Rule& r) {
    HK_TRY(r.axis("axis", r.shape(0)).status());
    return like_first_input(r);
}

} // namespace hekla::graph
