// Word vectors: two tables over one vocabulary, for words and for their context words (Mikolov et al. 2013), each with
// a bias (Pennington et al. 2014). A text is the sequence of its words' vectors.
#include "block.hpp"

using namespace hekla::plugin;

namespace {

struct Settings {
    int64_t vocab_size = 0, hidden_size = 0;
    std::string vectors;

    template<class V>
    void keys(V&& v) {
        v("vocab_size", vocab_size);
        v("vector_size", hidden_size);
        v("vectors", vectors);
    }
};

class WordVectors {
public:
    explicit WordVectors(const Config& c) : s_(read_settings<Settings>(c)) {
        require(s_.vectors == "words" || s_.vectors == "sum", "vectors must be 'words' or 'sum'");
    }

    void build(Graph& g) {
        const double range = 0.5 / static_cast<double>(s_.hidden_size);
        const auto table = [&](const char* name, const Dims& dims) {
            const Value value = g.parameter(name, dims, uniform(-range, range));
            g.offer(name, value);
            return value;
        };
        const Value words = table("words.weight", {s_.vocab_size, s_.hidden_size}),
                    context_vectors = table("neighbors.weight", {s_.vocab_size, s_.hidden_size});
        table("words.bias", {s_.vocab_size, 1});
        table("neighbors.bias", {s_.vocab_size, 1});
        const Value vectors = s_.vectors == "sum" ? words + context_vectors : words;
        g.offer("embedding.weight", vectors);
        if (g.has_field("input_ids")) g.offer("hidden", embedding(vectors, g.input("input_ids")));
    }

    bool head(Graph&, std::string_view) { return false; }
    void write(ConfigWriter& out) { write_settings(out, "word-vectors", s_); }

private:
    Settings s_;
};

} // namespace

HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "word_vectors", architecture<WordVectors>()})
