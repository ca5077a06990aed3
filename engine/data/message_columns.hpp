// Columns of a row that have messages: conversations, or a prompt and answers to it, as a chat template writes them.
#pragma once

#include "data/encoded.hpp"
#include "data/example.hpp"
#include "data/task_column.hpp"
#include "text/chat_template.hpp"
#include "text/text_encoder.hpp"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hekla::data {

// Returns the texts of the messages in a value that has messages; with_roles: each after its role.
std::vector<std::string> contents_of(const Value& value, bool with_roles = false);

// Checks that a value is messages where its column is of the kind HK_COLUMN_MESSAGES.
Status check_is_messages(const TaskColumn& column, const Value& value);

// Encodes the columns of a row that have messages into their places in `out`, and leaves the others.
// * A column of the kind HK_COLUMN_MESSAGES is a whole conversation.
// * Of the columns of tokens, the first that is not a target is the prompt, and those that are targets are answers to
//   it. Answers that begin with the same messages contain their prompt, unless the row's prompt has messages too: TRL's
//   implicit prompt.
// chat: null is an error if the row has messages. Errors: a conversation without messages of the assistant, a prompt
// and an answer of which only one has messages, answers without a common beginning, those of the template; cancelled by
// `stop`.
Status encode_messages(const text::TextEncoder& encoder, const text::ChatTemplate* chat,
                       std::span<const TaskColumn> columns, std::span<const Value> values,
                       std::span<std::optional<EncodedColumn>> out, const StopPoll& stop = {});

} // namespace hekla::data
