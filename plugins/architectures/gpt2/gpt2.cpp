// GPT-2 (Radford et al. 2019): pre-norm blocks, learned positions, a tied decoder.
#include "block.hpp"

using namespace hekla::plugin;

namespace {

class Gpt2 {
public:
    explicit Gpt2(const Config& c)
        : vocabulary_(c.integer("vocab_size")), positions_(c.integer("n_positions")), width_(c.integer("n_embd")),
          layers_(c.integer("n_layer")), heads_(c.integer("n_head")), inner_(c.integer("n_inner", 4 * width_)),
          activation_(c.string("activation_function")), epsilon_(c.real("layer_norm_epsilon")),
          initializer_range_(c.real("initializer_range")), residual_dropout_(c.real("resid_pdrop")),
          embedding_dropout_(c.real("embd_pdrop")), attention_dropout_(c.real("attn_pdrop")),
          scale_(c.boolean("scale_attn_weights")), scale_by_layer_(c.boolean("scale_attn_by_inverse_layer_idx")),
          tied_(c.boolean("tie_word_embeddings")), labels_(c.integer("num_labels", 2)),
          pad_(c.integer("pad_token_id", -1)) {
        if (width_ <= 0 || heads_ <= 0 || layers_ < 0 || vocabulary_ <= 0 || positions_ <= 0)
            throw invalid("n_embd, n_head, vocab_size and n_positions must be positive");
        if (width_ % heads_ != 0)
            throw invalid("n_embd = " + std::to_string(width_) +
                          " is no multiple of n_head = " + std::to_string(heads_));
    }

    void build(Graph& g) {
        Value ids = g.input("input_ids");
        if (ids.rank() == 3) ids = reshape(ids, {-1, ids.dim(-1)}); // choices are rows of their own
        const int64_t batch = ids.dim(0), length = ids.dim(1);
        if (length > positions_)
            g.fail("the batch has rows of " + std::to_string(length) +
                   " tokens, the model n_positions = " + std::to_string(positions_));
        Value x;
        {
            const Scope scope(g, "embedding");
            const Value positions = g.has_field("position_ids") ? g.input("position_ids") : g.positions(batch, length);
            x = embedding_layer(g, ids, "transformer.wte", vocabulary_, width_, -1, normal(initializer_range_)) +
                embedding_layer(g, positions, "transformer.wpe", positions_, width_, -1, normal(initializer_range_));
            x = drop(g, x, embedding_dropout_);
        }
        const Value padding = g.has_field("attention_mask") ? g.input("attention_mask") : Value{};
        g.offer("layer.0.hidden", x);
        for (int64_t i = 0; i < layers_; ++i) {
            const Scope scope(g, "block." + std::to_string(i));
            x = block(g, x, padding, i);
            if (i + 1 < layers_) g.offer("layer." + std::to_string(i + 1) + ".hidden", x);
        }
        x = layer_norm_layer(g, x, "transformer.ln_f", epsilon_);
        g.offer("layer." + std::to_string(layers_) + ".hidden", x);
        g.offer("hidden", x);
        g.offer("embedding.weight",
                g.parameter("transformer.wte.weight", {vocabulary_, width_}, normal(initializer_range_)));
    }

    bool head(Graph& g, std::string_view id) {
        if (id == "lm") {
            const Value weight = tied_
                                     ? g.ask("embedding.weight")
                                     : g.parameter("lm_head.weight", {vocabulary_, width_}, normal(initializer_range_));
            g.offer("logits", linear(g.ask("hidden"), weight));
            return true;
        }
        if (id == "classifier") { // the last token that is not padding
            const Value scores = linear_layer(g, g.ask("hidden"), "score", labels_, {.bias = false});
            const Value ids = g.input("input_ids");
            const int64_t length = ids.dim(1);
            Value last = g.fill({ids.dim(0)}, static_cast<double>(length - 1), HK_KIND_INT32);
            if (pad_ >= 0) last = max(not_equal(ids, static_cast<double>(pad_)) * g.iota(length), {1});
            g.offer("logits", gather(scores, last, {.batch_dimensions = 1}));
            return true;
        }
        return false;
    }

    void write(ConfigWriter& out) {
        out.set("model_type", "gpt2");
        out.set("vocab_size", vocabulary_);
        out.set("n_positions", positions_);
        out.set("n_embd", width_);
        out.set("n_layer", layers_);
        out.set("n_head", heads_);
        if (inner_ == 4 * width_)
            out.set_null("n_inner");
        else
            out.set("n_inner", inner_);
        out.set("activation_function", activation_);
        out.set("layer_norm_epsilon", epsilon_);
        out.set("initializer_range", initializer_range_);
        out.set("resid_pdrop", residual_dropout_);
        out.set("embd_pdrop", embedding_dropout_);
        out.set("attn_pdrop", attention_dropout_);
        out.set("scale_attn_weights", scale_);
        out.set("scale_attn_by_inverse_layer_idx", scale_by_layer_);
        out.set("tie_word_embeddings", tied_);
    }

private:
    Value block(Graph& g, Value x, Value padding, int64_t index) {
        const std::string name = "transformer.h." + std::to_string(index) + ".";
        // GPT-2 shrinks the projections that end in a residual by the root of their number.
        const Initializer residual = normal(initializer_range_ / std::sqrt(2.0 * static_cast<double>(layers_)));
        const auto conv = [&](Value in, const std::string& part, int64_t out, Initializer init) {
            return linear_layer(g, in, name + part, out, {.input_first = true, .initializer = init});
        };
        Block b;
        b.attention_norm = [&](Value in) { return layer_norm_layer(g, in, name + "ln_1", epsilon_); };
        b.feed_forward_norm = [&](Value in) { return layer_norm_layer(g, in, name + "ln_2", epsilon_); };
        b.attention = [&](Value in) {
            const Value qkv = conv(in, "attn.c_attn", 3 * width_, normal(initializer_range_));
            const auto part = [&](int64_t k) { return split_heads(slice(qkv, 2, k * width_, width_), heads_); };
            double scale = scale_ ? 1.0 / std::sqrt(static_cast<double>(width_ / heads_)) : 1.0;
            if (scale_by_layer_) scale /= static_cast<double>(index + 1);
            const Value y = attention(part(0), part(1), part(2),
                                      {.key_padding = padding,
                                       .scale = scale,
                                       .causal = 1,
                                       .dropout = attention_dropout(g, attention_dropout_),
                                       .cache = "h." + std::to_string(index)});
            return conv(merge_heads(y), "attn.c_proj", width_, residual);
        };
        b.feed_forward = [&](Value in) {
            return conv(activation(conv(in, "mlp.c_fc", inner_, normal(initializer_range_)), activation_), "mlp.c_proj",
                        width_, residual);
        };
        b.residual_dropout = residual_dropout_;
        return transformer_block(g, x, b);
    }

    int64_t vocabulary_, positions_, width_, layers_, heads_, inner_;
    std::string activation_;
    double epsilon_, initializer_range_, residual_dropout_, embedding_dropout_, attention_dropout_;
    bool scale_, scale_by_layer_, tied_;
    int64_t labels_, pad_;
};

} // namespace

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "gpt2", architecture<Gpt2>()})
