#include "data/message_columns.hpp"

#include "base/json.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::data {
namespace {

using text::Messages;
using Ids = std::vector<int32_t>;

Messages messages_of(const Value& value) { return ordered_json_or_null(value.text); }

EncodedColumn column_of(const TaskColumn& column, Ids ids) {
    EncodedColumn out;
    out.name = column.name;
    out.kind = HK_COLUMN_MESSAGES;
    out.ids = std::move(ids);
    return out;
}

// Encodes a conversation, with the bounds of what the assistant writes as parts.
Result<EncodedColumn> encode_conversation(const text::TextEncoder& encoder, const text::ChatTemplate& chat,
                                          const TaskColumn& column, const Messages& messages, const StopPoll& stop) {
    HK_ASSIGN(const text::Conversation conversation,
              chat.conversation(messages, encoder.tokenizer().vocabulary(), stop));
    std::vector<text::ByteRange> ranges;
    HK_ASSIGN(Ids ids, text::chat_ids(encoder.tokenizer(), conversation.text, &ranges));
    EncodedColumn out = column_of(column, std::move(ids));
    out.parts.push_back(0);
    std::size_t at = 0;
    for (const text::ByteRange& answer : conversation.answers)
        for (const uint64_t bound : {answer.begin, answer.end}) {
            while (at < ranges.size() && ranges[at].begin < bound) ++at;
            out.parts.push_back(at);
        }
    return out;
}

struct AnswerColumn {
    std::size_t column = 0;
    Messages messages;
};

// Removes the messages that all answers begin with, and returns them.
Result<Messages> common_messages(std::span<const TaskColumn> columns, std::vector<AnswerColumn>& answers) {
    std::size_t same = 0;
    const auto all_have = [&](std::size_t i) {
        return std::ranges::all_of(answers, [&](const AnswerColumn& answer) {
            return i + 1 < answer.messages.size() && answer.messages[i] == answers[0].messages[i];
        });
    };
    while (all_have(same)) ++same;
    if (same == 0)
        return invalid_argument(
            fmt::format("\"{}\" has messages, which do not begin like those of \"{}\", and there are "
                        "no messages of a prompt; expected one or the other",
                        columns[answers[0].column].name, columns[answers.back().column].name));
    Messages prompt = Messages::array();
    for (std::size_t i = 0; i < same; ++i) prompt.push_back(answers[0].messages[i]);
    for (AnswerColumn& answer : answers) {
        Messages rest = Messages::array();
        for (std::size_t i = same; i < answer.messages.size(); ++i) rest.push_back(answer.messages[i]);
        answer.messages = std::move(rest);
    }
    return prompt;
}

} // namespace

std::vector<std::string> contents_of(const Value& value, bool with_roles) {
    std::vector<std::string> contents;
    for (const Messages& message : messages_of(value)) {
        if (!message.is_object()) continue;
        for (const char* key : {"role", "content"}) {
            const auto found = message.find(key);
            const bool wanted = with_roles || std::string_view(key) == "content";
            if (wanted && found != message.end() && found->is_string()) contents.push_back(found->get<std::string>());
        }
    }
    return contents;
}

Status check_is_messages(const TaskColumn& column, const Value& value) {
    if (column.kind != HK_COLUMN_MESSAGES || !value.present || value.is_messages) return {};
    return invalid_argument(fmt::format("\"{}\" is a text, expected a list of messages, such as "
                                        "[{{\"role\": \"user\", \"content\": \"Hello\"}}]",
                                        column.name));
}

Status encode_messages(const text::TextEncoder& encoder, const text::ChatTemplate* chat,
                       std::span<const TaskColumn> columns, std::span<const Value> values,
                       std::span<std::optional<EncodedColumn>> out, const StopPoll& stop) {
    std::optional<std::size_t> prompt_column;
    std::vector<AnswerColumn> answers;
    std::optional<std::size_t> text_answer; // a target that is text
    for (std::size_t c = 0; c < columns.size(); ++c) {
        const TaskColumn& column = columns[c];
        if (values[c].present && column.kind == HK_COLUMN_MESSAGES) {
            HK_TRY(check_is_messages(column, values[c]));
            if (chat == nullptr) break; // below
            Result<EncodedColumn> encoded = encode_conversation(encoder, *chat, column, messages_of(values[c]), stop);
            if (!encoded.ok()) return encoded.status().with_context(fmt::format("\"{}\"", column.name));
            out[c] = encoded.take();
        }
        if (column.kind != HK_COLUMN_TOKENS) continue;
        if (!column.target && !prompt_column) prompt_column = c;
        if (column.target && values[c].is_messages) answers.push_back({c, messages_of(values[c])});
        if (column.target && values[c].present && !values[c].is_messages) text_answer = c;
    }
    if (chat == nullptr) {
        const bool has_messages = std::ranges::any_of(values, [](const Value& value) { return value.is_messages; });
        return has_messages ? invalid_argument("the row has messages, and there is no chat template") : Status();
    }
    const bool has_prompt = prompt_column && values[*prompt_column].is_messages;
    if (!has_prompt && answers.empty()) return {};
    if ((has_prompt || !answers.empty()) && text_answer)
        return invalid_argument(fmt::format(
            "\"{}\" has messages and \"{}\" is a text; expected messages in both, or texts in both",
            has_prompt ? columns[*prompt_column].name : columns[answers[0].column].name, columns[*text_answer].name));
    Messages prompt;
    if (has_prompt) {
        prompt = messages_of(values[*prompt_column]);
    } else if (!prompt_column) {
        return invalid_argument(fmt::format("\"{}\" has messages, and no column for their prompt is read; name it in "
                                            "data.columns, or leave data.columns out",
                                            columns[answers[0].column].name));
    } else if (answers.size() < 2) {
        return invalid_argument(fmt::format("\"{}\" has messages and \"{}\" has none; expected messages in both",
                                            columns[answers[0].column].name, columns[*prompt_column].name));
    } else {
        HK_ASSIGN(prompt, common_messages(columns, answers));
    }
    if (answers.empty()) {
        HK_ASSIGN(const std::string text, chat->render(prompt, true, encoder.tokenizer().vocabulary()));
        HK_ASSIGN(Ids ids, text::chat_ids(encoder.tokenizer(), text));
        out[*prompt_column] = column_of(columns[*prompt_column], std::move(ids));
        return {};
    }
    Ids before;
    for (const AnswerColumn& answer : answers) {
        const TaskColumn& column = columns[answer.column];
        const Result<text::PromptAndAnswer> both =
            chat->answer(prompt, answer.messages, encoder.tokenizer().vocabulary());
        if (!both.ok()) return both.status().with_context(fmt::format("\"{}\"", column.name));
        if (before.empty()) { HK_ASSIGN(before, text::chat_ids(encoder.tokenizer(), both.value().prompt)); }
        // The tokens of the whole text, unless one of them spans the end of the prompt.
        HK_ASSIGN(Ids ids, text::chat_ids(encoder.tokenizer(), both.value().prompt + both.value().answer));
        if (ids.size() >= before.size() && std::equal(before.begin(), before.end(), ids.begin())) {
            ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(before.size()));
        } else {
            HK_ASSIGN(ids, text::chat_ids(encoder.tokenizer(), both.value().answer));
        }
        if (ids.empty())
            return invalid_argument(
                fmt::format("\"{}\": the chat template writes nothing for its messages", column.name));
        out[answer.column] = column_of(column, std::move(ids));
    }
    out[*prompt_column] = column_of(columns[*prompt_column], std::move(before));
    return {};
}

} // namespace hekla::data
