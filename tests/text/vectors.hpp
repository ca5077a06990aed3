// Reads published test vectors for several tokenizers.
#pragma once

#include "support.hpp"

namespace hekla::test {

using namespace text;

// llama.cpp's files: texts with one line of ids each, which decode to the text if they cover all of it (`whole`).
// Returns the number of cases.
inline int check_llama_cpp(const Tokenizer& tokenizer, const std::filesystem::path& stem, bool whole = false) {
    const std::string input = must(read_file(stem.string() + ".inp"));
    const std::string output = must(read_file(stem.string() + ".out"));
    const std::string between = "\n__ggml_vocab_test__\n";
    int cases = 0;
    std::size_t line = 0;
    for (std::size_t at = 0; at <= input.size(); ++cases) {
        const std::size_t end = std::min(input.find(between, at), input.size());
        const std::string text = input.substr(at, end - at);
        at = end + between.size();
        const std::size_t line_end = std::min(output.find('\n', line), output.size());
        std::vector<int32_t> expected;
        const std::string numbers = output.substr(line, line_end - line);
        for (std::size_t i = 0; i < numbers.size();) {
            std::size_t used = 0;
            if (numbers.find_first_not_of(" \r", i) == std::string::npos) break;
            expected.push_back(std::stoi(numbers.substr(i), &used));
            i += used;
        }
        line = line_end + 1;
        CHECK_MESSAGE(must(tokenizer.encode(text)) == expected, text);
        if (whole) CHECK(tokenizer.decode(expected) == text);
    }
    return cases;
}

} // namespace hekla::test
