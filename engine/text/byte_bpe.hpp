// Byte-level byte-pair encoding as in GPT-2 (Radford et al. 2019): any UTF-8 text can be encoded, and decodes to its
// bytes.
#pragma once

#include "text/added_tokens.hpp"
#include "text/merges.hpp"
#include "text/pipeline/cut_rule.hpp"
#include "text/splitter.hpp"
#include "text/tokenizer.hpp"
#include "text/unicode/byte_alphabet.hpp"

#include <array>
#include <optional>

namespace hekla::text {

// Whether numbers are words of their own, before anything else is split: none are, each digit, or digits in a row.
enum class DigitWords : uint8_t { none, single, runs };

struct ByteBpeOptions {
    bool add_prefix_space = false;                       // inserts a space before a text that does not begin with one
    std::optional<Splitter> splitter = Splitter::gpt2(); // none: a text is one word (ByteLevel's use_regex = false)
    DigitWords digits = DigitWords::none;                // as in SmolLM: single; not with add_prefix_space
    bool ignore_merges = false; // a word that is a token becomes that token, regardless of its merges
    bool fuse_unknown = false;  // neighboring bytes without a token give one unknown token instead of one each
    bool nfc = false;           // the text is composed (NFC) first, as in Qwen
};

// Returns the options with which ByteBpe finds the ids of a pipeline; nothing if it does something else.
std::optional<ByteBpeOptions> byte_bpe_options(const Pipeline& pipeline);
std::string byte_bpe_identity(const ByteBpeOptions& options, const Vocabulary& vocabulary,
                              std::span<const Merge> merges);

class ByteBpe final : public Tokenizer {
public:
    // `vocabulary` has tokens spelled in the byte alphabet (text/unicode/byte_alphabet.hpp) and added tokens; `merges`
    // uses its ids. A byte without a token becomes the unknown token, or, if that role is empty, an error of encode().
    static Result<std::unique_ptr<Tokenizer>> create(Vocabulary vocabulary, const Merges& merges,
                                                     ByteBpeOptions options);

    std::string_view kind() const override { return "byte_bpe"; }
    bool begins_word(int32_t id) const override; // a word begins with its space
    std::string to_json() const override;
    Status save(const std::filesystem::path& folder) const override;

    Result<std::unique_ptr<Tokenizer>> remade(Vocabulary vocabulary) const override {
        return create(std::move(vocabulary), merges_, options_);
    }
    const Merges& merges() const { return merges_; }
    const ByteBpeOptions& options() const { return options_; }

protected:
    Status encode_valid(std::string_view text, const EncodeOptions& options, std::vector<int32_t>& ids,
                        std::vector<ByteRange>* ranges) const override;
    bool can_cut(std::string_view text, std::size_t at) const override;

private:
    class Run;
    ByteBpe(Vocabulary vocabulary, const Merges& merges, ByteBpeOptions options);

    Merges merges_;
    ByteBpeOptions options_;
    AddedTokens added_;
    CutRule cuts_; // for expressions other than GPT-2's
    ByteAlphabet alphabet_;
    std::array<int32_t, 256> byte_ids_{}; // -1 if the vocabulary has no token for the byte
};

} // namespace hekla::text
