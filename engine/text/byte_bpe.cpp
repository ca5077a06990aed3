#include "text/byte_bpe.hpp"

#include "base/utf8.hpp"
#include "text/pipeline/pipeline.hpp"
#include "text/unicode/characters.hpp"
#include "text/word_cache.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::text {

std::optional<ByteBpeOptions> byte_bpe_options(const Pipeline& pipeline) {
    using Kind = PreTokenizerStep::Kind;
    const WordModelOptions& model = pipeline.model();
    const std::vector<NormalizerStep>& normal = pipeline.normalizer().steps();
    const std::vector<PreTokenizerStep>& steps = pipeline.pre_tokenizer().steps();
    ByteBpeOptions options;
    options.nfc =
        normal.size() == 1 && normal[0].kind == NormalizerStep::Kind::form && normal[0].form == NormalForm::nfc;
    if (model.type != WordModelOptions::Type::bpe || !model.prefix.empty() || !model.suffix.empty() ||
        model.byte_fallback || (!normal.empty() && !options.nfc) || steps.empty() || steps.size() > 2 ||
        steps.back().kind != Kind::byte_level)
        return std::nullopt;
    options.ignore_merges = model.ignore_merges;
    options.fuse_unknown = model.fuse_unknown;
    options.add_prefix_space = steps.back().add_prefix_space;
    if (!steps.back().use_regex) options.splitter.reset();
    if (steps.size() == 1) return options;
    const PreTokenizerStep& first = steps.front();
    if (options.add_prefix_space || first.kind != Kind::split) return std::nullopt;
    if (first.type == "Digits") {
        options.digits = first.individual_digits ? DigitWords::single : DigitWords::runs;
        return options;
    }
    if (first.type != "Split" || first.invert || first.splits[0].second != SplitBehavior::isolated ||
        first.splits[0].first.regex() == nullptr || options.splitter)
        return std::nullopt;
    Result<Splitter> splitter = Splitter::compile(first.splits[0].first.regex()->expression());
    if (!splitter.ok()) return std::nullopt;
    options.splitter = splitter.take();
    return options;
}

std::string byte_bpe_identity(const ByteBpeOptions& options, const Vocabulary& vocabulary,
                              std::span<const Merge> merges) {
    std::string identity =
        fmt::format("byte_bpe/1 {} {} {}{} {}\n", options.add_prefix_space, options.ignore_merges, options.fuse_unknown,
                    options.nfc ? " nfc" : "", options.splitter ? options.splitter->pattern() : "");
    if (options.digits != DigitWords::none)
        identity += options.digits == DigitWords::single ? "single digits\n" : "runs of digits\n";
    vocabulary.append_identity(identity);
    for (const Merge& merge : merges)
        fmt::format_to(std::back_inserter(identity), "{} {} {}\n", merge.left, merge.right, merge.result);
    return identity;
}

ByteBpe::ByteBpe(Vocabulary vocabulary, const Merges& merges, ByteBpeOptions options)
    : Tokenizer(std::move(vocabulary)), merges_(merges, this->vocabulary().memory()), options_(std::move(options)),
      added_(this->vocabulary().added()) {
    for (unsigned byte = 0; byte < 256; ++byte) {
        const std::optional<int32_t> id = find(alphabet_.letter(static_cast<uint8_t>(byte)));
        byte_ids_[byte] = id && this->vocabulary().is_in_model(*id) ? *id : -1;
    }
    if (options_.splitter && !options_.add_prefix_space) cuts_ = CutRule(options_.splitter->pattern());
    set_hash(byte_bpe_identity(options_, this->vocabulary(), merges_.list()));
}

Result<std::unique_ptr<Tokenizer>> ByteBpe::create(Vocabulary vocabulary, const Merges& merges,
                                                   ByteBpeOptions options) {
    if (vocabulary.size() == 0) return corrupt("the vocabulary is empty");
    for (const Merge& merge : merges.list())
        for (const int32_t id : {merge.left, merge.right, merge.result})
            if (!vocabulary.has(id)) return corrupt(fmt::format("a merge speaks of id {}, which no token has", id));
    return std::unique_ptr<Tokenizer>(new ByteBpe(std::move(vocabulary), merges, std::move(options)));
}

// One call of encode(): its output, and the words encountered so far.
class ByteBpe::Run {
public:
    Run(const ByteBpe& bpe, const EncodeOptions& options, std::string_view text, std::vector<int32_t>& ids,
        std::vector<ByteRange>* ranges)
        : bpe_(bpe), options_(options), text_(text), ids_(ids), ranges_(ranges) {}

