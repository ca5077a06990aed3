#include "text/files/text_frame_files.hpp"

#include "text/files/special_files.hpp"
#include "text/files/tokenizer_json_parts.hpp"
#include "text/frame_shapes.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <optional>

namespace hekla::text {
namespace {

// Appends the steps of a post_processor that add tokens: itself, or those of a sequence. The JSON reader bounds the
// depth.
void append_steps(const Json& post_processor, std::vector<const Json*>& steps) {
    const Json& type = member(post_processor, "type");
    if (type == "TemplateProcessing" || type == "BertProcessing" || type == "RobertaProcessing")
        steps.push_back(&post_processor);
    if (type != "Sequence") return;
    for (const Json& step : member(post_processor, "processors")) append_steps(step, steps);
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

// Reads a template's pieces into the lists of ids before, between and after its texts, and the types of all pieces: of
// each token and each text. texts: the names of its texts in order.
Status read_pieces(const Json& section, const char* key, std::span<const char* const> texts, const std::string& name,
                   const Vocabulary& vocabulary, std::span<std::vector<int32_t>* const> lists,
                   std::vector<int32_t>& types) {
    std::size_t at = 0; // texts so far
    for (const Json& piece : member(section, key)) {
        const Json& special = member(piece, "SpecialToken");
        const Json& which = special.is_object() ? special : member(piece, "Sequence");
        HK_ASSIGN(const int32_t type, json_token_id(member(which, "type_id"), "type_id", name));
        std::size_t count = 1;
        if (special.is_object()) {
            const std::size_t known = lists[at]->size();
            HK_TRY(append_special(section, special, name, vocabulary, *lists[at]));
            count = lists[at]->size() - known;
        } else {
            if (at >= texts.size() || member(which, "id") != texts[at])
                return unsupported(
                    fmt::format("{}: \"post_processor\": its template \"{}\" has the text {} at place {}, "
                                "expected each text once, in order",
                                name, key, member(which, "id").dump(), at + 1));
            ++at;
        }
        types.insert(types.end(), count, type);
    }
    if (at == texts.size()) return {};
    return unsupported(fmt::format("{}: \"post_processor\": its template \"{}\" has {} texts, expected {}", name, key,
                                   at, texts.size()));
}

Result<TextFrame> read_template(const Json& section, const std::string& name, const Vocabulary& vocabulary) {
    TextFrame frame;
    constexpr const char* kTexts[] = {"A", "B"};
    std::vector<int32_t>* const single[] = {&frame.before, &frame.after};
    HK_TRY(read_pieces(section, "single", std::span(kTexts).first(1), name, vocabulary, single, frame.types));
    std::vector<int32_t>* const pair[] = {&frame.pair_before, &frame.pair_between, &frame.pair_after};
    if (const Json& pieces = member(section, "pair"); pieces.is_array() && !pieces.empty())
        HK_TRY(read_pieces(section, "pair", kTexts, name, vocabulary, pair, frame.pair_types));
    else
        frame.pair_types = {0, 1};
    const std::optional<int32_t> classifier = vocabulary.role(TokenRole::cls);
    const bool is_encoders = classifier && std::ranges::find(frame.before, *classifier) != frame.before.end();
    frame.documents = !frame.before.empty() && !is_encoders;
    return frame;
}

// BertProcessing and RobertaProcessing name their two tokens with their ids.
Result<TextFrame> read_classifier_frame(const Json& section, const std::string& name, const Vocabulary& vocabulary) {
    int32_t ids[2] = {};
    for (const auto& [key, id] : {std::pair("cls", &ids[0]), std::pair("sep", &ids[1])}) {
        const Json& token = member(section, key);
        if (!token.is_array() || token.size() != 2)
            return corrupt(fmt::format("{}: \"post_processor\": \"{}\" is {}, expected a token and its id", name, key,
                                       token.dump()));
        HK_ASSIGN(*id, json_token_id(token[1], json_quote(key), name));
        if (!vocabulary.has(*id))
            return corrupt(fmt::format("{}: \"post_processor\": \"{}\" has id {}, which no token has", name, key, *id));
    }
    return member(section, "type") == "BertProcessing" ? bert_frame(ids[0], ids[1]) : roberta_frame(ids[0], ids[1]);
}

} // namespace

Status read_text_frame(const FilePlace& folder, const Json& post_processor, Vocabulary& vocabulary) {
    const std::string json_name = (folder / "tokenizer.json").string();
    std::vector<const Json*> steps;
    append_steps(post_processor, steps);
    if (steps.size() > 1)
        return unsupported(
            fmt::format("{}: \"post_processor\": {} of its steps add tokens ({} and {}), expected one step "
                        "that adds all tokens",
                        json_name, steps.size(), member(*steps[0], "type").dump(), member(*steps[1], "type").dump()));
    if (!steps.empty()) {
        const Json& section = *steps[0];
        const bool is_template = member(section, "type") == "TemplateProcessing";
        HK_ASSIGN(TextFrame frame, is_template ? read_template(section, json_name, vocabulary)
                                               : read_classifier_frame(section, json_name, vocabulary));
        return vocabulary.set_frame(std::move(frame));
    }
    const FilePlace path = folder / "tokenizer_config.json";
    const std::string name = path.string();
    Json config = Json::object();
    if (path.exists()) { HK_ASSIGN(config, read_json_object(path)); }
    HK_ASSIGN(const std::string family, tokenizer_family(folder));
    if (std::optional<TextFrame> frame = frame_of_tokenizer_class(family, vocabulary))
        return vocabulary.set_frame(std::move(*frame));
    // With a tokenizer.json the two keys below have no effect in transformers 5.
    const bool are_read = !(folder / "tokenizer.json").exists();
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
        HK_ASSIGN(const bool given, json_bool(config, end.key, end.usual, name));
        const bool wanted = given && are_read;
        const std::optional<int32_t> id = vocabulary.role(end.role);
        if (wanted && id) end.ids.push_back(*id);
        if (wanted && !id && config.contains(end.key))
            return corrupt(
                fmt::format("{}: \"{}\" is true, and the tokenizer has no {}", name, end.key, role_key(end.role)));
    }
    frame.documents = !frame.before.empty() || !frame.after.empty();
    return vocabulary.set_frame(repeated_frame(std::move(frame)));
}

std::string text_frame_json(const Vocabulary& vocabulary) {
    const TextFrame& frame = vocabulary.frame();
    if (frame == TextFrame()) return "null";
    std::string defined;
    const auto pieces = [&](std::span<const std::vector<int32_t>* const> lists, const std::vector<int32_t>& types) {
        std::string all;
        std::size_t piece = 0;
        const auto type = [&] { return piece < types.size() ? types[piece++] : 0; };
        for (std::size_t i = 0; i < lists.size(); ++i) {
            if (i > 0)
                all += fmt::format("{}{{\"Sequence\": {{\"id\": \"{}\", \"type_id\": {}}}}}", all.empty() ? "" : ", ",
                                   i == 1 ? "A" : "B", type());
            for (const int32_t id : *lists[i]) {
                const std::string token = json_quote(vocabulary.token(id));
                all += fmt::format("{}{{\"SpecialToken\": {{\"id\": {}, \"type_id\": {}}}}}", all.empty() ? "" : ", ",
                                   token, type());
                const std::string entry =
                    fmt::format("{}: {{\"id\": {}, \"ids\": [{}], \"tokens\": [{}]}}", token, token, id, token);
                if (defined.find(entry) == std::string::npos) defined += (defined.empty() ? "" : ", ") + entry;
            }
        }
        return all;
    };
    const std::vector<int32_t>* const single[] = {&frame.before, &frame.after};
    const std::vector<int32_t>* const pair[] = {&frame.pair_before, &frame.pair_between, &frame.pair_after};
    const std::string one = pieces(single, frame.types), two = pieces(pair, frame.pair_types);
    return fmt::format("{{\"type\": \"TemplateProcessing\",\n    \"single\": [{}],\n    \"pair\": [{}],\n"
                       "    \"special_tokens\": {{{}}}}}",
                       one, two, defined);
}

} // namespace hekla::text
