// BART (Lewis et al. 2020): encoder and decoder with post-norm blocks and learned positions. Marian is the same model
// with the sinusoidal positions of the original Transformer (Vaswani et al. 2017).
#include "block.hpp"

using namespace hekla::plugin;

namespace {

struct Settings {
    int64_t vocab_size = 0, max_positions = 0, hidden_size = 0, encoder_layers = 0, encoder_ffn_dim = 0,
            encoder_heads = 0, decoder_layers = 0, decoder_ffn_dim = 0, decoder_heads = 0, pad_token_id = 0,
            decoder_start_token_id = 0;
    std::string activation;
    double encoder_layer_drop = 0, decoder_layer_drop = 0, dropout = 0, attention_dropout = 0, activation_dropout = 0,
           initializer_range = 0;
    bool scale_embedding = false, tie_embeddings = true;

    template<class V>
    void keys(V&& v) {
        v("vocab_size", vocab_size);
        v("max_position_embeddings", max_positions);
        v("d_model", hidden_size);
        v("encoder_layers", encoder_layers);
        v("encoder_ffn_dim", encoder_ffn_dim);
        v("encoder_attention_heads", encoder_heads);
        v("decoder_layers", decoder_layers);
        v("decoder_ffn_dim", decoder_ffn_dim);
        v("decoder_attention_heads", decoder_heads);
        v("encoder_layerdrop", encoder_layer_drop);
        v("decoder_layerdrop", decoder_layer_drop);
        v("activation_function", activation);
        v("dropout", dropout);
        v("attention_dropout", attention_dropout);
        v("activation_dropout", activation_dropout);
        v("init_std", initializer_range);
        v("scale_embedding", scale_embedding);
        v("tie_word_embeddings", tie_embeddings);
        v("pad_token_id", pad_token_id);
        v("decoder_start_token_id", decoder_start_token_id);
    }
};

class Bart {
public:
    explicit Bart(const Config& c) : Bart(c, "bart") {
        labels_ = label_count(c, 3);
        classifier_dropout_ = c.real("classifier_dropout");
        eos_ = c.integer("eos_token_id");
    }
    virtual ~Bart() = default;

    void build(Graph& g) {
        const Value source = g.input("input_ids");
        const Value target = decoder_ids(g, source, s_.decoder_start_token_id, s_.pad_token_id);
        Value x = embed(g, source, "encoder", g.iota(source.dim(1)));
        const Value padding = optional_input(g, "attention_mask");
        x = hidden_states(
            g, x, s_.encoder_layers,
            [&](Value in, int64_t i) { return layer_drop(g, in, block(g, in, {}, padding, i), s_.encoder_layer_drop); },
            {.scope = "encoder", .port = "encoder.layer"});
        if (norms_first_) x = layer_norm_layer(g, x, "model.encoder.layer_norm", epsilon_);
        g.offer("encoder.hidden", x);
        Value y = embed(g, target, "decoder", g.positions(target.dim(0), target.dim(1)));
        const Value source_mask = source_padding(g);
        y = hidden_states(g, y, s_.decoder_layers,
                          [&](Value in, int64_t i) {
                              return layer_drop(g, in, block(g, in, x, source_mask, i), s_.decoder_layer_drop);
                          },
                          {.scope = "decoder"});
        if (norms_first_) y = layer_norm_layer(g, y, "model.decoder.layer_norm", epsilon_);
        g.offer("hidden", y);
        g.offer("embedding.weight", token_embedding(g, "decoder"));
    }

