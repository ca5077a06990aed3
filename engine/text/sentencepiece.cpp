#include "text/sentencepiece.hpp"

#include "base/utf8.hpp"
#include "text/unicode/characters.hpp"
#include "text/word_cache.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fmt/format.h>

namespace hekla::text {
namespace {

using Type = SpieceModel::Type;

// Converts "<0x41>" to the byte 0x41.
std::optional<char> byte_of(std::string_view piece) {
    unsigned value = 0;
    if (piece.size() != 6 || !piece.starts_with("<0x") || piece.back() != '>') return std::nullopt;
    const auto [end, problem] = std::from_chars(piece.data() + 3, piece.data() + 5, value, 16);
    if (problem != std::errc() || end != piece.data() + 5) return std::nullopt;
    return static_cast<char>(static_cast<unsigned char>(value));
}

// Returns whether no piece has a space after its first character.
bool spaces_begin_pieces(const SpieceModel& model) {
    bool has_space = false;
    for (const SpieceModel::Piece& piece : model.pieces) {
        if (piece.type != Type::normal && piece.type != Type::user_defined) continue;
        has_space = has_space || piece.text == kSpacePiece;
        if (piece.text.find(kSpacePiece, 1) != std::string::npos || piece.text.find(' ') != std::string::npos)
            return false;
    }
    return has_space;
}

} // namespace

std::string spaces_of(std::string_view piece) {
    std::string out;
    for (std::size_t at = 0; at < piece.size();) {
        const bool space = piece.substr(at).starts_with(kSpacePiece);
        if (space) {
            out += ' ';
        } else {
            out += piece[at];
        }
        at += space ? kSpacePiece.size() : 1;
    }
    return out;
}

Result<Vocabulary> spiece_vocabulary(const SpieceModel& model) {
    Vocabulary vocabulary;
    for (const SpieceModel::Piece& piece : model.pieces) {
        const int32_t id = vocabulary.size();
        std::string bytes = spaces_of(piece.text);
        if (piece.type == Type::byte) {
            const std::optional<char> byte = byte_of(piece.text);
            if (!byte) return corrupt(fmt::format("piece {} is a byte's, and not spelt as one (<0x00>)", id));
            bytes = *byte;
        }
        HK_TRY(vocabulary.add(id, piece.text, std::move(bytes)));
        if (piece.type == Type::control || piece.type == Type::unknown)
            HK_TRY(vocabulary.add(AddedToken{id, piece.text}));
        if (piece.type == Type::unknown) HK_TRY(vocabulary.set_role(TokenRole::unk, id));
    }
    for (const auto& [role, id] : {std::pair(TokenRole::bos, model.bos_id), std::pair(TokenRole::eos, model.eos_id),
                                   std::pair(TokenRole::pad, model.pad_id)})
        if (vocabulary.is_special(id) && vocabulary.role(TokenRole::unk) != id) HK_TRY(vocabulary.set_role(role, id));
    constexpr std::pair<const char*, TokenRole> kNames[] = {
        {"<s>", TokenRole::bos},    {"</s>", TokenRole::eos},        {"<pad>", TokenRole::pad},
        {"[CLS]", TokenRole::cls},  {"[SEP]", TokenRole::separator}, {"[MASK]", TokenRole::mask},
        {"[PAD]", TokenRole::pad},  {"<cls>", TokenRole::cls},       {"<sep>", TokenRole::separator},
        {"<mask>", TokenRole::mask}};
    for (const auto& [name, role] : kNames) {
        const std::optional<int32_t> id = vocabulary.find(name);
        if (id && vocabulary.is_special(*id) && !vocabulary.role(role)) HK_TRY(vocabulary.set_role(role, *id));
    }
    return vocabulary;
}

SentencePiece::SentencePiece(Vocabulary vocabulary, SpieceModel model, SentencePieceOptions options,
                             SentencePieceModel cutter)
    : Tokenizer(std::move(vocabulary)), model_(std::move(model)), options_(std::move(options)),
      cutter_(std::move(cutter)), added_(this->vocabulary().added()) {
    by_words_ = model_.add_dummy_prefix && model_.remove_extra_whitespaces && !model_.space_is_suffix &&
                (model_.kind == SpieceModel::Kind::unigram || model_.kind == SpieceModel::Kind::bpe) &&
                spaces_begin_pieces(model_);
    set_hash(spiece_identity({model_, options_.preparation, SpaceRule::model, {}}, this->vocabulary(),
                             options_.shared ? options_.shared->ids : std::vector<int32_t>()));
}

Result<std::unique_ptr<Tokenizer>> SentencePiece::create(Vocabulary vocabulary, SpieceModel model,
                                                         SentencePieceOptions options) {
    HK_ASSIGN(SentencePieceModel cutter, SentencePieceModel::open(write_spiece_model(model)));
    return std::unique_ptr<Tokenizer>(
        new SentencePiece(std::move(vocabulary), std::move(model), std::move(options), std::move(cutter)));
}

// Returns whether the word before `at` ends there in every context: a space follows, and then a character that cannot
// join it.
bool SentencePiece::is_word_end(std::string_view text, std::size_t at) const {
    if (!by_words_ || text[at] != ' ' || at == 0 || at + 1 >= text.size()) return false;
    // The library treats U+2581 as a space, and drops those at the ends.
    if (text.substr(0, at).ends_with(kSpacePiece) || text.substr(at + 1).starts_with(kSpacePiece)) return false;
    if (is_white_space(first_code_point(text.substr(last_code_point_start(text.substr(0, at)))).value)) return false;
    const auto next = static_cast<unsigned char>(text[at + 1]);
    if (next < 0x80) return next > 0x20 && next < 0x7F;
    const char32_t value = first_code_point(text.substr(at + 1)).value;
    return combining_class(value) == 0 && !is_white_space(value) && !is_combining_mark(value);
}

bool SentencePiece::can_cut(std::string_view text, std::size_t at) const {
    return is_word_end(text, at) && added_.can_cut(text, at);
}

// One call of encode().
class SentencePiece::Run {
public:
    Run(const SentencePiece& tokenizer, std::string_view text, std::vector<int32_t>& ids,
        std::vector<ByteRange>* ranges)
        : tokenizer_(tokenizer), text_(text), ids_(ids), ranges_(ranges) {}

