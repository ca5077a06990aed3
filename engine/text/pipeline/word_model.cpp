#include "text/pipeline/word_model.hpp"

#include "base/utf8.hpp"
#include "text/files/spiece_model.hpp"
#include "text/files/tokenizer_json_parts.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace hekla::text {
namespace {

Status no_token(std::string_view what) {
    return not_found(
        fmt::format("the vocabulary has no token for {}, and the model no unknown token", json_quote(what)));
}

// Tokens of single characters and of bytes.
class CharacterIds {
public:
    CharacterIds(const Vocabulary& vocabulary, const std::string& unknown) {
        for (std::size_t byte = 0; byte < bytes_.size(); ++byte)
            bytes_[byte] = vocabulary.find_in_model(byte_token(static_cast<uint8_t>(byte))).value_or(-1);
        std::string text;
        for (std::size_t value = 0; value < few_.size(); ++value) {
            text.clear();
            append_code_point(text, static_cast<char32_t>(value));
            few_[value] = vocabulary.find_in_model(text).value_or(-1);
        }
        // The unknown token may be an added one alone.
        if (!unknown.empty()) unknown_ = vocabulary.find(unknown).value_or(-1);
    }
    int32_t byte(char c) const { return bytes_[static_cast<unsigned char>(c)]; }
    int32_t character(const Vocabulary& vocabulary, std::string_view text) const { // of one character
        const CodePoint first = first_code_point(text);
        return first.value < few_.size() ? few_[first.value] : vocabulary.find_in_model(text).value_or(-1);
    }
    int32_t unknown() const { return unknown_; } // -1: none

private:
    std::array<int32_t, 256> bytes_{};
    std::array<int32_t, 0x600> few_{};
    int32_t unknown_ = -1;
};

class BpeModel final : public WordModel {
public:
    BpeModel(const WordModelOptions& options, const WordModelTables& tables, const Vocabulary& vocabulary)
        : options_(options), merges_(tables.merges), ids_(vocabulary, options.unknown) {
        // Spaces that begin tokens and never continue them separate what can be encoded one by one.
        if (options_.ignore_merges || !options_.prefix.empty() || !options_.suffix.empty()) return;
        for (const std::string_view mark : {kSpacePiece, std::string_view(" ")}) {
            if (!vocabulary.find_in_model(mark)) continue;
            const bool crossed = std::ranges::any_of(merges_.list(), [&](const Merge& merge) {
                return vocabulary.token(merge.right).starts_with(mark) && !vocabulary.token(merge.left).ends_with(mark);
            });
            if (!crossed) marks_.push_back(mark);
        }
    }

    bool cuts_before(std::string_view mark) const override { return std::ranges::find(marks_, mark) != marks_.end(); }

    std::size_t part_end(std::string_view word, std::size_t begin) const override {
        std::size_t end = word.size();
        for (const std::string_view mark : marks_) {
            std::size_t at = begin;
            while (word.substr(at).starts_with(mark)) at += mark.size();
            end = std::min(end, std::min(word.find(mark, std::max(at, begin + 1)), word.size()));
        }
        return end;
    }