    Status segment(std::size_t begin, std::size_t end) {
        if (begin == end) return {};
        std::string_view segment = text_.substr(begin, end - begin);
        AlignedText form;
        const bool is_changed = bpe_.options_.nfc && compose(segment, begin, form);
        if (is_changed) segment = form.text();
        std::string spaced;
        const bool prefix = bpe_.options_.add_prefix_space && segment.front() != ' ';
        if (prefix) {
            spaced = ' ' + std::string(segment);
            segment = spaced;
        }
        // Returns the origin of bytes [from, to) of `segment`; the prefix has that of the first byte.
        const auto origin = [&](std::size_t from, std::size_t to) -> ByteRange {
            if (prefix) {
                from -= from > 0 ? 1 : 0;
                to = std::max(to - 1, from);
            }
            if (is_changed && form.is_aligned()) return form.origin(from, std::max(to, from + 1));
            return {begin + from, begin + to};
        };
        const auto word = [&](std::size_t from, std::size_t to) {
            return this->word(segment.substr(from, to - from),
                              [&](std::size_t at, std::size_t last) { return origin(from + at, from + last); });
        };
        const auto words = [&](std::size_t from, std::size_t to) {
            if (!bpe_.options_.splitter) return word(from, to);
            return bpe_.options_.splitter->split(segment.substr(from, to - from), [&](std::size_t a, std::size_t b) {
                return word(from + a, from + b);
            });
        };
        return bpe_.options_.digits == DigitWords::none ? words(0, segment.size()) : split_digits(segment, words);
    }

private:
    // Calls `words` for the digits of a segment and for the text between them.
    template<class Words>
    Status split_digits(std::string_view segment, const Words& words) const {
        std::size_t begin = 0; // of what was not passed on yet
        bool in_digits = false;
        for (std::size_t at = 0; at < segment.size();) {
            const ClassedCharacter character = classed(segment, at);
            const bool digit = character.kind == WordClass::number;
            const bool cuts = digit != in_digits || (digit && bpe_.options_.digits == DigitWords::single);
            if (cuts && at > begin) {
                HK_TRY(words(begin, at));
                begin = at;
            }
            in_digits = digit;
            at += character.size;
        }
        return begin < segment.size() ? words(begin, segment.size()) : Status();
    }

    // Composes a segment. Returns false if nothing changes.
    bool compose(std::string_view segment, std::size_t begin, AlignedText& form) const {
        // Below U+0300, whose first byte is 0xCC, nothing is composed.
        if (std::ranges::none_of(segment, [](char c) { return static_cast<unsigned char>(c) >= 0xCC; })) return false;
        form = AlignedText(segment, begin, ranges_ != nullptr);
        normalize(form, NormalForm::nfc);
        return form.text() != segment;
    }

    template<class Origin>
    Status word(std::string_view bytes, const Origin& origin) {
        const uint64_t hash = hash64(bytes);
        std::span<const Symbol> symbols = seen_.find(bytes, hash);
        if (symbols.data() == nullptr) {
            HK_TRY(merge(bytes, origin));
            seen_.add(bytes, hash, work_);
            symbols = work_;
        }
        for (const Symbol& symbol : symbols) ids_.push_back(symbol.id);
        if (ranges_ == nullptr) return {};
        std::size_t at = 0;
        for (const Symbol& symbol : symbols) {
            ranges_->push_back(origin(at, at + symbol.size));
            at += symbol.size;
        }
        return {};
    }

    // Stores the word's symbols in work_.
    template<class Origin>
    Status merge(std::string_view bytes, const Origin& origin) {
        if (bytes.size() > 0x7FFFFFFFu)
            return unsupported(fmt::format("{}: a word of {} bytes; up to 2147483647 can be encoded",
                                           describe_position(options_.origin, text_, origin(0, 1).begin),
                                           bytes.size()));
        work_.clear();
        if (bpe_.options_.ignore_merges) {
            const std::optional<int32_t> id = bpe_.find(bpe_.alphabet_.spell(bytes));
            if (id && bpe_.vocabulary().is_in_model(*id) &&
                (options_.match_special || !bpe_.vocabulary().is_special(*id))) {
                work_.push_back({*id, static_cast<uint32_t>(bytes.size())});
                return {};
            }
        }
        const std::optional<int32_t> unknown = bpe_.special(TokenRole::unk);
        bool fuse = false;
        for (std::size_t i = 0; i < bytes.size(); ++i) {
            const auto byte = static_cast<unsigned char>(bytes[i]);
            const int32_t id = bpe_.byte_ids_[byte];
            if (id < 0 && !unknown)
                return invalid_argument(
                    fmt::format("{}: the vocabulary has no token for the byte 0x{:02X}, and no unknown token",
                                describe_position(options_.origin, text_, origin(i, i + 1).begin), byte));
            if (id < 0 && fuse) {
                ++work_.back().size;
            } else {
                work_.push_back({id < 0 ? *unknown : id, 1});
            }
            fuse = id < 0 && bpe_.options_.fuse_unknown;
        }
        bpe_.merges_.apply(work_, scratch_);
        return {};
    }

    const ByteBpe& bpe_;
    const EncodeOptions& options_;
    std::string_view text_;
    std::vector<int32_t>& ids_;
    std::vector<ByteRange>* ranges_;
    WordCache<Symbol> seen_;
    std::vector<Symbol> work_;
    Merges::Scratch scratch_;
};

Status ByteBpe::encode_valid(std::string_view text, const EncodeOptions& options, std::vector<int32_t>& ids,
                             std::vector<ByteRange>* ranges) const {
    Run run(*this, options, text, ids, ranges);
    ids.reserve(ids.size() + text.size() / 4);
    return added_.encode(text, options.match_special, ids, ranges,
                         [&](std::size_t begin, std::size_t end) { return run.segment(begin, end); });
}

bool ByteBpe::begins_word(int32_t id) const {
    const std::string_view bytes = vocabulary().bytes(id);
    return !vocabulary().is_special(id) && (bytes.starts_with(' ') || bytes.starts_with('\n'));
}

bool ByteBpe::can_cut(std::string_view text, std::size_t at) const {
    if (!options_.splitter) return false;
    if (!options_.splitter->is_gpt2()) return cuts_.can_cut(text, at) && added_.can_cut(text, at);
    // In GPT-2's pattern no word continues from other characters into white space.
    const char c = text[at];
    const bool opens = options_.add_prefix_space ? c == ' ' : c == ' ' || c == '\n' || c == '\t' || c == '\r';
    if (!opens) return false;
    const std::string_view before = text.substr(0, at);
    if (is_white_space(first_code_point(before.substr(last_code_point_start(before))).value)) return false;
    return added_.can_cut(text, at);
}

} // namespace hekla::text
