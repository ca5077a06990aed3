// Texts that a model generates for the examples of a split, scored against the references: for sequence-to-sequence,
// prefix and denoising objectives.
#pragma once

#include "generate/decoder.hpp"
#include "generate/options.hpp"
#include "program/program.hpp"
#include "text/tokenizer.hpp"
#include "train/run_data.hpp"

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace hekla::train {

struct WrittenText {
    uint64_t example = 0; // of the split
    std::string source, reference, output;
};

struct WrittenTexts {
    std::vector<WrittenText> texts; // in the data's order
    // "bleu" and "chrf", 0 to 100; "exact_match", 0 to 1, white space at the ends aside.
    std::vector<std::pair<std::string, double>> scores;
    std::string summary; // for people: the scores, how they were computed, some of the texts
};

// Thread: one at a time.
class TextEvaluator {
public:
    // How an objective's batch defines the text to generate.
    enum class Kind { nothing, from_source, from_prompt };
    static Result<Kind> kind_of(const plugin::Composition& composition);

    // arguments: of generation, as transformers' generate() names them; without max_new_tokens as many as a row has.
    // lengths: of rows, ascending. Everything given must outlive this. Errors: an objective that teaches no writing, a
    // body that cannot write token by token, an argument that is none.
    static Result<std::unique_ptr<TextEvaluator>> create(program::Runtime& runtime, program::ParameterStore& store,
                                                         const plugin::Composition& composition,
                                                         const text::Tokenizer& tokenizer,
                                                         const nlohmann::json& arguments, int64_t batch,
                                                         std::vector<int64_t> lengths, uint64_t seed);

    // All examples, or, with a limit above 0, that many, evenly spaced and the same ones every time.
    Result<WrittenTexts> run(const Split& split, uint64_t limit);

private:
    TextEvaluator() = default;
    Result<std::vector<std::string>> write(std::span<const batch::DrawnExample> examples,
                                           std::span<const data::Field> fields);

    const plugin::Composition* composition_ = nullptr;
    const text::Tokenizer* tokenizer_ = nullptr;
    std::unique_ptr<generate::Decoder> decoder_;
    generate::Options options_;
    Kind kind_ = Kind::nothing;
    bool both_sides_ = false;                   // see generate::Request
    std::string source_column_, target_column_; // of rows
    std::vector<int64_t> lengths_;
    int64_t batch_ = 1;
    uint64_t seed_ = 0;
    std::pmr::memory_resource* memory_ = nullptr; // of batches
};

} // namespace hekla::train
