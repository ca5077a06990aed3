#include "data/message_forms.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <utility>

namespace hekla::data {
namespace {

using Ordered = nlohmann::ordered_json;

// Values of "from", with their roles.
constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kSpeakers{{{"human", "user"},
                                                                                   {"user", "user"},
                                                                                   {"gpt", "assistant"},
                                                                                   {"chatgpt", "assistant"},
                                                                                   {"assistant", "assistant"},
                                                                                   {"model", "assistant"},
                                                                                   {"bot", "assistant"},
                                                                                   {"system", "system"},
                                                                                   {"tool", "tool"},
                                                                                   {"observation", "tool"}}};

Result<std::string> role_of(const Ordered& from) {
    const std::string speaker = from.is_string() ? from.get<std::string>() : from.dump();
    const auto found = std::ranges::find(kSpeakers, speaker, &std::pair<std::string_view, std::string_view>::first);
    if (found != kSpeakers.end()) return std::string(found->second);
    return invalid_argument(fmt::format(
        "\"from\" is '{}'; expected human (or user), gpt (or assistant), system or tool (or observation)", speaker));
}

// Returns the text of a content that is a list of parts.
Result<std::string> text_of_parts(const Ordered& parts) {
    std::string text;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const Ordered& part = parts[i];
        if (part.is_string()) {
            text += part.get<std::string>();
            continue;
        }
        const auto type = part.is_object() ? part.find("type") : part.end();
        const auto own = part.is_object() ? part.find("text") : part.end();
        const bool is_text = part.is_object() && (type == part.end() || *type == "text");
        if (!is_text && part.is_object())
            return invalid_argument(
                fmt::format("part {} of \"content\" is of type {}, and only \"text\" can be trained "
                            "on; remove the part, or the row",
                            i + 1, type->dump()));
        if (!is_text || own == part.end() || !own->is_string())
            return invalid_argument(fmt::format("part {} of \"content\" has no \"text\"; expected a text, or "
                                                "{{\"type\": \"text\", \"text\": \"...\"}}",
                                                i + 1));
        text += own->get<std::string>();
    }
    return text;
}

Result<Ordered> plain_message(const Ordered& message) {
    const bool renames = message.is_object() && message.contains("from") && !message.contains("role");
    if (!message.is_object()) return message; // an error of the chat template
    Ordered plain = Ordered::object();
    for (const auto& [key, value] : message.items()) {
        if (renames && key == "from") {
            HK_ASSIGN(plain["role"], role_of(value));
        } else if (key == "content" || (renames && key == "value" && !message.contains("content"))) {
            Ordered& content = plain["content"];
            content = value;
            if (value.is_array()) { HK_ASSIGN(content, text_of_parts(value)); }
        } else {
            plain[key] = value;
        }
    }
    return plain;
}

} // namespace

Result<Ordered> plain_messages(const Ordered& value) {
    if (!value.is_array()) {
        HK_ASSIGN(Ordered one, plain_message(value));
        return Ordered::array({std::move(one)});
    }
    Ordered all = Ordered::array();
    for (std::size_t i = 0; i < value.size(); ++i) {
        Result<Ordered> one = plain_message(value[i]);
        if (!one.ok()) return one.status().with_context(fmt::format("message {}", i + 1));
        all.push_back(one.take());
    }
    return all;
}

} // namespace hekla::data
