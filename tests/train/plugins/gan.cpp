// A generative adversarial network for points of a plane (Goodfellow et al. 2014, with the non-saturating loss): a
// generator makes points of noise, a discriminator tells them from points of a circle. Each loss names the parameters
// of its network. Points and noise are simple functions of the step and the row, so that other programs can make them.
#include "block.hpp"
#include "collate.hpp"

#include <cmath>
#include <numbers>

using namespace hekla::plugin;

namespace {

constexpr int64_t kNoise = 3;

struct Settings {
    int64_t vocabulary = 0, width = 0;

    template<class V>
    void keys(V&& v) {
        v("vocab_size", vocabulary); // the host sets it; there are no tokens
        v("hidden_size", width);
    }
};

class Gan {
public:
    explicit Gan(const Config& config) : s_(read_settings<Settings>(config)) {}

    void build(Graph& g) {
        const Value points = tap(network(g, g.input("noise"), "generator", 2), "generator.points");
        g.offer("fake", network(g, points, "discriminator", 1));
        g.offer("real", network(g, g.input("real"), "discriminator", 1));
    }

    bool head(Graph&, std::string_view) { return false; }

    void write(ConfigWriter& out) { write_settings(out, "gan", s_); }

private:
    Value network(Graph& g, Value x, const std::string& name, int64_t out) const {
        const Value hidden = tanh(linear_layer(g, x, name + ".in", s_.width, {.initializer = normal(0.5)}));
        return linear_layer(g, hidden, name + ".out", out, {.initializer = normal(0.5)});
    }

    Settings s_;
};

class Adversarial {
public:
    static constexpr int32_t example_kind = HK_EXAMPLE_WINDOW;

    Adversarial(const Config& config, const hk_tokenizer*) : names_(config.string("names")) {}

    int64_t tokens_per_example(int64_t length) { return length; }

    std::vector<Field> fields(int64_t batch, int64_t) {
        return {{"real", HK_KIND_FLOAT32, {batch, 2}}, {"noise", HK_KIND_FLOAT32, {batch, kNoise}}};
    }

    void build(Graph& g) {
        const Value real = g.ask("real"), fake = g.ask("fake");
        const Value rows = g.number(static_cast<double>(real.dim(0)));
        const Value mistakes = sum(softplus(-real) + softplus(fake), {0, 1});
        const Value fooled = sum(softplus(-fake), {0, 1});
        if (names_ == "none") {
            g.loss("discriminator", mistakes, rows);
            g.loss("generator", fooled, rows);
            return;
        }
        if (names_ == "half") {
            g.loss("discriminator", mistakes, rows, {.parameters = "discriminator.*"});
            g.loss("generator", fooled, rows);
            return;
        }
        g.loss("discriminator", mistakes, rows, {.parameters = "discriminator.*"});
        g.loss("generator", fooled, rows, {.parameters = names_});
    }

    void collate(const hk_batch& raw, hk_field* storage, uint32_t count) {
        const BatchView batch(raw);
        const FieldSet fields(storage, count);
        const FieldRows<float> real = fields.floats("real"), noise = fields.floats("noise");
        for (std::size_t row = 0; row < real.rows(); ++row) {
            const uint64_t n = batch.step() * real.rows() + row;
            const double angle = 2.0 * std::numbers::pi * static_cast<double>(n * 7 % 16) / 16.0;
            real[row][0] = static_cast<float>(0.5 * std::cos(angle) + 0.25);
            real[row][1] = static_cast<float>(0.5 * std::sin(angle));
            for (uint64_t j = 0; j < noise.width(); ++j)
                noise[row][j] = static_cast<float>((n * (5 + 2 * j) + 3 * j) % 17) / 8.0f - 1.0f;
        }
    }

private:
    std::string names_; // of the parameters that the generator's loss trains; "none" and "half": mistakes
};

} // namespace

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "gan", architecture<Gan>()},
             {HK_OBJECTIVE_INTERFACE, "adversarial", objective<Adversarial>()})
