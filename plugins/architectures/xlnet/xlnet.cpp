// XLNet (Yang et al. 2019): permutation language modeling with two streams, content and query, over the relative
// positions of Transformer-XL (Dai et al. 2019) and relative segments.
#include "block.hpp"

#include <algorithm>

using namespace hekla::plugin;

namespace {

struct Settings {
    int64_t vocab_size = 0, hidden_size = 0, num_layers = 0, num_heads = 0, intermediate_size = 0, clamp = 0;
    std::string activation, direction, summary;
    std::optional<std::string> summary_activation; // null: none
    double initializer_range = 0, layer_norm_eps = 0, dropout = 0, summary_dropout = 0;
    bool tie_embeddings = true;

    template<class V>
    void keys(V&& v) {
        v("vocab_size", vocab_size);
        v("d_model", hidden_size);
        v("n_layer", num_layers);
        v("n_head", num_heads);
        v("d_inner", intermediate_size);
        v("ff_activation", activation);
        v("attn_type", direction);
        v("initializer_range", initializer_range);
        v("layer_norm_eps", layer_norm_eps);
        v("dropout", dropout);
        v("clamp_len", clamp);
        v("summary_type", summary);
        v("summary_activation", summary_activation);
        v("summary_last_dropout", summary_dropout);
        v("tie_word_embeddings", tie_embeddings);
    }
};

class XlNet {
public:
    explicit XlNet(const Config& c) : s_(read_settings<Settings>(c)), labels_(label_count(c)) {
        require_heads(s_.hidden_size, s_.num_heads, "d_model", "n_head");
        head_ = s_.hidden_size / s_.num_heads;
        require(s_.direction == "bi" || s_.direction == "uni", "attn_type must be 'bi' or 'uni'");
        require(s_.summary == "last" || s_.summary == "first" || s_.summary == "mean",
                "summary_type is '" + s_.summary + "', expected last, first or mean");
        if (c.boolean("bi_data", false)) throw unsupported("bi_data is not known");
    }

    void build(Graph& g) {
        const Value ids = g.input("input_ids");
        Streams s = streams(g, ids);
        g.offer("layer.0.hidden", s.content);
        for (int64_t i = 0; i < s_.num_layers; ++i) {
            const Scope scope(g, "block." + std::to_string(i));
            block(g, s, i);
            g.offer("layer." + std::to_string(i + 1) + ".hidden", s.content);
        }
        g.offer("hidden", drop(g, s.query ? s.query : s.content, s_.dropout));
        g.offer("embedding.weight", token_embedding(g));
    }

    bool head(Graph& g, std::string_view id) {
        const Value hidden = g.ask("hidden");
        const LayerOptions layer{.initializer = normal(s_.initializer_range)};
        if (id == "lm") {
            const Value decoder = s_.tie_embeddings ? token_embedding(g)
                                                    : g.parameter("lm_loss.weight", {s_.vocab_size, s_.hidden_size},
                                                                  normal(s_.initializer_range));
            g.offer("logits", linear(hidden, decoder, {.bias = g.parameter("lm_loss.bias", {s_.vocab_size})}));
        } else if (id == "classifier") {
            const int64_t last = s_.summary == "first" ? 0 : hidden.dim(1) - 1;
            const Value token = s_.summary == "mean" ? mean(hidden, {1}) : first_token(slice(hidden, 1, last, 1));
            const Value y = activation(linear_layer(g, token, "sequence_summary.summary", s_.hidden_size, layer),
                                       s_.summary_activation.value_or("identity"));
            g.offer("logits", linear_layer(g, drop(g, y, s_.summary_dropout), "logits_proj", labels_, layer));
        } else if (id == "tagger") {
            g.offer("logits", linear_layer(g, hidden, "classifier", labels_, layer));
        } else {
            return false;
        }
        return true;
    }

    void write(ConfigWriter& out) {
        write_settings(out, "xlnet", s_);
        out.set("d_head", head_);
        write_labels(out, labels_);
    }

private:
    // Both streams, and the other inputs of every layer. query, the biases and classes may be absent.
    struct Streams {
        Value content, query;              // [B, T, D], [B, M, D]
        Value content_bias, query_bias;    // [B, 1, T, T]: -1e30 where a token is not seen
        Value classes, targets, distances; // [B, T], [B, M, T], [1, 2T - 1, D]
    };

    Value token_embedding(Graph& g) {
        return g.parameter("transformer.word_embedding.weight", {s_.vocab_size, s_.hidden_size},
                           normal(s_.initializer_range));
    }