    bool head(Graph& g, std::string_view id) {
        const Value hidden = g.ask("hidden");
        const LayerOptions layer{.initializer = normal(s_.initializer_range)};
        if (id == "lm") {
            const int64_t size = token_embedding(g, "decoder").dim(0);
            const Value decoder =
                s_.tie_embeddings ? token_embedding(g, "decoder")
                                  : g.parameter("lm_head.weight", {size, s_.hidden_size}, normal(s_.initializer_range));
            const std::vector<double> zeros(static_cast<std::size_t>(size));
            g.offer("logits", linear(hidden, decoder) + g.buffer("final_logits_bias", HK_KIND_FLOAT, {1, size}, zeros));
            return true;
        }
        if (id == "classifier" && labels_ > 0) { // the decoder's state at the last end token
            const Value ids = g.input("input_ids");
            const Value last = max(equal(ids, static_cast<double>(eos_)) * g.iota(ids.dim(1)), {1});
            const Value x = drop(g, gather(hidden, last, {.batch_dimensions = 1}), classifier_dropout_);
            const Value y = drop(g, tanh(linear_layer(g, x, "classification_head.dense", s_.hidden_size, layer)),
                                 classifier_dropout_);
            g.offer("logits", linear_layer(g, y, "classification_head.out_proj", labels_, layer));
            return true;
        }
        return false;
    }

    void write(ConfigWriter& out) {
        write_settings(out, type_, s_);
        out.set("is_encoder_decoder", true);
        if (labels_ > 0) {
            out.set("classifier_dropout", classifier_dropout_);
            out.set("eos_token_id", eos_);
            write_labels(out, labels_, 3);
        }
    }

protected:
    Bart(const Config& c, const char* type) : s_(read_settings<Settings>(c)), type_(type) {
        require_heads(s_.hidden_size, s_.encoder_heads, "d_model", "encoder_attention_heads");
        require_heads(s_.hidden_size, s_.decoder_heads, "d_model", "decoder_attention_heads");
    }

    virtual Value token_embedding(Graph& g, const char*) {
        return g.parameter("model.shared.weight", {s_.vocab_size, s_.hidden_size}, normal(s_.initializer_range));
    }
    // Rows 0 and 1 of BART's position tables are not used.
    virtual Value position_rows(Graph& g, const std::string& side, Value positions) {
        return embedding_layer(g, positions + 2.0, "model." + side + ".embed_positions", s_.max_positions + 2,
                               s_.hidden_size, -1, normal(s_.initializer_range));
    }
    virtual Value embedding_norm(Graph& g, const std::string& side, Value x) {
        return layer_norm_layer(g, x, "model." + side + ".layernorm_embedding", epsilon_);
    }

    Settings s_;
    const char* type_;
    Labels labels_{0, false};
    int64_t eos_ = 0;
    static constexpr double kEpsilon = 1e-5;
    double classifier_dropout_ = 0, epsilon_ = kEpsilon;
    bool norms_first_ = false; // pre-norm, and one more norm after each stack

private:
    Value embed(Graph& g, Value ids, const char* side, Value positions) {
        const Scope scope(g, std::string(side) + ".embedding");
        if (ids.dim(1) > s_.max_positions)
            g.fail("the batch has rows of " + std::to_string(ids.dim(1)) +
                   " tokens, the model max_position_embeddings = " + std::to_string(s_.max_positions));
        Value x = embedding(token_embedding(g, side), ids, {.no_gradient_id = s_.pad_token_id});
        if (s_.scale_embedding) x = x * std::sqrt(static_cast<double>(s_.hidden_size));
        return drop(g, embedding_norm(g, side, x + position_rows(g, side, positions)), s_.dropout);
    }

