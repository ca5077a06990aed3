// A body that is scaled by the step scalar "gate": with 0 every logit is 0, and the loss is the logarithm of the
// vocabulary size.
#include "block.hpp"

using namespace hekla::plugin;

namespace {

struct Settings {
    int64_t vocabulary = 0, width = 0;

    template<class V>
    void keys(V&& v) {
        v("vocab_size", vocabulary);
        v("hidden_size", width);
    }
};

class Gated {
public:
    explicit Gated(const Config& config) : s_(read_settings<Settings>(config)) {}

    void build(Graph& g) {
        const Value x = embedding(words(g), g.input("input_ids"));
        g.offer("hidden", x * g.step_scalar("gate", 1.0) + x * g.step_scalar("layer.0.mix", 0.0));
        g.offer("embedding.weight", words(g));
    }

    bool head(Graph& g, std::string_view id) {
        if (id != "lm") return false;
        g.offer("logits", linear(g.ask("hidden"), words(g)));
        return true;
    }

    void write(ConfigWriter& out) { write_settings(out, "gated", s_); }

private:
    Value words(Graph& g) { return g.parameter("words.weight", {s_.vocabulary, s_.width}, normal(0.5)); }

    Settings s_;
};

} // namespace

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "gated", architecture<Gated>()})