    Streams streams(Graph& g, Value ids) {
        const Scope scope(g, "embedding");
        const int64_t batch = ids.dim(0), length = ids.dim(1);
        Streams s;
        s.content = drop(g, embedding(token_embedding(g), ids), s_.dropout);
        const Value mask_word =
            g.parameter("transformer.mask_emb", {1, 1, s_.hidden_size}, normal(s_.initializer_range));
        if (g.has_field("target_mapping")) {
            s.targets = g.input("target_mapping");
            s.query = drop(g, broadcast(mask_word, {batch, s.targets.dim(1), s_.hidden_size}), s_.dropout);
        }
        s.classes = optional_input(g, "token_type_ids");
        // hidden[b, i, j] > 0: i does not attend to j. The content stream always attends to itself.
        Value hidden = optional_input(g, "perm_mask");
        if (g.has_field("attention_mask")) {
            const Value padded = reshape(to_float(equal(g.input("attention_mask"), 0.0)), {batch, 1, length});
            hidden = hidden ? hidden + padded : broadcast(padded, {batch, length, length});
        }
        const Value place = g.iota(length), row = reshape(place, {length, 1});
        if (s_.direction == "uni") {
            const Value later = broadcast(to_float(less(row, place)), {batch, length, length});
            hidden = hidden ? hidden + later : later;
        }
        if (hidden) {
            const auto bias = [&](Value closed) {
                return reshape(to_float(closed) * -1e30, {batch, 1, length, length});
            };
            const Value closed = greater(hidden, 0.0);
            s.query_bias = bias(closed);
            s.content_bias = bias(closed * not_equal(row, place));
        }
        s.distances = drop(g, sinusoids(g, length), s_.dropout);
        return s;
    }

    // Returns the sinusoids of the distances 1 - T .. T - 1, sines before cosines; float32, as in the reference.
    Value sinusoids(Graph& g, int64_t length) {
        std::vector<double> table;
        for (int64_t d = 1 - length; d < length; ++d) {
            const auto distance = static_cast<float>(s_.clamp > 0 ? std::clamp(d, -s_.clamp, s_.clamp) : d);
            for (int64_t column = 0; column < s_.hidden_size; ++column) {
                const auto i = static_cast<float>(2 * (column % (s_.hidden_size / 2)));
                const float angle = distance * (1.0f / std::pow(10000.0f, i / static_cast<float>(s_.hidden_size)));
                table.push_back(column < s_.hidden_size / 2 ? std::sin(angle) : std::cos(angle));
            }
        }
        return g.constant(HK_KIND_FLOAT, {1, 2 * length - 1, s_.hidden_size}, table);
    }

    void block(Graph& g, Streams& s, int64_t index) {
        const Recompute region(g);
        const std::string name = "transformer.layer." + std::to_string(index) + ".";
        const std::string attention_name = name + "rel_attn.";
        const auto weight = [&](const char* which) { // [D, H, Dh]
            return reshape(g.parameter(attention_name + which, {s_.hidden_size, s_.num_heads, head_},
                                       normal(s_.initializer_range)),
                           {s_.hidden_size, s_.hidden_size});
        };
        const auto project = [&](Value x, const char* which) {
            return split_heads(linear(x, weight(which), {.input_first = 1}), s_.num_heads);
        };
        const auto bias = [&](const char* which) {
            return reshape(g.parameter(attention_name + which, {s_.num_heads, head_}, normal(s_.initializer_range)),
                           {s_.num_heads, 1, head_});
        };
        const int64_t length = s.content.dim(1);
        const double scale = 1.0 / std::sqrt(static_cast<double>(head_));
        const Value k = project(s.content, "k"), v = project(s.content, "v"), r = project(s.distances, "r");
        const Value segments =
            g.parameter(attention_name + "seg_embed", {2, s_.num_heads, head_}, normal(s_.initializer_range));
        const Value content_bias = bias("r_w_bias"), distance_bias = bias("r_r_bias"), segment_bias = bias("r_s_bias");

        const auto attend = [&](Value q, Value seen) {
            AttentionOptions o;
            o.bias = seen;
            o.query_distance = matmul(q + distance_bias, r, {.transpose_b = 1}) * scale;
            o.distance_first = 1 - length;
            for (int64_t row = 0; row < 2 * length - 1; ++row) o.distance_table.push_back(row);
            if (s.classes) { // column 0: the same segment, 1: another
                o.query_class = matmul(q + segment_bias, transpose(segments, {1, 2, 0})) * scale;
                o.q_class = o.k_class = s.classes;
            }
            o.scale = scale;
            o.dropout = attention_dropout(g, s_.dropout);
            return merge_heads(attention(q + content_bias, k, v, o));
        };
        const auto close = [&](Value x, Value y) {
            y = drop(g, linear(y, weight("o")), s_.dropout);
            return feed_forward(g, layer_norm_layer(g, x + y, attention_name + "layer_norm", s_.layer_norm_eps),
                                name + "ff.");
        };
        Value query;
        if (s.query) {
            const Scope scope(g, "query");
            // Queries are at the positions of their targets; elsewhere they are 0 and are not read.
            const Value q = linear(s.query, weight("q"), {.input_first = 1});
            const Value placed = split_heads(matmul(s.targets, q, {.transpose_a = 1}), s_.num_heads);
            query = close(s.query, matmul(s.targets, attend(placed, s.query_bias)));
        }
        const Scope scope(g, "content");
        s.content = close(s.content, attend(project(s.content, "q"), s.content_bias));
        s.query = query;
    }

    Value feed_forward(Graph& g, Value x, const std::string& name) {
        const LayerOptions layer{.initializer = normal(s_.initializer_range)};
        Value y = activation(linear_layer(g, x, name + "layer_1", s_.intermediate_size, layer), s_.activation);
        y = linear_layer(g, drop(g, y, s_.dropout), name + "layer_2", s_.hidden_size, layer);
        return layer_norm_layer(g, drop(g, y, s_.dropout) + x, name + "layer_norm", s_.layer_norm_eps);
    }

    Settings s_;
    Labels labels_;
    int64_t head_ = 0;
};

} // namespace

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "xlnet", architecture<XlNet>()})
