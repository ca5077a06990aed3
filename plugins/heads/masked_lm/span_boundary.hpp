// The span boundary objective's network (SpanBERT, Joshi et al. 2020): predicts each token of a span from the states of
// the two tokens around the span and the token's position in it, with two linear layers with GELU and norms, and the
// embedding as decoder. Used together with a masked language model head: [head] id = "mlm+span_boundary".
#pragma once

#include "block.hpp"
#include "decoding.hpp"

namespace hekla::plugin {

constexpr int64_t kPlaces = 20, kPlaceWidth = 200; // span positions with their own embedding; as published

class SpanBoundary {
public:
    explicit SpanBoundary(const Config&) {}

    void build(Graph& g) {
        const Value hidden = g.ask("hidden"), decoder = g.ask("embedding.weight");
        // The parameters must also exist for a batch without spans (features, for example): then one position per row
        // is used.
        const auto field = [&](const char* name) {
            return g.has_field(name) ? g.input(name) : g.fill({hidden.dim(0), 1}, 0.0, HK_KIND_INT32);
        };
        const auto beside = [&](const char* name) { return gather(hidden, field(name), {.batch_dimensions = 1}); };
        const Value place = embedding_layer(g, minimum(field("span_offset"), g.integer(kPlaces - 1)),
                                            "head.span_boundary.position", kPlaces, kPlaceWidth);
        Value x = concat({beside("span_left"), beside("span_right"), place}, 2);
        for (const int64_t layer : {0, 1}) {
            const std::string name = "head.span_boundary.layer." + std::to_string(layer);
            const int64_t width = layer == 0 ? hidden.dim(2) : decoder.dim(1);
            x = layer_norm_layer(g, gelu(linear_layer(g, x, name, width)), name + ".norm", 1e-12);
        }
        g.offer("boundary_logits",
                linear(x, decoder, {.bias = g.parameter("head.span_boundary.bias", {decoder.dim(0)})}));
    }
};

} // namespace hekla::plugin
