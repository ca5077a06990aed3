// Embeddings, blocks around the attention, and heads, which both versions of DeBERTa share.
#pragma once

#include "block.hpp"

#include <algorithm>
#include <sstream>

namespace hekla::plugin {

struct DebertaSettings {
    int64_t vocab_size = 0, hidden_size = 0, num_layers = 0, num_heads = 0, intermediate_size = 0, max_positions = 0,
            type_vocab_size = 0, most_distance = 0;
    std::string activation, pooler_activation;
    double dropout = 0, attention_dropout = 0, initializer_range = 0, layer_norm_eps = 0, pooler_dropout = 0;
    std::optional<double> classifier_dropout;
    std::optional<int64_t> pad_token_id, embedding_size;
    bool relative = false, absolute = true, legacy = true, tie_embeddings = true;

    template<class V>
    void keys(V&& v) {
        v("vocab_size", vocab_size);
        v("hidden_size", hidden_size);
        v("num_hidden_layers", num_layers);
        v("num_attention_heads", num_heads);
        v("intermediate_size", intermediate_size);
        v("hidden_act", activation);
        v("hidden_dropout_prob", dropout);
        v("attention_probs_dropout_prob", attention_dropout);
        v("max_position_embeddings", max_positions);
        v("type_vocab_size", type_vocab_size);
        v("initializer_range", initializer_range);
        v("layer_norm_eps", layer_norm_eps);
        v("relative_attention", relative);
        v("max_relative_positions", most_distance);
        v("pad_token_id", pad_token_id);
        v("position_biased_input", absolute);
        v("embedding_size", embedding_size);
        v("pooler_dropout", pooler_dropout);
        v("pooler_hidden_act", pooler_activation);
        v("cls_dropout", classifier_dropout);
        v("legacy", legacy);
        v("tie_word_embeddings", tie_embeddings);
    }
    int64_t farthest() const { return most_distance < 1 ? max_positions : most_distance; }
};

class DebertaBody {
public:
    virtual ~DebertaBody() = default;

    void build(Graph& g) {
        const Value ids = g.input("input_ids");
        const Value mask = optional_input(g, "attention_mask");
        const Value keep = mask ? reshape(to_float(mask), {ids.dim(0), ids.dim(1), 1}) : Value{};
        const Value x = hidden_states(g, embed(g, ids, keep), s_.num_layers, [&](Value in, int64_t i) {
            const Value y = block(g, in, mask, i);
            return i == 0 ? after_first(g, in, y, keep) : y;
        });
        g.offer("hidden", x);
        g.offer("embedding.weight", token_embedding(g));
    }

    bool head(Graph& g, std::string_view id) {
        const LayerOptions layer{.initializer = normal(s_.initializer_range)};
        const double dropout = s_.classifier_dropout.value_or(s_.dropout);
        if (id == "mlm") {
            // legacy: BERT's head; otherwise the head of the original files, which is always tied.
            const std::string root = s_.legacy ? "cls.predictions." : "lm_predictions.lm_head.",
                              inner = s_.legacy ? root + "transform." : root;
            const Value decoder = s_.tie_embeddings || !s_.legacy
                                      ? token_embedding(g)
                                      : g.parameter(root + "decoder.weight", {s_.vocab_size, embedding_width()},
                                                    normal(s_.initializer_range));
            g.offer("logits", masked_head(g, predicted_positions(g, g.ask("hidden")), decoder,
                                          {.dense = inner + "dense",
                                           .norm = inner + "LayerNorm",
                                           .bias = root + "bias",
                                           .activation = s_.activation,
                                           .epsilon = s_.layer_norm_eps,
                                           .range = s_.initializer_range}));
        } else if (id == "classifier") {
            const Value first = drop(g, first_token(g.ask("hidden")), s_.pooler_dropout);
            const Value pooled =
                activation(linear_layer(g, first, "pooler.dense", s_.hidden_size, layer), s_.pooler_activation);
            g.offer("pooled", pooled);
            g.offer("logits", linear_layer(g, drop(g, pooled, dropout), "classifier", labels_, layer));
        } else if (id == "tagger") {
            g.offer("logits", linear_layer(g, drop(g, g.ask("hidden"), s_.dropout), "classifier", labels_, layer));
        } else {
            return false;
        }
        return true;
    }

    void write(ConfigWriter& out) {
        write_settings(out, type_, s_);
        if (!s_.embedding_size) out.set("embedding_size", s_.hidden_size);
        if (!terms_.empty()) out.set("pos_att_type", terms_);
        write_labels(out, labels_);
    }

protected:
    DebertaBody(const Config& c, const char* type)
        : s_(read_settings<DebertaSettings>(c)), labels_(label_count(c)), type_(type) {
        require_heads(s_.hidden_size, s_.num_heads, "hidden_size", "num_attention_heads");
        for (int64_t i = 0; c.has("pos_att_type." + std::to_string(i)); ++i)
            terms_.push_back(c.string("pos_att_type." + std::to_string(i)));
        if (terms_.empty() && c.has("pos_att_type") && !c.holds_members("pos_att_type")) { // older: names joined with |
            std::istringstream joined(c.string("pos_att_type"));
            for (std::string term; std::getline(joined, term, '|');) terms_.push_back(term);
        }
        to_position_ = std::ranges::find(terms_, "c2p") != terms_.end();
        to_content_ = std::ranges::find(terms_, "p2c") != terms_.end();
    }

