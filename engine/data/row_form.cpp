#include "data/row_form.hpp"

#include "data/message_forms.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>

namespace hekla::data {
namespace {

using Json = nlohmann::json;
using Ordered = nlohmann::ordered_json;
using Kind = RowForm::Kind;
using Source = RowForm::Source;

// A question and its answer under the keys of a data set.
struct Pair {
    const char* name; // of the form; null: "rows of QUESTION and ANSWER"
    const char* question;
    const char* answer;
    const char* input; // that may follow the question; null: none
};
constexpr std::array<Pair, 7> kPairs{{{nullptr, "prompt", "completion", nullptr},
                                      {nullptr, "prompt", "response", nullptr},
                                      {"Alpaca", "instruction", "output", "input"},
                                      {"Dolly", "instruction", "response", "context"},
                                      {nullptr, "question", "answer", nullptr},
                                      {nullptr, "query", "response", nullptr},
                                      {nullptr, "input", "output", nullptr}}};
// Keys of lists of messages, and of what preferences are answers to.
constexpr std::array<const char*, 3> kConversations{"messages", "conversations", "conversation"};
constexpr std::array<const char*, 6> kPrompts{"prompt",      "question",      "query",
                                              "instruction", "conversations", "messages"};

bool is_blank_text(std::string_view text) { return text.find_first_not_of(" \t\r\n\f\v") == std::string_view::npos; }

bool has(const Json& row, const char* key) {
    const auto found = row.find(key);
    return found != row.end() && !found->is_null();
}
bool all_have(std::span<const Json> rows, const char* key) {
    return std::ranges::all_of(rows, [key](const Json& row) { return has(row, key); });
}
bool some_have(std::span<const Json> rows, const char* key) {
    return key != nullptr && std::ranges::any_of(rows, [key](const Json& row) { return row.contains(key); });
}

// The columns of a task that forms are known for.
struct TaskColumns {
    std::optional<std::size_t> conversation, prompt, completion, chosen, rejected;
    bool needs_answer = true; // the completion is required

