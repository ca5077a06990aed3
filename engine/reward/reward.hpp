// A reward: a function from texts to numbers. It sees texts, not token ids, so it does not depend on the tokenizer of
// the model that wrote them.
#pragma once

#include "base/status.hpp"

#include <map>
#include <span>
#include <string>
#include <vector>

namespace hekla::reward {

// A completion to score.
struct TextToScore {
    std::string prompt, completion;                               // the completion without special tokens
    std::map<std::string, std::string, std::less<>> columns = {}; // of the row of data, by name
};

// Thread: one at a time.
class Reward {
public:
    virtual ~Reward() = default;
    Reward(const Reward&) = delete;
    Reward& operator=(const Reward&) = delete;

    // Returns the columns of the data that it reads besides the prompt.
    virtual std::vector<std::string> columns() const { return {}; }
    // Sets a score for each text, NaN where it cannot be scored. The score of a text does not depend on the others.
    virtual Status score(std::span<const TextToScore> texts, std::span<double> scores) = 0;

protected:
    Reward() = default;
};

} // namespace hekla::reward
