#include "text/pipeline/pipeline.hpp"

#include "text/files/tokenizer_json_parts.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::text {

Result<std::shared_ptr<Pipeline>> Pipeline::read(const Json& json, const std::string& name) {
    auto pipeline = std::make_shared<Pipeline>();
    for (const auto& [key, value] : json.items())
        if (key != "version" && key != "truncation" && key != "padding" && key != "added_tokens" &&
            key != "normalizer" && key != "pre_tokenizer" && key != "post_processor" && key != "decoder" &&
            key != "model" && !value.is_null())
            return unsupported(
                fmt::format("{}: has a section {}; supported: normalizer, pre_tokenizer, post_processor, "
                            "decoder, model, added_tokens, truncation, padding",
                            name, json_quote(key)));
    const auto section = [&](const char* key) { return Section(member(json, key), key, name); };
    HK_ASSIGN(pipeline->model_, WordModelOptions::read(section("model")));
    HK_ASSIGN(pipeline->normalizer_, Normalizer::read(section("normalizer")));
    HK_ASSIGN(pipeline->pre_tokenizer_, PreTokenizer::read(section("pre_tokenizer")));
    HK_ASSIGN(pipeline->post_processor_, PostProcessor::read(section("post_processor")));
    HK_ASSIGN(Decoder decoder, Decoder::read(section("decoder")));
    pipeline->decoder_ = std::make_shared<const Decoder>(std::move(decoder));
    for (const char* key : {"normalizer", "pre_tokenizer", "post_processor", "decoder"})
        pipeline->sections_[key] = member(json, key);
    return pipeline;
}

Status Pipeline::read_class(const FilePlace& folder) {
    const FilePlace path = folder / "tokenizer_config.json";
    if (!path.exists()) return {};
    HK_ASSIGN(const Json config, read_json_object(path));
    HK_ASSIGN(tokenizer_class_, json_string(config, "tokenizer_class", "", path.string()));
    return {};
}

std::string Pipeline::to_json(const Vocabulary& vocabulary, const std::string& lists) const {
    std::string model = "{";
    model += fmt::format("\n    \"type\": {}", member(model_.given, "type").dump());
    for (const auto& [key, value] : model_.given.items())
        if (key != "type") model += fmt::format(",\n    {}: {}", json_quote(key), value.dump());
    model += fmt::format(",\n    {}\n  }}", lists);
    const auto section = [&](const char* key) { return sections_[key].dump(); };
    return tokenizer_document(vocabulary, section("normalizer"), section("pre_tokenizer"), section("post_processor"),
                              section("decoder"), model);
}

std::string Pipeline::form_of(int32_t id, const Vocabulary& vocabulary) const {
    const std::span<const AddedToken> added = vocabulary.added();
    const auto at = std::ranges::lower_bound(added, id, {}, &AddedToken::id);
    if (at == added.end() || at->id != id || !at->normalized || normalizer_.is_none())
        return std::string(vocabulary.token(id));
    return normalized(at->content);
}

std::string Pipeline::normalized(std::string_view text) const {
    AlignedText form(text, 0, false);
    return normalizer_.apply(form).ok() ? std::string(form.text()) : std::string(text);
}

} // namespace hekla::text
