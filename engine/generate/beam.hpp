// Beam search over scores that the caller computes. Stores ids, scores and parents. The caller's caches are not moved:
// a step returns the row that each beam continues, and the caller permutes the table through which caches are read.
#pragma once

#include "generate/sampler.hpp"

#include <span>

namespace hekla::generate {

// Row b * beams + k is beam k of prompt b. Same results as transformers' beam search: log probabilities, processors on
// them, 2 * beams candidates per prompt (more with several end tokens), finished beams scored by score / length ^
// penalty.
class BeamSearch {
public:
    // `prompts`: at least one token each; their lengths may differ. `sources` (encoder-decoders) may be empty.
    BeamSearch(const Options& options, const std::vector<std::vector<int32_t>>& prompts,
               std::vector<std::vector<int32_t>> sources = {});

    std::size_t rows() const { return running_.size(); }
    bool done() const { return done_; }

    // logits [rows, vocabulary] of every beam's next token (before the first step all beams of a prompt are equal).
    // Afterwards parents()[row] is the row that beam `row` continues, tokens()[row] its last token.
    Status step(std::span<const float> logits);
    const std::vector<int32_t>& parents() const { return parents_; }
    const std::vector<int32_t>& tokens() const { return tokens_; }

    struct Sequence {
        std::vector<int32_t> ids; // including the prompt
        double score = 0.0;       // log probability of the generated tokens / their number ^ length_penalty
    };
    // Returns the best `options.sequences` of each prompt, best first; prompt after prompt. Before done(): the finished
    // ones, then the best running ones.
    std::vector<Sequence> best() const;

private:
    struct Beam {
        std::vector<int32_t> ids;
        double score = 0.0;
        bool finished = false; // only of those that are kept as results
    };
    struct Candidate {
        std::size_t beam = 0; // of the prompt
        int32_t token = 0;
        double score = 0.0;
        bool ends = false;
    };

    std::vector<Candidate> candidates(std::size_t prompt, std::span<const float> logits, std::vector<float>& scores);
    void keep_finished(std::size_t prompt, std::span<const Candidate> candidates);
    void go_on(std::size_t prompt, std::span<const Candidate> candidates);

    Options options_;
    Sampler sampler_;
    std::size_t beams_;
    std::vector<std::vector<int32_t>> sources_;
    std::vector<std::size_t> prompt_lengths_;
    std::vector<Beam> running_;
    std::vector<std::vector<Beam>> results_; // of each prompt, best first
    std::vector<char> may_improve_;          // of each prompt
    std::vector<int32_t> parents_, tokens_;
    int64_t made_ = 0;
    bool done_ = false;
};

} // namespace hekla::generate
