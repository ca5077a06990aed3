#include "text/tokenizer.hpp"

#include "text/pipeline/pipeline.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::text {

Status Tokenizer::encode(std::string_view text, const EncodeOptions& options, std::vector<int32_t>& ids,
                         std::vector<ByteRange>* ranges) const {
    HK_TRY(check_utf8(text, options.origin));
    const std::size_t ids_before = ids.size();
    const std::size_t ranges_before = ranges != nullptr ? ranges->size() : 0;
    Status status = encode_valid(text, options, ids, ranges);
    if (!status.ok()) {
        ids.resize(ids_before);
        if (ranges != nullptr) ranges->resize(ranges_before);
    } else if (ranges != nullptr && pipeline_ != nullptr) {
        for (const RangeTrim& trim : pipeline_->post_processor().trims)
            trim_ranges(trim, vocabulary_, pipeline_->normalizer().is_none(), text, std::span(ids).subspan(ids_before),
                        std::span(*ranges).subspan(ranges_before));
    }
    return status;
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
    std::vector<int32_t> ids;
    HK_TRY(encode(text, options, ids));
    return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
    StreamDecoder decoder(*this, skip_special);
    std::string text;
    for (const int32_t id : ids) text += decoder.push(id);
    text += decoder.finish();
    return pipeline_ != nullptr ? text : tidied(std::move(text));
}

std::string Tokenizer::text_of(int32_t id, bool first) const {
    if (pipeline_ == nullptr) return own_text_of(id, first);
    if (!first) return std::string(vocabulary_.bytes(id));
    DecoderStream stream(pipeline_->decoder());
    std::string text = stream.push(vocabulary_.token(id));
    return text + stream.finish();
}

std::string Tokenizer::own_text_of(int32_t id, bool) const { return std::string(vocabulary_.bytes(id)); }

bool Tokenizer::drops_leading_spaces() const {
    return pipeline_ != nullptr ? pipeline_->decoder()->drops_leading_spaces() : own_drops_leading_spaces();
}

Result<std::unique_ptr<Tokenizer>> Tokenizer::with(Vocabulary vocabulary) const {
    HK_ASSIGN(std::unique_ptr<Tokenizer> made, remade(std::move(vocabulary)));
    if (pipeline_ != nullptr && made->pipeline_ == nullptr) made->set_pipeline(pipeline_);
    return made;
}

void Tokenizer::set_pipeline(std::shared_ptr<const Pipeline> pipeline) { pipeline_ = std::move(pipeline); }

std::optional<int32_t> Tokenizer::sentinel(int32_t n) const {
    return n < 0 ? std::nullopt : find(fmt::format("<extra_id_{}>", n));
}

std::size_t Tokenizer::safe_cut(std::string_view text, std::size_t wanted) const {
    for (std::size_t at = std::min(wanted, text.size()); at > 0; --at)
        if (at < text.size() && can_cut(text, at)) return at;
    for (std::size_t at = wanted + 1; at < text.size(); ++at)
        if (can_cut(text, at)) return at;
    return text.size();
}

Result<std::string> Tokenizer::token(int32_t id) const {
    if (vocabulary_.has(id)) return std::string(vocabulary_.token(id));
    return not_found(fmt::format("no token has id {}; the vocabulary has {} ids, from 0", id, vocabulary_.size()));
}

Result<std::unique_ptr<Tokenizer>> lying_in(std::pmr::memory_resource* memory, std::unique_ptr<Tokenizer> tokenizer) {
    if (*memory == *tokenizer->vocabulary().memory()) return tokenizer;
    return tokenizer->with(Vocabulary(tokenizer->vocabulary(), memory));
}

Result<std::unique_ptr<Tokenizer>> add_special_tokens(const Tokenizer& tokenizer,
                                                      std::span<const SpecialToken> tokens) {
    Vocabulary vocabulary = tokenizer.vocabulary();
    for (const SpecialToken& token : tokens) HK_TRY(vocabulary.add_special(token));
    return tokenizer.with(std::move(vocabulary));
}

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool skip_special)
    : tokenizer_(&tokenizer), skip_special_(skip_special) {
    if (tokenizer.pipeline() != nullptr) steps_ = std::make_unique<DecoderStream>(tokenizer.pipeline()->decoder());
}

StreamDecoder::StreamDecoder(const StreamDecoder& other)
    : tokenizer_(other.tokenizer_), skip_special_(other.skip_special_), first_(other.first_), stream_(other.stream_) {
    if (other.steps_ != nullptr) steps_ = std::make_unique<DecoderStream>(*other.steps_);
}
StreamDecoder::StreamDecoder(StreamDecoder&&) noexcept = default;
StreamDecoder& StreamDecoder::operator=(StreamDecoder&&) noexcept = default;
StreamDecoder::~StreamDecoder() = default;

std::string StreamDecoder::push(int32_t id) {
    const Vocabulary& vocabulary = tokenizer_->vocabulary();
    if (steps_ != nullptr) {
        if (!vocabulary.has(id)) return steps_->push(kReplacement);
        if (!vocabulary.is_added(id)) return steps_->push(vocabulary.token(id));
        // As in the reference, a special token is known by its text, which a normal form can change.
        const std::string form = tokenizer_->pipeline()->form_of(id, vocabulary);
        const std::optional<int32_t> known = skip_special_ ? vocabulary.find(form) : std::nullopt;
        return known && vocabulary.is_special(*known) ? std::string() : steps_->push(form);
    }
    if (vocabulary.has(id) && skip_special_ && vocabulary.is_special(id)) return {};
    if (!vocabulary.has(id)) return stream_.push(kReplacement);
    const std::string text = tokenizer_->text_of(id, first_);
    first_ = first_ && text.empty() && tokenizer_->drops_leading_spaces();
    return stream_.push(text);
}

std::string StreamDecoder::finish() { return steps_ != nullptr ? steps_->finish() : stream_.finish(); }

} // namespace hekla::text
