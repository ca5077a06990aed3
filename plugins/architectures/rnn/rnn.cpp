// Encoder and decoder of GRUs (Sutskever et al. 2014, Cho et al. 2014) that pass on one state; with attention (Bahdanau
// et al. 2015), a bidirectional encoder and a decoder that attends to all of its states at every step, with an additive
// score or a product (Luong et al. 2015).
#include "block.hpp"

using namespace hekla::plugin;

namespace {

struct Settings {
    int64_t source_vocab_size = 0, target_vocab_size = 0, embedding_size = 0, hidden_size = 0;
    std::string attention;
    bool bidirectional = true;

    template<class V>
    void keys(V&& v) {
        v("source_vocab_size", source_vocab_size);
        v("target_vocab_size", target_vocab_size);
        v("embedding_size", embedding_size);
        v("hidden_size", hidden_size);
        v("attention", attention);
        v("bidirectional", bidirectional);
    }
};

class AttentionSeq2Seq {
public:
    explicit AttentionSeq2Seq(const Config& c)
        : s_(read_settings<Settings>(c)), additive_(s_.attention == "additive"), attends_(s_.attention != "none"),
          start_(c.integer("decoder_start_token_id", 0)), pad_(c.integer("pad_token_id", 0)) {
        require(additive_ || s_.attention == "dot" || !attends_, "attention must be 'additive', 'dot' or 'none'");
        require(s_.hidden_size > 0 && s_.embedding_size > 0, "hidden_size and embedding_size must be positive");
    }

    void build(Graph& g) {
        const Value source = g.input("input_ids");
        const Value target = decoder_ids(g, source, start_, pad_);
        const int64_t batch = source.dim(0), length = source.dim(1), steps = target.dim(1), h = s_.hidden_size;
        Value mask =
            g.has_field("attention_mask") ? g.input("attention_mask") : g.fill({batch, length}, 1.0, HK_KIND_INT32);
        const Value x =
            embedding_layer(g, source, "source_embedding", s_.source_vocab_size, s_.embedding_size, -1, normal(1));
        const Value lengths = sum(mask, {1});
        const GruResult right = read(g, x, lengths, "");
        Value encoder_hidden_states = right.y, first = right.last;
        if (s_.bidirectional) {
            const GruResult left = read(g, x, lengths, "_reverse");
            encoder_hidden_states = concat({right.y, left.y}, 2);
            first = tanh(layer(g, concat({right.last, left.last}, 1), "bridge", h, true));
        }
        g.offer("encoder.hidden", encoder_hidden_states);

        const auto embedded_target = [&] {
            return embedding_layer(g, target, "target_embedding", s_.target_vocab_size, s_.embedding_size, -1,
                                   normal(1));
        };
        Value state = state_read(first, "state");
        if (!attends_) { // no attention between the steps: one operation for all of them
            const GruResult y = write_all(g, embedded_target(), state);
            state_write(y.last, "state");
            g.offer("hidden", y.y);
            return;
        }

        // Decode mode reads the values that depend on the source from where the encode pass stored them.
        encoder_hidden_states = once(encoder_hidden_states, "memory");
        mask = once(mask, "mask");
        const Value keys =
            additive_ ? once(layer(g, encoder_hidden_states, "key", h, false), "keys") : encoder_hidden_states;
        const Value token_embedding = embedded_target();
        std::vector<Value> outputs, weights;
        for (int64_t t = 0; t < steps; ++t) {
            const Scope scope(g, "step." + std::to_string(t));
            const Value word = slice(token_embedding, 1, t, 1); // [B, 1, E]
            const Value a = attend(g, state, keys, mask);
            const Value context = matmul(reshape(a, {batch, 1, length}), encoder_hidden_states);
            state = write_all(g, concat({word, context}, 2), state).last;
            outputs.push_back(concat({reshape(state, {batch, 1, h}), context, word}, 2));
            weights.push_back(reshape(a, {batch, 1, length}));
        }
        state_write(state, "state");
        g.offer("hidden", concat(outputs, 1));
        g.offer("attention", concat(weights, 1));
    }

    bool head(Graph& g, std::string_view id) {
        if (id != "lm") return false;
        g.offer("logits", layer(g, g.ask("hidden"), "output", s_.target_vocab_size, true));
        return true;
    }

    void write(ConfigWriter& out) {
        write_settings(out, "attention-seq2seq", s_);
        out.set("decoder_start_token_id", start_);
        out.set("pad_token_id", pad_);
    }

private:
    static Initializer around_zero(int64_t size) {
        const double limit = 1.0 / std::sqrt(static_cast<double>(size));
        return uniform(-limit, limit);
    }
    static Value layer(Graph& g, Value x, const std::string& name, int64_t out, bool bias) {
        return linear_layer(g, x, name, out, {.bias = bias, .initializer = around_zero(x.dim(-1))});
    }

    // Runs one direction of the encoder over the real tokens.
    GruResult read(Graph& g, Value x, Value lengths, const std::string& direction) {
        const int64_t h = s_.hidden_size;
        const auto weight = [&](const char* name, const Dims& dims) {
            return g.parameter("encoder." + std::string(name) + "_l0" + direction, dims, around_zero(h));
        };
        return gru(x, weight("weight_ih", {3 * h, s_.embedding_size}), weight("weight_hh", {3 * h, h}),
                   weight("bias_ih", {3 * h}), weight("bias_hh", {3 * h}),
                   {.lengths = lengths, .reverse = direction.empty() ? 0 : 1});
    }

    // Returns weights [B, S] of state [B, H] over keys [B, S, ...].
    Value attend(Graph& g, Value state, Value keys, Value mask) {
        const int64_t batch = keys.dim(0), length = keys.dim(1);
        const Value query = reshape(layer(g, state, "query", keys.dim(2), false), {batch, 1, keys.dim(2)});
        const Value scores =
            additive_ ? layer(g, tanh(query + keys), "score", 1, false) : matmul(keys, query, {.transpose_b = 1});
        return softmax(where(mask, reshape(scores, {batch, length}), g.number(-1e30)));
    }

    // Runs the decoder's recurrence: x [B, T, I] from state [B, H].
    GruResult write_all(Graph& g, Value x, Value state) {
        const int64_t h = s_.hidden_size;
        const auto weight = [&](const char* name, const Dims& dims) {
            return g.parameter("decoder." + std::string(name), dims, around_zero(h));
        };
        return gru(x, weight("weight_ih", {3 * h, x.dim(2)}), weight("weight_hh", {3 * h, h}),
                   weight("bias_ih", {3 * h}), weight("bias_hh", {3 * h}), {.initial = state});
    }

    Settings s_;
    bool additive_, attends_;
    int64_t start_, pad_;
};

} // namespace

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "attention_seq2seq", architecture<AttentionSeq2Seq>()})
