#include "text/suffix_bpe.hpp"

#include "base/file.hpp"
#include "base/utf8.hpp"
#include "text/files/gpt2_files.hpp"
#include "text/files/pipeline_files.hpp"
#include "text/files/special_files.hpp"
#include "text/files/text_frame_files.hpp"
#include "text/files/tokenizer_json_parts.hpp"
#include "text/files/wordpiece_files.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::text {
namespace {

// Returns the text of a token: the mark becomes a space.
std::string bytes_of(const std::string& token) {
    return token.ends_with(kWordEnd) && token.size() > kWordEnd.size()
               ? token.substr(0, token.size() - kWordEnd.size()) + ' '
               : token;
}

Status finish_vocabulary(const FilePlace& folder, const Json& post_processor, Vocabulary& vocabulary) {
    HK_TRY(read_special_files(folder, vocabulary));
    if (!vocabulary.role(TokenRole::unk) && vocabulary.find("<unk>"))
        HK_TRY(vocabulary.add_special({"<unk>", {TokenRole::unk}}));
    return read_text_frame(folder, post_processor, vocabulary);
}

} // namespace

SuffixBpe::SuffixBpe(Vocabulary vocabulary, const Merges& merges, const BertNormalization& normalization)
    : BertWordTokenizer(std::move(vocabulary), normalization), merges_(merges, this->vocabulary().memory()) {
    std::string identity = fmt::format("suffix_bpe/1 {} {} {} {}\n", normalization.clean_text, normalization.chinese,
                                       normalization.strip_accents, normalization.lower_case);
    this->vocabulary().append_identity(identity);
    for (const Merge& merge : merges_.list())
        fmt::format_to(std::back_inserter(identity), "{} {} {}\n", merge.left, merge.right, merge.result);
    set_hash(identity);
}

Result<std::unique_ptr<Tokenizer>> SuffixBpe::create(Vocabulary vocabulary, const Merges& merges,
                                                     const BertNormalization& normalization) {
    if (!vocabulary.role(TokenRole::unk))
        return corrupt("the vocabulary has no unknown token (<unk>), which BPE over characters needs");
    return std::unique_ptr<Tokenizer>(new SuffixBpe(std::move(vocabulary), merges, normalization));
}

Result<std::unique_ptr<Tokenizer>> SuffixBpe::remade(Vocabulary vocabulary) const {
    return create(std::move(vocabulary), merges_, normalization());
}

void SuffixBpe::cut(const BertNormalizer::Word& normal, bool special, std::vector<Symbol>& symbols,
                    Merges::Scratch& scratch) const {
    const std::string_view word = normal.bytes.text();
    for (std::size_t at = 0; at < word.size();) {
        const std::size_t size = first_code_point(word.substr(at)).size;
        std::string character(word.substr(at, size));
        at += size;
        if (at == word.size()) character += kWordEnd;
        const std::optional<int32_t> id = vocabulary().find_in_model(character);
        symbols.push_back(
            {id && (special || !vocabulary().is_special(*id)) ? *id : unknown(), static_cast<uint32_t>(size)});
    }
    merges_.apply(symbols, scratch);
}

std::string SuffixBpe::tidied(std::string text) const {
    if (text.ends_with(' ')) text.pop_back();
    return text;
}

std::string SuffixBpe::to_json() const {
    if (pipeline() != nullptr)
        return pipeline()->to_json(vocabulary(),
                                   fmt::format("\"vocab\": {},\n    {}", model_vocabulary_json(vocabulary()),
                                               merges_member(vocabulary(), merges_.list())));
    std::string list;
    for (const Merge& merge : merges_.list())
        list += fmt::format(
            "{}\n      {}", list.empty() ? "" : ",",
            json_quote(fmt::format("{} {}", vocabulary().token(merge.left), vocabulary().token(merge.right))));
    return tokenizer_document(
        vocabulary(), bert_normalizer_json(normalization()), "{\"type\": \"BertPreTokenizer\"}",
        text_frame_json(vocabulary()), fmt::format("{{\"type\": \"BPEDecoder\", \"suffix\": \"{}\"}}", kWordEnd),
        fmt::format("{{\n    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": {},\n    "
                    "\"end_of_word_suffix\": \"{}\",\n    \"fuse_unk\": false,\n    \"vocab\": {},\n    "
                    "\"merges\": [{}\n    ]\n  }}",
                    json_quote(vocabulary().token(unknown())), kWordEnd, vocabulary_json(vocabulary()), list));
}

Status SuffixBpe::save(const std::filesystem::path& folder) const {
    const BertNormalization& normal = normalization();
    HK_TRY(write_file_atomically(folder / "vocab.json", vocabulary_json(vocabulary()) + '\n'));
    std::string lines = "#version: 0.2\n";
    for (const Merge& merge : merges_.list())
        lines += fmt::format("{} {}\n", vocabulary().token(merge.left), vocabulary().token(merge.right));
    HK_TRY(write_file_atomically(folder / "merges.txt", lines));
    HK_TRY(write_special_files(folder, vocabulary(),
                               fmt::format("  \"do_lower_case\": {},\n  \"tokenizer_class\": \"OpenAIGPTTokenizer\"",
                                           yes(normal.lower_case))));
    return write_file_atomically(folder / "tokenizer.json", to_json());
}

Result<std::unique_ptr<Tokenizer>> read_suffix_bpe_files(const FilePlace& vocabulary, const FilePlace& merges) {
    HK_ASSIGN(BpeBuilder builder, read_bpe_files(vocabulary, merges, bytes_of));
    HK_TRY(finish_vocabulary(vocabulary.parent_path(), Json(), builder.vocabulary));
    Result<std::unique_ptr<Tokenizer>> tokenizer =
        SuffixBpe::create(std::move(builder.vocabulary), builder.merges, BertNormalization());
    return tokenizer.ok() ? std::move(tokenizer) : tokenizer.status().with_context(vocabulary.string());
}

} // namespace hekla::text
