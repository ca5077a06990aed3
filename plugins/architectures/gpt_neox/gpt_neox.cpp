// GPT-NeoX (Black et al. 2022): attention and feed-forward side by side in a block, part of each head turned by rotary
// positions. use_parallel_residual = false puts them one after the other.
#include "rotary.hpp"

using namespace hekla::plugin;

namespace {

struct Settings {
    int64_t vocabulary = 0, width = 0, layers = 0, heads = 0, inner = 0, positions = 0;
    std::string activation;
    double attention_dropout = 0, dropout = 0, classifier_dropout = 0, range = 0, epsilon = 0;
    bool tied = false, parallel = true, attention_bias = true;

    template<class V>
    void keys(V&& v) {
        v("vocab_size", vocabulary);
        v("hidden_size", width);
        v("num_hidden_layers", layers);
        v("num_attention_heads", heads);
        v("intermediate_size", inner);
        v("hidden_act", activation);
        v("attention_dropout", attention_dropout);
        v("hidden_dropout", dropout);
        v("classifier_dropout", classifier_dropout);
        v("max_position_embeddings", positions);
        v("initializer_range", range);
        v("layer_norm_eps", epsilon);
        v("tie_word_embeddings", tied);
        v("use_parallel_residual", parallel);
        v("attention_bias", attention_bias);
    }
};

class GptNeoX {
public:
    explicit GptNeoX(const Config& c)
        : s_(read_settings<Settings>(c)), rotary_(RotarySettings::read(c, 0.25)), labels_(label_count(c)),
          pad_(c.integer("pad_token_id", -1)) {
        require_heads(s_.width, s_.heads, "hidden_size", "num_attention_heads");
    }

    void build(Graph& g) {
        const Value ids = g.input("input_ids");
        const Value places = position_ids(g, ids.dim(0), ids.dim(1), s_.positions, "max_position_embeddings");
        const RotaryTables tables(g, rotary_, s_.width / s_.heads, rotary_rows(g, ids.dim(1), s_.positions));
        const Value padding = causal_padding(g);
        Value x = drop(g, embedding(words(g), ids), s_.dropout);
        g.offer("layer.0.hidden", x);
        for (int64_t i = 0; i < s_.layers; ++i) {
            const Scope scope(g, "block." + std::to_string(i));
            x = block(
                g, x, i, [&](Value y) { return tables.turn(y, places); }, padding);
            if (i + 1 < s_.layers) g.offer("layer." + std::to_string(i + 1) + ".hidden", x);
        }
        x = layer_norm_layer(g, x, "gpt_neox.final_layer_norm", s_.epsilon);
        g.offer("layer." + std::to_string(s_.layers) + ".hidden", x);
        g.offer("hidden", x);
        g.offer("embedding.weight", words(g));
    }

    bool head(Graph& g, std::string_view id) {
        const Value hidden = g.ask("hidden");
        const LayerOptions layer{.initializer = normal(s_.range)};
        if (id == "lm") {
            const Value decoder =
                s_.tied ? words(g) : g.parameter("embed_out.weight", {s_.vocabulary, s_.width}, normal(s_.range));
            g.offer("logits", linear(hidden, decoder));
        } else if (id == "classifier") {
            const Value scores =
                linear_layer(g, hidden, "score", labels_, {.bias = false, .initializer = normal(s_.range)});
            const std::optional<int64_t> pad = pad_ >= 0 ? std::optional<int64_t>(pad_) : std::nullopt;
            g.offer("logits", gather(scores, last_token(g, g.input("input_ids"), pad), {.batch_dimensions = 1}));
        } else if (id == "tagger") {
            g.offer("logits", linear_layer(g, drop(g, hidden, s_.classifier_dropout), "classifier", labels_, layer));
        } else {
            return false;
        }
        return true;
    }

    void write(ConfigWriter& out) {
        write_settings(out, "gpt_neox", s_);
        rotary_.write(out);
        write_labels(out, labels_);
    }

private:
    Value words(Graph& g) {
        return g.parameter("gpt_neox.embed_in.weight", {s_.vocabulary, s_.width}, normal(s_.range));
    }

    template<class Turn>
    Value block(Graph& g, Value x, int64_t index, const Turn& turn, Value padding) {
        const std::string name = "gpt_neox.layers." + std::to_string(index) + ".";
        const LayerOptions layer{.initializer = normal(s_.range)};
        const LayerOptions projection{.bias = s_.attention_bias, .initializer = normal(s_.range)};
        const int64_t head = s_.width / s_.heads;
        Block b;
        b.arrangement = s_.parallel ? Arrangement::parallel : Arrangement::serial;
        b.attention_norm = [&](Value in) { return layer_norm_layer(g, in, name + "input_layernorm", s_.epsilon); };
        b.feed_forward_norm = [&](Value in) {
            return layer_norm_layer(g, in, name + "post_attention_layernorm", s_.epsilon);
        };
        b.attention = [&](Value in) {
            // Query, key and value lie together head by head: [B, T, H, 3 D].
            const Value qkv = reshape(linear_layer(g, in, name + "attention.query_key_value", 3 * s_.width, projection),
                                      {in.dim(0), in.dim(1), s_.heads, 3 * head});
            const auto part = [&](int64_t k) { return transpose(slice(qkv, 3, k * head, head), {0, 2, 1, 3}); };
            const Value y = attention(turn(part(0)), turn(part(1)), part(2),
                                      {.key_padding = padding,
                                       .prefix = causal_prefix(g),
                                       .causal = 1,
                                       .dropout = attention_dropout(g, s_.attention_dropout),
                                       .cache = "layers." + std::to_string(index)});
            return linear_layer(g, merge_heads(y), name + "attention.dense", s_.width, projection);
        };
        b.feed_forward = [&](Value in) {
            const Value y = activation(linear_layer(g, in, name + "mlp.dense_h_to_4h", s_.inner, layer), s_.activation);
            return linear_layer(g, y, name + "mlp.dense_4h_to_h", s_.width, layer);
        };
        b.residual_dropout = s_.dropout;
        return transformer_block(g, x, b);
    }

    Settings s_;
    RotarySettings rotary_;
    Labels labels_;
    int64_t pad_;
};

} // namespace

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "gpt_neox", architecture<GptNeoX>()})
