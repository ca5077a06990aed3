// The interpreter's patches of convolutions, and pools.
#include "graph/operations/windows.hpp"
#include "graph/reference/call.hpp"

namespace hekla::graph::reference {

namespace {

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

void max_pool2d(const Call& call) {
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
}

void max_pool2d_gradient(const Call& call) {
    const WindowsOnX on_x = windows_on_x(call);
    const int64_t channels = on_x.x[3];
    on_x.each([&](int64_t window, int64_t element, int64_t place) {
        for (int64_t c = 0; c < channels; ++c) {
            const std::size_t from = at(window * channels + c);
            if (call.in(1).data[from] == static_cast<double>(element))
                call.out().data[at(place * channels + c)] += call.in(0).data[from];
        }
    });
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

} // namespace

Status run_windows(const Call& call) {
    std::vector<double>& to = call.out().data;
    const std::vector<double>& from = call.in(0).data;
    switch (call.node.op) {
    case Op::patches: each_copy(call, [&](int64_t x, int64_t patch) { to[at(patch)] = from[at(x)]; }); break;
    case Op::patches_gradient: each_copy(call, [&](int64_t x, int64_t patch) { to[at(x)] += from[at(patch)]; }); break;
    case Op::max_pool2d: max_pool2d(call); break;
    case Op::max_pool2d_gradient: max_pool2d_gradient(call); break;
    case Op::avg_pool2d:
        each_share(call, [&](std::size_t x, std::size_t y, double share) { to[y] += from[x] * share; });
        break;
    default: // avg_pool2d_gradient
        each_share(call, [&](std::size_t x, std::size_t y, double share) { to[x] += from[y] * share; });
    }
    return {};
}

} // namespace hekla::graph::reference
