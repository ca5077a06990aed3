// Patches of convolutions, pools, and their gradients: each element of the result gathers what it depends on, so that
// sums have a fixed order without atomics.
#include "graph/operations/windows.hpp"

#include "program/lowering/common.hpp"

#include <fmt/format.h>

namespace hekla::program {

namespace {

using graph::Op;
using graph::Windows;

void set_pair(const Windows::Pair& pair, uint32_t (&to)[2]) {
    to[0] = word(pair[0]);
    to[1] = word(pair[1]);
}

// Returns the record but its addresses and the dimensions of the result.
kernels::convolution::WindowsRecord windows_record(const Windows& windows, const graph::Shape& x) {
    kernels::convolution::WindowsRecord record;
    set_pair({x[1], x[2]}, record.size);
    set_pair({windows.count(0, x[1]), windows.count(1, x[2])}, record.windows);
    set_pair(windows.kernel, record.kernel);
    set_pair(windows.stride, record.stride);
    set_pair(windows.padding, record.padding);
    set_pair(windows.dilation, record.dilation);
    record.groups = 1;
    record.channels = word(x[3]);
    for (std::size_t axis = 0; axis < 2; ++axis) {
        const Divisor by = divisor(record.stride[axis]);
        record.stride_factors[axis] = by.factor;
        record.stride_shifts[axis] = by.shift;
    }
    return record;
}

// The kernels count places of padded x in 32 bits.
Status fits_places(const Windows& windows, const graph::Shape& x) {
    constexpr int64_t kMostPlaces = int64_t{1} << 30;
    for (std::size_t axis = 0; axis < 2; ++axis)
        if (const int64_t padded = x[static_cast<int>(axis) + 1] + 2 * windows.padding[axis]; padded >= kMostPlaces)
            return unsupported(
                fmt::format("x {} with padding [{}, {}] has {} places along one dimension; kernels count "
                            "to {}",
                            x.text(), windows.padding[0], windows.padding[1], padded, kMostPlaces));
    return {};
}

// Computes `to` (dense) from `from` (dense), with an int32 tensor of places if it has a resource. each: elements of
// `to` that an invocation computes; dims: of the invocations, without the batch.
void gather_windows(Lowering& lowering, const char* shader, kernels::convolution::WindowsRecord record, int64_t each,
                    std::span<const int64_t> dims, const View& from, const View& to, const View& places,
                    bool writes_places, std::vector<uint32_t> constants) {
    Dispatch dispatch;
    dispatch.shader = shader;
    dispatch.constants = std::move(constants);
    record.from = from;
    record.to = to;
    record.places = places.resource == 0 ? reads(from) : writes_places ? writes(places) : reads(places);
    record.count = word(to.elements() / each);
    set_dims(dims, record.dims, record.factors, record.shifts);
    dispatch.record = make_record(record);
    dispatch.groups = elementwise_groups(record.count);
    dispatch.bytes = static_cast<double>(from.bytes() + to.bytes() + places.bytes());
    dispatch.flops = static_cast<double>(record.count) * record.kernel[0] * record.kernel[1];
    lowering.append(std::move(dispatch));
}

void lower_patches(Lowering& lowering, const graph::Node& node, const Windows& windows, const graph::Shape& x,
                   const View& from, const View& to) {
    const bool forward = node.op == Op::patches;
    kernels::convolution::WindowsRecord record = windows_record(windows, x);
    const int64_t groups = node.integer("groups");
    int64_t channels = x[3] / groups;
    const bool fours = lowering.limits.kernels_of_gpus() && channels % 4 == 0 && from.offset % 4 == 0;
    if (fours) channels /= 4;
    record.groups = word(groups);
    record.channels = word(channels);
    const int64_t each = fours ? 4 : 1;
    if (forward) {
        const int64_t dims[] = {record.windows[0], record.windows[1], groups, channels};
        gather_windows(lowering, fours ? "convolution/patches.fours" : "convolution/patches", record,
                       each * windows.elements(), dims, from, to, {}, false, {});
    } else {
        const int64_t dims[] = {x[1], x[2], groups, channels};
        gather_windows(lowering, fours ? "convolution/patches_gradient.fours" : "convolution/patches_gradient", record,
                       each, dims, from, to, {}, false, {});
    }
}

} // namespace

Status lower_windows(Lowering& lowering, graph::NodeId id) {
    const graph::Graph& graph = *lowering.graph;
    const graph::Node& node = graph.nodes[id];
    const Windows windows = graph::windows_of(graph, node);
    const graph::Shape& x = graph::windowed_shape(graph, node);
    HK_TRY(fits_places(windows, x));
    const View from = lowering.contiguous(lowering.view(node.inputs[0]));
    const View to = make_output(lowering, id, 0);
    View places;
    if (node.op == Op::max_pool2d) places = make_output(lowering, id, 1);
    if (node.op == Op::max_pool2d_gradient) places = lowering.contiguous(lowering.view(node.inputs[1]));
    if (to.elements() == 0) return {};
    if (node.op == Op::patches || node.op == Op::patches_gradient) {
        lower_patches(lowering, node, windows, x, from, to);
        return {};
    }
    kernels::convolution::WindowsRecord record = windows_record(windows, x);
    const bool forward = node.op == Op::max_pool2d || node.op == Op::avg_pool2d;
    const bool mean = node.op == Op::avg_pool2d || node.op == Op::avg_pool2d_gradient;
    if (mean && node.integer("count_padding") != 0) record.elements = word(windows.elements());
    const int64_t dims[] = {to.shape[1], to.shape[2], to.shape[3]};
    gather_windows(lowering, forward ? "convolution/pool" : "convolution/pool_gradient", record, 1, dims, from, to,
                   places, forward, {mean ? 1u : 0u});
    return {};
}

} // namespace hekla::program
