#include "text/files/text_frame_files.hpp"

#include "text/files/special_files.hpp"
#include "text/files/tokenizer_json_parts.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <optional>

namespace hekla::text {
namespace {

// Returns the TemplateProcessing of a post_processor: itself, or one step of a sequence. Null if there is none. The
// JSON reader bounds the depth.
const Json* template_of(const Json& post_processor) {
    const Json& type = member(post_processor, "type");
    if (type == "TemplateProcessing") return &post_processor;
    if (type != "Sequence") return nullptr;
    for (const Json& step : member(post_processor, "processors"))
        if (const Json* found = template_of(step)) return found;
    return nullptr;
}

// Appends the ids of a template's special token.
Status append_special(const Json& section, const Json& special, const std::string& name, const Vocabulary& vocabulary,
                      std::vector<int32_t>& out) {
    HK_ASSIGN(const std::string token, json_string(special, "id", "", name));
    const Json& defined = member(member(section, "special_tokens"), token.c_str());
    const Json& ids = member(defined, "ids");
    if (!ids.is_array())
        return corrupt(
            fmt::format("{}: the template of \"post_processor\" uses {}, which its \"special_tokens\" do not define",
                        name, json_quote(token)));
    for (const Json& one : ids) {
        HK_ASSIGN(const int32_t id, json_token_id(one, json_quote(token), name));
        if (!vocabulary.has(id))
            return corrupt(
                fmt::format("{}: the template of \"post_processor\" uses id {}, which no token has", name, id));
        out.push_back(id);
    }
    return {};
}

Result<TextFrame> read_template(const Json& section, const std::string& name, const Vocabulary& vocabulary) {
    TextFrame frame;
    bool is_before = true;
    for (const Json& piece : member(section, "single")) {
        if (const Json& special = member(piece, "SpecialToken"); special.is_object())
            HK_TRY(append_special(section, special, name, vocabulary, is_before ? frame.before : frame.after));
        else
            is_before = false;
    }
    const std::optional<int32_t> classifier = vocabulary.role(TokenRole::cls);
    const bool is_encoders = classifier && std::ranges::find(frame.before, *classifier) != frame.before.end();
    return frame.before.empty() || is_encoders ? TextFrame() : frame;
}

} // namespace

Status read_text_frame(const FilePlace& folder, const Json& post_processor, Vocabulary& vocabulary) {
    if (const Json* section = template_of(post_processor)) {
        HK_ASSIGN(TextFrame frame, read_template(*section, (folder / "tokenizer.json").string(), vocabulary));
        return vocabulary.set_frame(std::move(frame));
    }
    const FilePlace path = folder / "tokenizer_config.json";
    const std::string name = path.string();
    Json config = Json::object();
    if (path.exists()) { HK_ASSIGN(config, read_json_object(path)); }
    HK_ASSIGN(const std::string family, tokenizer_family(folder));
    const bool is_llama = family == "Llama" || family == "CodeLlama" || family == "Gemma";
    TextFrame frame;
    struct End {
        const char* key;
        TokenRole role;
        bool usual; // default if the key is absent
        std::vector<int32_t>& ids;
    };
    for (const End& end : {End{"add_bos_token", TokenRole::bos, is_llama, frame.before},
                           End{"add_eos_token", TokenRole::eos, false, frame.after}}) {
        HK_ASSIGN(const bool wanted, json_bool(config, end.key, end.usual, name));
        const std::optional<int32_t> id = vocabulary.role(end.role);
        if (wanted && id) end.ids.push_back(*id);
        if (wanted && !id && config.contains(end.key))
            return corrupt(
                fmt::format("{}: \"{}\" is true, and the tokenizer has no {}", name, end.key, role_key(end.role)));
    }
    return vocabulary.set_frame(std::move(frame));
}

std::string text_frame_json(const Vocabulary& vocabulary) {
    const TextFrame& frame = vocabulary.frame();
    if (frame == TextFrame()) return "null";
    std::string before, after, defined;
    const auto add = [&](const std::vector<int32_t>& ids, int segment) {
        std::string pieces;
        for (const int32_t id : ids) {
            const std::string token = json_quote(vocabulary.token(id));
            pieces += fmt::format("{{\"SpecialToken\": {{\"id\": {}, \"type_id\": {}}}}}, ", token, segment);
            const std::string entry =
                fmt::format("{}: {{\"id\": {}, \"ids\": [{}], \"tokens\": [{}]}}", token, token, id, token);
            if (defined.find(entry) == std::string::npos) defined += (defined.empty() ? "" : ", ") + entry;
        }
        return pieces;
    };
    const auto text = [&](const char* which, int segment) {
        std::string pieces = add(frame.before, segment) +
                             fmt::format("{{\"Sequence\": {{\"id\": \"{}\", \"type_id\": {}}}}}, ", which, segment) +
                             add(frame.after, segment);
        pieces.resize(pieces.size() - 2);
        return pieces;
    };
    const std::string first = text("A", 0), second = text("B", 1);
    return fmt::format("{{\"type\": \"TemplateProcessing\",\n    \"single\": [{}],\n    \"pair\": [{}, {}],\n"
                       "    \"special_tokens\": {{{}}}}}",
                       first, first, second, defined);
}

} // namespace hekla::text
