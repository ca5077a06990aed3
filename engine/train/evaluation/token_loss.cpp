#include "train/evaluation/token_loss.hpp"

namespace hekla::train {

bool is_token_loss(const graph::Graph& graph, int64_t vocabulary) {
    using graph::Op;
    if (graph.losses.size() != 1 || graph.losses[0].weight != 1.0) return false;
    const graph::Node* node = &graph.producer(graph.losses[0].sum);
    bool is_sum = false;
    while (node->op == Op::sum || node->op == Op::reshape || node->op == Op::cast) {
        is_sum = is_sum || node->op == Op::sum;
        node = &graph.producer(node->inputs[0]);
    }
    if (!is_sum || node->op != Op::cross_entropy || node->real("smoothing") != 0.0) return false;
    const bool has_weights = node->inputs.size() > 2 && node->inputs[2] != graph::kNone;
    const graph::Shape& logits = graph.shape(node->inputs[0]);
    return !has_weights && logits.rank() > 0 && logits[logits.rank() - 1] >= vocabulary;
}

} // namespace hekla::train
