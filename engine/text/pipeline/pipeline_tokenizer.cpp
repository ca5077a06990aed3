#include "text/pipeline/pipeline_tokenizer.hpp"

#include "base/file.hpp"
#include "text/files/pipeline_files.hpp"
#include "text/files/special_files.hpp"
#include "text/files/spiece_model.hpp"
#include "text/text_position.hpp"
#include "text/word_cache.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::text {

PipelineTokenizer::PipelineTokenizer(std::shared_ptr<const Pipeline> pipeline, Vocabulary vocabulary,
                                     std::unique_ptr<const WordModelTables> tables, std::unique_ptr<WordModel> model)
    : Tokenizer(std::move(vocabulary)), tables_(std::move(tables)), model_(std::move(model)),
      added_(this->vocabulary().added(), [&](std::string_view text) { return pipeline->normalized(text); }) {
    cuts_ = CutRule(*pipeline, *model_, this->vocabulary());
    set_hash(pipeline_identity(*pipeline, this->vocabulary(), *tables_));
    set_pipeline(std::move(pipeline));
}

Result<std::unique_ptr<Tokenizer>> PipelineTokenizer::create(std::shared_ptr<const Pipeline> pipeline,
                                                             Vocabulary vocabulary, const WordModelTables& tables) {
    if (vocabulary.size() == 0) return corrupt("the vocabulary is empty");
    auto own = std::make_unique<WordModelTables>();
    own->merges = Merges(tables.merges, vocabulary.memory());
    own->scores = tables.scores;
    HK_ASSIGN(std::unique_ptr<WordModel> model, WordModel::create(pipeline->model(), *own, vocabulary));
    return std::unique_ptr<Tokenizer>(
        new PipelineTokenizer(std::move(pipeline), std::move(vocabulary), std::move(own), std::move(model)));
}

std::string_view PipelineTokenizer::kind() const {
    using Type = WordModelOptions::Type;
    switch (pipeline()->model().type) {
    case Type::unigram: return "sentencepiece";
    case Type::wordpiece: return "wordpiece";
    case Type::word_level: return "words";
    case Type::bpe: break;
    }
    if (!pipeline()->model().suffix.empty()) return "suffix_bpe";
    return pipeline()->pre_tokenizer().has(PreTokenizerStep::Kind::byte_level) ? "byte_bpe" : "sentencepiece";
}

bool PipelineTokenizer::begins_word(int32_t id) const {
    if (vocabulary().is_special(id)) return false;
    using Type = WordModelOptions::Type;
    const WordModelOptions& model = pipeline()->model();
    const std::string_view token = vocabulary().token(id), bytes = vocabulary().bytes(id);
    if (model.type == Type::word_level || !model.suffix.empty()) return true;
    if (!model.prefix.empty()) return !token.starts_with(model.prefix);
    return token.starts_with(kSpacePiece) || bytes.starts_with(' ') || bytes.starts_with('\n');
}

// One call of encode(): its output, and the words encountered so far.
class PipelineTokenizer::Run {
public:
    Run(const PipelineTokenizer& tokenizer, const EncodeOptions& options, std::string_view text,
        std::vector<int32_t>& ids, std::vector<ByteRange>* ranges)
        : tokenizer_(tokenizer), options_(options), text_(text), ids_(ids), ranges_(ranges), first_(ids.size()),
          is_unigram_(tokenizer.pipeline()->model().type == WordModelOptions::Type::unigram) {}

    // Encodes a part of the text without raw added tokens.
    Status segment(std::size_t begin, std::size_t end) {
        segment_ = begin;
        AlignedText form(text_.substr(begin, end - begin), begin, ranges_ != nullptr);
        HK_TRY(tokenizer_.pipeline()->normalizer().apply(form));
        if (form.size() == 0) return {};
        const TokenMatcher& normalized = tokenizer_.added_.normalized();
        if (normalized.is_empty()) return words(std::move(form));
        return normalized.walk(
            form.text(), options_.match_special,
            [&](std::size_t from, std::size_t to) {
                AlignedText part = form.emptied();
                part.append(form, from, to);
                return words(std::move(part));
            },
            [&](const TokenMatcher::Match& match) {
                ids_.push_back(match.id);
                if (ranges_ == nullptr) return;
                ranges_->push_back(form.origin(match.begin, match.end));
                if (!tokenizer_.pipeline()->normalizer().is_none())
                    trim(form.text().substr(match.begin, match.end - match.begin));
            });
    }

private:
    // Trims the last range by the text that its token was found as, where the vocabulary does not tell it.
    void trim(std::string_view token) const {
        for (const RangeTrim& trim : tokenizer_.pipeline()->post_processor().trims)
            trim_range(trim, text_, token, ids_.size() == first_ + 1, ranges_->back());
    }

