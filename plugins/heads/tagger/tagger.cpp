// A class for every token. Decoding reads one per word, at the position that word_places gives: the word's first token.
#include "body_states.hpp"
#include "decoding.hpp"

using namespace hekla::plugin;

namespace {

class Tagger {
public:
    explicit Tagger(const Config& c)
        : port_(c.string("port", "hidden")), dropout_(c.real("dropout", 0.1)), labels_(c.integer("num_labels", 2)) {}

    void build(Graph& g) {
        g.offer("logits", linear_layer(g, drop(g, body_states(g, port_), dropout_), "head.tagger", labels_));
    }

    static std::vector<const char*> ports() { return {"logits"}; }
    // word_numbers[b, t]: the word whose first token is at t, -1 for none. A word that was truncated has no class.
    std::string decode(const DecodeInput& in, std::size_t row) const {
        const hk_output& output = in.output("logits");
        const auto classes = static_cast<std::size_t>(output.dims[output.rank - 1]);
        const std::span<const float> logits = in.row(output, row);
        const std::span<const int32_t> words = in.ints("word_numbers")[row];
        std::vector<int64_t> labels;
        for (std::size_t t = 0; t < words.size(); ++t) {
            if (words[t] < 0) continue;
            labels.resize(std::max(labels.size(), static_cast<std::size_t>(words[t]) + 1), -1);
            labels[static_cast<std::size_t>(words[t])] =
                static_cast<int64_t>(best_of(logits.subspan(t * classes, classes)));
        }
        return "{\"labels\": " + json_numbers(labels) + "}";
    }

private:
    std::string port_;
    double dropout_;
    int64_t labels_;
};

} // namespace

HEKLA_PLUGIN({HK_HEAD_INTERFACE, "tagger", decoding_head<Tagger>()})
