// Word vectors from text: skip-gram with negative sampling (Mikolov et al. 2013), and GloVe (Pennington et al. 2014).
#include "block.hpp"
#include "counts.hpp"

using namespace hekla::plugin;

namespace {

constexpr uint64_t kWindowStream = 1, kNegativeStream = 2, kEntryStream = 3;

class SkipGram {
public:
    static constexpr int32_t example_kind = HK_EXAMPLE_WINDOW;

    SkipGram(const Config& c, const hk_tokenizer* tokenizer)
        : tokens_(tokenizer), unknown_(tokens_.role("unk")), window_(c.integer("window", 5)),
          negatives_(c.integer("negatives", 5)), power_(c.real("noise_power", 0.75)),
          subsample_(c.real("subsample", 1e-3)) {}

    int64_t tokens_per_example(int64_t length) { return length; }
    // words[b, p], its neighbor neighbors[b, p, 0], and randomly drawn words after that; real[b, p]: 1 if there is
    // such a pair. A word has window + 1 neighbors on average; rows that draw more drop some.
    std::vector<Field> fields(int64_t batch, int64_t length) {
        const int64_t pairs = length * (window_ + 1);
        return {{"words", HK_KIND_INT32, {batch, pairs}},
                {"neighbors", HK_KIND_INT32, {batch, pairs, 1 + negatives_}},
                {"real", HK_KIND_INT32, {batch, pairs}}};
    }
    void build(Graph& g) {
        const Value words = g.input("words"), real = g.input("real");
        const int64_t batch = words.dim(0), pairs = words.dim(1);
        const Value word = embedding(g.ask("words.weight"), words),
                    others = embedding(g.ask("neighbors.weight"), g.input("neighbors"));
        const Value scores = sum(reshape(word, {batch, pairs, 1, word.dim(2)}) * others, {3}); // [B, P, 1 + K]
        std::vector<double> signs(static_cast<std::size_t>(1 + negatives_), 1.0);
        signs[0] = -1.0;
        const Value losses = softplus(to_float32(scores) * g.constant(HK_KIND_FLOAT32, {1 + negatives_}, signs));
        g.loss("skip_gram", sum_all(sum(losses, {2}) * to_float(real)), sum_all(real));
        if (g.training()) return;
        // How often the neighbor has the highest score of all candidates.
        g.metric("neighbor_accuracy", sum_all(equal(argmax(scores), 0.0) * real), sum_all(real));
    }
    void collate(const hk_batch& raw, hk_field* storage, uint32_t count) {
        const FieldSet fields(storage, count);
        const BatchView batch(raw);
        const auto counts =
            counts_.get(raw.corpus, [&](const CorpusText& text) { return WordCounts(text, unknown_, power_); });
        for (uint32_t row = 0; row < batch.size(); ++row) {
            const Example example = batch[row];
            Random random = example.random(batch.seed(), kWindowStream);
            const std::vector<int32_t> text = kept(example.get("text").ids(), *counts, random);
            auto all = pairs_of(text, random);
            const std::span<int32_t> words = fields.ints("words")[row], real = fields.ints("real")[row],
                                     neighbors = fields.ints("neighbors")[row];
            if (all.size() > words.size()) random.shuffle(all);
            all.resize(std::min(all.size(), words.size()));
            Random noise = example.random(batch.seed(), kNegativeStream);
            const auto width = static_cast<std::size_t>(1 + negatives_);
            for (std::size_t p = 0; p < all.size(); ++p) {
                words[p] = all[p].first;
                real[p] = 1;
                neighbors[p * width] = all[p].second;
                for (std::size_t k = 1; k < width; ++k)
                    neighbors[p * width + k] = another(all[p].second, *counts, noise);
            }
        }
    }

private:
    // The neighbor itself must not be a negative sample; a text of one word has no other.
    static int32_t another(int32_t neighbor, const WordCounts& counts, Random& noise) {
        constexpr int kTries = 20;
        int32_t id = counts.draw(noise);
        for (int i = 0; i < kTries && id == neighbor; ++i) id = counts.draw(noise);
        return id;
    }
    // Keeps a word of share s with the probability sqrt(t / s) + t / s, as in word2vec's code.
    std::vector<int32_t> kept(Ids ids, const WordCounts& counts, Random& random) const {
        std::vector<int32_t> text;
        for (const int32_t id : ids) {
            if (id == unknown_) continue;
            const double ratio = subsample_ > 0.0 ? subsample_ / counts.share(id) : 1.0;
            if (random.unit() < std::sqrt(ratio) + ratio) text.push_back(id);
        }
        return text;
    }
    std::vector<std::pair<int32_t, int32_t>> pairs_of(const std::vector<int32_t>& text, Random& random) const {
        std::vector<std::pair<int32_t, int32_t>> all;
        for (std::size_t i = 0; i < text.size(); ++i) {
            const std::size_t reach = 1 + random.below(static_cast<uint64_t>(window_));
            for (std::size_t j = i > reach ? i - reach : 0; j < std::min(text.size(), i + reach + 1); ++j)
                if (j != i) all.emplace_back(text[i], text[j]);
        }
        return all;
    }