    Status segment(std::size_t begin, std::size_t end) {
        if (begin == end) return {};
        if (!tokenizer_.by_words_) return word(begin, end);
        while (begin < end) {
            std::size_t stop = begin + 1;
            const std::string_view segment = text_.substr(0, end);
            while (stop < end && !tokenizer_.is_word_end(segment, stop)) {
                const void* space = std::memchr(text_.data() + stop + 1, ' ', end - stop - 1);
                stop =
                    space == nullptr ? end : static_cast<std::size_t>(static_cast<const char*>(space) - text_.data());
            }
            HK_TRY(word(begin, stop));
            begin = stop;
        }
        return {};
    }

private:
    struct Symbol {
        int32_t id;
        uint32_t begin; // bytes of the word
        uint32_t end;
    };

    Status word(std::size_t begin, std::size_t end) {
        const std::string_view bytes = text_.substr(begin, end - begin);
        const uint64_t hash = hash64(bytes);
        std::span<const Symbol> symbols = seen_.find(bytes, hash);
        if (symbols.data() == nullptr) {
            HK_TRY(cut(bytes));
            seen_.add(bytes, hash, fresh_);
            symbols = fresh_;
        }
        for (const Symbol& symbol : symbols) {
            ids_.push_back(symbol.id);
            if (ranges_ != nullptr) ranges_->push_back({begin + symbol.begin, begin + symbol.end});
        }
        return {};
    }

