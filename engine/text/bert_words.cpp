#include "text/bert_words.hpp"

#include "text/word_cache.hpp"

namespace hekla::text {

BertWordTokenizer::BertWordTokenizer(Vocabulary vocabulary, const BertNormalization& normalization)
    : Tokenizer(std::move(vocabulary)), normalizer_(normalization), added_(this->vocabulary().added()),
      unknown_(this->vocabulary().role(TokenRole::unk).value_or(-1)) {}

Status BertWordTokenizer::encode_valid(std::string_view text, const EncodeOptions& options, std::vector<int32_t>& ids,
                                       std::vector<ByteRange>* ranges) const {
    WordCache<Symbol> cache;
    BertNormalizer::Word room;
    std::vector<Symbol> fresh;
    Merges::Scratch scratch;
    ids.reserve(ids.size() + text.size() / 4);
    const auto take = [&](const BertNormalizer::Word& word) {
        const uint64_t hash = hash64(word.bytes.text());
        std::span<const Symbol> symbols = cache.find(word.bytes.text(), hash);
        if (symbols.data() == nullptr) {
            fresh.clear();
            cut(word, options.match_special, fresh, scratch);
            cache.add(word.bytes.text(), hash, fresh);
            symbols = fresh;
        }
        for (const Symbol& symbol : symbols) ids.push_back(symbol.id);
        if (ranges == nullptr) return;
        std::size_t at = 0;
        for (const Symbol& symbol : symbols) {
            ranges->push_back({word.origins[at].begin, word.origins[at + symbol.size - 1].end});
            at += symbol.size;
        }
    };
    return added_.encode(text, options.match_special, ids, ranges, [&](std::size_t begin, std::size_t end) {
        normalizer_.split(text, begin, end, ranges != nullptr, room, take);
        return Status();
    });
}

bool BertWordTokenizer::can_cut(std::string_view text, std::size_t at) const {
    const char c = text[at];
    return (c == ' ' || c == '\n' || c == '\t' || c == '\r') && added_.can_cut(text, at);
}

} // namespace hekla::text