    Status words(AlignedText form) {
        TextPieces pieces;
        const std::size_t size = form.size();
        pieces.text = std::move(form);
        pieces.pieces.push_back({0, size});
        HK_TRY(tokenizer_.pipeline()->pre_tokenizer().apply(pieces));
        for (const TextPieces::Piece& piece : pieces.pieces) {
            const std::string_view all = pieces.text.text().substr(piece.begin, piece.end - piece.begin);
            for (std::size_t begin = 0; begin < all.size();) {
                const std::size_t end = tokenizer_.model_->part_end(all, begin);
                HK_TRY(word(pieces.text, piece.begin + begin, piece.begin + end));
                begin = end;
            }
        }
        return {};
    }

    Status word(const AlignedText& text, std::size_t begin, std::size_t end) {
        const std::string_view bytes = text.text().substr(begin, end - begin);
        if (bytes.size() > 0x7FFFFFFFu)
            return unsupported(fmt::format("{}: a word of {} bytes; up to 2147483647 can be encoded",
                                           options_.origin.name, bytes.size()));
        const uint64_t hash = hash64(bytes);
        std::span<const WordToken> tokens = seen_.find(bytes, hash);
        if (tokens.data() == nullptr) {
            fresh_.clear();
            const Status status =
                tokenizer_.model_->encode(tokenizer_.vocabulary(), bytes, options_.match_special, scratch_, fresh_);
            if (!status.ok())
                return invalid_argument(
                    fmt::format("{}: {}", describe_position(options_.origin, text_, segment_), status.message()));
            seen_.add(bytes, hash, fresh_);
            tokens = fresh_;
        }
        for (const WordToken& token : tokens) {
            ids_.push_back(token.id);
            if (ranges_ == nullptr) continue;
            ranges_->push_back(text.origin(begin + token.begin, begin + token.end));
            if (is_unigram_ && token.id == tokenizer_.pipeline()->model().unknown_id)
                trim(bytes.substr(token.begin, token.end - token.begin));
        }
        return {};
    }

    const PipelineTokenizer& tokenizer_;
    const EncodeOptions& options_;
    std::string_view text_;
    std::vector<int32_t>& ids_;
    std::vector<ByteRange>* ranges_;
    std::size_t first_; // ids that were there before
    bool is_unigram_;
    std::size_t segment_ = 0; // where the current segment begins
    WordCache<WordToken> seen_;
    std::vector<WordToken> fresh_;
    WordModel::Scratch scratch_;
};

Status PipelineTokenizer::encode_valid(std::string_view text, const EncodeOptions& options, std::vector<int32_t>& ids,
                                       std::vector<ByteRange>* ranges) const {
    Run run(*this, options, text, ids, ranges);
    ids.reserve(ids.size() + text.size() / 4);
    return added_.raw().walk(
        text, options.match_special, [&](std::size_t begin, std::size_t end) { return run.segment(begin, end); },
        [&](const TokenMatcher::Match& match) {
            ids.push_back(match.id);
            if (ranges != nullptr) ranges->push_back({match.begin, match.end});
        });
}

bool PipelineTokenizer::can_cut(std::string_view text, std::size_t at) const {
    return cuts_.can_cut(text, at) && added_.raw().can_cut(text, at);
}

std::string PipelineTokenizer::to_json() const {
    return pipeline()->to_json(vocabulary(), model_lists_json(pipeline()->model(), vocabulary(), *tables_));
}

Status PipelineTokenizer::save(const std::filesystem::path& folder) const {
    HK_TRY(write_file_atomically(folder / "tokenizer.json", to_json()));
    return write_special_files(folder, vocabulary(), tokenizer_class_json(*pipeline()));
}

} // namespace hekla::text
