// The normalizer of a tokenizer.json: what is done to a text before it is split.
#pragma once

#include "text/pipeline/aligned_text.hpp"
#include "text/pipeline/section.hpp"
#include "text/unicode/charsmap.hpp"
#include "text/unicode/normal_forms.hpp"

#include <memory>
#include <string>
#include <vector>

namespace hekla::text {

struct NormalizerStep {
    enum class Kind : uint8_t {
        form,
        lower_case,
        strip_accents,
        strip,
        replace,
        prepend,
        precompiled,
        nmt,
        bert,
        byte_level,
    };
    Kind kind = Kind::form;
    NormalForm form = NormalForm::nfc;
    bool left = false, right = false;                                         // strip
    bool clean_text = false, chinese = false, accents = false, lower = false; // bert; accents: whether it strips them
    std::string content;                                                      // replace, prepend
    Pattern pattern;                                                          // replace
    std::string charsmap_bytes;                                               // precompiled
    std::shared_ptr<const Charsmap> charsmap;
};

class Normalizer {
public:
    // Reads the section, which may be null. Errors: a type or option that is not supported, by its place.
    static Result<Normalizer> read(const Section& section);

    const std::vector<NormalizerStep>& steps() const { return steps_; }
    bool is_none() const { return steps_.empty(); }
    // Error: an expression that needs too many steps.
    Status apply(AlignedText& text) const;

private:
    std::vector<NormalizerStep> steps_;
};

} // namespace hekla::text