    Status encode(const Vocabulary& vocabulary, std::string_view word, bool special, Scratch& scratch,
                  std::vector<WordToken>& out) const override {
        const auto allowed = [&](int32_t id) { return id >= 0 && (special || !vocabulary.is_special(id)); };
        if (options_.ignore_merges) {
            const int32_t id = vocabulary.find_in_model(word).value_or(-1);
            if (allowed(id)) {
                out.push_back({id, 0, static_cast<uint32_t>(word.size())});
                return {};
            }
        }
        std::vector<Symbol>& symbols = scratch.symbols;
        symbols.clear();
        uint32_t unknown = 0; // bytes of an unknown token that was not appended yet
        for (std::size_t at = 0; at < word.size();) {
            const std::size_t begin = at;
            const std::size_t size = first_code_point(word.substr(at)).size;
            at += size;
            std::string_view text = word.substr(begin, size);
            if ((begin > 0 && !options_.prefix.empty()) || (at == word.size() && !options_.suffix.empty())) {
                scratch.text.clear();
                if (begin > 0) scratch.text = options_.prefix;
                scratch.text += text;
                if (at == word.size()) scratch.text += options_.suffix;
                text = scratch.text;
            }
            const int32_t id =
                text.size() == size ? ids_.character(vocabulary, text) : vocabulary.find_in_model(text).value_or(-1);
            if (allowed(id)) {
                if (unknown > 0) symbols.push_back({ids_.unknown(), unknown});
                unknown = 0;
                symbols.push_back({id, static_cast<uint32_t>(size)});
                continue;
            }
            if (options_.byte_fallback && std::ranges::all_of(text, [&](char c) { return ids_.byte(c) >= 0; })) {
                for (const char c : text) symbols.push_back({ids_.byte(c), 1});
                continue;
            }
            if (options_.unknown.empty()) continue; // as in the reference: nothing
            if (ids_.unknown() < 0) return no_token(word.substr(begin, size));
            if (unknown > 0 && !options_.fuse_unknown) {
                symbols.push_back({ids_.unknown(), unknown});
                unknown = 0;
            }
            unknown += static_cast<uint32_t>(size);
        }
        if (unknown > 0) symbols.push_back({ids_.unknown(), unknown});
        merges_.apply(symbols, scratch.merges);
        // Characters that were left out are not counted, so the tokens after them cover what is before.
        uint32_t begin = 0;
        const auto most = static_cast<uint32_t>(word.size());
        for (const Symbol& symbol : symbols) {
            const uint32_t end = std::min(begin + symbol.size, most);
            out.push_back({symbol.id, std::min(begin, most - 1), std::max(end, std::min(begin, most - 1) + 1)});
            begin = end;
        }
        return {};
    }

private:
    WordModelOptions options_;
    const Merges& merges_;
    CharacterIds ids_;
    std::vector<std::string_view> marks_; // constants
};

// The tokens of a unigram model by their bytes. Nodes are in one table, by parent and byte.
class PieceTrie {
public:
    explicit PieceTrie(std::pmr::memory_resource* memory) : slots_(1024, memory) {}

    void add(std::string_view piece, int32_t id) {
        uint32_t node = 0;
        for (std::size_t i = 0; i < piece.size(); ++i) {
            const uint64_t key = key_of(node, piece[i]);
            if (slots_[slot_of(key)].key != key) {
                if (2 * (used_ + 1) > slots_.size()) grow();
                slots_[slot_of(key)] = {key, ++nodes_, -1};
                ++used_;
            }
            Slot& slot = slots_[slot_of(key)];
            if (i + 1 == piece.size()) slot.id = id;
            node = slot.node;
        }
    }

    // Calls `found(size, id)` for each piece that the text begins with, the shortest first.
    template<class Found>
    void prefixes(std::string_view text, const Found& found) const {
        uint32_t node = 0;
        for (std::size_t i = 0; i < text.size(); ++i) {
            const uint64_t key = key_of(node, text[i]);
            const Slot& slot = slots_[slot_of(key)];
            if (slot.key != key) return;
            if (slot.id >= 0) found(i + 1, slot.id);
            node = slot.node;
        }
    }

private:
    struct Slot {
        uint64_t key = 0; // 0: free
        uint32_t node = 0;
        int32_t id = -1; // of the piece that ends here
    };
    static uint64_t key_of(uint32_t node, char byte) {
        return (uint64_t{node} << 8 | static_cast<unsigned char>(byte)) + 1;
    }
    std::size_t slot_of(uint64_t key) const { // its slot, or the free slot for it
        std::size_t at = (key * 0x9E3779B97F4A7C15u >> 32) & (slots_.size() - 1);
        while (slots_[at].key != 0 && slots_[at].key != key) at = (at + 1) & (slots_.size() - 1);
        return at;
    }
    void grow() {
        ResourceVector<Slot> old(slots_.size() * 2, slots_.get_allocator());
        old.swap(slots_);
        for (const Slot& slot : old)
            if (slot.key != 0) slots_[slot_of(slot.key)] = slot;
    }
    ResourceVector<Slot> slots_; // a power of two
    std::size_t used_ = 0;
    uint32_t nodes_ = 0;
};

class UnigramModel final : public WordModel {
public:
    UnigramModel(const WordModelOptions& options, const WordModelTables& tables, const Vocabulary& vocabulary)
        : options_(options), scores_(tables.scores), trie_(vocabulary.memory()), ids_(vocabulary, "") {
        double least = INFINITY;
        for (std::size_t id = 0; id < scores_.size(); ++id) {
            least = std::min(least, scores_[id]);
            if (vocabulary.has(static_cast<int32_t>(id)))
                trie_.add(vocabulary.token(static_cast<int32_t>(id)), static_cast<int32_t>(id));
        }
        constexpr double kPenalty = 10.0;
        unknown_score_ = least - kPenalty;
    }

