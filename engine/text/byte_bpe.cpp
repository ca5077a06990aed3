#include "text/byte_bpe.hpp"

#include "text/unicode/characters.hpp"
#include "text/word_cache.hpp"

#include <fmt/format.h>

namespace hekla::text {

ByteBpe::ByteBpe(Vocabulary vocabulary, const Merges& merges, ByteBpeOptions options)
    : Tokenizer(std::move(vocabulary)), merges_(merges, this->vocabulary().memory()), options_(std::move(options)),
      added_(this->vocabulary().added()) {
    for (unsigned byte = 0; byte < 256; ++byte) {
        const std::optional<int32_t> id = find(alphabet_.letter(static_cast<uint8_t>(byte)));
        byte_ids_[byte] = id && !this->vocabulary().is_added(*id) ? *id : -1;
    }
    std::string identity = fmt::format("byte_bpe/1 {} {} {}{} {}\n", options_.add_prefix_space, options_.ignore_merges,
                                       options_.fuse_unknown, options_.nfc ? " nfc" : "",
                                       options_.splitter ? options_.splitter->pattern() : "");
    if (options_.digits != DigitWords::none)
        identity += options_.digits == DigitWords::single ? "single digits\n" : "runs of digits\n";
    this->vocabulary().append_identity(identity);
    for (const Merge& merge : merges_.list())
        fmt::format_to(std::back_inserter(identity), "{} {} {}\n", merge.left, merge.right, merge.result);
    set_hash(identity);
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
        if (bpe_.options_.nfc && compose(segment, begin)) segment = composed_;
        std::string spaced;
        const bool prefix = bpe_.options_.add_prefix_space && segment.front() != ' ';
        if (prefix) {
            spaced = ' ' + std::string(segment);
            segment = spaced;
        }
        // Maps positions in `segment` to positions in the text; the prefix has no position.
        const auto position = [&](std::size_t at) {
            if (prefix && at > 0) --at;
            return origins_.empty() ? begin + at : origins_[at];
        };
        const auto word = [&](std::size_t from, std::size_t to) {
            return this->word(segment.substr(from, to - from), [&](std::size_t at) { return position(from + at); });
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

    // Composes runs of non-ASCII characters, each with the preceding letter. Returns false if nothing changes;
    // otherwise composed_ has the text and origins_ the origin of each of its bytes and of its end.
    bool compose(std::string_view segment, std::size_t begin) {
        composed_.clear();
        origins_.clear();
        bool changed = false;
        for (std::size_t at = 0; at < segment.size();) {
            std::size_t end = at + 1; // of the run: up to the next ASCII character
            while (end < segment.size() && static_cast<unsigned char>(segment[end]) >= 0x80) ++end;
            const std::string_view run = segment.substr(at, end - at);
            const std::string better = run.size() > 1 ? composed(run) : std::string(run);
            changed = changed || better != run;
            for (std::size_t i = 0; i < better.size(); ++i)
                origins_.push_back(begin + (better == run ? at + i : i == 0 ? at : end));
            composed_ += better;
            at = end;
        }
        origins_.push_back(begin + segment.size());
        if (!changed) origins_.clear();
        return changed;
    }

    template<class Position>
    Status word(std::string_view bytes, const Position& position) {
        const uint64_t hash = hash64(bytes);
        std::span<const Symbol> symbols = seen_.find(bytes, hash);
        if (symbols.data() == nullptr) {
            HK_TRY(merge(bytes, position));
            seen_.add(bytes, hash, work_);
            symbols = work_;
        }
        for (const Symbol& symbol : symbols) ids_.push_back(symbol.id);
        if (ranges_ == nullptr) return {};
        std::size_t at = 0;
        for (const Symbol& symbol : symbols) {
            ranges_->push_back({position(at), position(at + symbol.size)});
            at += symbol.size;
        }
        return {};
    }

    // Stores the word's symbols in work_.
    template<class Position>
    Status merge(std::string_view bytes, const Position& position) {
        if (bytes.size() > 0x7FFFFFFFu)
            return unsupported(fmt::format("{}: a word of {} bytes; up to 2147483647 can be encoded",
                                           describe_position(options_.origin, text_, position(0)), bytes.size()));
        work_.clear();
        if (bpe_.options_.ignore_merges) {
            const std::optional<int32_t> id = bpe_.find(bpe_.alphabet_.spell(bytes));
            if (id && !bpe_.vocabulary().is_added(*id)) {
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
                                describe_position(options_.origin, text_, position(i)), byte));
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
    std::string composed_;
    std::vector<std::size_t> origins_; // of the current segment, if it was composed
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
    // In GPT-2's pattern no word continues from other characters into white space. Other patterns allow it.
    if (!options_.splitter || !options_.splitter->is_gpt2()) return false;
    const char c = text[at];
    const bool opens = options_.add_prefix_space ? c == ' ' : c == ' ' || c == '\n' || c == '\t' || c == '\r';
    if (!opens) return false;
    const std::string_view before = text.substr(0, at);
    if (is_white_space(first_code_point(before.substr(last_code_point_start(before))).value)) return false;
    return added_.can_cut(text, at);
}

} // namespace hekla::text
