// DeBERTa (He et al. 2021): a bidirectional encoder whose scores add content-to-position and position-to-content terms
// from a table of relative distances. Version 2 buckets distances logarithmically, may share projections with the
// content, normalizes the table, and in its largest models has a convolution after the first block.
#include "deberta.hpp"

using namespace hekla::plugin;

namespace {

class Deberta : public DebertaBody {
public:
    explicit Deberta(const Config& c) : DebertaBody(c, "deberta") {
        if (c.boolean("talking_head", false)) throw unsupported("talking_head is not known");
    }

private:
    Value distances(Graph& g) override {
        return g.parameter("deberta.encoder.rel_embeddings.weight", {2 * s_.farthest(), s_.hidden_size},
                           normal(s_.initializer_range));
    }

    Value attend(Graph& g, Value x, const std::string& name, Value mask) override {
        const int64_t head = s_.hidden_size / s_.num_heads, length = x.dim(1);
        const LayerOptions plain{.bias = false, .initializer = normal(s_.initializer_range)};
        // Query, key and value are interleaved by head; keys have no bias.
        const Value qkv = reshape(linear_layer(g, x, name + "in_proj", 3 * s_.hidden_size, plain),
                                  {x.dim(0), length, s_.num_heads, 3 * head});
        const auto qkv_slice = [&](int64_t k) { return transpose(slice(qkv, 3, k * head, head), {0, 2, 1, 3}); };
        const auto bias = [&](const char* which) {
            return reshape(g.parameter(name + which, {s_.hidden_size}), {s_.num_heads, 1, head});
        };
        const double root = root_of_width();
        const Value q = (qkv_slice(0) + bias("q_bias")) / root, k = qkv_slice(1), v = qkv_slice(2) + bias("v_bias");

        AttentionOptions o = masked(g, mask);
        o.scale = 1.0;
        if (s_.relative) {
            // Rows span - distance .. span + distance of the table, limited to the length of the batch.
            const int64_t farthest = s_.farthest(), span = std::min(length, farthest);
            const Value table = reshape(slice(drop(g, distances(g), s_.dropout), 0, farthest - span, 2 * span),
                                        {1, 2 * span, s_.hidden_size});
            if (to_position_)
                o.query_distance = matmul(
                    q, split_heads(linear_layer(g, table, name + "pos_proj", s_.hidden_size, plain), s_.num_heads),
                    {.transpose_b = 1});
            if (to_content_) {
                const Value p = linear_layer(g, table, name + "pos_q_proj", s_.hidden_size,
                                             {.initializer = normal(s_.initializer_range)});
                o.key_distance = matmul(k, split_heads(p, s_.num_heads) / root, {.transpose_b = 1});
            }
            tables(o, length, span, [](int64_t d) { return d; });
        }
        return merge_heads(attention(q, k, v, o));
    }
};

class DebertaV2 : public DebertaBody {
public:
    explicit DebertaV2(const Config& c)
        : DebertaBody(c, "deberta-v2"), buckets_(c.integer("position_buckets")), shared_(c.boolean("share_att_key")),
          table_norm_(c.string("norm_rel_ebd").find("layer_norm") != std::string::npos),
          kernel_(c.integer("conv_kernel_size")), kernel_activation_(c.string("conv_act")) {
        require(c.integer("conv_groups", 1) == 1, "conv_groups other than 1 are not known");
        require(kernel_ == 0 || kernel_ % 2 == 1, "conv_kernel_size must be odd, or 0 for none");
    }

    void write(ConfigWriter& out) {
        DebertaBody::write(out);
        out.set("position_buckets", buckets_);
        out.set("share_att_key", shared_);
        out.set("norm_rel_ebd", table_norm_ ? "layer_norm" : "none");
        out.set("conv_kernel_size", kernel_);
        out.set("conv_act", kernel_activation_);
    }

private:
    int64_t span() const { return buckets_ > 0 ? buckets_ : s_.farthest(); }

    Value distances(Graph& g) override {
        const Value table = g.parameter("deberta.encoder.rel_embeddings.weight", {2 * span(), s_.hidden_size},
                                        normal(s_.initializer_range));
        return table_norm_ ? layer_norm_layer(g, table, "deberta.encoder.LayerNorm", s_.layer_norm_eps) : table;
    }

    Value attend(Graph& g, Value x, const std::string& name, Value mask) override {
        const LayerOptions layer{.initializer = normal(s_.initializer_range)};
        const auto project = [&](Value in, const char* which) {
            return split_heads(linear_layer(g, in, name + which, s_.hidden_size, layer), s_.num_heads);
        };
        const double root = root_of_width();
        const Value q = project(x, "query_proj"), k = project(x, "key_proj"), v = project(x, "value_proj");
        AttentionOptions o = masked(g, mask);
        o.scale = 1.0 / root;
        if (s_.relative) {
            const Value table = reshape(drop(g, distances(g), s_.dropout), {1, 2 * span(), s_.hidden_size});
            if (to_position_) {
                const Value p = project(table, shared_ ? "key_proj" : "pos_key_proj");
                o.query_distance = matmul(q, p, {.transpose_b = 1}) / root;
            }
            if (to_content_) {
                const Value p = project(table, shared_ ? "query_proj" : "pos_query_proj");
                o.key_distance = matmul(k, p, {.transpose_b = 1}) / root;
            }
            tables(o, x.dim(1), span(), [this](int64_t d) { return bucket(d); });
        }
        return merge_heads(attention(q, k, v, o));
    }

    // Small distances have a bucket each; beyond half of the buckets they are logarithmic. float32, as in the
    // reference.
    int64_t bucket(int64_t d) const {
        const int64_t middle = buckets_ / 2, far = std::abs(d);
        if (buckets_ <= 0 || far <= middle) return d;
        const auto half = static_cast<float>(middle);
        const auto end = static_cast<float>(static_cast<double>(s_.farthest() - 1) / static_cast<double>(middle));
        const float steps =
            std::ceil(std::log(static_cast<float>(far) / half) / std::log(end) * static_cast<float>(middle - 1));
        const int64_t place = static_cast<int64_t>(steps) + middle;
        return d < 0 ? -place : place;
    }

    // Adds a convolution over neighboring tokens to the first block: y = norm(block(x) + activation(convolution(x))).
    Value after_first(Graph& g, Value x, Value y, Value keep) override {
        if (kernel_ == 0) return y;
        const Value weight = g.parameter("deberta.encoder.conv.conv.weight", {s_.hidden_size, s_.hidden_size, kernel_},
                                         normal(s_.initializer_range));
        const Value bias = g.parameter("deberta.encoder.conv.conv.bias", {s_.hidden_size});
        const Value padded = pad(x, 1, {.before = kernel_ / 2, .after = kernel_ / 2});
        Value mixed = bias;
        for (int64_t tap = 0; tap < kernel_; ++tap)
            mixed = mixed + linear(slice(padded, 1, tap, x.dim(1)),
                                   reshape(slice(weight, 2, tap, 1), {s_.hidden_size, s_.hidden_size}));
        if (keep) mixed = mixed * keep;
        mixed = activation(drop(g, mixed, s_.dropout), kernel_activation_);
        const Value z = layer_norm_layer(g, y + mixed, "deberta.encoder.conv.LayerNorm", s_.layer_norm_eps);
        return keep ? z * keep : z;
    }

    int64_t buckets_;
    bool shared_, table_norm_;
    int64_t kernel_;
    std::string kernel_activation_;
};

} // namespace

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "deberta", architecture<Deberta>()},
             {HK_ARCHITECTURE_INTERFACE, "deberta-v2", architecture<DebertaV2>()})
