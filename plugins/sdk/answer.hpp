// A prompt and its answer as a row of a causal language model, of which the answer is scored.
#pragma once

#include "collate.hpp"

namespace hekla::plugin {

// Writes a row: the prompt, the answer and the end token if there is one, which is scored too. `next` gets the token
// after each one where it is scored; `mask` gets 1 for each token. A row that is too long is truncated at its
// beginning, since the scored part is at its end; returns the number of tokens left out. Without a prompt the answer's
// first token is not scored, and without an answer nothing is.
inline std::size_t write_answer(std::span<int32_t> ids, std::span<int32_t> next, std::span<int32_t> mask, Ids prompt,
                                const std::optional<Ids>& answer, const std::optional<int32_t>& end) {
    std::vector<int32_t> all(prompt.begin(), prompt.end());
    if (answer) {
        all.insert(all.end(), answer->begin(), answer->end());
        if (end) all.push_back(*end);
    }
    const std::size_t inputs = answer && !all.empty() ? all.size() - 1 : all.size();
    const std::size_t from = inputs > ids.size() ? inputs - ids.size() : 0;
    const std::size_t first = prompt.empty() ? 0 : prompt.size() - 1; // predicts the answer's first token
    for (std::size_t t = from; t < inputs; ++t) {
        ids[t - from] = all[t];
        mask[t - from] = 1;
        if (answer && t >= first) next[t - from] = all[t + 1];
    }
    return from;
}

} // namespace hekla::plugin
