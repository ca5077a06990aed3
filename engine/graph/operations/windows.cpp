#include "graph/operations/windows.hpp"

#include "graph/gradient/backward.hpp"
#include "graph/operations/rules.hpp"
#include "graph/reference/call.hpp"

#include <algorithm>

namespace hekla::graph {
namespace {

using Pair = Windows::Pair;

constexpr int64_t kMostOfWindow = int64_t{1} << 31; // keeps products of a window's numbers inside 64 bits

bool along_one_dimension(Op op) { return op == Op::conv1d || op == Op::max_pool1d || op == Op::avg_pool1d; }

bool has_weight(Op op) { return op == Op::conv1d || op == Op::conv2d; }

// Returns an attribute as one number for H and one for W; `fallback` if it is empty.
Result<Pair> pair_of(const Rule& r, const char* attribute, int64_t least, std::optional<Pair> fallback) {
    const std::vector<int64_t>& given = r.node.ints(attribute);
    const bool one_dimension = along_one_dimension(r.node.op);
    if (given.size() > (one_dimension ? 1U : 2U) || (given.empty() && !fallback))
        return r.error("{} is [{}], expected {}", attribute, fmt::join(given, ", "),
                       one_dimension ? "one number" : "one number, or one for H and one for W");
    for (const int64_t number : given)
        if (number < least || number >= kMostOfWindow)
            return r.error("{} is [{}], expected numbers of at least {}", attribute, fmt::join(given, ", "), least);
    if (given.empty()) return *fallback;
    if (one_dimension) return Pair{std::min<int64_t>(least, 1), given[0]};
    return Pair{given.front(), given.back()};
}

// Returns a pair as the node's author wrote it.
std::string pair_text(const Rule& r, const Pair& pair) {
    return along_one_dimension(r.node.op) ? fmt::format("[{}]", pair[1]) : fmt::format("[{}, {}]", pair[0], pair[1]);
}

// Checks x [B, H, W, C], or [B, T, C], and returns its H and W.
Result<Pair> size_of(const Rule& r) {
    const bool one_dimension = along_one_dimension(r.node.op);
    HK_TRY(r.rank(0, one_dimension ? 3 : 4, one_dimension ? "[B, T, C]" : "[B, H, W, C]"));
    const Shape& x = r.shape(0);
    const Pair size = one_dimension ? Pair{1, x[1]} : Pair{x[1], x[2]};
    if (size[0] == 0 || size[1] == 0 || x[-1] == 0)
        return r.error("x is {}; expected at least one element along every dimension but the batch", r.text(0));
    return size;
}

Status kernel_fits(const Rule& r, const Windows& windows, const Pair& size) {
    for (std::size_t axis = 0; axis < 2; ++axis)
        if (windows.reach(axis) > size[axis] + 2 * windows.padding[axis]) {
            const Pair padded{size[0] + 2 * windows.padding[0], size[1] + 2 * windows.padding[1]};
            return r.error("the kernel {} with dilation {} is larger than the padded x {}; use a smaller kernel or "
                           "more padding",
                           pair_text(r, windows.kernel), pair_text(r, windows.dilation), pair_text(r, padded));
        }
    return {};
}

// Returns [B, H', W', channels], or [B, T', channels].
Result<Shape> shape_of_windows(const Rule& r, const Windows& windows, const Pair& size, int64_t channels) {
    HK_TRY(kernel_fits(r, windows, size));
    Shape y{r.shape(0)[0]};
    if (!along_one_dimension(r.node.op)) y.push_back(windows.count(0, size[0]));
    y.push_back(windows.count(1, size[1]));
    y.push_back(channels);
    HK_TRY(sizes_ok(r, y.dims()));
    return y;
}

} // namespace

Result<Windows> windows_of(const Rule& r) {
    const Op op = r.node.op;
    Windows windows;
    if (has_weight(op)) {
        const Shape& weight = r.shape(1);
        windows.kernel = {along_one_dimension(op) ? 1 : weight[-2], weight[-1]};
    } else {
        HK_ASSIGN(windows.kernel, pair_of(r, "kernel", 1, std::nullopt));
    }
    HK_ASSIGN(windows.stride, pair_of(r, "stride", 1, has_weight(op) ? Pair{1, 1} : windows.kernel));
    HK_ASSIGN(windows.padding, pair_of(r, "padding", 0, Pair{0, 0}));
    const bool has_dilation = std::ranges::any_of(
        r.node.attributes, [](const Attribute& a) { return std::string_view(a.name) == "dilation"; });
    if (has_dilation) { HK_ASSIGN(windows.dilation, pair_of(r, "dilation", 1, Pair{1, 1})); }
    return windows;
}

Windows windows_of(const Graph& graph, const Node& node) { return windows_of(Rule{graph, node}).take(); }

const Shape& windowed_shape(const Graph& graph, const Node& node) {
    const bool reads_x = node.op == Op::patches || node.op == Op::max_pool2d || node.op == Op::avg_pool2d;
    return graph.shape(reads_x ? node.inputs[0] : node.outputs[0]);
}

Result<Outputs> convolution_outputs(const Rule& r) {
    const bool one_dimension = along_one_dimension(r.node.op);
    const char* form = one_dimension ? "[O, C / groups, K]" : "[O, C / groups, kh, kw]";
    HK_ASSIGN(const Pair size, size_of(r));
    HK_TRY(r.rank(1, one_dimension ? 3 : 4, form));
    const Shape& weight = r.shape(1);
    const int64_t channels = r.shape(0)[-1], out = weight[0], groups = r.node.integer("groups");
    if (groups < 1) return r.error("groups is {}, expected at least 1", groups);
    if (channels % groups != 0 || out % groups != 0)
        return r.error("x {} has {} channels (its last dimension) and weight {} makes {}; both must be divisible by "
                       "groups, which is {}",
                       r.text(0), channels, r.text(1), out, groups);
    if (weight[1] != channels / groups)
        return r.error("weight is {}, expected {} with C / groups = {}, because x {} has {} channels (its last "
                       "dimension) in {} groups",
                       r.text(1), form, channels / groups, r.text(0), channels, groups);
    if (weight.elements() == 0) return r.error("weight {} has no elements", r.text(1));
    HK_TRY(r.expect(2, Shape{out}));
    HK_ASSIGN(const Windows windows, windows_of(r));
    HK_ASSIGN(const Shape y, shape_of_windows(r, windows, size, out));
    return one(joined(r.kind(0), r.kind(1)), y);
}

Result<Outputs> pool_outputs(const Rule& r) {
    HK_ASSIGN(const Pair size, size_of(r));
    HK_ASSIGN(const Windows windows, windows_of(r));
    for (std::size_t axis = 0; axis < 2; ++axis)
        if (2 * windows.padding[axis] > windows.reach(axis))
            return r.error("padding {} is more than half of the kernel {}: a window could have no element of x; use "
                           "less padding",
                           pair_text(r, windows.padding), pair_text(r, windows.kernel));
    HK_ASSIGN(const Shape y, shape_of_windows(r, windows, size, r.shape(0)[-1]));
    if (r.node.op == Op::max_pool2d) return Outputs{{r.kind(0), y}, {Kind::int32, y}};
    return one(r.kind(0), y);
}

namespace {

Result<Outputs> patches_outputs(const Rule& r) {
    HK_ASSIGN(const Pair size, size_of(r));
    HK_ASSIGN(const Windows windows, windows_of(r));
    const int64_t channels = r.shape(0)[3], groups = r.node.integer("groups");
    if (groups < 1 || channels % groups != 0) return r.error("{} channels in {} groups", channels, groups);
    const int64_t most = kMaxElements / (windows.kernel[0] * channels);
    if (windows.kernel[1] > most) return r.error("a window of {} is too large", pair_text(r, windows.kernel));
    HK_ASSIGN(const Shape y, shape_of_windows(r, windows, size, windows.elements() * channels));
    return one(r.kind(0), y);
}

Result<Outputs> windows_gradient_outputs(const Rule& r) {
    HK_TRY(r.rank(0, 4, "[B, H', W', C]"));
    HK_ASSIGN(const Windows windows, windows_of(r));
    const std::vector<int64_t>& size = r.node.ints("size");
    if (size.size() != 2 || std::ranges::any_of(size, [](int64_t n) { return n < 1 || n >= kMostOfWindow; }))
        return r.error("size is [{}], expected H and W of x", fmt::join(size, ", "));
    const Pair of_x{size[0], size[1]};
    HK_TRY(kernel_fits(r, windows, of_x));
    const bool of_patches = r.node.op == Op::patches_gradient;
    const int64_t each = of_patches ? windows.elements() : 1, groups = of_patches ? r.node.integer("groups") : 1;
    const Shape& dy = r.shape(0);
    if (groups < 1 || dy[3] % (each * groups) != 0)
        return r.error("dy is {}, expected {} elements of {} groups for each channel", dy.text(), each, groups);
    HK_TRY(r.expect(0, Shape{dy[0], windows.count(0, of_x[0]), windows.count(1, of_x[1]), dy[3]}));
    if (r.node.op == Op::max_pool2d_gradient) HK_TRY(r.expect(1, dy));
    const Shape x{dy[0], of_x[0], of_x[1], dy[3] / each};
    HK_TRY(sizes_ok(r, x.dims()));
    return one(r.kind(0), x);
}

// Where windows meet x [B, H, W, C].
struct WindowsOnX {
    Windows windows;
    Shape x; // [B, H, W, C]
    int64_t rows, columns;

