#include "text/chat_template.hpp"

#include "base/path_text.hpp"
#include "base/trimmed.hpp"
#include "text/files/json_file.hpp"
#include "text/text_encoder.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::text {
namespace {

constexpr std::string_view kProbe = "(an answer)"; // of the assistant, to see what a template puts after it

std::string_view without_blanks(std::string_view text) { return trimmed(text, " \t\r\n"); }

Messages first_messages(const Messages& messages, std::size_t count) {
    Messages some = Messages::array();
    for (std::size_t i = 0; i < count; ++i) some.push_back(messages[i]);
    return some;
}

} // namespace

Status check_messages(const Messages& messages) {
    if (!messages.is_array() || messages.empty())
        return invalid_argument(
            "expected a list of at least one message, such as [{\"role\": \"user\", \"content\": \"Hello\"}]");
    for (std::size_t i = 0; i < messages.size(); ++i) {
        const Messages& message = messages[i];
        const auto role = message.is_object() ? message.find("role") : message.end();
        if (!message.is_object() || role == message.end() || !role->is_string())
            return invalid_argument(
                fmt::format("message {} has no \"role\": expected an object with \"role\" and \"content\"", i + 1));
        // Calls of tools have no content.
        if (!message.contains("content") && message.size() == 1)
            return invalid_argument(fmt::format("message {} has no \"content\"", i + 1));
    }
    return {};
}

Result<ChatTemplate> ChatTemplate::parse(std::string text, std::string name) {
    Result<jinja::Template> parsed = jinja::Template::parse(text);
    if (!parsed.ok())
        return parsed.status().with_context(name).with_context(
            "a chat template that cannot be read (data.chat_template sets another one)");
    return ChatTemplate(std::move(text), std::move(name), parsed.take());
}

Result<jinja::Rendered> ChatTemplate::rendered(const Messages& messages, bool answer_follows,
                                               const Vocabulary& tokens) const {
    jinja::Dict variables;
    variables.set("messages", jinja::Value::from_json(messages));
    variables.set("add_generation_prompt", answer_follows);
    for (const char* none : {"tools", "documents"}) variables.set(none, jinja::Value::none());
    for (int32_t role = 0; role < kTokenRoles; ++role)
        if (const std::optional<int32_t> id = tokens.role(static_cast<TokenRole>(role)))
            variables.set(role_key(static_cast<TokenRole>(role)), tokens.token(*id));
    Result<jinja::Rendered> rendered = template_.render(variables, date_);
    if (rendered.ok()) return rendered;
    const Status status = rendered.status().with_context(fmt::format("chat template {}", name_));
    for (std::size_t i = 0; i < messages.size(); ++i)
        if (const auto content = messages[i].find("content"); content != messages[i].end() && content->is_array())
            return status.with_context(
                fmt::format("message {}: its \"content\" is a list of parts, and the template expects a text; write "
                            "the text itself",
                            i + 1));
    return status;
}

ChatTemplate ChatTemplate::dated(const jinja::DateTime& date) const {
    ChatTemplate same = *this;
    same.date_ = date;
    return same;
}

Result<std::string> ChatTemplate::render(const Messages& messages, bool answer_follows,
                                         const Vocabulary& tokens) const {
    HK_TRY(check_messages(messages));
    HK_ASSIGN(jinja::Rendered text, rendered(messages, answer_follows, tokens));
    return std::move(text.text);
}

Result<std::string> ChatTemplate::render_open(const Messages& messages, const Vocabulary& tokens) const {
    constexpr std::string_view kMark = "(the message continues here)";
    HK_TRY(check_messages(messages));
    Messages marked = messages;
    const std::string last = messages.back()["content"].get<std::string>();
    marked.back()["content"] = last + std::string(kMark) + " "; // a template that trims contents removes the space
    HK_ASSIGN(std::string text, render(marked, false, tokens));
    const std::size_t at = text.rfind(kMark);
    if (at == std::string::npos || text.find(without_blanks(last)) == std::string::npos)
        return invalid_argument(
            fmt::format("chat template {}: does not write the last message, so it cannot be continued", name_));
    const bool trims = !std::string_view(text).substr(at + kMark.size()).starts_with(' ');
    text.resize(at);
    if (trims) text.resize(text.find_last_not_of(" \t\r\n\v\f") + 1);
    return text;
}

Result<std::string> ChatTemplate::end_text(const Vocabulary& tokens) const {
    const Messages probe{{{"role", "user"}, {"content", "(a question)"}},
                         {{"role", "assistant"}, {"content", std::string(kProbe)}}};
    HK_ASSIGN(const std::string text, render(probe, false, tokens));
    const std::size_t at = text.rfind(kProbe);
    if (at == std::string::npos)
        return invalid_argument(
            fmt::format("chat template {}: does not write what the assistant's messages contain", name_));
    return std::string(without_blanks(std::string_view(text).substr(at + kProbe.size())));
}

