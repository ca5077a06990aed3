#include "infer/open/tensors.hpp"

#include "graph/reference.hpp"
#include "model/weights.hpp"

#include <fmt/format.h>
#include <set>
#include <vector>

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

Result<graph::Tensor> evaluate_stored(const graph::Graph& graph, graph::ValueId value,
                                      const std::map<std::string, const model::TensorView*>& stored) {
    graph::Feeds feeds;
    std::set<graph::ValueId> seen;
    std::vector<graph::ValueId> next{value};
    while (!next.empty()) {
        const graph::ValueId one = next.back();
        next.pop_back();
        if (one == graph::kNone || !seen.insert(one).second) continue;
        const graph::Node& node = graph.producer(one);
        if (node.op == graph::Op::parameter) {
            const auto found = stored.find(node.text("name"));
            if (found == stored.end())
                return corrupt(fmt::format("'{}' is not among the stored tensors", node.text("name")));
            HK_ASSIGN(graph::Tensor tensor, tensor_of(*found->second));
            feeds.parameters.emplace(node.text("name"), std::move(tensor));
        }
        next.insert(next.end(), node.inputs.begin(), node.inputs.end());
    }
    const std::vector<graph::ValueId> wanted{value};
    HK_ASSIGN(std::vector<graph::Tensor> values, graph::evaluate(graph, feeds, wanted));
    return std::move(values[0]);
}

} // namespace hekla::infer
