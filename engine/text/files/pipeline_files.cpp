#include "text/files/pipeline_files.hpp"

#include "text/byte_bpe.hpp"
#include "text/files/spiece_shape.hpp"
#include "text/files/tokenizer_json_parts.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::text {

std::string pipeline_identity(const Pipeline& pipeline, const Vocabulary& vocabulary, const WordModelTables& tables) {
    if (const std::optional<ByteBpeOptions> options = byte_bpe_options(pipeline))
        return byte_bpe_identity(*options, vocabulary, tables.merges.list());
    if (const std::optional<SpieceShape> shape = spiece_shape(pipeline, vocabulary, tables))
        return spiece_identity(*shape, vocabulary, {});
    std::string identity = fmt::format("pipeline/1\n{}\n{}\n{}\n", pipeline.section("normalizer").dump(),
                                       pipeline.section("pre_tokenizer").dump(), pipeline.model().given.dump());
    vocabulary.append_identity(identity);
    for (const AddedToken& token : vocabulary.added())
        if (token.normalized) identity += fmt::format("normalized {}\n", token.id);
    for (int32_t id = 0; id < vocabulary.size(); ++id)
        if (vocabulary.is_added(id) && vocabulary.is_in_model(id)) identity += fmt::format("in the model {}\n", id);
    for (const Merge& merge : tables.merges.list())
        fmt::format_to(std::back_inserter(identity), "{} {} {}\n", merge.left, merge.right, merge.result);
    for (const double score : tables.scores) fmt::format_to(std::back_inserter(identity), "{}\n", score);
    return identity;
}

std::string merges_member(const Vocabulary& vocabulary, std::span<const Merge> merges) {
    const auto has_space = [&](const Merge& merge) {
        return vocabulary.token(merge.result).find(' ') != std::string_view::npos;
    };
    // "a b" is supported by every version of the library, ["a", "b"] only by newer ones; the latter is needed for
    // tokens that contain spaces.
    const bool pairs = std::any_of(merges.begin(), merges.end(), has_space);
    std::string list;
    for (const Merge& merge : merges) {
        const std::string_view left = vocabulary.token(merge.left);
        const std::string_view right = vocabulary.token(merge.right);
        list += list.empty() ? "\n      " : ",\n      ";
        list += pairs ? fmt::format("[{}, {}]", json_quote(left), json_quote(right))
                      : json_quote(fmt::format("{} {}", left, right));
    }
    return fmt::format("\"merges\": [{}\n    ]", list);
}

std::string model_lists_json(const WordModelOptions& options, const Vocabulary& vocabulary,
                             const WordModelTables& tables) {
    if (options.type == WordModelOptions::Type::unigram) {
        std::string list;
        for (std::size_t id = 0; id < tables.scores.size(); ++id)
            list += fmt::format("{}\n      [{}, {}]", id == 0 ? "" : ",",
                                json_quote(vocabulary.token(static_cast<int32_t>(id))), Json(tables.scores[id]).dump());
        return fmt::format("\"vocab\": [{}\n    ]", list);
    }
    std::string lists = "\"vocab\": " + model_vocabulary_json(vocabulary);
    if (options.type == WordModelOptions::Type::bpe)
        lists += ",\n    " + merges_member(vocabulary, tables.merges.list());
    return lists;
}

std::string tokenizer_class_json(const Pipeline& pipeline) {
    // Other classes of transformers build a pipeline of their own from the vocabulary alone.
    constexpr std::string_view kGeneric[] = {"PreTrainedTokenizerFast", "TokenizersBackend"};
    const std::string_view given = pipeline.tokenizer_class();
    return fmt::format("  \"tokenizer_class\": {}",
                       json_quote(std::ranges::find(kGeneric, given) != std::end(kGeneric) ? given : kGeneric[0]));
}

} // namespace hekla::text
