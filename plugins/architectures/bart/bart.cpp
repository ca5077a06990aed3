// BART (Lewis et al. 2020): encoder and decoder with norms after each part and learned positions. Marian is the same
// form with the sinusoids of the original Transformer (Vaswani et al. 2017).
#include "block.hpp"

using namespace hekla::plugin;

namespace {

struct Settings {
    int64_t vocabulary = 0, positions = 0, width = 0, encoder_layers = 0, encoder_inner = 0, encoder_heads = 0,
            decoder_layers = 0, decoder_inner = 0, decoder_heads = 0, pad = 0, start = 0;
    std::string activation;
    double encoder_layer_drop = 0, decoder_layer_drop = 0, dropout = 0, attention_dropout = 0, inner_dropout = 0,
           range = 0;
    bool scale_embedding = false, tied = true;

    template<class V>
    void keys(V&& v) {
        v("vocab_size", vocabulary);
        v("max_position_embeddings", positions);
        v("d_model", width);
        v("encoder_layers", encoder_layers);
        v("encoder_ffn_dim", encoder_inner);
        v("encoder_attention_heads", encoder_heads);
        v("decoder_layers", decoder_layers);
        v("decoder_ffn_dim", decoder_inner);
        v("decoder_attention_heads", decoder_heads);
        v("encoder_layerdrop", encoder_layer_drop);
        v("decoder_layerdrop", decoder_layer_drop);
        v("activation_function", activation);
        v("dropout", dropout);
        v("attention_dropout", attention_dropout);
        v("activation_dropout", inner_dropout);
        v("init_std", range);
        v("scale_embedding", scale_embedding);
        v("tie_word_embeddings", tied);
        v("pad_token_id", pad);
        v("decoder_start_token_id", start);
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
        const Value target = decoder_ids(g, source, s_.start, s_.pad);
        Value x = embed(g, source, "encoder", g.iota(source.dim(1)));
        g.offer("encoder.layer.0.hidden", x);
        const Value padding = optional_input(g, "attention_mask");
        for (int64_t i = 0; i < s_.encoder_layers; ++i) {
            const Scope scope(g, "encoder." + std::to_string(i));
            x = layer_drop(g, x, block(g, x, {}, padding, i), s_.encoder_layer_drop);
            g.offer("encoder.layer." + std::to_string(i + 1) + ".hidden", x);
        }
        if (norms_first_) x = layer_norm_layer(g, x, "model.encoder.layer_norm", epsilon_);
        g.offer("encoder.hidden", x);
        Value y = embed(g, target, "decoder", g.positions(target.dim(0), target.dim(1)));
        g.offer("layer.0.hidden", y);
        const Value source_mask = source_padding(g);
        for (int64_t i = 0; i < s_.decoder_layers; ++i) {
            const Scope scope(g, "decoder." + std::to_string(i));
            y = layer_drop(g, y, block(g, y, x, source_mask, i), s_.decoder_layer_drop);
            g.offer("layer." + std::to_string(i + 1) + ".hidden", y);
        }
        if (norms_first_) y = layer_norm_layer(g, y, "model.decoder.layer_norm", epsilon_);
        g.offer("hidden", y);
        g.offer("embedding.weight", words(g, "decoder"));
    }

