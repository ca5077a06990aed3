// XLNet (Yang et al. 2019): permutation language modelling in two streams, content and query, over the relative
// positions of Transformer-XL (Dai et al. 2019) and relative segments.
#include "block.hpp"

#include <algorithm>

using namespace hekla::plugin;

namespace {

struct Settings {
    int64_t vocabulary = 0, width = 0, layers = 0, heads = 0, inner = 0, clamp = 0;
    std::string activation, direction, summary, summary_activation;
    double range = 0, epsilon = 0, dropout = 0, summary_dropout = 0;
    bool tied = true;

    template<class V>
    void keys(V&& v) {
        v("vocab_size", vocabulary);
        v("d_model", width);
        v("n_layer", layers);
        v("n_head", heads);
        v("d_inner", inner);
        v("ff_activation", activation);
        v("attn_type", direction);
        v("initializer_range", range);
        v("layer_norm_eps", epsilon);
        v("dropout", dropout);
        v("clamp_len", clamp);
        v("summary_type", summary);
        v("summary_activation", summary_activation);
        v("summary_last_dropout", summary_dropout);
        v("tie_word_embeddings", tied);
    }
};

class XlNet {
public:
    explicit XlNet(const Config& c) : s_(read_settings<Settings>(c)), labels_(label_count(c)) {
        require_heads(s_.width, s_.heads, "d_model", "n_head");
        head_ = s_.width / s_.heads;
        require(s_.direction == "bi" || s_.direction == "uni", "attn_type must be 'bi' or 'uni'");
        if (c.boolean("bi_data", false)) throw unsupported("bi_data is not known");
    }

    void build(Graph& g) {
        const Value ids = g.input("input_ids");
        Streams s = streams(g, ids);
        g.offer("layer.0.hidden", s.content);
        for (int64_t i = 0; i < s_.layers; ++i) {
            const Scope scope(g, "block." + std::to_string(i));
            block(g, s, i);
            g.offer("layer." + std::to_string(i + 1) + ".hidden", s.content);
        }
        g.offer("hidden", drop(g, s.query ? s.query : s.content, s_.dropout));
        g.offer("embedding.weight", words(g));
    }

    bool head(Graph& g, std::string_view id) {
        const Value hidden = g.ask("hidden");
        const LayerOptions layer{.initializer = normal(s_.range)};
        if (id == "lm") {
            const Value decoder =
                s_.tied ? words(g) : g.parameter("lm_loss.weight", {s_.vocabulary, s_.width}, normal(s_.range));
            g.offer("logits", linear(hidden, decoder, {.bias = g.parameter("lm_loss.bias", {s_.vocabulary})}));
        } else if (id == "classifier") {
            const int64_t last = s_.summary == "first" ? 0 : hidden.dim(1) - 1;
            const Value token = s_.summary == "mean" ? mean(hidden, {1}) : first_token(slice(hidden, 1, last, 1));
            const Value y =
                activation(linear_layer(g, token, "sequence_summary.summary", s_.width, layer), s_.summary_activation);
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
    // Both streams, and what every layer sees beside them. query, the biases and classes may be absent.
    struct Streams {
        Value content, query;              // [B, T, D], [B, M, D]
        Value content_bias, query_bias;    // [B, 1, T, T]: -1e30 where a token is not seen
        Value classes, targets, distances; // [B, T], [B, M, T], [1, 2T - 1, D]
    };

    Value words(Graph& g) {
        return g.parameter("transformer.word_embedding.weight", {s_.vocabulary, s_.width}, normal(s_.range));
    }

    Streams streams(Graph& g, Value ids) {
        const Scope scope(g, "embedding");
        const int64_t batch = ids.dim(0), length = ids.dim(1);
        Streams s;
        s.content = drop(g, embedding(words(g), ids), s_.dropout);
        const Value mask_word = g.parameter("transformer.mask_emb", {1, 1, s_.width}, normal(s_.range));
        if (g.has_field("target_mapping")) {
            s.targets = g.input("target_mapping");
            s.query = drop(g, broadcast(mask_word, {batch, s.targets.dim(1), s_.width}), s_.dropout);
        }
        s.classes = optional_input(g, "token_type_ids");
        // hidden[b, i, j] > 0: i may not see j. The content stream always sees itself.
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

    // The sinusoids of the distances 1 - T .. T - 1, sines before cosines; float32, as the reference computes them.
    Value sinusoids(Graph& g, int64_t length) {
        std::vector<double> table;
        for (int64_t d = 1 - length; d < length; ++d) {
            const auto distance = static_cast<float>(s_.clamp > 0 ? std::clamp(d, -s_.clamp, s_.clamp) : d);
            for (int64_t column = 0; column < s_.width; ++column) {
                const auto i = static_cast<float>(2 * (column % (s_.width / 2)));
                const float angle = distance * (1.0f / std::pow(10000.0f, i / static_cast<float>(s_.width)));
                table.push_back(column < s_.width / 2 ? std::sin(angle) : std::cos(angle));
            }
        }
        return g.constant(HK_KIND_FLOAT, {1, 2 * length - 1, s_.width}, table);
    }

    void block(Graph& g, Streams& s, int64_t index) {
        const Recompute region(g);
        const std::string name = "transformer.layer." + std::to_string(index) + ".";
        const std::string part = name + "rel_attn.";
        const auto weight = [&](const char* which) { // [D, H, Dh]
            return reshape(g.parameter(part + which, {s_.width, s_.heads, head_}, normal(s_.range)),
                           {s_.width, s_.width});
        };
        const auto project = [&](Value x, const char* which) {
            return split_heads(linear(x, weight(which), {.input_first = 1}), s_.heads);
        };
        const auto bias = [&](const char* which) {
            return reshape(g.parameter(part + which, {s_.heads, head_}, normal(s_.range)), {s_.heads, 1, head_});
        };
        const int64_t length = s.content.dim(1);
        const double scale = 1.0 / std::sqrt(static_cast<double>(head_));
        const Value k = project(s.content, "k"), v = project(s.content, "v"), r = project(s.distances, "r");
        const Value segments = g.parameter(part + "seg_embed", {2, s_.heads, head_}, normal(s_.range));
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
            return feed_forward(g, layer_norm_layer(g, x + y, part + "layer_norm", s_.epsilon), name + "ff.");
        };
        Value query;
        if (s.query) {
            const Scope scope(g, "query");
            // Queries stand at the places of their targets; elsewhere they are 0 and nobody reads the result.
            const Value q = linear(s.query, weight("q"), {.input_first = 1});
            const Value placed = split_heads(matmul(s.targets, q, {.transpose_a = 1}), s_.heads);
            query = close(s.query, matmul(s.targets, attend(placed, s.query_bias)));
        }
        const Scope scope(g, "content");
        s.content = close(s.content, attend(project(s.content, "q"), s.content_bias));
        s.query = query;
    }

    Value feed_forward(Graph& g, Value x, const std::string& name) {
        const LayerOptions layer{.initializer = normal(s_.range)};
        Value y = activation(linear_layer(g, x, name + "layer_1", s_.inner, layer), s_.activation);
        y = linear_layer(g, drop(g, y, s_.dropout), name + "layer_2", s_.width, layer);
        return layer_norm_layer(g, drop(g, y, s_.dropout) + x, name + "layer_norm", s_.epsilon);
    }

    Settings s_;
    Labels labels_;
    int64_t head_ = 0;
};

} // namespace

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "xlnet", architecture<XlNet>()})
