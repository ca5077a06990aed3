// Texts that end a row's text, found while it is generated, across the borders of tokens and inside them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hekla::generate {

// A filter for the text of one row. Holds back what may be the beginning of a stop text.
class StopTexts {
public:
    // None of them may be empty.
    explicit StopTexts(std::vector<std::string> texts) : texts_(std::move(texts)) {}

    // Adds a piece, which may be empty. Returns the text that is certain: up to the stop text that is complete first,
    // of several the longest; "" after found().
    std::string push(std::string_view piece);
    // Returns the text that push() holds back, when no more comes.
    std::string finish();
    // Whether a stop text is complete.
    bool found() const { return found_; }

private:
    std::vector<std::string> texts_;
    std::string held_;
    bool found_ = false;
};

} // namespace hekla::generate