    bool head(Graph& g, std::string_view id) {
        const Value hidden = g.ask("hidden");
        const LayerOptions layer{.initializer = normal(s_.range)};
        if (id == "lm") {
            const int64_t size = words(g, "decoder").dim(0);
            const Value decoder =
                s_.tied ? words(g, "decoder") : g.parameter("lm_head.weight", {size, s_.width}, normal(s_.range));
            const std::vector<double> zeros(static_cast<std::size_t>(size));
            g.offer("logits", linear(hidden, decoder) + g.buffer("final_logits_bias", HK_KIND_FLOAT, {1, size}, zeros));
            return true;
        }
        if (id == "classifier" && labels_ > 0) { // the decoder's state at the last end token
            const Value ids = g.input("input_ids");
            const Value last = max(equal(ids, static_cast<double>(eos_)) * g.iota(ids.dim(1)), {1});
            const Value x = drop(g, gather(hidden, last, {.batch_dimensions = 1}), classifier_dropout_);
            const Value y =
                drop(g, tanh(linear_layer(g, x, "classification_head.dense", s_.width, layer)), classifier_dropout_);
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
        require_heads(s_.width, s_.encoder_heads, "d_model", "encoder_attention_heads");
        require_heads(s_.width, s_.decoder_heads, "d_model", "decoder_attention_heads");
    }

    virtual Value words(Graph& g, const char*) {
        return g.parameter("model.shared.weight", {s_.vocabulary, s_.width}, normal(s_.range));
    }
    // Rows 0 and 1 of BART's tables of positions are not used.
    virtual Value position_rows(Graph& g, const std::string& part, Value places) {
        return embedding_layer(g, places + 2.0, "model." + part + ".embed_positions", s_.positions + 2, s_.width, -1,
                               normal(s_.range));
    }
    virtual Value embedding_norm(Graph& g, const std::string& part, Value x) {
        return layer_norm_layer(g, x, "model." + part + ".layernorm_embedding", epsilon_);
    }

    Settings s_;
    const char* type_;
    Labels labels_{0, false};
    int64_t eos_ = 0;
    double classifier_dropout_ = 0, epsilon_ = 1e-5;
    bool norms_first_ = false; // and one more after each stack

private:
    Value embed(Graph& g, Value ids, const char* part, Value places) {
        const Scope scope(g, std::string(part) + ".embedding");
        if (ids.dim(1) > s_.positions)
            g.fail("the batch has rows of " + std::to_string(ids.dim(1)) +
                   " tokens, the model max_position_embeddings = " + std::to_string(s_.positions));
        Value x = embedding(words(g, part), ids, {.no_gradient_id = s_.pad});
        if (s_.scale_embedding) x = x * std::sqrt(static_cast<double>(s_.width));
        return drop(g, embedding_norm(g, part, x + position_rows(g, part, places)), s_.dropout);
    }

    // A block of the encoder, or of the decoder where there is a memory to attend to. padding: of the source.
    Value block(Graph& g, Value x, Value memory, Value padding, int64_t index) {
        const bool decoder = static_cast<bool>(memory);
        const std::string place = "layers." + std::to_string(index) + ".";
        const std::string name = (decoder ? "model.decoder." : "model.encoder.") + place;
        const LayerOptions layer{.initializer = normal(s_.range)};
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
        b.norm = norms_first_ ? NormPlace::before : NormPlace::after;
        b.attention_norm = norm("self_attn_layer_norm");
        b.cross_attention_norm = norm("encoder_attn_layer_norm");
        b.feed_forward_norm = norm("final_layer_norm");
        b.attention = [&](Value in) {
            AttentionLayer a = attend("self_attn");
            if (decoder) {
                a.options.causal = 1;
                a.options.cache = place + "self";
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
                a.once = place + "cross";
                return attention_layer(g, in, memory, a);
            };
        b.feed_forward = [&](Value in) {
            const int64_t inner = decoder ? s_.decoder_inner : s_.encoder_inner;
            const Value y = activation(linear_layer(g, in, name + "fc1", inner, layer), s_.activation);
            return linear_layer(g, drop(g, y, s_.inner_dropout), name + "fc2", s_.width, layer);
        };
        b.residual_dropout = s_.dropout;
        return transformer_block(g, x, b);
    }
};

class Marian : public Bart {
public:
    explicit Marian(const Config& c)
        : Bart(c, "marian"), shared_(c.boolean("share_encoder_decoder_embeddings")),
          target_vocabulary_(c.integer("decoder_vocab_size", s_.vocabulary)) {
        require(!shared_ || target_vocabulary_ == s_.vocabulary,
                "shared embeddings need decoder_vocab_size = vocab_size");
        norms_first_ = c.boolean("normalize_before");
        epsilon_ = c.real("layer_norm_eps");
    }

    void write(ConfigWriter& out) {
        Bart::write(out);
        out.set("share_encoder_decoder_embeddings", shared_);
        out.set("decoder_vocab_size", target_vocabulary_);
        if (norms_first_) out.set("normalize_before", true); // the reference has norms last alone
        if (epsilon_ != 1e-5) out.set("layer_norm_eps", epsilon_);
    }

private:
    Value words(Graph& g, const char* part) override {
        if (shared_) return Bart::words(g, part);
        const bool decoder = std::string_view(part) == "decoder";
        return g.parameter(std::string("model.") + part + ".embed_tokens.weight",
                           {decoder ? target_vocabulary_ : s_.vocabulary, s_.width}, normal(s_.range));
    }
    // Sines of the even columns' angles, then cosines of the odd ones'; float32, as the reference keeps them.
    Value position_rows(Graph& g, const std::string& part, Value places) override {
        const int64_t d = s_.width, sines = (d + 1) / 2;
        std::vector<double> table;
        for (int64_t position = 0; position < s_.positions; ++position)
            for (int64_t column = 0; column < d; ++column) {
                const int64_t pair = column < sines ? column : column - sines;
                const double angle = static_cast<double>(position) /
                                     std::pow(10000.0, 2.0 * static_cast<double>(pair) / static_cast<double>(d));
                table.push_back(static_cast<float>(column < sines ? std::sin(angle) : std::cos(angle)));
            }
        const std::string name = "model." + part + ".embed_positions.weight";
        return gather(g.buffer(name, HK_KIND_FLOAT, {s_.positions, d}, table), places);
    }
    Value embedding_norm(Graph&, const std::string&, Value x) override { return x; }

    bool shared_;
    int64_t target_vocabulary_;
};

} // namespace

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "bart", architecture<Bart>()},
             {HK_ARCHITECTURE_INTERFACE, "marian", architecture<Marian>()})
