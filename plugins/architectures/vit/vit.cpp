// ViT (Dosovitskiy et al. 2021): an image as a sequence of patches after a class token; pre-norm blocks.
#include "block.hpp"

using namespace hekla::plugin;

namespace {

struct Settings {
    int64_t hidden_size = 0, num_layers = 0, num_heads = 0, intermediate_size = 0, num_channels = 0, image_size = 0,
            patch_size = 0;
    std::string activation, pooler_activation;
    double dropout = 0, attention_dropout = 0, initializer_range = 0, layer_norm_eps = 0;
    bool projection_bias = true;
    std::optional<int64_t> pooler_width;

    template<class V>
    void keys(V&& v) {
        v("hidden_size", hidden_size);
        v("num_hidden_layers", num_layers);
        v("num_attention_heads", num_heads);
        v("intermediate_size", intermediate_size);
        v("hidden_act", activation);
        v("hidden_dropout_prob", dropout);
        v("attention_probs_dropout_prob", attention_dropout);
        v("initializer_range", initializer_range);
        v("layer_norm_eps", layer_norm_eps);
        v("image_size", image_size);
        v("patch_size", patch_size);
        v("num_channels", num_channels);
        v("qkv_bias", projection_bias);
        v("pooler_act", pooler_activation);
        v("pooler_output_size", pooler_width);
    }
};

class Vit {
public:
    explicit Vit(const Config& c) : s_(read_settings<Settings>(c)), labels_(label_count(c)) {
        require_heads(s_.hidden_size, s_.num_heads, "hidden_size", "num_attention_heads");
        require(s_.patch_size > 0 && s_.image_size % s_.patch_size == 0, "patch_size must divide image_size");
    }

    void build(Graph& g) {
        Value x = embed(g, g.input("pixel_values"));
        x = hidden_states(g, x, s_.num_layers, [&](Value in, int64_t i) { return block(g, in, i); });
        g.offer("hidden", layer_norm_layer(g, x, "vit.layernorm", s_.layer_norm_eps));
    }

    bool head(Graph& g, std::string_view id) {
        const Value first = first_token(g.ask("hidden"));
        const LayerOptions layer{.initializer = init()};
        if (id == "classifier") {
            g.offer("logits", linear_layer(g, first, "classifier", labels_, layer));
        } else if (id == "pooler") {
            const int64_t width = s_.pooler_width.value_or(s_.hidden_size);
            g.offer("pooled",
                    activation(linear_layer(g, first, "vit.pooler.dense", width, layer), s_.pooler_activation));
        } else {
            return false;
        }
        return true;
    }

    void write(ConfigWriter& out) {
        write_settings(out, "vit", s_);
        write_labels(out, labels_);
    }

private:
    Initializer init() const { return {HK_INITIALIZE_TRUNCATED_NORMAL, 0.0, s_.initializer_range}; }

    // pixels [B, C, S, S] -> [B, 1 + (S/P)^2, D]. The reference's convolution has patches that do not overlap, so it is
    // a linear layer over the C P P numbers of a patch.
    Value embed(Graph& g, Value pixels) {
        const Scope scope(g, "embedding");
        const int64_t batch = pixels.dim(0), p = s_.patch_size, side = s_.image_size / p,
                      numbers = s_.num_channels * p * p;
        if (pixels.rank() != 4 || pixels.dim(1) != s_.num_channels || pixels.dim(2) != s_.image_size ||
            pixels.dim(3) != s_.image_size)
            return g.fail("pixel_values must be [B, " + std::to_string(s_.num_channels) + ", " +
                          std::to_string(s_.image_size) + ", " + std::to_string(s_.image_size) +
                          "] (num_channels, image_size)");
        const Value patches =
            reshape(transpose(reshape(pixels, {batch, s_.num_channels, side, p, side, p}), {0, 2, 4, 1, 3, 5}),
                    {batch, side * side, numbers});
        const std::string name = "vit.embeddings.";
        const Value weight =
            g.parameter(name + "patch_embeddings.projection.weight", {s_.hidden_size, s_.num_channels, p, p}, init());
        const Value bias = g.parameter(name + "patch_embeddings.projection.bias", {s_.hidden_size});
        const Value whole =
            broadcast(g.parameter(name + "cls_token", {1, 1, s_.hidden_size}, init()), {batch, 1, s_.hidden_size});
        const Value positions = g.parameter(name + "position_embeddings", {1, 1 + side * side, s_.hidden_size}, init());
        const Value x = linear(patches, reshape(weight, {s_.hidden_size, numbers}), {.bias = bias});
        return drop(g, concat({whole, x}, 1) + positions, s_.dropout);
    }

    Value block(Graph& g, Value x, int64_t index) {
        const std::string name = "vit.encoder.layer." + std::to_string(index) + ".";
        const LayerOptions layer{.initializer = init()};
        Block b;
        b.attention_norm = [&](Value in) {
            return layer_norm_layer(g, in, name + "layernorm_before", s_.layer_norm_eps);
        };
        b.feed_forward_norm = [&](Value in) {
            return layer_norm_layer(g, in, name + "layernorm_after", s_.layer_norm_eps);
        };
        b.attention = [&](Value in) {
            const auto project = [&](const char* which) {
                return split_heads(linear_layer(g, in, name + "attention.attention." + which, s_.hidden_size,
                                                {.bias = s_.projection_bias, .initializer = init()}),
                                   s_.num_heads);
            };
            const Value q = project("query"), k = project("key"), v = project("value");
            const Value y = attention(q, k, v, {.dropout = attention_dropout(g, s_.attention_dropout)});
            return linear_layer(g, merge_heads(y), name + "attention.output.dense", s_.hidden_size, layer);
        };
        b.feed_forward = [&](Value in) {
            const Value y = activation(linear_layer(g, in, name + "intermediate.dense", s_.intermediate_size, layer),
                                       s_.activation);
            return linear_layer(g, y, name + "output.dense", s_.hidden_size, layer);
        };
        b.residual_dropout = s_.dropout;
        return transformer_block(g, x, b);
    }

    Settings s_;
    Labels labels_;
};

} // namespace

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "vit", architecture<Vit>()})
