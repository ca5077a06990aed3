// Choice between continuations, alone or together with a language model loss (Radford et al. 2018).
#include "block.hpp"
#include "rows.hpp"

using namespace hekla::plugin;

namespace {

class MultipleChoice {
public:
    static constexpr int32_t example_kind = HK_EXAMPLE_ROW;

    MultipleChoice(const Config& c, const hk_tokenizer* tokenizer) : MultipleChoice(c, tokenizer, "multiple_choice") {}
    std::vector<ColumnNeed> columns() {
        return {{"text", HK_COLUMN_TOKENS, 0},
                {"choices", HK_COLUMN_CHOICES, 0},
                {"choice", HK_COLUMN_NUMBERS, HK_COLUMN_TARGET}};
    }
    int64_t example_length(const hk_example& raw) {
        const Example example(raw);
        const ColumnView choices = example.get("choices");
        std::size_t longest = 0;
        for (std::size_t i = 0; i < choices.parts(); ++i) longest = std::max(longest, choices.part(i).size());
        return static_cast<int64_t>(example.get("text").ids().size() + longest + layout_.special(true));
    }
    // mc_labels: the correct choice, from 0. The texts of one row follow each other: [B, C, T].
    std::vector<Field> fields(int64_t batch, int64_t length) {
        const Dims dims{batch, choices_, length};
        return {{"input_ids", HK_KIND_INT32, dims},
                {"attention_mask", HK_KIND_INT32, dims},
                {"mc_token_ids", HK_KIND_INT32, {batch, choices_}},
                {"mc_labels", HK_KIND_INT32, {batch}}};
    }
    void build(Graph& g) {
        const Value logits = g.ask("choice_logits"), labels = g.input("mc_labels");
        g.loss("choice", token_loss(logits, labels));
        accuracy_metric(g, "accuracy", logits, labels);
    }
    void collate(const hk_batch& raw, hk_field* storage, uint32_t count) {
        const FieldSet fields(storage, count);
        const BatchView batch(raw);
        fields.ints("input_ids").fill_from(0, layout_.pad());
        fields.ints("mc_labels").fill_from(0, kIgnored);
        const auto choices = static_cast<std::size_t>(choices_);
        const std::size_t length = fields.ints("input_ids").width() / choices;
        for (uint32_t row = 0; row < fields.ints("input_ids").rows(); ++row) {
            const std::span<int32_t> ids = fields.ints("input_ids")[row], mask = fields.ints("attention_mask")[row],
                                     places = fields.ints("mc_token_ids")[row];
            for (std::size_t c = 0; c < choices; ++c) mask[c * length] = 1; // avoid a softmax over nothing
            if (row >= batch.size()) continue;
            const Example example = batch[row];
            const ColumnView texts = example.get("choices");
            if (texts.parts() != choices)
                throw invalid("a row has " + std::to_string(texts.parts()) + " choices, " + std::to_string(choices_) +
                              " were expected (num_choices)");
            for (std::size_t c = 0; c < choices; ++c) {
                const std::size_t used =
                    layout_.write_pair(ids.subspan(c * length, length), example.get("text").ids(), texts.part(c));
                std::ranges::fill(mask.subspan(c * length, used), 1);
                places[c] = static_cast<int32_t>(used > 0 ? used - 1 : 0);
            }
            if (const ColumnView choice = example.find("choice")) {
                const float which = choice.numbers()[0];
                if (!(which >= 0.0f && which < static_cast<float>(choices_)))
                    throw invalid("the choice " + std::to_string(which) + " is not one of " + std::to_string(choices_) +
                                  ", counted from 0");
                fields.ints("mc_labels")[row][0] = static_cast<int32_t>(which);
            }
        }
    }

protected:
    MultipleChoice(const Config& c, const hk_tokenizer* tokenizer, const char* name)
        : tokens_(tokenizer), layout_(c, tokens_, name, true), choices_(c.integer("num_choices", 2)) {}
    Tokens tokens_;
    RowLayout layout_;
    int64_t choices_;
};

// The sum of both losses, with a weight on the language model's.
class DoubleHeads : public MultipleChoice {
public:
    DoubleHeads(const Config& c, const hk_tokenizer* tokenizer)
        : MultipleChoice(c, tokenizer, "double_heads"), weight_(c.real("lm_weight", 1.0)) {}
    std::vector<Field> fields(int64_t batch, int64_t length) {
        std::vector<Field> all = MultipleChoice::fields(batch, length);
        all.push_back({"labels", HK_KIND_INT32, {batch, choices_, length}});
        return all;
    }
    // labels: the tokens themselves (position i is scored against i + 1).
    void build(Graph& g) {
        const Value labels = g.input("labels");
        const int64_t batch = labels.dim(0), choices = labels.dim(1), length = labels.dim(2);
        const Value next =
            concat({slice(labels, 2, 1, length - 1), g.fill({batch, choices, 1}, -100, HK_KIND_INT32)}, 2);
        g.loss("clm", token_loss(g.ask("logits"), next), weight_);
        MultipleChoice::build(g);
    }
    // The language model learns only from the correct continuation.
    void collate(const hk_batch& raw, hk_field* storage, uint32_t count) {
        MultipleChoice::collate(raw, storage, count);
        const FieldSet fields(storage, count);
        const FieldRows<int32_t> labels = fields.ints("labels");
        labels.fill_from(0, kIgnored);
        const std::size_t length = labels.width() / static_cast<std::size_t>(choices_);
        for (uint32_t row = 0; row < raw.example_count; ++row) {
            const int32_t right = fields.ints("mc_labels")[row][0];
            if (right < 0) continue;
            const std::size_t from = static_cast<std::size_t>(right) * length;
            for (std::size_t i = from; i < from + length; ++i)
                if (fields.ints("attention_mask")[row][i] != 0) labels[row][i] = fields.ints("input_ids")[row][i];
        }
    }

private:
    double weight_;
};

} // namespace

HEKLA_PLUGIN({HK_OBJECTIVE_INTERFACE, "double_heads", objective<DoubleHeads>()},
             {HK_OBJECTIVE_INTERFACE, "multiple_choice", objective<MultipleChoice>()})