    // Calls visit(window, element, at) for every element of every window that is inside of x: window counts over [B,
    // H', W'], element over [kh, kw], and `at` over [B, H, W].
    template<class Visit>
    void each(Visit&& visit) const {
        const auto& [kernel, stride, padding, dilation] = windows;
        for (int64_t window = 0; window < x[0] * rows * columns; ++window) {
            const int64_t column = window % columns, row = window / columns % rows, batch = window / columns / rows;
            for (int64_t element = 0; element < windows.elements(); ++element) {
                const int64_t h = row * stride[0] - padding[0] + element / kernel[1] * dilation[0];
                const int64_t w = column * stride[1] - padding[1] + element % kernel[1] * dilation[1];
                if (h >= 0 && h < x[1] && w >= 0 && w < x[2]) visit(window, element, (batch * x[1] + h) * x[2] + w);
            }
        }
    }
};

WindowsOnX windows_on_x(const Call& call) {
    const Windows windows = windows_of(call.graph, call.node);
    const Shape& x = windowed_shape(call.graph, call.node);
    return {windows, x, windows.count(0, x[1]), windows.count(1, x[2])};
}

// The attributes of a node that is the gradient of this one.
struct GradientAttributes {
    NamedAttribute size, kernel, stride, padding, dilation;
};

GradientAttributes attributes_of_gradient(Backward& b) {
    const Windows windows = windows_of(b.builder().graph(), b.node());
    const Shape x = b.shape(b.x());
    return {{"size", ints({x[1], x[2]})},
            {"kernel", ints(windows.kernel)},
            {"stride", ints(windows.stride)},
            {"padding", ints(windows.padding)},
            {"dilation", ints(windows.dilation)}};
}

void patches_gradient(Backward& b) {
    const auto [size, kernel, stride, padding, dilation] = attributes_of_gradient(b);
    b.give(0, b.builder()(Op::patches_gradient, {b.dy()},
                          {size, kernel, stride, padding, dilation, {"groups", b.node().integer("groups")}}));
}

// Calls move(x's element, patches' element) for all channels.
template<class Move>
void each_copy(const Call& call, Move&& move) {
    const WindowsOnX on_x = windows_on_x(call);
    const int64_t channels = on_x.x[3], groups = call.node.integer("groups"), width = channels / groups;
    on_x.each([&](int64_t window, int64_t element, int64_t place) {
        for (int64_t c = 0; c < channels; ++c) {
            const int64_t row = (window * groups + c / width) * on_x.windows.elements() + element;
            move(place * channels + c, row * width + c % width);
        }
    });
}

Status run_patches(const Call& call) {
    each_copy(call, [&](int64_t x, int64_t patch) { call.out().data[at(patch)] = call.in(0).data[at(x)]; });
    return {};
}

// Sums over copies, here and of avg_pool2d_gradient: their gradient is the copies again.
void patches_gradient_gradient(Backward& b) {
    const Node& node = b.node();
    b.give(0, b.builder()(Op::patches, {b.dy()},
                          {{"kernel", node.ints("kernel")},
                           {"stride", node.ints("stride")},
                           {"padding", node.ints("padding")},
                           {"dilation", node.ints("dilation")},
                           {"groups", node.integer("groups")}}));
}

Status run_patches_gradient(const Call& call) {
    each_copy(call, [&](int64_t x, int64_t patch) { call.out().data[at(x)] += call.in(0).data[at(patch)]; });
    return {};
}

void max_pool2d_gradient(Backward& b) {
    const auto [size, kernel, stride, padding, dilation] = attributes_of_gradient(b);
    b.give(0, b.builder()(Op::max_pool2d_gradient, {b.dy(), b.y(1)}, {size, kernel, stride, padding, dilation}));
}

Status run_max_pool2d(const Call& call) {
    const WindowsOnX on_x = windows_on_x(call);
    const int64_t channels = on_x.x[3];
    std::vector<double>&y = call.out(0).data, &places = call.out(1).data;
    std::ranges::fill(y, -kInfinity);
    std::ranges::fill(places, -1.0);
    on_x.each([&](int64_t window, int64_t element, int64_t place) {
        for (int64_t c = 0; c < channels; ++c) {
            const double x = call.in(0).data[at(place * channels + c)];
            const std::size_t to = at(window * channels + c);
            if (places[to] >= 0 && !(x > y[to]) && !std::isnan(x)) continue;
            y[to] = x;
            places[to] = static_cast<double>(element);
        }
    });
    return {};
}

Status run_max_pool2d_gradient(const Call& call) {
    const WindowsOnX on_x = windows_on_x(call);
    const int64_t channels = on_x.x[3];
    on_x.each([&](int64_t window, int64_t element, int64_t place) {
        for (int64_t c = 0; c < channels; ++c) {
            const std::size_t from = at(window * channels + c);
            if (call.in(1).data[from] == static_cast<double>(element))
                call.out().data[at(place * channels + c)] += call.in(0).data[from];
        }
    });
    return {};
}

void avg_pool2d_gradient(Backward& b) {
    const auto [size, kernel, stride, padding, dilation] = attributes_of_gradient(b);
    b.give(0, b.builder()(Op::avg_pool2d_gradient, {b.dy()},
                          {size, kernel, stride, padding, {"count_padding", b.node().integer("count_padding")}}));
}

// Calls add(x's element, y's element, share) for all elements of windows.
template<class Add>
void each_share(const Call& call, Add&& add) {
    const WindowsOnX on_x = windows_on_x(call);
    const int64_t channels = on_x.x[3];
    std::vector<int64_t> counts(at(on_x.x[0] * on_x.rows * on_x.columns), on_x.windows.elements());
    if (call.node.integer("count_padding") == 0) {
        std::ranges::fill(counts, int64_t{0});
        on_x.each([&](int64_t window, int64_t, int64_t) { ++counts[at(window)]; });
    }
    on_x.each([&](int64_t window, int64_t, int64_t place) {
        const double share = 1.0 / static_cast<double>(counts[at(window)]);
        for (int64_t c = 0; c < channels; ++c) add(at(place * channels + c), at(window * channels + c), share);
    });
}

Status run_avg_pool2d(const Call& call) {
    std::vector<double>& to = call.out().data;
    const std::vector<double>& from = call.in(0).data;
    each_share(call, [&](std::size_t x, std::size_t y, double share) { to[y] += from[x] * share; });
    return {};
}

void avg_pool2d_gradient_gradient(Backward& b) {
    const Node& node = b.node();
    b.give(0, b.builder()(Op::avg_pool2d, {b.dy()},
                          {{"kernel", node.ints("kernel")},
                           {"stride", node.ints("stride")},
                           {"padding", node.ints("padding")},
                           {"count_padding", node.integer("count_padding")}}));
}

Status run_avg_pool2d_gradient(const Call& call) {
    std::vector<double>& to = call.out().data;
    const std::vector<double>& from = call.in(0).data;
    each_share(call, [&](std::size_t x, std::size_t y, double share) { to[x] += from[y] * share; });
    return {};
}

} // namespace

const OperationRules patches_rules{patches_outputs, patches_gradient, run_patches};
const OperationRules patches_gradient_rules{windows_gradient_outputs, patches_gradient_gradient, run_patches_gradient};
const OperationRules max_pool2d_rules{pool_outputs, max_pool2d_gradient, run_max_pool2d};
const OperationRules max_pool2d_gradient_rules{windows_gradient_outputs, nullptr, run_max_pool2d_gradient};
const OperationRules avg_pool2d_rules{pool_outputs, avg_pool2d_gradient, run_avg_pool2d};
const OperationRules avg_pool2d_gradient_rules{windows_gradient_outputs, avg_pool2d_gradient_gradient,
                                               run_avg_pool2d_gradient};

} // namespace hekla::graph