    // A block of the encoder, or of the decoder if there are encoder states to attend to. padding: of the source.
    Value block(Graph& g, Value x, Value encoder_hidden_states, Value padding, int64_t index) {
        const bool decoder = static_cast<bool>(encoder_hidden_states);
        const std::string layer_name = "layers." + std::to_string(index) + ".";
        const std::string name = (decoder ? "model.decoder." : "model.encoder.") + layer_name;
        const LayerOptions layer{.initializer = normal(s_.initializer_range)};
        const auto norm = [&](const char* which) {
            return [&g, this, which, name](Value in) { return layer_norm_layer(g, in, name + which, epsilon_); };
        };
        const auto attend = [&](const char* which) {
            AttentionLayer a;
            a.query = name + which + ".q_proj";
            a.key = name + which + ".k_proj";
            a.value = name + which + ".v_proj";
            a.output = name + which + ".out_proj";
            a.heads = decoder ? s_.decoder_heads : s_.encoder_heads;
            a.layer = layer;
            a.options.dropout = attention_dropout(g, s_.attention_dropout);
            return a;
        };
        Block b;
        b.norm = norms_first_ ? NormPosition::before : NormPosition::after;
        b.attention_norm = norm("self_attn_layer_norm");
        b.cross_attention_norm = norm("encoder_attn_layer_norm");
        b.feed_forward_norm = norm("final_layer_norm");
        b.attention = [&](Value in) {
            AttentionLayer a = attend("self_attn");
            if (decoder) {
                a.options.causal = 1;
                a.options.cache = layer_name + "self";
                if (g.mode() != HK_MODE_DECODE) a.options.key_padding = optional_input(g, "decoder_attention_mask");
            } else {
                a.options.key_padding = padding;
            }
            return attention_layer(g, in, in, a);
        };
        if (decoder)
            b.cross_attention = [&](Value in) {
                AttentionLayer a = attend("encoder_attn");
                a.options.key_padding = padding;
                a.once = layer_name + "cross";
                return attention_layer(g, in, encoder_hidden_states, a);
            };
        b.feed_forward = [&](Value in) {
            const int64_t inner = decoder ? s_.decoder_ffn_dim : s_.encoder_ffn_dim;
            const Value y = activation(linear_layer(g, in, name + "fc1", inner, layer), s_.activation);
            return linear_layer(g, drop(g, y, s_.activation_dropout), name + "fc2", s_.hidden_size, layer);
        };
        b.residual_dropout = s_.dropout;
        return transformer_block(g, x, b);
    }
};

class Marian : public Bart {
public:
    explicit Marian(const Config& c)
        : Bart(c, "marian"), shared_(c.boolean("share_encoder_decoder_embeddings")),
          target_vocabulary_(c.integer("decoder_vocab_size", s_.vocab_size)) {
        require(!shared_ || target_vocabulary_ == s_.vocab_size,
                "shared embeddings need decoder_vocab_size = vocab_size");
        norms_first_ = c.boolean("normalize_before");
        epsilon_ = c.real("layer_norm_eps");
        if (!norms_first_ && epsilon_ != kEpsilon)
            throw unsupported("layer_norm_eps is " + std::to_string(epsilon_) +
                              ", which the reference does not read: its norms add 1e-5; remove the key (it is of "
                              "models with normalize_before)");
    }

    void write(ConfigWriter& out) {
        Bart::write(out);
        out.set("share_encoder_decoder_embeddings", shared_);
        out.set("decoder_vocab_size", target_vocabulary_);
        if (norms_first_) out.set("normalize_before", true); // the reference supports only post-norm
        if (epsilon_ != kEpsilon) out.set("layer_norm_eps", epsilon_);
    }

private:
    Value token_embedding(Graph& g, const char* side) override {
        if (shared_) return Bart::token_embedding(g, side);
        const bool decoder = std::string_view(side) == "decoder";
        return g.parameter(std::string("model.") + side + ".embed_tokens.weight",
                           {decoder ? target_vocabulary_ : s_.vocab_size, s_.hidden_size},
                           normal(s_.initializer_range));
    }
    // Sine in the even columns, cosine in the odd ones; float32, as in the reference.
    Value position_rows(Graph& g, const std::string& side, Value positions) override {
        const int64_t d = s_.hidden_size, sines = (d + 1) / 2;
        std::vector<double> table;
        for (int64_t position = 0; position < s_.max_positions; ++position)
            for (int64_t column = 0; column < d; ++column) {
                const int64_t pair = column < sines ? column : column - sines;
                const double angle = static_cast<double>(position) /
                                     std::pow(10000.0, 2.0 * static_cast<double>(pair) / static_cast<double>(d));
                table.push_back(static_cast<float>(column < sines ? std::sin(angle) : std::cos(angle)));
            }
        const std::string name = "model." + side + ".embed_positions.weight";
        return gather(g.buffer(name, HK_KIND_FLOAT, {s_.max_positions, d}, table), positions);
    }
    Value embedding_norm(Graph&, const std::string&, Value x) override { return x; }

    bool shared_;
    int64_t target_vocabulary_;
};

} // namespace

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "bart", architecture<Bart>()},
             {HK_ARCHITECTURE_INTERFACE, "marian", architecture<Marian>()})
