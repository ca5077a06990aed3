// Reconstruction of a corrupted text: BART's denoising (Lewis et al. 2020), whose target is the whole text, and T5's
// span corruption (Raffel et al. 2020), whose target is the content of the spans.
#include "block.hpp"
#include "noise.hpp"
#include "targets.hpp"

using namespace hekla::plugin;

namespace {

constexpr uint64_t kNoiseStream = 1;

void restoring_loss(Graph& g, const char* name) {
    const Value logits = g.ask("logits"), labels = g.input("labels");
    g.loss(name, token_loss(logits, labels));
    accuracy_metric(g, "token_accuracy", logits, labels);
}

class Denoising {
public:
    static constexpr int32_t example_kind = HK_EXAMPLE_WINDOW;

    Denoising(const Config& c, const hk_tokenizer* tokenizer)
        : tokens_(tokenizer), rows_(c, tokens_, "denoising"), mask_(tokens_.required("mask", "denoising")) {
        noise_.permute_sentences = c.real("permute_sentences", noise_.permute_sentences);
        noise_.infilling = c.real("infilling", noise_.infilling);
        noise_.span_mean = c.real("span_mean", noise_.span_mean);
        noise_.masking = c.real("masking", noise_.masking);
        noise_.deletion = c.real("deletion", noise_.deletion);
        noise_.rotation = c.real("rotation", noise_.rotation);
        require(noise_.span_mean > 0.0, "span_mean is not above 0");
    }
    // The text and its end token fill a row of the decoder; the encoder's row may be longer, because of masks for empty
    // spans.
    int64_t tokens_per_example(int64_t length) {
        const int64_t special = std::max<int64_t>(static_cast<int64_t>(rows_.special()), 1);
        require(length > special, "rows of " + std::to_string(length) + " tokens have no room between special tokens");
        return length - special;
    }
    std::vector<Field> fields(int64_t batch, int64_t length) { return rows_.fields(batch, length, length); }
    void build(Graph& g) { restoring_loss(g, "denoising"); }
    void collate(const hk_batch& raw, hk_field* storage, uint32_t count) {
        const FieldSet fields(storage, count);
        const BatchView batch(raw);
        for (uint32_t row = 0; row < batch.size(); ++row) {
            const Example example = batch[row];
            const Ids ids = example.get("text").ids();
            std::vector<std::size_t> ends;
            for (std::size_t i = 0; i < ids.size(); ++i)
                if (tokens_.sentence_end(ids[i])) ends.push_back(i + 1);
            Random random = example.random(batch.seed(), kNoiseStream);
            const std::vector<int32_t> source = noisy({ids.begin(), ids.end()}, ends, noise_, mask_, random);
            rows_.write(fields, row, source, ids);
        }
        rows_.write_empty(fields, batch.size());
    }

private:
    Tokens tokens_;
    SourceTargetRows rows_;
    int32_t mask_;
    NoiseOptions noise_;
};

class SpanCorruption {
public:
    static constexpr int32_t example_kind = HK_EXAMPLE_WINDOW;

    SpanCorruption(const Config& c, const hk_tokenizer* tokenizer)
        : tokens_(tokenizer), rows_(c, tokens_, "span_corruption"), density_(c.real("noise_density", 0.15)),
          mean_(c.real("span_mean", 3.0)) {
        require(density_ > 0.0 && density_ < 1.0, "noise_density is not above 0 and below 1");
        require(mean_ >= 1.0, "span_mean is less than 1");
        for (int i = 0; tokens_; ++i) {
            const auto sentinel = tokens_.role("sentinel." + std::to_string(i));
            if (!sentinel) break;
            sentinels_.push_back(*sentinel);
        }
        if (tokens_ && sentinels_.empty())
            throw invalid(
                "span_corruption needs sentinels (<extra_id_0>, ...), and the tokenizer has none: use T5's, or "
                "let [tokenizer] train one");
    }
    // Returns how many raw tokens fill a row of the encoder after corruption.
    int64_t tokens_per_example(int64_t length) {
        const auto special = static_cast<int64_t>(rows_.special());
        const auto source = [&](int64_t n) {
            const SpanSizes sizes(static_cast<std::size_t>(n), density_, mean_);
            return n - static_cast<int64_t>(sizes.noise) + static_cast<int64_t>(sizes.spans) + special;
        };
        int64_t n = 2;
        require(source(n) <= length, "rows of " + std::to_string(length) + " tokens are too short for spans");
        while (source(n + 1) <= length) ++n;
        return n;
    }
    std::vector<Field> fields(int64_t batch, int64_t length) {
        const SpanSizes sizes(static_cast<std::size_t>(tokens_per_example(length)), density_, mean_);
        return rows_.fields(batch, length, static_cast<int64_t>(sizes.noise + sizes.spans + 1));
    }
    void build(Graph& g) { restoring_loss(g, "span_corruption"); }
    void collate(const hk_batch& raw, hk_field* storage, uint32_t count) {
        const FieldSet fields(storage, count);
        const BatchView batch(raw);
        for (uint32_t row = 0; row < batch.size(); ++row) {
            const Example example = batch[row];
            Random random = example.random(batch.seed(), kNoiseStream);
            const Corrupted text = corrupted_spans(example.get("text").ids(), density_, mean_, sentinels_, random);
            rows_.write(fields, row, text.source, text.target);
        }
        rows_.write_empty(fields, batch.size());
    }

private:
    Tokens tokens_;
    SourceTargetRows rows_;
    double density_, mean_;
    std::vector<int32_t> sentinels_;
};

} // namespace

HEKLA_PLUGIN({HK_OBJECTIVE_INTERFACE, "denoising", objective<Denoising>()},
             {HK_OBJECTIVE_INTERFACE, "span_corruption", objective<SpanCorruption>()})
