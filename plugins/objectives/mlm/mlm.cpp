// Masked language modeling (Devlin et al. 2019): alone; with a classification of a pair of texts: whether the second
// follows the first (BERT) or whether the two are in order (ALBERT, Lan et al. 2020); or with spans and their
// boundaries (SpanBERT, Joshi et al. 2020).
#include "mlm.hpp"
#include "distill.hpp"

using namespace hekla::plugin;

namespace {

constexpr uint64_t kPairStream = 2;

// The span boundary objective: predicts each token of a span from the tokens on its two sides and its position in it.
class SpanMlm : public Mlm {
public:
    SpanMlm(const Config& c, const hk_tokenizer* tokenizer)
        : Mlm(c, tokenizer, "span_mlm", with_spans(c)), weight_(c.real("boundary_weight", 1.0)) {}

    // span_left, span_right: the positions just outside the span of masked token p; span_offset: its position in the
    // span.
    std::vector<Field> fields(int64_t batch, int64_t length) {
        std::vector<Field> all = Mlm::fields(batch, length);
        const Dims dims = all.back().dims;
        for (const char* name : {"span_left", "span_right", "span_offset"}) all.push_back({name, HK_KIND_INT32, dims});
        return all;
    }
    void build(Graph& g) {
        Mlm::build(g);
        if (weight_ <= 0.0) return;
        g.loss("boundary", token_loss(g.ask("boundary_logits"), g.input("labels")), weight_);
    }
    void collate(const hk_batch& raw, hk_field* storage, uint32_t count) {
        rows_of_text(
            raw, storage, count,
            [&](const FieldSet& fields, uint32_t row, const RowLayout::Placed& placed, const Example& example) {
                const std::vector<Masked> chosen = mask(fields, row, placed, example, raw.seed);
                const std::span<int32_t> left = fields.ints("span_left")[row], right = fields.ints("span_right")[row],
                                         offset = fields.ints("span_offset")[row];
                const std::size_t last = fields.ints("input_ids").width() - 1;
                for (std::size_t i = 0; i < chosen.size() && i < left.size(); ++i) {
                    left[i] = static_cast<int32_t>(chosen[i].span_begin > 0 ? chosen[i].span_begin - 1 : 0);
                    right[i] = static_cast<int32_t>(std::min(chosen[i].span_end, last));
                    offset[i] = static_cast<int32_t>(chosen[i].place - chosen[i].span_begin);
                }
            });
    }

private:
    static MaskingOptions with_spans(const Config& c) {
        MaskingOptions options(c);
        options.spans = true;
        options.span_success = c.real("span_success", 0.2);
        options.longest_span = static_cast<uint64_t>(c.integer("longest_span", 10));
        require(options.span_success > 0.0 && options.span_success <= 1.0, "span_success is not above 0 and up to 1");
        return options;
    }
    double weight_;
};

// The sum of the mask loss and the pair loss. Class 0: follows (or is in order), 1: does not.
class MlmPair : public Mlm {
public:
    static constexpr int32_t example_kind = HK_EXAMPLE_DOCUMENT;

