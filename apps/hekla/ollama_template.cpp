#include "ollama_template.hpp"

#include "base/json.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <optional>
#include <string_view>
#include <vector>

namespace hekla::app {
namespace {

using text::Messages;

// Contents that no template changes or contains.
constexpr const char *kSystem = "HeklaSystem", *kUser = "HeklaUser", *kAnswer = "HeklaAnswer";

// What a template writes around the contents of messages.
struct Turns {
    std::string begin;                       // before the first message of a user, without a system's
    std::string before_system, after_system; // after_system: up to the content of the user's message
    std::string before_user, after_user;     // after_user: up to where the assistant begins
    std::string before_answer, after_answer; // before_answer: after where the assistant begins
    bool has_system = false;
};

class Probe {
public:
    Probe(const text::ChatTemplate& chat, const text::Vocabulary& tokens, bool begins_text)
        : chat_(chat), tokens_(tokens), begins_text_(begins_text) {}

    // Returns the text of messages by turns ("user", "assistant"), after a system's; up to where the assistant begins
    // if a user's is the last.
    Result<std::string> text_of(bool system, int messages) const {
        Messages list = Messages::array();
        if (system) list.push_back({{"role", "system"}, {"content", kSystem}});
        for (int i = 0; i < messages; ++i)
            list.push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", i % 2 == 0 ? kUser : kAnswer}});
        HK_ASSIGN(std::string text, chat_.render(list, messages % 2 != 0, tokens_));
        if (const auto bos = tokens_.role(text::TokenRole::bos); begins_text_ && bos)
            if (const std::string_view first = tokens_.token(*bos); text.starts_with(first))
                text.erase(0, first.size());
        return text;
    }

private:
    const text::ChatTemplate& chat_;
    const text::Vocabulary& tokens_;
    bool begins_text_;
};

// Returns the texts around the marks, which must occur once each, in this order.
std::optional<std::vector<std::string>> around(std::string_view text, std::initializer_list<const char*> marks) {
    std::vector<std::string> pieces;
    for (const std::string_view mark : marks) {
        const std::size_t at = text.find(mark);
        if (at == std::string_view::npos) return {};
        pieces.emplace_back(text.substr(0, at));
        text.remove_prefix(at + mark.size());
    }
    pieces.emplace_back(text);
    return pieces;
}

Status depends() { return unsupported("the text of a turn depends on more than its role and what is before it"); }

Result<Turns> turns_of(const Probe& probe) {
    HK_ASSIGN(const std::string one_text, probe.text_of(false, 1));
    HK_ASSIGN(const std::string two_text, probe.text_of(false, 3));
    const auto one = around(one_text, {kUser}), two = around(two_text, {kUser, kAnswer, kUser});
    if (!one || !two) return depends();
    const std::string &first = (*one)[0], &between = (*two)[2];
    Turns turns;
    turns.after_user = (*one)[1];
    if (!(*two)[1].starts_with(turns.after_user)) return depends();
    turns.before_answer = (*two)[1].substr(turns.after_user.size());
    // Between an answer and a user's message: the end of a conversation, and what the message begins with.
    HK_ASSIGN(const std::string ended, probe.text_of(false, 2));
    const auto end = around(ended, {kUser, kAnswer});
    if (!end || !between.starts_with((*end)[2])) return depends();
    turns.after_answer = (*end)[2];
    turns.before_user = between.substr(turns.after_answer.size());
    if (!first.ends_with(turns.before_user)) return depends();
    turns.begin = first.substr(0, first.size() - turns.before_user.size());
    const Result<std::string> system = probe.text_of(true, 1);
    if (!system.ok()) return turns;
    const auto pieces = around(system.value(), {kSystem, kUser});
    if (!pieces) return turns;
    turns.has_system = true;
    turns.before_system = (*pieces)[0];
    turns.after_system = (*pieces)[1];
    return turns;
}

// Returns what ollama_template()'s text gives for the messages of Probe::text_of.
std::string written(const Turns& turns, bool system, int messages) {
    std::string text;
    if (system) text = turns.before_system + kSystem + turns.after_system;
    for (int i = 0; i < messages; ++i) {
        if (i % 2 != 0) {
            text += turns.before_answer + kAnswer + turns.after_answer;
            continue;
        }
        if (i > 0 || !system) text += (i == 0 ? turns.begin : std::string()) + turns.before_user;
        text += kUser + turns.after_user;
    }
    return text;
}

// Returns an action that prints the text; nothing for an empty one. A Modelfile ends a value at three quotes.
std::string printed(const std::string& text) {
    if (text.empty()) return "";
    std::string quoted = "\"";
    for (const char c : text) {
        if (c == '\n')
            quoted += "\\n";
        else if (c == '\t')
            quoted += "\\t";
        else if (c == '"' || c == '\\')
            quoted += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
        else if (static_cast<unsigned char>(c) < 0x20)
            quoted += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
        else
            quoted += c;
    }
    return "{{ " + quoted + "\" }}";
}

} // namespace

Result<OllamaTemplate> ollama_template(const text::ChatTemplate& chat, const text::Vocabulary& tokens,
                                       bool begins_text) {
    const Probe probe(chat, tokens, begins_text);
    HK_ASSIGN(const Turns turns, turns_of(probe));
    for (const bool system : {false, true})
        for (const int messages : {1, 3, 5}) {
            if (system && !turns.has_system) continue;
            HK_ASSIGN(const std::string text, probe.text_of(system, messages));
            if (text != written(turns, system, messages)) return depends();
        }
    std::string before_user = printed(turns.before_user);
    if (!turns.begin.empty()) before_user = "{{- if eq $i 0 -}}" + printed(turns.begin) + "{{- end -}}" + before_user;
    std::string text = "{{- range $i, $message := .Messages -}}\n{{- if eq .Role \"user\" -}}\n";
    if (turns.has_system) {
        before_user = "{{- if $system -}}{{- $system = false -}}{{- else -}}" + before_user + "{{- end -}}";
        text = "{{- $system := false -}}\n{{- range $i, $message := .Messages -}}\n{{- if eq .Role \"system\" -}}\n"
               "{{- $system = true -}}\n" +
               printed(turns.before_system) + "{{ .Content }}" + printed(turns.after_system) +
               "\n{{- else if eq .Role \"user\" -}}\n";
    }
    text += before_user + "{{ .Content }}" + printed(turns.after_user) + "\n{{- else if eq .Role \"assistant\" -}}\n" +
            printed(turns.before_answer) + "{{ .Content }}" + printed(turns.after_answer) +
            "\n{{- end -}}\n{{- end -}}";
    OllamaTemplate result{std::move(text), turns.after_answer};
    constexpr const char* kSpaces = " \t\r\n";
    result.turn_end.erase(0, std::min(result.turn_end.find_first_not_of(kSpaces), result.turn_end.size()));
    result.turn_end.erase(result.turn_end.find_last_not_of(kSpaces) + 1);
    return result;
}

} // namespace hekla::app
