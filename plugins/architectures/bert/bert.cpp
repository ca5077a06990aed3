// BERT (Devlin et al. 2019): a bidirectional encoder with post-norm blocks. RoBERTa (Liu et al. 2019) is the same body
// with positions that count only real tokens, and its own heads.
#include "block.hpp"

using namespace hekla::plugin;

namespace {

struct Settings {
    int64_t vocab_size = 0, hidden_size = 0, num_layers = 0, num_heads = 0, intermediate_size = 0, max_positions = 0,
            type_vocab_size = 0;
    std::string activation;
    double dropout = 0, attention_dropout = 0, initializer_range = 0, layer_norm_eps = 0;
    std::optional<double> classifier_dropout;
    std::optional<int64_t> pad_token_id;
    bool tie_embeddings = true, decoder = false;

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
        v("pad_token_id", pad_token_id);
        v("classifier_dropout", classifier_dropout);
        v("tie_word_embeddings", tie_embeddings);
        v("is_decoder", decoder);
    }
};

class Bert {
public:
    explicit Bert(const Config& c) : Bert(c, "bert", "bert") {}
    virtual ~Bert() = default;

    void build(Graph& g) {
        Value ids = g.input("input_ids");
        if (ids.rank() == 3) ids = reshape(ids, {-1, ids.dim(-1)}); // choices become rows
        Value x = embed(g, ids);
        const Value padding = s_.decoder ? causal_padding(g) : optional_input(g, "attention_mask");
        x = hidden_states(g, x, s_.num_layers, [&](Value in, int64_t i) { return block(g, in, padding, i); });
        g.offer("hidden", x);
        g.offer("embedding.weight", token_embedding(g));
    }

    bool head(Graph& g, std::string_view id) {
        const LayerOptions layer{.initializer = normal(s_.initializer_range)};
        if (id == "mlm" || id == "lm" || id == "pretraining") {
            const Value decoder = s_.tie_embeddings
                                      ? token_embedding(g)
                                      : g.parameter("cls.predictions.decoder.weight", {s_.vocab_size, s_.hidden_size},
                                                    normal(s_.initializer_range));
            g.offer("logits", masked_head(g, predicted_positions(g, g.ask("hidden")), decoder,
                                          {.dense = "cls.predictions.transform.dense",
                                           .norm = "cls.predictions.transform.LayerNorm",
                                           .bias = "cls.predictions.bias",
                                           .activation = s_.activation,
                                           .epsilon = s_.layer_norm_eps,
                                           .range = s_.initializer_range}));
            if (id == "pretraining")
                g.offer("pair_logits", linear_layer(g, pooled(g), "cls.seq_relationship", 2, layer));
        } else if (id == "pair") {
            g.offer("pair_logits", linear_layer(g, pooled(g), "cls.seq_relationship", 2, layer));
        } else if (id == "classifier") {
            g.offer("logits", linear_layer(g, drop(g, pooled(g), classifier_dropout()), "classifier", labels_, layer));
        } else if (id == "tagger") {
            g.offer("logits",
                    linear_layer(g, drop(g, g.ask("hidden"), classifier_dropout()), "classifier", labels_, layer));
        } else if (id == "pooler") {
            pooled(g);
        } else {
            return false;
        }
        return true;
    }

    void write(ConfigWriter& out) {
        write_settings(out, model_type_, s_);
        write_labels(out, labels_);
    }

protected:
    Bert(const Config& c, const char* model_type, const char* root)
        : s_(read_settings<Settings>(c)), labels_(label_count(c)), model_type_(model_type), root_(root) {
        require_heads(s_.hidden_size, s_.num_heads, "hidden_size", "num_attention_heads");
        require(!c.boolean("add_cross_attention", false),
                "a BERT that attends to an encoder (add_cross_attention) is not known");
    }

    virtual Value position_values(Graph& g, Value ids) {
        return position_ids(g, ids.dim(0), ids.dim(1), s_.max_positions, "max_position_embeddings");
    }
    virtual int64_t unused_position() const { return -1; }

    Value token_embedding(Graph& g) {
        return g.parameter(root_ + ".embeddings.word_embeddings.weight", {s_.vocab_size, s_.hidden_size},
                           normal(s_.initializer_range));
    }
    double classifier_dropout() const { return s_.classifier_dropout.value_or(s_.dropout); }