    int64_t tokens_per_example(int64_t length) {
        const int64_t special = static_cast<int64_t>(layout_.special(true));
        require(length > special + 1, "rows of " + std::to_string(length) + " tokens have no room for two texts");
        return length - special;
    }
    std::vector<Field> fields(int64_t batch, int64_t length) {
        std::vector<Field> all = Mlm::fields(batch, length);
        all.push_back({field_, HK_KIND_INT32, {batch}});
        return all;
    }
    void build(Graph& g) {
        Mlm::build(g);
        const Value logits = g.ask("pair_logits"), labels = g.input(field_);
        g.loss(name_, token_loss(logits, labels));
        accuracy_metric(g, "pair_accuracy", logits, labels);
    }
    void collate(const hk_batch& raw, hk_field* storage, uint32_t count) {
        const FieldSet fields(storage, count);
        const BatchView batch(raw);
        for (uint32_t row = 0; row < batch.size(); ++row) {
            const Example example = batch[row];
            Random random = example.random(batch.seed(), kPairStream);
            const Pair pair = make_pair(batch, example, random);
            const RowLayout::Placed placed = layout_.write(fields, row, pair.a, pair.b, true);
            mask(fields, row, placed, example, batch.seed());
            fields.ints(field_)[row][0] = pair.label;
        }
        finish(fields, batch.size());
        fields.ints(field_).fill_from(batch.size(), kIgnored);
    }

protected:
    struct Pair {
        Ids a, b;
        int32_t label = 0;
    };
    MlmPair(const Config& c, const hk_tokenizer* tokenizer, const char* objective, const char* field, const char* name)
        : Mlm(c, tokenizer, objective, MaskingOptions(c)), field_(field), name_(name) {}
    virtual ~MlmPair() = default;
    virtual Pair make_pair(const BatchView& batch, const Example& example, Random& random) const = 0;

    // Cuts the example into two: between sentences if there are two or more, otherwise in the middle.
    static std::pair<Ids, Ids> halves(const Example& example, Random& random) {
        const ColumnView text = example.get("text");
        const Ids ids = text.ids();
        const std::size_t parts = text.parts();
        const std::size_t at = parts > 1 ? text.part_begin(1 + random.below(parts - 1)) : ids.size() / 2;
        return {ids.first(at), ids.subspan(at)};
    }

private:
    const char *field_, *name_;
};

// In half of the pairs the second text is not what follows, but from another document and of similar length.
class MlmNsp : public MlmPair {
public:
    MlmNsp(const Config& c, const hk_tokenizer* tokenizer)
        : MlmPair(c, tokenizer, "mlm_nsp", "next_sentence_label", "nsp") {}

private:
    Pair make_pair(const BatchView& batch, const Example& example, Random& random) const override {
        const auto [a, b] = halves(example, random);
        const hk_corpus* corpus = batch.corpus();
        if (random.unit() < 0.5 || corpus == nullptr) return {a, b, 0};
        for (int tries = 0; tries < 10; ++tries) {
            hk_example other{};
            other.struct_size = sizeof other;
            const int32_t code = corpus->get(corpus->context, random.below(corpus->example_count), &other, nullptr);
            if (code != HK_OK) throw Error(code, "an example for a random next sentence could not be read");
            if (other.document == example.raw().document) continue;
            const ColumnView text = Example(other).get("text");
            // Starts at a sentence and has the length of the replaced text.
            const std::size_t from = text.parts() > 1 ? text.part_begin(random.below(text.parts())) : 0;
            Ids ids = text.ids().subspan(from);
            return {a, ids.first(std::min(ids.size(), std::max<std::size_t>(b.size(), 1))), 1};
        }
        return {a, b, 0}; // the corpus is one document
    }
};

// Half of the pairs are swapped.
class MlmSop : public MlmPair {
public:
    MlmSop(const Config& c, const hk_tokenizer* tokenizer)
        : MlmPair(c, tokenizer, "mlm_sop", "sentence_order_label", "sop") {}

private:
    Pair make_pair(const BatchView&, const Example& example, Random& random) const override {
        const auto [a, b] = halves(example, random);
        if (random.unit() < 0.5) return {a, b, 0};
        return {b, a, 1};
    }
};

} // namespace

HEKLA_PLUGIN({HK_OBJECTIVE_INTERFACE, "mlm", objective<Mlm>()},
             {HK_OBJECTIVE_INTERFACE, "span_mlm", objective<SpanMlm>()},
             {HK_OBJECTIVE_INTERFACE, "mlm_nsp", objective<MlmNsp>()},
             {HK_OBJECTIVE_INTERFACE, "mlm_sop", objective<MlmSop>()},
             {HK_OBJECTIVE_INTERFACE, "distill", objective<Distill>()})
