// An embedding with batch normalization, whose output comes nearer to that of a teacher: the embedding averaged over
// steps.
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

class Normed {
public:
    explicit Normed(const Config& config) : s_(read_settings<Settings>(config)) {}

    void build(Graph& g) {
        const Value words = g.parameter("words.weight", {s_.vocabulary, s_.width}, normal(0.5));
        const Value teacher = g.buffer("teacher", HK_KIND_FLOAT, {s_.vocabulary, s_.width},
                                       std::vector<double>(static_cast<std::size_t>(s_.vocabulary * s_.width), 0.0));
        buffer_update(teacher, 0.9 * teacher + 0.1 * words);
        const Value ids = g.input("input_ids");
        const Value x = batch_norm_layer(g, embedding(words, ids), "norm");
        g.offer("hidden", x + 0.1 * embedding(teacher, ids));
        g.offer("embedding.weight", words);
    }

    bool head(Graph& g, std::string_view id) {
        if (id != "lm") return false;
        g.offer("logits", linear(g.ask("hidden"), g.ask("embedding.weight")));
        return true;
    }

    void write(ConfigWriter& out) { write_settings(out, "normed", s_); }

private:
    Settings s_;
};

} // namespace

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "normed", architecture<Normed>()})