    Tokens tokens_;
    std::optional<int32_t> unknown_;
    int64_t window_, negatives_;
    double power_, subsample_;
    PerCorpus<WordCounts> counts_;
};

class Glove {
public:
    static constexpr int32_t example_kind = HK_EXAMPLE_WINDOW;

    Glove(const Config& c, const hk_tokenizer* tokenizer)
        : tokens_(tokenizer), unknown_(tokens_.role("unk")), window_(static_cast<std::size_t>(c.integer("window", 10))),
          entries_(c.integer("entries", 256)), most_(c.real("most", 100.0)), power_(c.real("power", 0.75)) {
        require(most_ > 0.0, "most is not above 0");
    }

    int64_t tokens_per_example(int64_t length) { return length; }
    // Pairs that occur near each other, drawn uniformly from all of the corpus, whatever the row's own text. log_count:
    // log of their count; weight: 0 in rows without an example.
    std::vector<Field> fields(int64_t batch, int64_t) {
        return {{"words", HK_KIND_INT32, {batch, entries_}},
                {"neighbors", HK_KIND_INT32, {batch, entries_}},
                {"log_count", HK_KIND_FLOAT32, {batch, entries_}},
                {"weight", HK_KIND_FLOAT32, {batch, entries_}}};
    }
    void build(Graph& g) {
        const Value words = g.input("words"), neighbors = g.input("neighbors"), weight = g.input("weight");
        const Dims dims = words.shape();
        const auto bias = [&](const char* name, Value ids) { return reshape(embedding(g.ask(name), ids), dims); };
        const Value product =
            sum(embedding(g.ask("words.weight"), words) * embedding(g.ask("neighbors.weight"), neighbors), {2});
        const Value difference =
            product + bias("words.bias", words) + bias("neighbors.bias", neighbors) - g.input("log_count");
        g.loss("glove", sum_all(weight * difference * difference), sum_all(greater(weight, 0.0)));
    }
    void collate(const hk_batch& raw, hk_field* storage, uint32_t count) {
        const FieldSet fields(storage, count);
        const BatchView batch(raw);
        const auto near =
            near_.get(raw.corpus, [&](const CorpusText& text) { return CoOccurrences(text, unknown_, window_); });
        for (uint32_t row = 0; row < batch.size(); ++row) {
            Random random = batch[row].random(batch.seed(), kEntryStream);
            for (std::size_t i = 0; i < static_cast<std::size_t>(entries_); ++i) {
                const CoOccurrences::Entry& entry = near->entries()[random.below(near->entries().size())];
                fields.ints("words")[row][i] = entry.word;
                fields.ints("neighbors")[row][i] = entry.neighbor;
                fields.floats("log_count")[row][i] = static_cast<float>(std::log(entry.count));
                fields.floats("weight")[row][i] =
                    static_cast<float>(std::pow(std::min(1.0, entry.count / most_), power_));
            }
        }
    }

private:
    Tokens tokens_;
    std::optional<int32_t> unknown_;
    std::size_t window_;
    int64_t entries_;
    double most_, power_;
    PerCorpus<CoOccurrences> near_;
};

} // namespace

HEKLA_PLUGIN({HK_OBJECTIVE_INTERFACE, "skip_gram", objective<SkipGram>()},
             {HK_OBJECTIVE_INTERFACE, "glove", objective<Glove>()})
