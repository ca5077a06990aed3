// Token ids of a context and its continuation, for scoring: tokenized together, as lm-evaluation-harness does, since a
// tokenizer may join the end of one with the beginning of the other.
#pragma once

#include "infer/passes/likelihood.hpp"
#include "infer/texts/prompt_style.hpp"

#include <span>
#include <string>
#include <vector>

namespace hekla::harness {

struct TextPair {
    std::string context, continuation;
};

struct EncodedPairs {
    std::vector<infer::LikelihoodRow> rows;
    // Pairs whose joined text begins with other tokens than the context alone, so that a token may belong to both.
    uint64_t joined = 0;
};

// Reads texts for a model as its prompts are read. Ownership: registry and model outlive it. Thread: one at a time.
class ContinuationEncoder {
public:
    static Result<ContinuationEncoder> create(const plugin::Registry& registry, const infer::Model& model);

    // Returns the rows that score each continuation after its context. White space at the end of a context belongs to
    // the continuation. Both are tokenized together and cut after as many tokens as the context has alone; an
    // encoder-decoder reads the context, and its continuation is tokenized alone. An empty context becomes the token
    // that begins a text, or that ends one, or a line end. Errors: a continuation without tokens, with its number; an
    // empty context where the tokenizer has none of these tokens.
    Result<EncodedPairs> pairs(std::span<const TextPair> pairs) const;

    // Returns rows that together score every token of a text once: windows of `longest` tokens, each after the token
    // before it, as many tokens of the last one as are left, with the context before them. Not for an encoder-decoder.
    Result<std::vector<infer::LikelihoodRow>> rolling(const std::string& text, int64_t longest) const;

    const infer::PromptStyle& style() const { return style_; }
    bool encodes() const { return encodes_; }

private:
    ContinuationEncoder(const plugin::Registry& registry, const infer::Model& model)
        : registry_(&registry), model_(&model) {}
    Result<std::vector<int32_t>> beginning() const;

    const plugin::Registry* registry_;
    const infer::Model* model_;
    infer::PromptStyle style_;
    bool encodes_ = false;
};

} // namespace hekla::harness
