#include "program/host_tensor.hpp"

#include "graph/reference.hpp"

#include <algorithm>

namespace hekla::program {

std::span<const float> HostTensor::floats() const {
    return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float)};
}

std::span<const int32_t> HostTensor::ints() const {
    return {reinterpret_cast<const int32_t*>(bytes.data()), bytes.size() / sizeof(int32_t)};
}

std::vector<std::byte> bytes_of(const graph::Tensor& tensor) {
    std::vector<std::byte> bytes(tensor.data.size() * 4);
    const auto store = [&](auto zero) {
        std::vector<decltype(zero)> values(tensor.data.size());
        std::ranges::transform(tensor.data, values.begin(), [](double x) { return static_cast<decltype(zero)>(x); });
        std::ranges::copy(std::as_bytes(std::span(values)), bytes.begin());
    };
    if (tensor.kind == graph::Kind::int32)
        store(int32_t{});
    else
        store(float{});
    return bytes;
}

graph::Tensor tensor_of(const HostTensor& host) {
    graph::Tensor tensor{host.kind, host.shape, {}};
    if (host.kind == graph::Kind::int32)
        tensor.data.assign(host.ints().begin(), host.ints().end());
    else
        tensor.data.assign(host.floats().begin(), host.floats().end());
    return tensor;
}

} // namespace hekla::program
