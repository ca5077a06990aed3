// Messages as data sets write them, as messages with "role" and "content".
#pragma once

#include "base/status.hpp"

#include <nlohmann/json.hpp>

namespace hekla::data {

// Returns whether a value is messages: a list of objects with "role" or "from", or one such object.
template<class AnyJson>
bool holds_messages(const AnyJson& value) {
    const auto is_message = [](const AnyJson& one) {
        return one.is_object() && (one.contains("role") || one.contains("from"));
    };
    return is_message(value) || (value.is_array() && !value.empty() && is_message(value.front()));
}

// Returns messages with "role" and "content" from those of holds_messages(). "from" and "value" of ShareGPT are renamed
// (human: user, gpt: assistant), and a content that is a list of parts is the text of its parts. Other keys keep their
// place. Errors: an unknown "from", parts that are not text, with the number of the message.
Result<nlohmann::ordered_json> plain_messages(const nlohmann::ordered_json& value);

} // namespace hekla::data
