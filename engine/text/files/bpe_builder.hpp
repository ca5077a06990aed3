// The vocabulary and the merges of a BPE, collected while a file is read: GPT-2's own two, or tokenizer.json.
#pragma once

#include "base/status.hpp"
#include "text/merges.hpp"
#include "text/unicode/byte_alphabet.hpp"
#include "text/vocabulary.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace hekla::text {

class BpeBuilder {
public:
    // `name` is what messages call the file.
    Status add_token(const std::string& token, int32_t id, const std::string& name);
    Status add_merge(std::string_view left, std::string_view right, const std::string& place);
    Vocabulary vocabulary;
    Merges merges;
    std::string prefix; // of tokens that do not begin a word; the result of a merge does not repeat it
    // Returns the bytes that a token adds to a text; empty: those of the byte alphabet.
    std::function<std::string(const std::string& token)> bytes_of;

private:
    ByteAlphabet alphabet_;
};

} // namespace hekla::text
