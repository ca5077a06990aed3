// GPT-2 (Radford et al. 2019): pre-norm blocks, learned positions, a tied decoder.
#include "block.hpp"

using namespace hekla::plugin;

namespace {

struct Settings {
    int64_t vocab_size = 0, max_positions = 0, hidden_size = 0, num_layers = 0, num_heads = 0;
    std::optional<int64_t> intermediate_size, pad_token_id;
    std::string activation, summary;
    double layer_norm_eps = 0, initializer_range = 0, residual_dropout = 0, embedding_dropout = 0,
           attention_dropout = 0, summary_dropout = 0;
    bool scale = true, scale_by_layer = false, tie_embeddings = true, summary_layer = true, summary_to_labels = true;
    std::optional<std::string> summary_activation;

    template<class V>
    void keys(V&& v) {
        v("vocab_size", vocab_size);
        v("n_positions", max_positions);
        v("n_embd", hidden_size);
        v("n_layer", num_layers);
        v("n_head", num_heads);
        v("n_inner", intermediate_size);
        v("activation_function", activation);
        v("resid_pdrop", residual_dropout);
        v("embd_pdrop", embedding_dropout);
        v("attn_pdrop", attention_dropout);
        v("layer_norm_epsilon", layer_norm_eps);
        v("initializer_range", initializer_range);
        v("summary_type", summary);
        v("summary_use_proj", summary_layer);
        v("summary_activation", summary_activation);
        v("summary_proj_to_labels", summary_to_labels);
        v("summary_first_dropout", summary_dropout);
        v("scale_attn_weights", scale);
        v("scale_attn_by_inverse_layer_idx", scale_by_layer);
        v("tie_word_embeddings", tie_embeddings);
        v("pad_token_id", pad_token_id);
    }
};

class Gpt2 {
public:
    explicit Gpt2(const Config& c) : s_(read_settings<Settings>(c)), labels_(label_count(c)) {
        require_heads(s_.hidden_size, s_.num_heads, "n_embd", "n_head");
        require(s_.num_layers >= 0 && s_.vocab_size > 0 && s_.max_positions > 0,
                "n_layer, vocab_size and n_positions must be positive");
    }

    void build(Graph& g) {
        const Value ids = rows(g.input("input_ids"));
        Value x;
        {
            const Scope scope(g, "embedding");
            const Value positions = position_ids(g, ids.dim(0), ids.dim(1), s_.max_positions, "n_positions");
            x = embedding(token_embedding(g), ids) + embedding_layer(g, rows(positions), "transformer.wpe",
                                                                     s_.max_positions, s_.hidden_size, -1,
                                                                     normal(s_.initializer_range));
            if (g.has_field("token_type_ids")) x = x + embedding(token_embedding(g), rows(g.input("token_type_ids")));
            x = drop(g, x, s_.embedding_dropout);
        }
        Value padding = causal_padding(g);
        if (padding) padding = rows(padding);
        x = hidden_states(
            g, x, s_.num_layers, [&](Value in, int64_t i) { return block(g, in, padding, i); },
            {.final_norm = [&](Value in) { return layer_norm_layer(g, in, "transformer.ln_f", s_.layer_norm_eps); }});
        g.offer("hidden", x);
        g.offer("embedding.weight", token_embedding(g));
    }

    bool head(Graph& g, std::string_view id) {
        if (id == "lm" || id == "double_heads") {
            const Value decoder = s_.tie_embeddings ? token_embedding(g)
                                                    : g.parameter("lm_head.weight", {s_.vocab_size, s_.hidden_size},
                                                                  normal(s_.initializer_range));
            const Value logits = linear(g.ask("hidden"), decoder);
            if (id == "lm")
                g.offer("logits", logits);
            else
                choices(g, logits);
            return true;
        }
        if (id == "classifier") {
            const Value scores = linear_layer(g, g.ask("hidden"), "score", labels_,
                                              {.bias = false, .initializer = normal(s_.initializer_range)});
            g.offer("logits",
                    gather(scores, last_token(g, g.input("input_ids"), s_.pad_token_id), {.batch_dimensions = 1}));
            return true;
        }
        return false;
    }

