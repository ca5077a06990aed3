// The modules of a folder of sentence-transformers (modules.json), which turn the hidden states of a text's tokens into
// one vector: pooling, dense layers and normalization, after Reimers and Gurevych 2019. Also the prompts that are put
// before texts.
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace hekla::infer {

// How a vector is made of those of all tokens. Several are put one after the other, in this order.
enum class SentencePooling : uint8_t { first, max, mean, mean_by_root, weighted_mean, last };

struct SentenceModules {
    struct Dense { // activation(weight * x + bias)
        int64_t inputs = 0, outputs = 0;
        std::vector<double> weight; // [outputs, inputs]
        std::vector<double> bias;   // [outputs]; empty: none
        std::string activation;     // "Identity", "Tanh", ...
    };
    struct Normalize {}; // to the length 1

    std::filesystem::path model; // the folder of the transformer
    std::vector<SentencePooling> pooling;
    bool pools_prompt = true; // false: the tokens of a prompt are left out
    std::vector<std::variant<Dense, Normalize>> after;
    std::map<std::string, std::string, std::less<>> prompts; // by name, such as "query"
    std::string default_prompt;                              // its name; "": none
    bool lower_case = false;                                 // texts are lowercased first
    int64_t longest = 0; // tokens of a text, special tokens included; the rest is cut off. 0: not limited

    // Returns the text that is put before every text: that of a name, or of the default one for "". Error: no such
    // name, with those that there are.
    Result<std::string> prompt(std::string_view name) const;
    // Returns the vector of a text. tokens: [T, width] row-major, T at least 1. prompt: how many of them are of a
    // prompt, less than T. Error: a dense layer of another width.
    Result<std::vector<double>> vector_of(std::span<const double> tokens, std::size_t width, std::size_t prompt) const;
};

// Reads the modules of a folder; nothing if it has no modules.json. pools: false: only the transformer is read, for
// callers that pool by themselves. Errors name the file, the module and what can be read: a module, an activation or a
// kind of pooling that is not supported, a file that is missing.
Result<std::optional<SentenceModules>> read_sentence_modules(const std::filesystem::path& folder, bool pools = true);

} // namespace hekla::infer