    explicit TaskColumns(Columns columns) {
        for (std::size_t c = 0; c < columns.size(); ++c) {
            const ColumnRequest& column = columns[c];
            std::optional<std::size_t>* const place = column.is_conversation        ? &conversation
                                                      : !column.or_messages         ? nullptr
                                                      : column.name == "prompt"     ? &prompt
                                                      : column.name == "completion" ? &completion
                                                      : column.name == "chosen"     ? &chosen
                                                      : column.name == "rejected"   ? &rejected
                                                                                    : nullptr;
            if (place == nullptr) continue;
            *place = c;
            given = given || !column.source.empty() || !column.templates.empty();
        }
        if (completion) needs_answer = columns[*completion].required;
    }
    bool given = false; // the recipe tells where one of them is
    bool is_conversation() const { return conversation && !given; }
    bool is_pair() const { return prompt && completion && !given; }
    bool is_preference() const { return chosen && rejected && !given; }
};

std::string pair_name(const Pair& pair, bool with_input) {
    if (pair.name == nullptr) return fmt::format("rows of {} and {}", pair.question, pair.answer);
    return fmt::format("{} rows ({}, {}{})", pair.name, pair.question,
                       with_input ? fmt::format("{}, ", pair.input) : std::string(), pair.answer);
}

Status missing(const std::string& key) {
    return not_found(fmt::format("there is no \"{}\", which the first rows have; rows of a file have one form", key));
}

// Returns the text of a key; nothing if the row has none.
Result<std::optional<std::string>> text_of(const Ordered& row, const std::string& key) {
    using Text = std::optional<std::string>;
    const auto found = key.empty() ? row.end() : row.find(key);
    if (found == row.end() || found->is_null()) return Text();
    if (found->is_string()) return Text(found->get<std::string>());
    constexpr double kMost = 9.2e18; // integers of 64 bits are exact
    if (found->is_number_float() && std::abs(found->get<double>()) >= kMost)
        return invalid_argument(
            fmt::format("\"{}\" is a number of more than 64 bits, which would lose digits: write it "
                        "in quotes, as a text",
                        key));
    if (found->is_number() || found->is_boolean()) return Text(found->dump());
    return invalid_argument(fmt::format("\"{}\" is {}, a text was expected", key, found->type_name()));
}

Result<std::string> needed_text(const Ordered& row, const std::string& key) {
    HK_ASSIGN(const std::optional<std::string> text, text_of(row, key));
    if (!text) return missing(key);
    if (is_blank_text(*text)) return invalid_argument(fmt::format("\"{}\" is empty", key));
    return *text;
}

// Returns whether a value is messages that begin with one of the assistant: an answer without its prompt.
bool is_answer_alone(const Json& value) {
    if (!holds_messages(value)) return false;
    const Json& first = value.is_array() ? value.front() : value;
    for (const char* key : {"role", "from"})
        if (const auto found = first.find(key); found != first.end()) return *found == "assistant" || *found == "gpt";
    return false;
}

void add_message(Ordered& messages, const char* role, const std::string& content) {
    messages.push_back({{"role", role}, {"content", content}});
}

// Adds a text, or the messages that the row has in its place.
Status add_turn(const Ordered& row, const std::string& key, const std::string& input, const char* role,
                Ordered& messages) {
    if (const auto found = row.find(key); found != row.end() && holds_messages(*found)) {
        HK_ASSIGN(const Ordered some, plain_messages(*found));
        for (const Ordered& message : some) messages.push_back(message);
        return {};
    }
    HK_ASSIGN(std::string text, needed_text(row, key));
    HK_ASSIGN(const std::optional<std::string> more, text_of(row, input));
    if (more && !is_blank_text(*more)) text += "\n\n" + *more;
    add_message(messages, role, text);
    return {};
}

// Adds earlier turns: Alpaca's list of pairs.
Status add_history(const Ordered& row, Ordered& messages) {
    const auto history = row.find("history");
    if (history == row.end() || history->is_null()) return {};
    const auto is_turn = [](const Ordered& turn) {
        return turn.is_array() && turn.size() == 2 && turn[0].is_string() && turn[1].is_string();
    };
    if (!history->is_array() || !std::ranges::all_of(*history, is_turn))
        return invalid_argument("\"history\" is not a list of [instruction, output]");
    for (const Ordered& turn : *history) {
        add_message(messages, "user", turn[0].get<std::string>());
        add_message(messages, "assistant", turn[1].get<std::string>());
    }
    return {};
}

Result<Ordered> conversation_of(const Ordered& row, const Source& source) {
    Ordered messages = Ordered::array();
    HK_ASSIGN(const std::optional<std::string> system, text_of(row, "system"));
    if (source.kind == Kind::turns) {
        if (system && !is_blank_text(*system)) add_message(messages, "system", *system);
        HK_TRY(add_history(row, messages));
        HK_TRY(add_turn(row, source.key, source.input, "user", messages));
        if (!source.answer.empty()) HK_TRY(add_turn(row, source.answer, {}, "assistant", messages));
        return messages;
    }
    const auto found = row.find(source.key);
    if (found == row.end() || found->is_null()) return missing(source.key);
    if (!holds_messages(*found))
        return invalid_argument(
            fmt::format("\"{}\" is {}; expected a list of messages with \"role\" and \"content\", or "
                        "with \"from\" and \"value\"",
                        source.key, found->empty() ? "empty" : found->type_name()));
    Result<Ordered> plain = plain_messages(*found);
    if (!plain.ok()) return plain.status().with_context(fmt::format("\"{}\"", source.key));
    const Ordered own = plain.take();
    const auto role = own.front().find("role");
    const bool begins_with_system = role != own.front().end() && *role == "system";
    if (system && !is_blank_text(*system) && !begins_with_system) add_message(messages, "system", *system);
    for (const Ordered& message : own) messages.push_back(message);
    return messages;
}

// The prompt of Stanford Alpaca (github.com/tatsu-lab/stanford_alpaca).
Result<std::string> alpaca_prompt(const Ordered& row, const Source& source) {
    HK_ASSIGN(const std::string instruction, needed_text(row, source.key));
    HK_ASSIGN(const std::optional<std::string> input, text_of(row, source.input));
    if (input && !is_blank_text(*input))
        return fmt::format("Below is an instruction that describes a task, paired with an input that provides further "
                           "context. Write a response that appropriately completes the request.\n\n### Instruction:\n{}"
                           "\n\n### Input:\n{}\n\n### Response:\n",
                           instruction, *input);
    return fmt::format("Below is an instruction that describes a task. Write a response that appropriately completes "
                       "the request.\n\n### Instruction:\n{}\n\n### Response:\n",
                       instruction);
}

} // namespace

std::optional<RowForm> RowForm::recognize(std::span<const Json> rows, Columns columns) {
    const TaskColumns task(columns);
    if (rows.empty()) return std::nullopt;
    RowForm form;
    form.sources_.resize(columns.size());
    const auto name_keys = [&] { // of the other columns
        for (std::size_t c = 0; c < columns.size(); ++c)
            if (form.sources_[c].key.empty())
                form.sources_[c].key = columns[c].source.empty() ? columns[c].name : columns[c].source;
        return std::optional(form);
    };
    if (task.is_conversation()) {
        for (const char* key : kConversations) {
            const auto is_list = [key](const Json& row) { return has(row, key) && holds_messages(row[key]); };
            if (!std::ranges::all_of(rows, is_list)) continue;
            const Json& list = rows.front()[key];
            const Json& first = list.is_array() ? list.front() : list;
            form.description_ = first.contains("role") ? fmt::format("rows of {} (role, content)", key)
                                                       : fmt::format("ShareGPT rows ({}: from, value)", key);
            form.sources_[*task.conversation] = {Kind::conversation, key};
            return name_keys();
        }
        for (const Pair& pair : kPairs) {
            if (!all_have(rows, pair.question) || !all_have(rows, pair.answer)) continue;
            const bool with_input = some_have(rows, pair.input);
            form.description_ = pair_name(pair, with_input) + ", each read as a conversation";
            form.sources_[*task.conversation] = {Kind::turns, pair.question, pair.input != nullptr ? pair.input : "",
                                                 pair.answer};
            return name_keys();
        }
        return std::nullopt;
    }
    if (task.is_pair()) {
        for (const Pair& pair : kPairs) {
            if (!all_have(rows, pair.question) || (task.needs_answer && !all_have(rows, pair.answer))) continue;
            if (!task.needs_answer && !some_have(rows, pair.answer) && &pair != kPairs.data()) continue;
            const bool composed = pair.input != nullptr, with_input = some_have(rows, pair.input);
            form.description_ = pair_name(pair, with_input);
            if (composed) form.description_ += ", with Alpaca's prompt around instructions";
            form.sources_[*task.prompt] = {
                composed ? Kind::alpaca_prompt : Kind::key, pair.question, composed ? pair.input : "", {}};
            form.sources_[*task.completion].key = pair.answer;
            return name_keys();
        }
        return std::nullopt;
    }
    if (!task.is_preference() || !all_have(rows, "chosen") || !all_have(rows, "rejected")) return std::nullopt;
    form.description_ = "rows of chosen and rejected";
    const Json& chosen = rows.front()["chosen"];
    const bool messages = holds_messages(chosen);
    if (task.prompt)
        for (const char* key : kPrompts) {
            if (!all_have(rows, key)) continue;
            const char* input = std::string_view(key) == "instruction" && some_have(rows, "input") ? "input" : "";
            form.description_ = fmt::format("rows of {}{}, chosen and rejected", key, *input != '\0' ? ", input" : "");
            const bool is_text = !holds_messages(rows.front()[key]);
            if (is_text && is_answer_alone(chosen))
                form.sources_[*task.prompt] = {Kind::turns, key, input, {}};
            else if (!messages && *input != '\0')
                form.sources_[*task.prompt] = {Kind::alpaca_prompt, key, input, {}};
            else
                form.sources_[*task.prompt].key = key;
            break;
        }
    form.description_ += messages ? " (messages)" : " (texts)";
    return name_keys();
}

std::string RowForm::known(Columns columns) {
    const TaskColumns task(columns);
    std::vector<std::string> all;
    if (task.is_conversation()) all = {"messages (role, content)", "conversations (from, value)"};
    if (task.is_conversation() || task.is_pair())
        for (const Pair& pair : kPairs) all.push_back(fmt::format("{} and {}", pair.question, pair.answer));
    if (task.is_preference()) all = {"chosen and rejected", "prompt, chosen and rejected"};
    return fmt::format("{}", fmt::join(all, "; "));
}

Result<Value> RowForm::compose(const Ordered& row, std::size_t column) const {
    const Source& source = sources_[column];
    Value value;
    value.present = true;
    if (source.kind == Kind::alpaca_prompt) {
        HK_ASSIGN(value.text, alpaca_prompt(row, source));
        return value;
    }
    HK_ASSIGN(const Ordered messages, conversation_of(row, source));
    value.text = messages.dump();
    value.is_messages = true;
    return value;
}

} // namespace hekla::data