Result<Conversation> ChatTemplate::conversation(const Messages& messages, const Vocabulary& tokens,
                                                const StopPoll& stop) const {
    HK_TRY(check_messages(messages));
    const auto is_answer = [](const Messages& message) { return message["role"] == "assistant"; };
    if (std::ranges::none_of(messages, is_answer))
        return invalid_argument("the conversation has no message of the role \"assistant\", so nothing to learn");
    HK_ASSIGN(jinja::Rendered all, rendered(messages, false, tokens));
    Conversation conversation{std::move(all.text), {}};
    for (const auto& [begin, end] : all.generations) conversation.answers.push_back({begin, end});
    if (!conversation.answers.empty()) return conversation;
    HK_ASSIGN(const std::string end_of_turn, end_text(tokens));
    for (std::size_t i = 0; i < messages.size(); ++i) {
        if (!is_answer(messages[i])) continue;
        HK_TRY(stop.check("writing a conversation by its chat template"));
        HK_ASSIGN(const jinja::Rendered before, rendered(first_messages(messages, i), true, tokens));
        HK_ASSIGN(const jinja::Rendered after, rendered(first_messages(messages, i + 1), false, tokens));
        if (!after.text.starts_with(before.text) || !conversation.text.starts_with(after.text))
            return unsupported(fmt::format(
                "chat template {}: its text of the first {} messages depends on the messages after them, so what the "
                "assistant writes in message {} has no place of its own; put {{% generation %}} and "
                "{{% endgeneration %}} around it in the template, or set data.chat_template to another one",
                name_, i + 1, i + 1));
        std::string_view answer = std::string_view(after.text).substr(before.text.size());
        // "<|im_end|>\n": the line end belongs to the format, and the model need not write it.
        const std::string_view kept = answer.substr(0, answer.find_last_not_of(" \t\r\n") + 1);
        if (!end_of_turn.empty() && kept.ends_with(end_of_turn)) answer = kept;
        if (!answer.empty()) conversation.answers.push_back({before.text.size(), before.text.size() + answer.size()});
    }
    return conversation;
}

Result<PromptAndAnswer> ChatTemplate::answer(const Messages& prompt, const Messages& answer,
                                             const Vocabulary& tokens) const {
    HK_TRY(check_messages(prompt));
    HK_TRY(check_messages(answer));
    if (prompt.back()["role"] == "assistant")
        return invalid_argument("the prompt ends with a message of the assistant; expected one of the user");
    Messages whole = prompt;
    for (const Messages& message : answer) whole.push_back(message);
    HK_ASSIGN(std::string before, render(prompt, true, tokens));
    HK_ASSIGN(const std::string text, render(whole, false, tokens));
    // Where a template begins an answer differently than it writes it later, only what is common is the prompt.
    const auto [end, unused] = std::ranges::mismatch(before, text);
    auto size = static_cast<std::size_t>(end - before.begin());
    while (size > 0 && size < text.size() && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;
    return PromptAndAnswer{text.substr(0, size), text.substr(size)};
}

Result<int32_t> ChatTemplate::turn_end(const Tokenizer& tokenizer) const {
    HK_ASSIGN(const std::string end, end_text(tokenizer.vocabulary()));
    if (end.empty())
        return invalid_argument(
            fmt::format("chat template {}: nothing ends the assistant's turn, so a model could not learn to stop; set "
                        "data.chat_template to one that ends it with a token",
                        name_));
    HK_ASSIGN(const std::vector<int32_t> ids, chat_ids(tokenizer, end));
    if (ids.size() == 1) return ids[0];
    return invalid_argument(
        fmt::format("chat template {}: '{}' ends the assistant's turn, and is {} tokens in this tokenizer instead of "
                    "one; add it with tokenizer.add = [\"{}\"], or set data.chat_template to another one",
                    name_, end, ids.size(), end));
}

Result<std::optional<ChatTemplateSource>> find_chat_template(const FilePlace& folder) {
    using Found = std::optional<ChatTemplateSource>;
    if (const FilePlace file = folder / "chat_template.jinja"; file.is_file()) {
        HK_ASSIGN(std::string text, file.read());
        return Found({std::move(text), file.string()});
    }
    const FilePlace file = folder / "tokenizer_config.json";
    if (!file.is_file()) return Found();
    HK_ASSIGN(const Json config, read_json_object(file));
    const auto found = config.find("chat_template");
    if (found == config.end() || found->is_null()) return Found();
    const std::string name = fmt::format("{} (\"chat_template\")", file.string());
    Json text = *found;
    if (text.is_array()) { // of objects with a name and a template
        const auto usual = std::ranges::find_if(
            *found, [](const Json& one) { return one.is_object() && one.value("name", Json()) == "default"; });
        if (usual == found->end())
            return unsupported(
                fmt::format("{}: none of its templates is named \"default\"; set data.chat_template", name));
        text = usual->value("template", Json());
    }
    if (!text.is_string()) return corrupt(fmt::format("{}: is {}, expected a string", name, text.type_name()));
    return Found({text.get<std::string>(), name});
}

Result<ChatTemplate> chat_template_of(const std::string& name_or_file) {
    const std::vector<std::string_view> names = ChatTemplate::names();
    if (std::ranges::find(names, name_or_file) != names.end()) return ChatTemplate::named(name_or_file);
    if (const FilePlace file{path_of(name_or_file)}; file.is_file()) {
        HK_ASSIGN(std::string text, file.read());
        return ChatTemplate::parse(std::move(text), name_or_file);
    }
    return ChatTemplate::named(name_or_file); // its error
}

Result<std::vector<int32_t>> chat_ids(const Tokenizer& tokenizer, std::string_view text,
                                      std::vector<ByteRange>* ranges) {
    std::vector<int32_t> ids;
    HK_TRY(TextEncoder(tokenizer).encode(TextUse::conversation, text, ids, ranges));
    return ids;
}

} // namespace hekla::text
