#include "text/files/gpt2_files.hpp"

#include "text/files/json_file.hpp"
#include "text/files/special_files.hpp"
#include "text/files/text_frame_files.hpp"
#include "text/files/wordpiece_files.hpp"
#include "text/text_position.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::text {
namespace {

constexpr std::string_view kEndOfText = "<|endoftext|>";

Status read_vocabulary(const FilePlace& path, BpeBuilder& builder) {
    const std::string name = path.string();
    HK_ASSIGN(const Json json, read_json_object(path));
    if (json.empty()) return corrupt(fmt::format("{}: the vocabulary is empty", name));
    std::vector<std::pair<int32_t, const std::string*>> tokens; // by id, so that they are added in ascending order
    tokens.reserve(json.size());
    for (auto at = json.begin(); at != json.end(); ++at) {
        HK_ASSIGN(const int32_t id, json_token_id(at.value(), json_quote(at.key()), name));
        tokens.emplace_back(id, &at.key());
    }
    std::sort(tokens.begin(), tokens.end());
    for (const auto& [id, token] : tokens) HK_TRY(builder.add_token(*token, id, name));
    return {};
}

Status read_merges(const FilePlace& path, BpeBuilder& builder) {
    HK_ASSIGN(const std::string content, path.read());
    TextOrigin origin;
    origin.name = path.string();
    HK_TRY(check_utf8(content, origin));
    std::string_view rest = content;
    for (uint64_t number = 1; !rest.empty(); ++number) {
        const std::size_t end = std::min(rest.find('\n'), rest.size());
        std::string_view line = rest.substr(0, end);
        rest.remove_prefix(std::min(end + 1, rest.size()));
        if (line.ends_with('\r')) line.remove_suffix(1);
        if (number == 1 && line.starts_with("#version")) continue;
        if (line.empty() && rest.empty()) break;
        const std::string place = fmt::format("{}: line {}", path.string(), number);
        const std::size_t space = line.find(' ');
        if (space == 0 || space == std::string_view::npos || space + 1 == line.size() ||
            line.find(' ', space + 1) != std::string_view::npos)
            return corrupt(fmt::format("{}: two tokens with one space between them were expected, got {}", place,
                                       json_quote(line.substr(0, 80))));
        HK_TRY(builder.add_merge(line.substr(0, space), line.substr(space + 1), place));
    }
    return {};
}

// Sets the special tokens of GPT-2, RoBERTa (BART) and DeBERTa, for folders whose files do not contain them.
Status set_usual_roles(Vocabulary& vocabulary) {
    if (vocabulary.find(kEndOfText))
        return vocabulary.add_special({std::string(kEndOfText), {TokenRole::bos, TokenRole::eos}});
    if (const std::optional<int32_t> mask = vocabulary.find("<mask>");
        mask && vocabulary.find("<s>") && vocabulary.find("</s>")) {
        HK_TRY(vocabulary.add_special({"<s>", {TokenRole::bos, TokenRole::cls}}));
        HK_TRY(vocabulary.add_special({"</s>", {TokenRole::eos, TokenRole::separator}}));
        for (const auto& [token, role] : {std::pair("<pad>", TokenRole::pad), std::pair("<unk>", TokenRole::unk)})
            if (vocabulary.find(token)) HK_TRY(vocabulary.add_special({token, {role}}));
        AddedToken masked{*mask, "<mask>"};
        masked.lstrip = true; // the mask replaces a word and its space
        HK_TRY(vocabulary.add(std::move(masked)));
        return vocabulary.set_role(TokenRole::mask, *mask);
    }
    return set_bert_roles(vocabulary);
}

} // namespace

Result<BpeBuilder> read_bpe_files(const FilePlace& vocabulary, const FilePlace& merges,
                                  std::function<std::string(const std::string& token)> bytes_of) {
    BpeBuilder builder;
    builder.bytes_of = std::move(bytes_of);
    HK_TRY(read_vocabulary(vocabulary, builder));
    HK_TRY(read_merges(merges, builder));
    return builder;
}

Result<std::unique_ptr<Tokenizer>> read_gpt2_files(const FilePlace& vocabulary, const FilePlace& merges) {
    HK_ASSIGN(BpeBuilder builder, read_bpe_files(vocabulary, merges));
    const FilePlace folder = vocabulary.parent_path();
    HK_TRY(read_special_files(folder, builder.vocabulary));
    ByteBpeOptions options;
    HK_ASSIGN(options.add_prefix_space, read_add_prefix_space(folder));
    if (builder.vocabulary.added().empty()) HK_TRY(set_usual_roles(builder.vocabulary));
    HK_TRY(read_text_frame(folder, Json(), builder.vocabulary));
    return ByteBpe::create(std::move(builder.vocabulary), builder.merges, std::move(options));
}

std::string gpt2_vocabulary_json(const ByteBpe& bpe) {
    const Vocabulary& vocabulary = bpe.vocabulary();
    std::string out = "{";
    for (int32_t id = 0; id < vocabulary.size(); ++id) {
        if (!vocabulary.has(id)) continue;
        out += fmt::format("{}\n  {}: {}", out.size() > 1 ? "," : "", json_quote(vocabulary.token(id)), id);
    }
    return out + "\n}\n";
}

std::string gpt2_merges_text(const ByteBpe& bpe) {
    std::string out = "#version: 0.2\n";
    for (const Merge& merge : bpe.merges().list())
        out += fmt::format("{} {}\n", bpe.vocabulary().token(merge.left), bpe.vocabulary().token(merge.right));
    return out;
}

} // namespace hekla::text
