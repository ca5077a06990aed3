// Word vectors: two tables over one vocabulary, words and words as neighbours of others (Mikolov et al. 2013), with a
// bias each (Pennington et al. 2014). A text is the row of its words' vectors.
#include "block.hpp"

using namespace hekla::plugin;

namespace {

struct Settings {
    int64_t vocabulary = 0, width = 0;
    std::string vectors;

    template<class V>
    void keys(V&& v) {
        v("vocab_size", vocabulary);
        v("vector_size", width);
        v("vectors", vectors);
    }
};

class WordVectors {
public:
    explicit WordVectors(const Config& c) : s_(read_settings<Settings>(c)) {
        require(s_.vectors == "words" || s_.vectors == "sum", "vectors must be 'words' or 'sum'");
    }

    void build(Graph& g) {
        const double range = 0.5 / static_cast<double>(s_.width);
        const auto table = [&](const char* name, const Dims& dims) {
            const Value value = g.parameter(name, dims, uniform(-range, range));
            g.offer(name, value);
            return value;
        };
        const Value words = table("words.weight", {s_.vocabulary, s_.width}),
                    neighbours = table("neighbours.weight", {s_.vocabulary, s_.width});
        table("words.bias", {s_.vocabulary, 1});
        table("neighbours.bias", {s_.vocabulary, 1});
        const Value vectors = s_.vectors == "sum" ? words + neighbours : words;
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