    // The table of relative distances, [2 span, D].
    virtual Value distances(Graph& g) = 0;
    // Attention of a block, [B, T, D], before its output layer.
    virtual Value attend(Graph& g, Value x, const std::string& name, Value mask) = 0;
    virtual Value after_first(Graph&, Value, Value y, Value) { return y; }

    // Returns sqrt(head_dim * number of score terms); the reference rounds it to float32.
    double root_of_width() const {
        const int64_t terms = 1 + (to_position_ ? 1 : 0) + (to_content_ ? 1 : 0);
        const int64_t head_dim = s_.hidden_size / s_.num_heads;
        return std::sqrt(static_cast<float>(head_dim) * static_cast<float>(terms));
    }
    // Padding neither attends nor is attended to; its rows are the mean of all values.
    AttentionOptions masked(Graph& g, Value mask) const {
        AttentionOptions o;
        o.key_padding = mask;
        o.query_padding = mask;
        o.dropout = attention_dropout(g, s_.attention_dropout);
        return o;
    }
    // Sets the row of the table for each distance, for both terms: `place(d) + span` for a query d positions after its
    // key.
    template<class Place>
    static void tables(AttentionOptions& o, int64_t length, int64_t span, const Place& place) {
        const auto row = [&](int64_t d) { return std::clamp<int64_t>(place(d) + span, 0, 2 * span - 1); };
        o.distance_first = o.key_distance_first = 1 - length;
        for (int64_t d = 1 - length; d < length; ++d) {
            o.distance_table.push_back(row(d));
            o.key_distance_table.push_back(row(-d));
        }
    }

    DebertaSettings s_;
    Labels labels_;
    const char* type_;
    std::vector<std::string> terms_; // of the score, as given in the config
    bool to_position_ = false, to_content_ = false;

private:
    int64_t embedding_width() const { return s_.embedding_size.value_or(s_.hidden_size); }
    Value token_embedding(Graph& g) {
        return g.parameter("deberta.embeddings.word_embeddings.weight", {s_.vocab_size, embedding_width()},
                           normal(s_.initializer_range));
    }

    Value embed(Graph& g, Value ids, Value keep) {
        const Scope scope(g, "embedding");
        const std::string name = "deberta.embeddings.";
        const LayerOptions layer{.bias = false, .initializer = normal(s_.initializer_range)};
        Value x = embedding(token_embedding(g), ids, {.no_gradient_id = s_.pad_token_id.value_or(-1)});
        if (s_.absolute)
            x = x +
                embedding_layer(g, position_ids(g, ids.dim(0), ids.dim(1), s_.max_positions, "max_position_embeddings"),
                                name + "position_embeddings", s_.max_positions, embedding_width(), -1,
                                normal(s_.initializer_range));
        if (s_.type_vocab_size > 0) {
            const Value types = g.parameter(name + "token_type_embeddings.weight",
                                            {s_.type_vocab_size, embedding_width()}, normal(s_.initializer_range));
            x = x +
                (g.has_field("token_type_ids") ? embedding(types, g.input("token_type_ids")) : slice(types, 0, 0, 1));
        }
        if (embedding_width() != s_.hidden_size) x = linear_layer(g, x, name + "embed_proj", s_.hidden_size, layer);
        x = layer_norm_layer(g, x, name + "LayerNorm", s_.layer_norm_eps);
        return drop(g, keep ? x * keep : x, s_.dropout);
    }

    Value block(Graph& g, Value x, Value mask, int64_t index) {
        const std::string name = "deberta.encoder.layer." + std::to_string(index) + ".";
        const LayerOptions layer{.initializer = normal(s_.initializer_range)};
        Block b;
        b.norm = NormPosition::after;
        b.attention_norm = [&](Value in) {
            return layer_norm_layer(g, in, name + "attention.output.LayerNorm", s_.layer_norm_eps);
        };
        b.feed_forward_norm = [&](Value in) {
            return layer_norm_layer(g, in, name + "output.LayerNorm", s_.layer_norm_eps);
        };
        b.attention = [&](Value in) {
            return linear_layer(g, attend(g, in, name + "attention.self.", mask), name + "attention.output.dense",
                                s_.hidden_size, layer);
        };
        b.feed_forward = [&](Value in) {
            const Value y = activation(linear_layer(g, in, name + "intermediate.dense", s_.intermediate_size, layer),
                                       s_.activation);
            return linear_layer(g, y, name + "output.dense", s_.hidden_size, layer);
        };
        b.residual_dropout = s_.dropout;
        return transformer_block(g, x, b);
    }
};

} // namespace hekla::plugin
