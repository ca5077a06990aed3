#include "text/wordpiece.hpp"

#include "text/tidy_spaces.hpp"
#include "text/word_cache.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::text {

void WordPiece::Pieces::place(const Slot& slot) {
    std::size_t at = slot.hash & (slots_.size() - 1);
    while (slots_[at].id >= 0) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = slot;
}

void WordPiece::Pieces::add(std::string_view piece, int32_t id) {
    if (2 * (used_ + 1) > slots_.size()) {
        ResourceVector<Slot> old(slots_.size() * 2, slots_.get_allocator());
        old.swap(slots_);
        for (const Slot& slot : old)
            if (slot.id >= 0) place(slot);
    }
    place({piece, hash64(piece), id});
    ++used_;
    longest_ = std::max(longest_, piece.size());
}

int32_t WordPiece::Pieces::find(std::string_view piece) const {
    const uint64_t hash = hash64(piece);
    for (std::size_t at = hash & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
        const Slot& slot = slots_[at];
        if (slot.id < 0 || (slot.hash == hash && slot.piece == piece)) return slot.id;
    }
}

WordPiece::WordPiece(Vocabulary vocabulary, WordPieceOptions options)
    : BertWordTokenizer(std::move(vocabulary), options.normalization), options_(std::move(options)),
      first_(this->vocabulary().memory()), later_(this->vocabulary().memory()) {
    const Vocabulary& tokens = this->vocabulary();
    for (int32_t id = 0; id < tokens.size(); ++id) {
        if (!tokens.is_in_model(id)) continue;
        const std::string_view token = tokens.token(id);
        first_.add(token, id); // "##" at the beginning of a word is punctuation, so never a piece of a word
        if (!options_.prefix.empty() && token.size() > options_.prefix.size() && token.starts_with(options_.prefix))
            later_.add(token.substr(options_.prefix.size()), id);
        if (options_.prefix.empty()) later_.add(token, id);
    }
    const BertNormalization& normal = options_.normalization;
    std::string identity = fmt::format("wordpiece/1 {} {} {} {} {} {}\n", normal.clean_text, normal.chinese,
                                       normal.strip_accents, normal.lower_case, options_.longest_word, options_.prefix);
    tokens.append_identity(identity);
    set_hash(identity);
}

Result<std::unique_ptr<Tokenizer>> WordPiece::create(Vocabulary vocabulary, WordPieceOptions options) {
    if (vocabulary.size() == 0) return corrupt("the vocabulary is empty");
    if (!vocabulary.role(TokenRole::unk))
        return corrupt("the vocabulary has no unknown token ([UNK]), which WordPiece needs");
    return std::unique_ptr<Tokenizer>(new WordPiece(std::move(vocabulary), std::move(options)));
}

void WordPiece::cut(const BertNormalizer::Word& word, bool special, std::vector<Symbol>& symbols,
                    Merges::Scratch&) const {
    const std::string_view bytes = word.bytes.text();
    const auto all_unknown = [&] { symbols.assign(1, {unknown(), static_cast<uint32_t>(bytes.size())}); };
    std::size_t characters = bytes.size();
    if (!word.is_ascii)
        characters = static_cast<std::size_t>(
            std::ranges::count_if(bytes, [](char c) { return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u; }));
    if (characters > options_.longest_word) return all_unknown();
    for (std::size_t begin = 0; begin < bytes.size();) {
        const Pieces& pieces = begin == 0 ? first_ : later_;
        std::size_t size = std::min(bytes.size() - begin, pieces.longest());
        int32_t id = -1;
        for (; size > 0; --size) {
            const std::size_t end = begin + size;
            if (end < bytes.size() && (static_cast<unsigned char>(bytes[end]) & 0xC0u) == 0x80u) continue;
            id = pieces.find(bytes.substr(begin, size));
            if (id >= 0 && (special || !vocabulary().is_special(id))) break;
            id = -1;
        }
        if (id < 0) return all_unknown();
        symbols.push_back({id, static_cast<uint32_t>(size)});
        begin += size;
    }
}

std::string WordPiece::own_text_of(int32_t id, bool first) const {
    const std::string_view token = vocabulary().token(id);
    if (first) return std::string(token);
    if (token.starts_with(options_.prefix) && !vocabulary().is_added(id))
        return std::string(token.substr(options_.prefix.size()));
    return fmt::format(" {}", token);
}

bool WordPiece::begins_word(int32_t id) const {
    return !vocabulary().is_special(id) && !vocabulary().token(id).starts_with(options_.prefix);
}

std::string WordPiece::tidied(std::string text) const { return tidy_spaces(std::move(text)); }

} // namespace hekla::text
