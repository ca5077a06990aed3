#include "infer/passes/field_tensors.hpp"

namespace hekla::infer {

graph::Tensor integers(int64_t rows, int64_t length, int64_t value) {
    return {graph::Kind::int32, graph::Shape{rows, length},
            std::vector<double>(static_cast<std::size_t>(rows * length), static_cast<double>(value))};
}

std::vector<plugin::BatchField> described(const Tensors& fields) {
    std::vector<plugin::BatchField> result;
    for (const auto& [name, tensor] : fields) result.push_back({name, tensor.kind, tensor.shape});
    return result;
}

} // namespace hekla::infer