    // Returns the vocabulary's id of a piece that covers bytes [from, to) of `given`.
    int32_t id_of(int32_t piece, std::string_view given, uint32_t from, uint32_t to) const {
        const std::optional<SharedVocabulary>& shared = tokenizer_.options_.shared;
        if (!shared) return piece;
        if (tokenizer_.model_.pieces[static_cast<std::size_t>(piece)].type != Type::unknown)
            return shared->ids[static_cast<std::size_t>(piece)];
        // A piece that this language's model does not have may be in the other's.
        return tokenizer_.find(given.substr(from, to - from)).value_or(shared->ids[static_cast<std::size_t>(piece)]);
    }

    Status cut(std::string_view bytes) {
        fresh_.clear();
        std::string_view given = bytes;
        if (!tokenizer_.options_.preparation.is_none()) {
            prepared_.clear();
            origins_.clear();
            tokenizer_.options_.preparation.apply(bytes, prepared_, origins_);
            given = prepared_;
        }
        // U+0085 is white space for all tokenizers with such models, but not for the model.
        constexpr std::string_view kNextLine = "\xC2\x85";
        std::string spaced;
        if (tokenizer_.model_.remove_extra_whitespaces && given.find(kNextLine) != std::string_view::npos) {
            spaced = given;
            for (std::size_t at = 0; (at = spaced.find(kNextLine, at)) != std::string::npos;)
                spaced.replace(at, kNextLine.size(), "  ");
            given = spaced;
        }
        HK_TRY(tokenizer_.cutter_.encode(given, [&](int32_t piece, uint32_t from, uint32_t to) {
            fresh_.push_back({id_of(piece, given, from, to), from, to});
        }));
        if (!tokenizer_.options_.preparation.is_none())
            for (Symbol& symbol : fresh_) {
                if (origins_.empty()) break;
                const auto last = std::min<std::size_t>(origins_.size() - 1, symbol.end > 0 ? symbol.end - 1 : 0);
                const auto first = std::min<std::size_t>(origins_.size() - 1, symbol.begin);
                symbol.begin = static_cast<uint32_t>(origins_[first].begin);
                symbol.end = std::max(symbol.begin, static_cast<uint32_t>(origins_[last].end));
            }
        // A piece covers its word and not the space before it. A piece that consists of only that space covers the
        // first character after it. If all spaces are kept, spaces are covered like everything else.
        if (!tokenizer_.model_.remove_extra_whitespaces) return {};
        for (Symbol& symbol : fresh_) {
            uint32_t inner = symbol.begin;
            while (inner < bytes.size()) {
                const CodePoint character = first_code_point(bytes.substr(inner));
                if (!is_white_space(character.value)) break;
                inner += static_cast<uint32_t>(character.size);
            }
            if (inner < symbol.end) {
                symbol.begin = inner;
            } else if (inner < bytes.size()) {
                symbol = {symbol.id, inner, inner + static_cast<uint32_t>(first_code_point(bytes.substr(inner)).size)};
            }
        }
        return {};
    }

    const SentencePiece& tokenizer_;
    std::string_view text_;
    std::vector<int32_t>& ids_;
    std::vector<ByteRange>* ranges_;
    WordCache<Symbol> seen_;
    std::vector<Symbol> fresh_;
    std::string prepared_;
    std::vector<ByteRange> origins_;
};

Status SentencePiece::encode_valid(std::string_view text, const EncodeOptions& options, std::vector<int32_t>& ids,
                                   std::vector<ByteRange>* ranges) const {
    Run run(*this, text, ids, ranges);
    return added_.encode(text, options.match_special, ids, ranges,
                         [&](std::size_t begin, std::size_t end) { return run.segment(begin, end); });
}

std::string SentencePiece::own_text_of(int32_t id, bool first) const {
    const std::string_view bytes = vocabulary().bytes(id);
    const bool drop = first && model_.add_dummy_prefix && bytes.starts_with(' ') && !vocabulary().is_added(id);
    return std::string(drop ? bytes.substr(1) : bytes);
}

bool SentencePiece::begins_word(int32_t id) const {
    return !vocabulary().is_special(id) && vocabulary().token(id).starts_with(kSpacePiece);
}

} // namespace hekla::text
