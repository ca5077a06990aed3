#include "text/jinja/value.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace hekla::text::jinja {
namespace {

// Returns Python's repr() of a real number.
std::string real_text(double value) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    std::string text = fmt::format("{}", value);
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    return text;
}

std::string string_json(std::string_view text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

} // namespace

void Extent::add(const Extent& part) {
    bytes += part.bytes;
    depth = std::max(depth, part.depth + 1);
    has_namespace = has_namespace || part.has_namespace;
}

Value::Value(List value) {
    Extent parts{.depth = 1};
    for (const Value& item : value) parts.add(item.extent());
    held_ = std::make_shared<const ListNode>(ListNode{std::move(value), parts});
}

Value::Value(Dict value) {
    value.parts = {.depth = 1};
    for (const auto& [key, item] : value.entries) {
        value.parts.bytes += key.size();
        value.parts.add(item.extent());
    }
    held_ = std::make_shared<Dict>(std::move(value));
}

Extent Value::extent() const {
    constexpr std::size_t kItem = 8;
    if (const std::string* text = string()) return {.bytes = text->size() + kItem};
    if (const auto* held = std::get_if<std::shared_ptr<const ListNode>>(&held_)) return (*held)->parts;
    const Dict* const entries = dict();
    if (entries == nullptr) return {.bytes = kItem};
    if (!entries->is_namespace) return entries->parts;
    Extent all{.depth = 1, .has_namespace = true};
    for (const auto& [key, item] : entries->entries) {
        all.bytes += key.size();
        all.add(item.extent());
    }
    return all;
}

const Value* Dict::find(std::string_view key) const {
    const auto found = std::ranges::find_if(entries, [&](const auto& entry) { return entry.first == key; });
    return found != entries.end() ? &found->second : nullptr;
}

void Dict::set(std::string_view key, Value value) {
    for (auto& [name, held] : entries)
        if (name == key) {
            held = std::move(value);
            return;
        }
    entries.emplace_back(std::string(key), std::move(value));
}

Value Value::from_json(const nlohmann::ordered_json& json) {
    if (json.is_boolean()) return json.get<bool>();
    if (json.is_number_integer()) return json.get<int64_t>();
    if (json.is_number()) return json.get<double>();
    if (json.is_string()) return json.get<std::string>();
    if (json.is_array()) {
        List list;
        for (const nlohmann::ordered_json& item : json) list.push_back(from_json(item));
        return list;
    }
    if (json.is_object()) {
        Dict dict;
        for (const auto& [key, item] : json.items()) dict.entries.emplace_back(key, from_json(item));
        return dict;
    }
    return none();
}

bool Value::is_number() const {
    return std::holds_alternative<int64_t>(held_) || std::holds_alternative<double>(held_) ||
           std::holds_alternative<bool>(held_);
}

const List* Value::list() const {
    const auto* held = std::get_if<std::shared_ptr<const ListNode>>(&held_);
    return held != nullptr ? &(*held)->items : nullptr;
}

Dict* Value::dict() const {
    const auto* held = std::get_if<std::shared_ptr<Dict>>(&held_);
    return held != nullptr ? held->get() : nullptr;
}

double Value::real() const {
    if (const auto* value = std::get_if<int64_t>(&held_)) return static_cast<double>(*value);
    if (const auto* value = std::get_if<double>(&held_)) return *value;
    if (const auto* value = std::get_if<bool>(&held_)) return *value ? 1.0 : 0.0;
    return 0.0;
}

bool Value::is_true() const {
    if (is_undefined() || is_none()) return false;
    if (is_number()) return real() != 0.0;
    if (string() != nullptr) return !string()->empty();
    if (list() != nullptr) return !list()->empty();
    if (dict() != nullptr) return dict()->is_namespace || !dict()->entries.empty();
    return true;
}

std::string Value::text() const { return string() != nullptr ? *string() : is_undefined() ? std::string() : quoted(); }

std::string Value::quoted() const {
    if (is_undefined()) return "Undefined";
    if (is_none()) return "None";
    if (const auto* value = std::get_if<bool>(&held_)) return *value ? "True" : "False";
    if (integer() != nullptr) return std::to_string(*integer());
    if (const auto* value = std::get_if<double>(&held_)) return real_text(*value);
    if (const std::string* s = string()) {
        const char quote = s->find('\'') != std::string::npos && s->find('"') == std::string::npos ? '"' : '\'';
        std::string text(1, quote);
        for (const char c : *s) {
            if (c == '\\' || c == quote)
                text += {'\\', c};
            else if (c == '\n')
                text += "\\n";
            else if (c == '\r')
                text += "\\r";
            else if (c == '\t')
                text += "\\t";
            else
                text += c;
        }
        return text + quote;
    }
    std::string text;
    if (const List* items = list()) {
        for (const Value& item : *items) text += (text.empty() ? "" : ", ") + item.quoted();
        return "[" + text + "]";
    }
    if (const Dict* entries = dict()) {
        for (const auto& [key, item] : entries->entries)
            text += (text.empty() ? "" : ", ") + Value(key).quoted() + ": " + item.quoted();
        return "{" + text + "}";
    }
    return "<macro>";
}

const char* Value::type_name() const {
    if (is_undefined()) return "undefined";
    if (is_none()) return "none";
    if (std::holds_alternative<bool>(held_)) return "a boolean";
    if (is_number()) return "a number";
    if (string() != nullptr) return "a string";
    if (list() != nullptr) return "a list";
    if (dict() != nullptr) return "a dictionary";
    return "a macro";
}

std::string Value::json(int indent, const Separators& separators, int depth) const {
    const auto line = [&](int at) {
        return indent < 0 ? std::string() : "\n" + std::string(static_cast<std::size_t>(indent * at), ' ');
    };
    if (is_none() || is_undefined()) return "null";
    if (const auto* value = std::get_if<bool>(&held_)) return *value ? "true" : "false";
    if (string() != nullptr) return string_json(*string());
    std::string text;
    if (const List* items = list()) {
        for (const Value& item : *items)
            text += (text.empty() ? "" : separators.item) + line(depth + 1) + item.json(indent, separators, depth + 1);
        return text.empty() ? "[]" : "[" + text + line(depth) + "]";
    }
    if (const Dict* entries = dict()) {
        for (const auto& [key, item] : entries->entries)
            text += (text.empty() ? "" : separators.item) + line(depth + 1) + string_json(key) + separators.key +
                    item.json(indent, separators, depth + 1);
        return text.empty() ? "{}" : "{" + text + line(depth) + "}";
    }
    return quoted();
}

bool equal(const Value& a, const Value& b) {
    if (a.is_number() && b.is_number()) return a.real() == b.real();
    if (a.string() != nullptr && b.string() != nullptr) return *a.string() == *b.string();
    if (a.list() != nullptr && b.list() != nullptr) return std::ranges::equal(*a.list(), *b.list(), equal);
    if (a.dict() != nullptr && b.dict() != nullptr) {
        const Dict &x = *a.dict(), &y = *b.dict();
        return x.entries.size() == y.entries.size() && std::ranges::all_of(x.entries, [&](const auto& entry) {
                   const Value* other = y.find(entry.first);
                   return other != nullptr && equal(entry.second, *other);
               });
    }
    return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

} // namespace hekla::text::jinja
