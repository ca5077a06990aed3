// Two answers to a prompt as rows of a causal language model: the preferred answers of all rows, then the others.
#pragma once

#include "answer.hpp"
#include "block.hpp"

namespace hekla::plugin {

class RowsOfAnswers {
public:
    RowsOfAnswers(const Config& c, const Tokens& tokens)
        : tokens_(tokens), pad_(padding_id(c, tokens)), end_(tokens.role("eos")) {}

    static std::vector<ColumnNeed> columns() {
        return {{"prompt", HK_COLUMN_TOKENS, HK_COLUMN_OPTIONAL},
                {"chosen", HK_COLUMN_TOKENS, HK_COLUMN_TARGET},
                {"rejected", HK_COLUMN_TOKENS, HK_COLUMN_TARGET}};
    }
    // pair_labels[b]: 0 where the row counts, else -100.
    static std::vector<Field> fields(int64_t batch, int64_t length) {
        return {{"input_ids", HK_KIND_INT32, {2 * batch, length}},
                {"attention_mask", HK_KIND_INT32, {2 * batch, length}},
                {"next_ids", HK_KIND_INT32, {2 * batch, length}},
                {"pair_labels", HK_KIND_INT32, {batch}}};
    }
    int64_t length(const Example& example) const {
        std::size_t longest = 0;
        for (const char* name : {"chosen", "rejected"})
            if (const ColumnView answer = example.find(name)) longest = std::max(longest, answer.ids().size());
        return static_cast<int64_t>((example.find("chosen") ? begun(example).size() : 0) + longest);
    }
    void write(const FieldSet& fields, const BatchView& batch) const {
        clear_answers(fields, pad_);
        const FieldRows<int32_t> pairs = fields.ints("pair_labels");
        pairs.fill_from(0, kIgnored);
        for (uint32_t row = 0; row < batch.size(); ++row) {
            const Example example = batch[row];
            const ColumnView chosen = example.find("chosen"), rejected = example.find("rejected");
            if (!chosen || !rejected) continue;
            // Equal answers have no preference, and an answer without tokens no likelihood.
            if (chosen.ids().empty() || rejected.ids().empty() || std::ranges::equal(chosen.ids(), rejected.ids()))
                continue;
            // Without a prompt the answers begin as a text does.
            const std::vector<int32_t> prompt = begun(example);
            write_row(fields, row, prompt, chosen);
            write_row(fields, pairs.rows() + row, prompt, rejected);
            pairs[row][0] = 0;
        }
    }

    static Ids prompt_of(const Example& example) {
        const ColumnView prompt = example.find("prompt");
        return prompt ? prompt.ids() : Ids{};
    }

private:
    std::vector<int32_t> begun(const Example& example) const {
        const ColumnView prompt = example.find("prompt");
        if (prompt) return tokens_.begun(prompt);
        const ColumnView chosen = example.find("chosen");
        std::vector<int32_t> begin = tokens_.frame("begin");
        const bool has_it =
            chosen.ids().size() >= begin.size() && std::ranges::equal(chosen.ids().first(begin.size()), begin);
        return chosen.is_messages() || has_it ? std::vector<int32_t>() : begin;
    }
    void write_row(const FieldSet& fields, std::size_t row, Ids prompt, const ColumnView& answer) const {
        write_answer(fields.ints("input_ids")[row], fields.ints("next_ids")[row], fields.ints("attention_mask")[row],
                     prompt, answer.ids(), answer.is_messages() ? std::nullopt : end_);
    }

    Tokens tokens_;
    int32_t pad_;
    std::optional<int32_t> end_;
};

// Log probabilities of answers, summed over their tokens: [B], or [B, S] where a row holds up to S pairs of answers.
struct AnswerScores {
    Value chosen, rejected;
    Value chosen_tokens, rejected_tokens; // their number, at least 1
    Value nll, counted;                   // of the chosen answers, all together
};

// Returns the sums of each row of x [2B, T] float32: [2B], or with segments [2B, S].
inline Value answer_sums(Graph& g, Value x) {
    if (!g.has_field("segment_ids")) return sum(x, {1});
    const int64_t rows = x.dim(0), most = g.input("pair_labels").dim(1);
    const Value zeros = g.fill({rows, most + 1}, 0.0, HK_KIND_FLOAT32); // the first is padding's
    return slice(scatter_add(zeros, g.input("segment_ids"), x, {.batch_dimensions = 1}), 1, 1, most);
}

inline AnswerScores answer_scores(Graph& g, Value logits) {
    const Value labels = g.input("next_ids");
    const int64_t rows = labels.dim(0) / 2;
    const Value lost = cross_entropy(logits, labels), real = to_float32(not_equal(labels, -100.0));
    const Value sums = -answer_sums(g, lost), tokens = clamp(answer_sums(g, real), 1.0, 1e9);
    return {slice(sums, 0, 0, rows),      slice(sums, 0, rows, rows),       slice(tokens, 0, 0, rows),
            slice(tokens, 0, rows, rows), sum_all(slice(lost, 0, 0, rows)), sum_all(slice(real, 0, 0, rows))};
}

} // namespace hekla::plugin
