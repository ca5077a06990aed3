#include "infer/tensors.hpp"

#include "model/weights.hpp"

#include <fmt/format.h>

namespace hekla::infer {

Result<graph::Tensor> tensor_of(const model::TensorView& view) {
    if (view.dims.size() > graph::kMaxRank)
        return unsupported(fmt::format("tensor '{}' has {} dimensions, at most {} are possible", view.name,
                                       view.dims.size(), graph::kMaxRank));
    graph::Tensor tensor;
    tensor.kind = model::is_floating(view.dtype) ? graph::Kind::float_ : graph::Kind::int32;
    tensor.shape = graph::Shape(view.dims);
    tensor.data.resize(static_cast<std::size_t>(tensor.shape.elements()));
    HK_TRY(model::load_float64(view, tensor.data));
    return tensor;
}

} // namespace hekla::infer
