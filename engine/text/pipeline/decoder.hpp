// The decoder of a tokenizer.json: how tokens become a text again. Works token by token, so that a text can be shown
// while it is generated.
#pragma once

#include "text/pipeline/section.hpp"
#include "text/unicode/byte_alphabet.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::text {

struct DecoderStep {
    enum class Kind : uint8_t {
        byte_level,
        metaspace,
        wordpiece,
        bpe,
        replace,
        byte_fallback,
        fuse,
        strip,
        ctc,
        spaces, // between tokens: what a file without a decoder means
    };
    Kind kind = Kind::fuse;
    std::string mark;         // metaspace: replacement; wordpiece: prefix; bpe: suffix; strip: content; ctc: padding
    std::string content;      // replace: instead of a match; ctc: the token between words
    Pattern pattern;          // replace
    bool drops_first = false; // metaspace: the first token's marks are dropped
    bool cleanup = false;     // wordpiece, ctc
    std::size_t start = 0, stop = 0; // strip: how many at each end
};

// Immutable. Thread: any.
class Decoder {
public:
    // Reads the section; null joins tokens with spaces. Errors: a type or option that is not supported, by its place.
    static Result<Decoder> read(const Section& section);
    const std::vector<DecoderStep>& steps() const { return steps_; }
    bool has(DecoderStep::Kind kind) const;
    // Returns the bytes that a token adds to a text in which it is not the first: possibly part of a character.
    std::string bytes_of(std::string_view token) const;
    // Returns whether a text never begins with the spaces of its first token.
    bool drops_leading_spaces() const;
    const ByteAlphabet& alphabet() const { return *alphabet_; }

private:
    std::vector<DecoderStep> steps_;
    std::shared_ptr<const ByteAlphabet> alphabet_ = std::make_shared<const ByteAlphabet>();
};

// Decodes one text. All that is returned is valid UTF-8.
class DecoderStream {
public:
    explicit DecoderStream(std::shared_ptr<const Decoder> decoder);
    DecoderStream(const DecoderStream& other);
    DecoderStream(DecoderStream&&) noexcept;
    DecoderStream& operator=(DecoderStream&&) noexcept;
    ~DecoderStream();

    std::string push(std::string_view token);
    std::string finish();

private:
    class Stage;
    void through(std::size_t stage, std::string_view part, std::string& out);

    std::shared_ptr<const Decoder> decoder_;
    std::vector<std::unique_ptr<Stage>> stages_;
};

} // namespace hekla::text
