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

// Two private characters of Unicode and a word: in no conversation.
constexpr std::string_view kAnswerMark = "\uE000mark\uE001";

bool is_answer(const Messages& message) { return message["role"] == "assistant"; }

std::size_t common_prefix(std::string_view a, std::string_view b) {
    return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

// Returns the special token that a text begins with; the whole text, without blanks after it, if there is none.
std::string_view first_token(std::string_view text, const Vocabulary& tokens) {
    std::size_t size = 0;
    for (const AddedToken& token : tokens.added())
        if (token.special && text.starts_with(token.content)) size = std::max(size, token.content.size());
    return size > 0 ? text.substr(0, size) : without_blanks(text);
}

// Puts kAnswerMark into what a template writes of a message: after its content, before the blanks that a template may
// remove; or after the name of its last call of a tool. Returns false for a message that has neither.
bool put_mark(Messages& message) {
    if (const auto content = message.find("content"); content != message.end() && content->is_string()) {
        auto text = content->get<std::string>();
        if (const std::size_t end = text.find_last_not_of(" \t\r\n\v\f") + 1; end > 0) {
            *content = text.insert(end, kAnswerMark);
            return true;
        }
    }
    const auto calls = message.find("tool_calls");
    if (calls == message.end() || !calls->is_array() || calls->empty() || !calls->back().is_object()) return false;
    Messages& call = calls->back();
    const auto function = call.find("function");
    Messages& named = function != call.end() && function->is_object() ? *function : call;
    const auto name = named.find("name");
    if (name == named.end() || !name->is_string()) return false;
    *name = name->get<std::string>() + std::string(kAnswerMark);
    return true;
}

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
        if (!after.text.starts_with(before.text) || !conversation.text.starts_with(after.text)) {
            conversation.answers.clear();
            HK_TRY(find_by_marks(messages, tokens, stop, conversation));
            return conversation;
        }
        std::string_view answer = std::string_view(after.text).substr(before.text.size());
        // "<|im_end|>\n": the line end belongs to the format, and the model need not write it.
        const std::string_view kept = answer.substr(0, answer.find_last_not_of(" \t\r\n") + 1);
        if (!end_of_turn.empty() && kept.ends_with(end_of_turn))
            answer = kept.substr(0, kept.size() - end_of_turn.size() + first_token(end_of_turn, tokens).size());
        if (!answer.empty()) conversation.answers.push_back({before.text.size(), before.text.size() + answer.size()});
    }
    return conversation;
}

Result<ChatTemplate::Turn> ChatTemplate::turn_of(const Vocabulary& tokens) const {
    const auto message = [](const char* role, std::string_view content) {
        return Messages{{"role", role}, {"content", std::string(content)}};
    };
    Messages probe = Messages::array({message("user", "(a question)")});
    HK_ASSIGN(const std::string asked, render(probe, false, tokens));
    HK_ASSIGN(const std::string prompt, render(probe, true, tokens));
    probe.push_back(message("assistant", kProbe));
    probe.push_back(message("user", "(a question)"));
    HK_ASSIGN(const std::string earlier, render(probe, false, tokens));
    Turn turn;
    const std::size_t begin = common_prefix(asked, prompt), end = common_prefix(prompt, earlier);
    if (end > begin) turn.header = prompt.substr(begin, end - begin);
    turn.prompt = prompt.substr(begin);
    if (const std::size_t at = earlier.find(kProbe); at != std::string::npos)
        turn.end = first_token(std::string_view(earlier).substr(at + kProbe.size()), tokens);
    HK_ASSIGN(const std::string last, end_text(tokens));
    turn.last_end = first_token(last, tokens);
    return turn;
}

Status ChatTemplate::find_by_marks(const Messages& messages, const Vocabulary& tokens, const StopPoll& stop,
                                   Conversation& conversation) const {
    const std::string_view text = conversation.text;
    HK_ASSIGN(const Turn turn, turn_of(tokens));
    std::size_t place = 0; // where the search begins
    for (std::size_t i = 0; i < messages.size(); ++i) {
        if (!is_answer(messages[i])) continue;
        HK_TRY(stop.check("writing a conversation by its chat template"));
        const auto no_place = [&] {
            return unsupported(fmt::format(
                "chat template {}: its text of the first {} messages depends on the messages after them, and what the "
                "assistant writes in message {} was not found in the whole; put {{% generation %}} and "
                "{{% endgeneration %}} around it in the template, or set data.chat_template to another one",
                name_, i + 1, i + 1));
        };
        Messages marked = messages;
        if (turn.header.empty() || !put_mark(marked[i])) return no_place();
        HK_ASSIGN(const jinja::Rendered whole, rendered(marked, false, tokens));
        std::string without = whole.text;
        const std::size_t mark = without.find(kAnswerMark);
        if (mark == std::string::npos || without.erase(mark, kAnswerMark.size()) != text) return no_place();
        const std::string& ends = i + 1 == messages.size() ? turn.last_end : turn.end;
        std::size_t begin = text.rfind(turn.header, mark);
        const std::size_t end = text.find(ends, mark);
        if (begin == std::string::npos || begin < place || ends.empty() || end == std::string::npos) return no_place();
        begin += common_prefix(text.substr(begin, mark - begin), turn.prompt); // which the model is given
        place = end + ends.size();
        conversation.answers.push_back({begin, place});
    }
    return {};
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
    HK_ASSIGN(const std::string all, end_text(tokenizer.vocabulary()));
    const std::string end(first_token(all, tokenizer.vocabulary())); // Phi-3 ends the last turn with two
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