    Status encode(const Vocabulary& vocabulary, std::string_view word, bool special, Scratch& scratch,
                  std::vector<WordToken>& out) const override {
        using Best = Scratch::Best;
        std::vector<Best>& best = scratch.best;
        constexpr uint32_t kNowhere = UINT32_MAX;
        best.assign(word.size() + 1, Best{0.0, kNowhere, -1});
        const auto offer = [&](std::size_t begin, std::size_t end, double score, int32_t id) {
            // Of equal ways the first counts: the one whose last token is longest.
            if (best[end].begin == kNowhere || score > best[end].score)
                best[end] = {score, static_cast<uint32_t>(begin), id};
        };
        for (std::size_t at = 0; at < word.size();) {
            const double here = best[at].score;
            const std::size_t size = first_code_point(word.substr(at)).size;
            bool has_one = false; // a token of one character
            trie_.prefixes(word.substr(at), [&](std::size_t length, int32_t id) {
                if (!special && vocabulary.is_special(id) && id != options_.unknown_id) return;
                offer(at, at + length, scores_[static_cast<std::size_t>(id)] + here, id);
                has_one = has_one || length == size;
            });
            if (!has_one) {
                if (options_.unknown_id < 0) return no_token(word.substr(at, size));
                offer(at, at + size, unknown_score_ + here, options_.unknown_id);
            }
            at += size;
        }
        const std::size_t first = out.size();
        for (auto end = static_cast<uint32_t>(word.size()); end > 0;) {
            uint32_t begin = best[end].begin;
            const int32_t id = best[end].id;
            if (id == options_.unknown_id) { // with all unknown ones before it
                while (begin > 0 && best[begin].id == options_.unknown_id) begin = best[begin].begin;
                put_unknown(vocabulary, word, begin, end, out);
            } else {
                out.push_back({id, begin, end});
            }
            end = begin;
        }
        std::reverse(out.begin() + static_cast<std::ptrdiff_t>(first), out.end());
        return {};
    }

private:
    // Appends the tokens of unknown text, the last first.
    void put_unknown(const Vocabulary& vocabulary, std::string_view word, uint32_t begin, uint32_t end,
                     std::vector<WordToken>& out) const {
        const std::string_view text = word.substr(begin, end - begin);
        const int32_t whole = vocabulary.find_in_model(text).value_or(-1);
        if (whole < 0 && options_.byte_fallback &&
            std::ranges::all_of(text, [&](char c) { return ids_.byte(c) >= 0; })) {
            for (auto c = text.rbegin(); c != text.rend(); ++c) out.push_back({ids_.byte(*c), begin, end});
            return;
        }
        out.push_back({whole >= 0 ? whole : options_.unknown_id, begin, end});
    }

    WordModelOptions options_;
    const std::vector<double>& scores_;
    PieceTrie trie_;
    CharacterIds ids_;
    double unknown_score_ = 0.0;
};

class WordPieceModel final : public WordModel {
public:
    WordPieceModel(const WordModelOptions& options, const Vocabulary& vocabulary)
        : options_(options), unknown_(vocabulary.find(options.unknown).value_or(-1)) {
        for (int32_t id = 0; id < vocabulary.size(); ++id)
            if (vocabulary.is_in_model(id)) longest_ = std::max(longest_, vocabulary.token(id).size());
    }

    Status encode(const Vocabulary& vocabulary, std::string_view word, bool special, Scratch& scratch,
                  std::vector<WordToken>& out) const override {
        const auto size = static_cast<uint32_t>(word.size());
        const std::size_t first = out.size();
        const auto all_unknown = [&]() -> Status {
            if (unknown_ < 0) return no_token(word);
            out.resize(first);
            out.push_back({unknown_, 0, size});
            return {};
        };
        const auto characters =
            std::ranges::count_if(word, [](char c) { return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u; });
        if (static_cast<std::size_t>(characters) > options_.longest_word) return all_unknown();
        for (uint32_t begin = 0; begin < size;) {
            scratch.text = begin > 0 ? options_.prefix : std::string();
            const std::size_t prefix = scratch.text.size();
            uint32_t end = begin + static_cast<uint32_t>(std::min<std::size_t>(size - begin, longest_));
            int32_t id = -1;
            for (; end > begin; --end) {
                if (end < size && (static_cast<unsigned char>(word[end]) & 0xC0u) == 0x80u) continue;
                scratch.text.resize(prefix);
                scratch.text += word.substr(begin, end - begin);
                id = vocabulary.find_in_model(scratch.text).value_or(-1);
                if (id >= 0 && (special || !vocabulary.is_special(id))) break;
                id = -1;
            }
            if (id < 0) return all_unknown();
            out.push_back({id, begin, end});
            begin = end;
        }
        return {};
    }

private:
    WordModelOptions options_;
    int32_t unknown_;
    std::size_t longest_ = 1;
};

class WordLevelModel final : public WordModel {
public:
    WordLevelModel(const WordModelOptions& options, const Vocabulary& vocabulary)
        : unknown_(vocabulary.find(options.unknown).value_or(-1)) {}

