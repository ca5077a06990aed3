// Texts that a model generates for the examples of a split, scored against the references, for sequence-to-sequence,
// prefix and denoising objectives, and for conversations, whose last answer is generated.
#pragma once

#include "batch/rows_by_length.hpp"
#include "generate/options.hpp"
#include "generate/settings.hpp"

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace hekla::batch {
struct DrawnExample;
}
namespace hekla::data {
struct Field;
}
namespace hekla::exchange {
class Communicator;
}
namespace hekla::generate {
class Decoder;
struct Request;
} // namespace hekla::generate
namespace hekla::plugin {
class Composition;
}
namespace hekla::program {
class ParameterStore;
class Runtime;
} // namespace hekla::program
namespace hekla::text {
class Tokenizer;
}

namespace hekla::train {

class Split;

struct WrittenText {
    uint64_t example = 0; // of the split
    std::string source, reference, output;
};

struct WrittenTexts {
    std::vector<WrittenText> texts; // in the data's order
    // "bleu" and "chrf", 0 to 100; "exact_match", 0 to 1, ignoring leading and trailing white space.
    std::vector<std::pair<std::string, double>> scores;
    std::string summary; // for people: the scores, how they were computed, and some of the texts
};

// Generates and scores texts. Thread: one at a time.
class TextEvaluator {
public:
    // How an objective's batch defines the text to generate.
    enum class Kind { nothing, from_source, from_prompt, from_conversation };
    static Result<Kind> kind_of(const plugin::Composition& composition);

    // arguments: of generation, with the names of transformers' generate();
    // max_new_tokens defaults to the length of a row. lengths: of rows, ascending. All other arguments must outlive
    // this. Errors: an objective that does not train generation, a body that cannot generate token by token, an unknown
    // argument.
    static Result<std::unique_ptr<TextEvaluator>>
    create(program::Runtime& runtime, program::ParameterStore& store, const plugin::Composition& composition,
           const text::Tokenizer& tokenizer, const generate::FolderSettings& settings, const nlohmann::json& arguments,
           int64_t batch, std::vector<int64_t> lengths, uint64_t seed);

    // Lets a token end the texts, besides those of the model and the arguments.
    void end_at(int32_t token) { options_.eos.push_back(token); }

    void set_step(uint64_t step) { step_ = step; } // of the training, for the batches of the following runs

    // Runs all examples, or, with a limit above 0, that many, evenly spaced and the same ones every time. ranks: all of
    // them call this and divide the batches; may be null. Only rank 0 gets the result; it does not depend on them.
    Result<WrittenTexts> run(const Split& split, uint64_t limit, exchange::Communicator* ranks = nullptr);

private:
    TextEvaluator() = default;
    // Sets the length of texts that beams write where the rows do not fit into the model, unless the arguments have
    // one.
    Status fit_beams(const generate::Request& request);
    Status run_batch(const Split& split, const std::vector<batch::RowLength>& rows, std::vector<WrittenText>& texts);
    Result<std::vector<std::string>> write(std::span<const batch::DrawnExample> examples,
                                           std::span<const data::Field> fields);

    const plugin::Composition* composition_ = nullptr;
    const text::Tokenizer* tokenizer_ = nullptr;
    std::unique_ptr<generate::Decoder> decoder_;
    generate::Options options_;
    bool any_length_ = false; // the arguments do not limit the length of a text
    Kind kind_ = Kind::nothing;
    bool both_sides_ = false;                   // see generate::Request
    std::string source_column_, target_column_; // of rows
    std::vector<int64_t> lengths_;
    int64_t batch_ = 1;
    uint64_t seed_ = 0, step_ = 0;
    std::pmr::memory_resource* memory_ = nullptr; // of batches
};

} // namespace hekla::train
