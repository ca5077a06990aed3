// A prompt and its completion as a row of a causal language model, with numbers for each token of the completion. With
// texts, as many rows of plain text follow them, whose loss is added (PPO-ptx, Ouyang et al. 2022).
#pragma once

#include "answer.hpp"
#include "block.hpp"

namespace hekla::plugin {

class RowsOfRollouts {
public:
    // numbers: columns with a number for each token of a completion, which are fields [B, T] of the same name.
    // texts: whether examples have a column "pretrain", a text with one token more than a row.
    RowsOfRollouts(const Config& c, const Tokens& tokens, std::vector<std::string> numbers, bool texts = false)
        : pad_(padding_id(c, tokens)), temperature_(c.real("temperature", 1.0)), numbers_(std::move(numbers)),
          texts_(texts) {
        require(temperature_ > 0.0, "temperature is not above 0");
    }

    std::vector<ColumnNeed> columns() const {
        std::vector<ColumnNeed> all{{"prompt", HK_COLUMN_TOKENS},
                                    {"completion", HK_COLUMN_TOKENS, HK_COLUMN_OPTIONAL | HK_COLUMN_TARGET},
                                    {"completion_mask", HK_COLUMN_NUMBERS, HK_COLUMN_OPTIONAL}};
        for (const std::string& name : numbers_) all.push_back({name, HK_COLUMN_NUMBERS, HK_COLUMN_OPTIONAL});
        if (texts_) all.push_back({"pretrain", HK_COLUMN_TOKENS, HK_COLUMN_OPTIONAL});
        return all;
    }
    // next_ids: the token after each one where it is of the completion and counts, else -100. row_labels[b]: 0 where
    // there is a row, else -100. text_next_ids: the same of texts, whose rows are the second half of [2B, T].
    std::vector<Field> fields(int64_t batch, int64_t length) const {
        const int64_t rows = texts_ ? 2 * batch : batch;
        std::vector<Field> all{{"input_ids", HK_KIND_INT32, {rows, length}},
                               {"attention_mask", HK_KIND_INT32, {rows, length}},
                               {"next_ids", HK_KIND_INT32, {rows, length}},
                               {"row_labels", HK_KIND_INT32, {batch}}};
        for (const std::string& name : numbers_) all.push_back({name, HK_KIND_FLOAT32, {rows, length}});
        if (texts_) all.push_back({"text_next_ids", HK_KIND_INT32, {rows, length}});
        return all;
    }
    void write(const FieldSet& fields, const BatchView& batch) const {
        clear_answers(fields, pad_);
        fields.ints("row_labels").fill_from(0, kIgnored);
        if (texts_) fields.ints("text_next_ids").fill_from(0, kIgnored);
        for (uint32_t row = 0; row < batch.size(); ++row) {
            write_row(fields, row, batch[row]);
            if (texts_) write_text(fields, fields.ints("row_labels").rows() + row, batch[row].get("pretrain").ids());
        }
    }

    // Log probabilities [B, T] of the tokens of completions, at the temperature with which they were drawn, and of
    // those of texts, at temperature 1; 0 elsewhere.
    Value log_probabilities(Graph& g) const {
        const Value logits = g.ask("logits");
        if (!texts_) return -cross_entropy(temperature_ != 1.0 ? logits / temperature_ : logits, g.input("next_ids"));
        // A position has a label of one kind at most, and -100 is below all ids.
        const Value labels = maximum(g.input("next_ids"), g.input("text_next_ids"));
        if (temperature_ == 1.0) return -cross_entropy(logits, labels);
        const Value divisor = of_texts(g) * (1.0 - temperature_) + temperature_;
        return -cross_entropy(logits / reshape(divisor, {divisor.dim(0), divisor.dim(1), 1}), labels);
    }
    // [2B, T]: 1 where a token of a text is predicted, else 0.
    static Value of_texts(Graph& g) {
        return to_float32(not_equal(g.input("text_next_ids"), static_cast<double>(kIgnored)));
    }
    bool texts() const { return texts_; }

private:
    void write_text(const FieldSet& fields, std::size_t row, Ids text) const {
        const std::span<int32_t> ids = fields.ints("input_ids")[row], next = fields.ints("text_next_ids")[row],
                                 mask = fields.ints("attention_mask")[row];
        for (std::size_t t = 0; t + 1 < text.size() && t < ids.size(); ++t) {
            ids[t] = text[t];
            next[t] = text[t + 1];
            mask[t] = 1;
        }
    }
    void write_row(const FieldSet& fields, std::size_t row, const Example& example) const {
        const Ids prompt = example.get("prompt").ids();
        const ColumnView completion = example.find("completion");
        if (!completion || completion.ids().empty() || prompt.empty()) return;
        const std::span<int32_t> next = fields.ints("next_ids")[row];
        const std::size_t cut = write_answer(fields.ints("input_ids")[row], next, fields.ints("attention_mask")[row],
                                             prompt, completion.ids(), std::nullopt);
        fields.ints("row_labels")[row][0] = 0;
        // Token k of the completion is predicted at this position plus k.
        const std::size_t first = prompt.size() - 1, count = completion.ids().size();
        const auto each = [&](std::string_view name, auto&& f) {
            const ColumnView column = example.find(name);
            if (!column) return;
            if (column.numbers().size() != count)
                throw invalid("the column '" + std::string(name) + "' has " + std::to_string(column.numbers().size()) +
                              " numbers, expected one for each of the " + std::to_string(count) +
                              " tokens of the completion");
            for (std::size_t k = 0; k < count; ++k)
                if (first + k >= cut && first + k - cut < next.size()) f(first + k - cut, column.numbers()[k]);
        };
        for (const std::string& name : numbers_) {
            const std::span<float> to = fields.floats(name)[row];
            each(name, [&](std::size_t t, float number) { to[t] = number; });
        }
        each("completion_mask", [&](std::size_t t, float counts) {
            if (counts == 0.0F) next[t] = kIgnored;
        });
    }

    int32_t pad_;
    double temperature_;
    std::vector<std::string> numbers_;
    bool texts_;
};

// The ratios of the probabilities of tokens under the trained model and under the one that drew them, clipped as in PPO
// (Schulman et al. 2017).
struct ClippedGain {
    Value log_probabilities, real, tokens; // [B, T]; [B, T], 1 where a token counts; their number
    Value lost;                            // [B, T]: the larger of the losses with and without clipping, times real
};
inline ClippedGain clipped_gain(Graph& g, const RowsOfRollouts& rows, double low, double high) {
    const Value logps = rows.log_probabilities(g), advantages = g.input("advantages");
    const Value real = to_float32(not_equal(g.input("next_ids"), static_cast<double>(kIgnored)));
    const Value tokens = sum_all(real), difference = (logps - g.input("old_logps")) * real;
    const Value ratio = exp(difference);
    const Value lost = -(ratio * advantages), clipped = -(clamp(ratio, 1.0 - low, 1.0 + high) * advantages);
    g.metric("policy/approxkl_avg", sum_all(difference * difference) * 0.5, tokens);
    g.metric("policy/clipfrac_avg", sum_all(to_float32(less(lost, clipped)) * real), tokens);
    g.metric("val/ratio", sum_all(ratio * real), tokens);
    return {logps, real, tokens, maximum(lost, clipped) * real};
}

} // namespace hekla::plugin
