// experts: a language model whose feed-forward layer is a mixture of experts (Shazeer et al. 2017). Each token chooses k of
// them, and only those are computed. Without experts it is one layer of the size that a token would use.
#include "block.hpp"

using namespace hekla::plugin;

namespace {

struct Settings {
    int64_t vocabulary = 0, width = 0, experts = 0, chosen = 0, size = 0;

    template<class V>
    void keys(V&& v) {
        v("vocab_size", vocabulary);
        v("hidden_size", width);
        v("num_experts", experts);
        v("experts_per_token", chosen);
        v("expert_size", size);
    }
};

class Experts {
public:
    explicit Experts(const Config& config) : s_(read_settings<Settings>(config)) {
        require(s_.experts == 0 || s_.chosen <= s_.experts, "experts_per_token must not exceed num_experts");
    }

    void build(Graph& g) {
        const Value ids = g.input("input_ids");
        const Value words = g.parameter("words.weight", {s_.vocabulary, s_.width}, normal(0.1));
        const Value x = embedding(words, ids);
        const Value seen = x + dense(g, token_before(g, x), "before", s_.width);
        const Value normed = rms_norm_layer(g, seen, "norm", 1e-6);
        g.offer("hidden", seen + (s_.experts > 0 ? mixture(g, normed) : one_layer(g, normed)));
        g.offer("embedding.weight", words);
    }

    bool head(Graph& g, std::string_view id) {
        if (id != "lm") return false;
        const Value hidden = g.ask("hidden");
        g.offer("logits", linear(hidden, g.ask("embedding.weight")));
        return true;
    }

    void write(ConfigWriter& out) { write_settings(out, "experts", s_); }

private:
    static Value dense(Graph& g, Value x, const std::string& name, int64_t out) {
        return linear(x, g.parameter(name + ".weight", {out, x.dim(-1)}, normal(0.1)));
    }

    // x [B, T, W], moved on by one token; the last one of a chunk is kept for the next chunk.
    static Value token_before(Graph& g, Value x) {
        const int64_t batch = x.dim(0), length = x.dim(1), width = x.dim(2);
        const Value last = state_read(g.fill({batch, 1, width}, 0.0), "last");
        state_write(slice(x, 1, length - 1, 1), "last");
        return slice(concat({last, x}, 1), 1, 0, length);
    }

    Value one_layer(Graph& g, Value x) const {
        return dense(g, silu(dense(g, x, "up", s_.chosen * s_.size)), "down", s_.width);
    }

    // x [B, T, W] -> [B, T, W]: every token k times, with an expert each, weighed by the scores of the router.
    Value mixture(Graph& g, Value x) const {
        const int64_t tokens = x.dim(0) * x.dim(1), k = s_.chosen;
        const Value flat = reshape(x, {tokens, 1, s_.width});
        const Value scores = softmax(reshape(dense(g, flat, "router", s_.experts), {tokens, s_.experts}));
        const TopKResult best = top_k(scores, k);
        const Value weights = best.values / sum(best.values, {1}, {.keep = 1});
        const Value expert = reshape(best.indices, {tokens * k});
        const Value each = reshape(broadcast(flat, {tokens, k, s_.width}), {tokens * k, s_.width});
        const Value up = g.parameter("experts.up", {s_.experts, s_.size, s_.width}, normal(0.1));
        const Value down = g.parameter("experts.down", {s_.experts, s_.width, s_.size}, normal(0.1));
        const Value y = row_linear(silu(row_linear(each, up, expert)), down, expert);
        const Value weighed = reshape(y, {tokens, k, s_.width}) * reshape(weights, {tokens, k, 1});
        return reshape(sum(weighed, {1}), x.shape());
    }

    Settings s_;
};

} // namespace

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "experts", architecture<Experts>()})