    void write(ConfigWriter& out) {
        write_settings(out, "gpt2", s_);
        write_labels(out, labels_);
    }

private:
    // Turns choices [B, C, T] into rows [B C, T].
    static Value rows(Value x) { return x.rank() == 3 ? reshape(x, {-1, x.dim(-1)}) : x; }
    Value token_embedding(Graph& g) {
        return g.parameter("transformer.wte.weight", {s_.vocab_size, s_.hidden_size}, normal(s_.initializer_range));
    }

    // Emits logits [B, C, T, V] and one score per choice [B, C] from the token that mc_token_ids selects.
    void choices(Graph& g, Value logits) {
        const Dims shape = g.input("input_ids").shape();
        if (shape.size() != 3) {
            g.fail("input_ids must be [rows, choices, tokens] for choices");
            return;
        }
        g.offer("logits", reshape(logits, {shape[0], shape[1], shape[2], s_.vocab_size}));
        const Value hidden = g.ask("hidden");
        const int64_t all = shape[0] * shape[1], length = shape[2];
        const Value position = g.has_field("mc_token_ids")
                                   ? reshape(g.input("mc_token_ids"), {all})
                                   : g.fill({all}, static_cast<double>(length - 1), HK_KIND_INT32);
        if (s_.summary != "cls_index") g.fail("choices are scored at mc_token_ids: summary_type must be 'cls_index'");
        Value y = gather(hidden, position, {.batch_dimensions = 1});
        y = drop(g, y, s_.summary_dropout);
        if (s_.summary_layer)
            y = linear_layer(g, y, "multiple_choice_head.summary", s_.summary_to_labels ? labels_ : s_.hidden_size,
                             {.initializer = normal(s_.initializer_range)});
        if (s_.summary_activation) y = activation(y, *s_.summary_activation);
        g.offer("choice_logits", reshape(y, {shape[0], shape[1]})); // fails unless there is one number per choice
    }

    Value block(Graph& g, Value x, Value padding, int64_t index) {
        const std::string name = "transformer.h." + std::to_string(index) + ".";
        // GPT-2 scales the initial weights of projections into the residual by 1 / sqrt(number of such projections).
        const Initializer residual = normal(s_.initializer_range / std::sqrt(2.0 * static_cast<double>(s_.num_layers)));
        const auto conv = [&](Value in, const std::string& layer, int64_t out, Initializer init) {
            return linear_layer(g, in, name + layer, out, {.input_first = true, .initializer = init});
        };
        Block b;
        b.attention_norm = [&](Value in) { return layer_norm_layer(g, in, name + "ln_1", s_.layer_norm_eps); };
        b.feed_forward_norm = [&](Value in) { return layer_norm_layer(g, in, name + "ln_2", s_.layer_norm_eps); };
        b.attention = [&](Value in) {
            const Value qkv = conv(in, "attn.c_attn", 3 * s_.hidden_size, normal(s_.initializer_range));
            const auto qkv_slice = [&](int64_t k) {
                return split_heads(slice(qkv, 2, k * s_.hidden_size, s_.hidden_size), s_.num_heads);
            };
            const int64_t head_dim = s_.hidden_size / s_.num_heads;
            double scale = s_.scale ? 1.0 / std::sqrt(static_cast<double>(head_dim)) : 1.0;
            if (s_.scale_by_layer) scale /= static_cast<double>(index + 1);
            const Value y = attention(qkv_slice(0), qkv_slice(1), qkv_slice(2),
                                      {.key_padding = padding,
                                       .prefix = causal_prefix(g),
                                       .scale = scale,
                                       .causal = 1,
                                       .dropout = attention_dropout(g, s_.attention_dropout),
                                       .cache = "h." + std::to_string(index)});
            return conv(merge_heads(y), "attn.c_proj", s_.hidden_size, residual);
        };
        b.feed_forward = [&](Value in) {
            const Value y =
                conv(in, "mlp.c_fc", s_.intermediate_size.value_or(4 * s_.hidden_size), normal(s_.initializer_range));
            return conv(activation(y, s_.activation), "mlp.c_proj", s_.hidden_size, residual);
        };
        b.residual_dropout = s_.residual_dropout;
        return transformer_block(g, x, b);
    }

    Settings s_;
    Labels labels_;
};

} // namespace

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "gpt2", architecture<Gpt2>()})
