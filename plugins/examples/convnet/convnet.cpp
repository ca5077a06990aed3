// convnet: classes of small images, by two convolutions with batch normalization. The pixels are the tokens of a row.
#include "block.hpp"

using namespace hekla::plugin;

namespace {

struct Settings {
    int64_t vocabulary = 0, width = 0, side = 0, labels = 0;

    template<class V>
    void keys(V&& v) {
        v("vocab_size", vocabulary);
        v("hidden_size", width);
        v("side", side);
        v("num_labels", labels);
    }
};

class Convnet {
public:
    explicit Convnet(const Config& config) : s_(read_settings<Settings>(config)) {}

    void build(Graph& g) {
        const Value ids = g.input("input_ids");
        Value x = embedding(g.parameter("pixels.weight", {s_.vocabulary, s_.width}, normal(0.5)), ids);
        if (g.has_field("attention_mask")) // 0 where padding follows the pixels
            x = x * reshape(to_float(g.input("attention_mask")), {ids.dim(0), ids.dim(1), 1});
        const int64_t pixels = s_.side * s_.side, missing = pixels - ids.dim(1);
        if (missing > 0) x = pad(x, 1, {.after = missing});
        x = reshape(slice(x, 1, 0, pixels), {ids.dim(0), s_.side, s_.side, s_.width});
        x = max_pool2d(block(g, x, "conv1"), {2});
        x = block(g, x, "conv2");
        g.offer("hidden", reshape(x, {ids.dim(0), -1, s_.width}));
    }

    bool head(Graph& g, std::string_view id) {
        if (id != "classes") return false;
        g.offer("logits", linear_layer(g, mean(g.ask("hidden"), {1}), "out", s_.labels));
        return true;
    }

    void write(ConfigWriter& out) { write_settings(out, "convnet", s_); }

private:
    // A convolution of 3 x 3 pixels, batch normalization, ReLU: x [B, H, W, C].
    Value block(Graph& g, Value x, const std::string& name) const {
        const Value weight = g.parameter(name + ".weight", {s_.width, s_.width, 3, 3}, normal(0.2));
        return relu(batch_norm(g, conv2d(x, weight, {.padding = {1}}), name + ".norm"));
    }

    // Training normalizes with the batch's statistics and moves the running ones, which evaluation reads.
    // batch_norm_layer() of block.hpp does the same.
    Value batch_norm(Graph& g, Value x, const std::string& name) const {
        const auto filled = [&](double value) {
            return std::vector<double>(static_cast<std::size_t>(s_.width), value);
        };
        const Value running_mean = g.buffer(name + ".running_mean", HK_KIND_FLOAT, {s_.width}, filled(0.0));
        const Value running_var = g.buffer(name + ".running_var", HK_KIND_FLOAT, {s_.width}, filled(1.0));
        Value center = running_mean, variance = running_var;
        if (g.training()) {
            const double count = static_cast<double>(x.dim(0) * x.dim(1) * x.dim(2));
            center = mean(x, {0, 1, 2});
            const Value apart = x - center;
            variance = mean(apart * apart, {0, 1, 2});
            buffer_update(running_mean, running_mean * 0.9 + center * 0.1);
            buffer_update(running_var, running_var * 0.9 + variance * (0.1 * count / (count - 1.0)));
        }
        const Value normalized = (x - center) * rsqrt(variance + 1e-5);
        const Value gain = g.parameter(name + ".weight", {s_.width}, ones());
        return normalized * gain + g.parameter(name + ".bias", {s_.width}, zeros());
    }

    Settings s_;
};

} // namespace

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "convnet", architecture<Convnet>()})
