// BERT's and ALBERT's pre-training heads for bodies without their own: the masked tokens, and a classification of the
// pair of texts from the first token.
#pragma once

#include "mask_reading.hpp"
#include "pooling.hpp"

namespace hekla::plugin {

class Pretraining {
public:
    explicit Pretraining(const Config& c) : dropout_(c.real("dropout", 0.1)) {}
    void build(Graph& g) {
        const Value hidden = g.ask("hidden");
        g.offer("logits", masked_head(g, predicted_positions(g, hidden), g.ask("embedding.weight"),
                                      {.dense = "head.mlm.dense", .norm = "head.mlm.norm", .bias = "head.mlm.bias"}));
        const Value pooled = pool_tokens(g, hidden, PoolingKind::pooler, "head.pooler");
        g.offer("pair_logits", linear_layer(g, drop(g, pooled, dropout_), "head.pair", 2));
    }
    static std::vector<const char*> ports() { return {"logits", "pair_logits"}; }
    std::string decode(const DecodeInput& in, std::size_t row) const {
        const std::string masks = read_masks(in, row);
        const std::span<const float> pair = in.row(in.output("pair_logits"), row);
        return masks.substr(0, masks.size() - 1) + ", \"label\": " + std::to_string(best_of(pair)) +
               ", \"probabilities\": " + json_numbers(softmax_of(pair)) + "}";
    }

private:
    double dropout_;
};

} // namespace hekla::plugin