    Status encode(const Vocabulary& vocabulary, std::string_view word, bool special, Scratch&,
                  std::vector<WordToken>& out) const override {
        int32_t id = vocabulary.find_in_model(word).value_or(-1);
        if (id >= 0 && !special && vocabulary.is_special(id)) id = -1;
        if (id < 0) id = unknown_;
        if (id < 0) return no_token(word);
        out.push_back({id, 0, static_cast<uint32_t>(word.size())});
        return {};
    }

private:
    int32_t unknown_;
};

} // namespace

std::string byte_token(uint8_t byte) { return fmt::format("<0x{:02X}>", byte); }

Result<WordModelOptions> WordModelOptions::read(const Section& section) {
    const Json& json = section.json();
    WordModelOptions options;
    for (const auto& [key, value] : json.items())
        if (key != "vocab" && key != "merges") options.given[key] = value;
    // Older files omit the type.
    std::string type = member(json, "merges").is_array()                     ? "BPE"
                       : !member(json, "unk_id").is_null()                   ? "Unigram"
                       : !member(json, "max_input_chars_per_word").is_null() ? "WordPiece"
                                                                             : "WordLevel";
    if (!member(json, "type").is_null()) { HK_ASSIGN(type, section.type()); }
    options.given["type"] = type;
    if (type == "BPE") {
        HK_TRY(
            section.check_members({"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                                   "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges", "cache_capacity"}));
        const Json& dropout = member(json, "dropout");
        if (!dropout.is_null() && dropout != 0)
            return section.refused("has \"dropout\": " + dropout.dump(), "none: texts would be encoded at random");
        HK_ASSIGN(options.unknown, section.text("unk_token", ""));
        HK_ASSIGN(options.prefix, section.text("continuing_subword_prefix", ""));
        HK_ASSIGN(options.suffix, section.text("end_of_word_suffix", ""));
        HK_ASSIGN(options.fuse_unknown, section.flag("fuse_unk", false));
        HK_ASSIGN(options.byte_fallback, section.flag("byte_fallback", false));
        HK_ASSIGN(options.ignore_merges, section.flag("ignore_merges", false));
        if (options.byte_fallback && (!options.prefix.empty() || !options.suffix.empty()))
            return section.refused("has \"byte_fallback\" together with a prefix or suffix of tokens",
                                   "either of them");
    } else if (type == "Unigram") {
        options.type = Type::unigram;
        HK_TRY(section.check_members({"unk_id", "byte_fallback", "vocab", "alpha", "nbest_size"}));
        const Json& alpha = member(json, "alpha");
        if (!alpha.is_null() && alpha != 0)
            return section.refused("has \"alpha\": " + alpha.dump(), "none: texts would be encoded at random");
        HK_ASSIGN(options.byte_fallback, section.flag("byte_fallback", false));
    } else if (type == "WordPiece") {
        options.type = Type::wordpiece;
        HK_TRY(section.check_members({"unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"}));
        HK_ASSIGN(options.unknown, section.text("unk_token", "[UNK]"));
        HK_ASSIGN(options.prefix, section.text("continuing_subword_prefix", "##"));
        HK_ASSIGN(options.longest_word, section.count("max_input_chars_per_word", 100));
    } else if (type == "WordLevel") {
        options.type = Type::word_level;
        HK_TRY(section.check_members({"unk_token", "vocab"}));
        HK_ASSIGN(options.unknown, section.text("unk_token", "<unk>"));
    } else {
        return section.refused("is " + json_quote(type), "BPE, Unigram, WordPiece, WordLevel");
    }
    return options;
}

Result<std::unique_ptr<WordModel>> WordModel::create(const WordModelOptions& options, const WordModelTables& tables,
                                                     const Vocabulary& vocabulary) {
    using Type = WordModelOptions::Type;
    switch (options.type) {
    case Type::bpe: return std::unique_ptr<WordModel>(new BpeModel(options, tables, vocabulary));
    case Type::unigram: return std::unique_ptr<WordModel>(new UnigramModel(options, tables, vocabulary));
    case Type::wordpiece: return std::unique_ptr<WordModel>(new WordPieceModel(options, vocabulary));
    case Type::word_level: return std::unique_ptr<WordModel>(new WordLevelModel(options, vocabulary));
    }
    return internal_error("a model of no type");
}

} // namespace hekla::text
