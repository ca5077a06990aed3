// A prompt and its answer as a row of a causal language model, of which the answer is scored.
#pragma once

#include "collate.hpp"

namespace hekla::plugin {

// Fills the fields that write_answer() writes to: padding, and nothing is scored. Each row has one token that is seen,
// so that one without an example has a defined result.
inline void clear_answers(const FieldSet& fields, int32_t pad) {
    fields.ints("input_ids").fill_from(0, pad);
    fields.ints("next_ids").fill_from(0, kIgnored);
    const FieldRows<int32_t> mask = fields.ints("attention_mask");
    for (std::size_t row = 0; row < mask.rows(); ++row) mask[row][0] = 1;
}

// Returns the number of tokens of a prompt, as the row has it, and of the example's completion.
inline int64_t length_of_completion(Ids prompt, const Example& example) {
    const ColumnView completion = example.find("completion");
    return static_cast<int64_t>(prompt.size() + (completion ? completion.ids().size() : 0));
}

// Writes a row: the prompt, the answer and the end token if there is one, which is scored too. `next` gets the token
// after each one where it is scored; `mask` gets 1 for each token. A row that is too long is truncated at
// the prompt's beginning, and where the answer alone is too long also at its end; returns the number of tokens left out
// at the beginning. Without a prompt the answer's
// first token is not scored, and without an answer nothing is.
inline std::size_t write_answer(std::span<int32_t> ids, std::span<int32_t> next, std::span<int32_t> mask, Ids prompt,
                                const std::optional<Ids>& answer, const std::optional<int32_t>& end) {
    std::vector<int32_t> all(prompt.begin(), prompt.end());
    if (answer) {
        all.insert(all.end(), answer->begin(), answer->end());
        if (end) all.push_back(*end);
    }
    const std::size_t inputs = answer && !all.empty() ? all.size() - 1 : all.size();
    const std::size_t first = prompt.empty() ? 0 : prompt.size() - 1; // predicts the answer's first token
    std::size_t from = inputs > ids.size() ? inputs - ids.size() : 0;
    if (answer) from = std::min(from, first);
    for (std::size_t t = from; t < std::min(inputs, from + ids.size()); ++t) {
        ids[t - from] = all[t];
        mask[t - from] = 1;
        if (answer && t >= first) next[t - from] = all[t + 1];
    }
    return from;
}

} // namespace hekla::plugin