    Settings s_;
    Labels labels_;
    const char* model_type_;
    std::string root_; // of the names of parameters

private:
    Value embed(Graph& g, Value ids) {
        const Scope scope(g, "embedding");
        const std::string name = root_ + ".embeddings.";
        const Value types = g.parameter(name + "token_type_embeddings.weight", {s_.type_vocab_size, s_.hidden_size},
                                        normal(s_.initializer_range));
        const Value x =
            embedding(token_embedding(g), ids, {.no_gradient_id = s_.pad_token_id.value_or(-1)}) +
            (g.has_field("token_type_ids") ? embedding(types, g.input("token_type_ids")) : slice(types, 0, 0, 1)) +
            embedding_layer(g, position_values(g, ids), name + "position_embeddings", s_.max_positions, s_.hidden_size,
                            unused_position(), normal(s_.initializer_range));
        return drop(g, layer_norm_layer(g, x, name + "LayerNorm", s_.layer_norm_eps), s_.dropout);
    }

    Value block(Graph& g, Value x, Value padding, int64_t index) {
        const std::string name = root_ + ".encoder.layer." + std::to_string(index) + ".";
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
            AttentionLayer a;
            a.query = name + "attention.self.query";
            a.key = name + "attention.self.key";
            a.value = name + "attention.self.value";
            a.output = name + "attention.output.dense";
            a.heads = s_.num_heads;
            a.layer = layer;
            a.options.key_padding = padding;
            a.options.dropout = attention_dropout(g, s_.attention_dropout);
            if (s_.decoder) {
                a.options.causal = 1;
                a.options.cache = "layer." + std::to_string(index);
            }
            return attention_layer(g, in, in, a);
        };
        b.feed_forward = [&](Value in) {
            const Value y = activation(linear_layer(g, in, name + "intermediate.dense", s_.intermediate_size, layer),
                                       s_.activation);
            return linear_layer(g, y, name + "output.dense", s_.hidden_size, layer);
        };
        b.residual_dropout = s_.dropout;
        return transformer_block(g, x, b);
    }

    // Returns a linear layer and tanh of the first token.
    Value pooled(Graph& g) {
        const Value y = tanh(linear_layer(g, first_token(g.ask("hidden")), root_ + ".pooler.dense", s_.hidden_size,
                                          {.initializer = normal(s_.initializer_range)}));
        g.offer("pooled", y);
        return y;
    }
};

class Roberta : public Bert {
public:
    explicit Roberta(const Config& c, const char* model_type = "roberta") : Bert(c, model_type, "roberta") {}

    bool head(Graph& g, std::string_view id) {
        const LayerOptions layer{.initializer = normal(s_.initializer_range)};
        if (id == "mlm" || id == "lm") {
            const Value decoder = s_.tie_embeddings
                                      ? token_embedding(g)
                                      : g.parameter("lm_head.decoder.weight", {s_.vocab_size, s_.hidden_size},
                                                    normal(s_.initializer_range));
            g.offer("logits", masked_head(g, predicted_positions(g, g.ask("hidden")), decoder,
                                          {.dense = "lm_head.dense",
                                           .norm = "lm_head.layer_norm",
                                           .bias = "lm_head.bias",
                                           .epsilon = s_.layer_norm_eps,
                                           .range = s_.initializer_range}));
            return true;
        }
        if (id == "classifier") {
            const Value first = drop(g, first_token(g.ask("hidden")), classifier_dropout());
            const Value y = tanh(linear_layer(g, first, "classifier.dense", s_.hidden_size, layer));
            g.offer("logits", linear_layer(g, drop(g, y, classifier_dropout()), "classifier.out_proj", labels_, layer));
            return true;
        }
        return (id == "tagger" || id == "pooler") && Bert::head(g, id);
    }

private:
    // Numbers the tokens that are not padding from pad + 1. Padding gets position pad, whose row is not trained.
    Value position_values(Graph& g, Value ids) override {
        if (g.has_field("position_ids")) return g.input("position_ids");
        const int64_t pad = s_.pad_token_id.value_or(1);
        if (g.mode() == HK_MODE_DECODE) return g.positions(ids.dim(0), ids.dim(1)) + static_cast<double>(pad + 1);
        if (ids.dim(1) + pad >= s_.max_positions)
            g.fail("the batch has rows of " + std::to_string(ids.dim(1)) + " tokens, max_position_embeddings = " +
                   std::to_string(s_.max_positions) + " leaves room for " + std::to_string(s_.max_positions - pad - 1));
        const Value real = not_equal(ids, static_cast<double>(pad));
        return cumsum(real, 1) * real + static_cast<double>(pad);
    }
    int64_t unused_position() const override { return s_.pad_token_id.value_or(1); }
};

class XlmRoberta : public Roberta {
public:
    explicit XlmRoberta(const Config& c) : Roberta(c, "xlm-roberta") {}
};

} // namespace

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "bert", architecture<Bert>()},
             {HK_ARCHITECTURE_INTERFACE, "roberta", architecture<Roberta>()},
             {HK_ARCHITECTURE_INTERFACE, "xlm-roberta", architecture<XlmRoberta>()})
