#include "text/jinja/operations.hpp"

#include "base/read_real.hpp"
#include "base/trimmed.hpp"
#include "text/jinja/strings.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace hekla::text::jinja {
namespace {

Status wrong_type(std::string_view what, const Value& value, std::string_view expected) {
    if (value.is_undefined())
        return invalid_argument(
            fmt::format("'{}' is undefined, and {} needs {}", std::get<Undefined>(value.held()).name, what, expected));
    return invalid_argument(fmt::format("{} needs {}, and was given {}", what, expected, value.type_name()));
}

Result<Value> text_value(std::string text) {
    if (text.size() > kTextLimit) return invalid_argument(fmt::format("a text is longer than {} bytes", kTextLimit));
    return Value(std::move(text));
}

Result<Value> list_value(List list) {
    if (list.size() > kListLimit) return invalid_argument(fmt::format("a list has more than {} items", kListLimit));
    return Value(std::move(list));
}

std::optional<std::string> optional_text(const Value* value) {
    return value != nullptr && !value->is_none() ? std::optional(value->text()) : std::nullopt;
}

int64_t integer_or(const Value* value, int64_t otherwise) {
    if (value == nullptr || !value->is_number() || std::isnan(value->real())) return otherwise;
    return static_cast<int64_t>(std::clamp(value->real(), -0x1p53, 0x1p53));
}

// Returns the number that a text is, or 0, as the filters `int` and `float` do.
double real_of(std::string_view text) {
    text = trimmed(text);
    if (text.starts_with('+') && text.size() > 1 && text[1] != '-') text.remove_prefix(1);
    double number = 0.0;
    const auto [end, error] = read_real(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size() ? number : 0.0;
}

// Returns a value by a path of names, as the filters with `attribute` do.
Result<Value> by_path(Value value, std::string_view path) {
    while (!path.empty()) {
        const std::size_t dot = std::min(path.find('.'), path.size());
        HK_ASSIGN(value, attribute_of(value, path.substr(0, dot)));
        path.remove_prefix(std::min(dot + 1, path.size()));
    }
    return value;
}

// map, select, reject, selectattr, rejectattr.
Result<Value> filter_items(std::string_view name, const Value& value, const Arguments& arguments) {
    HK_ASSIGN(const List items, items_of(value));
    const bool of_attribute = name.ends_with("attr");
    const bool wanted = !name.starts_with("reject");
    Arguments rest;
    std::size_t used = 0;
    std::string attribute, function;
    if (name == "map" && arguments.named.find("attribute") != nullptr) {
        attribute = arguments.named.find("attribute")->text();
    } else {
        if (of_attribute && used < arguments.values.size()) attribute = arguments.values[used++].text();
        if (used < arguments.values.size()) function = arguments.values[used++].text();
        for (; used < arguments.values.size(); ++used) rest.values.push_back(arguments.values[used]);
    }
    if (of_attribute && attribute.empty())
        return invalid_argument(fmt::format("the filter '{}' needs the name of an attribute", name));
    if (name == "map" && attribute.empty() && function.empty())
        return invalid_argument("the filter 'map' needs the name of a filter, or attribute=");
    List result;
    std::size_t bytes = 0;
    for (const Value& item : items) {
        Value of = item;
        if (!attribute.empty()) { HK_ASSIGN(of, by_path(item, attribute)); }
        if (name == "map") {
            if (!function.empty()) { HK_ASSIGN(of, apply_filter(function, of, rest)); }
            bytes += of.extent().bytes;
            if (bytes > kTextLimit)
                return invalid_argument(fmt::format("the filter 'map' makes more than {} bytes", kTextLimit));
            result.push_back(std::move(of));
            continue;
        }
        bool holds = of.is_true();
        if (!function.empty()) { HK_ASSIGN(holds, apply_test(function, of, rest)); }
        if (holds == wanted) result.push_back(item);
    }
    return Value(std::move(result));
}

Result<Value> length_of(const Value& value) {
    if (value.string() != nullptr) return Value(static_cast<int64_t>(character_count(*value.string())));
    if (value.list() != nullptr) return Value(static_cast<int64_t>(value.list()->size()));
    if (value.dict() != nullptr) return Value(static_cast<int64_t>(value.dict()->entries.size()));
    if (value.is_undefined()) return Value(int64_t{0});
    return wrong_type("the filter 'length'", value, "a string, a list or a dictionary");
}

List pairs_of(const Dict& dict) {
    List pairs;
    for (const auto& [key, item] : dict.entries) pairs.emplace_back(List{Value(key), item});
    return pairs;
}

Result<int> compare(std::string_view name, const Value& left, const Value& right) {
    if (left.is_number() && right.is_number()) {
        const double a = left.real(), b = right.real();
        return a < b ? -1 : a > b ? 1 : 0;
    }
    if (left.string() != nullptr && right.string() != nullptr)
        return std::clamp(left.string()->compare(*right.string()), -1, 1);
    return wrong_type(fmt::format("'{}'", name), left.is_number() || left.string() != nullptr ? right : left,
                      "two numbers or two strings");
}

Result<bool> contains(const Value& container, const Value& item) {
    if (const std::string* text = container.string()) {
        if (item.string() == nullptr) return wrong_type("'in' of a string", item, "a string");
        return found_at(*text, *item.string()) != std::string::npos;
    }
    if (const List* list = container.list())
        return std::ranges::any_of(*list, [&](const Value& one) { return equal(one, item); });
    if (const Dict* dict = container.dict()) return item.string() != nullptr && dict->find(*item.string()) != nullptr;
    if (container.is_undefined()) return false;
    return wrong_type("'in'", container, "a string, a list or a dictionary");
}

Result<Value> arithmetic(std::string_view name, const Value& left, const Value& right) {
    if (name == "+" && left.string() != nullptr && right.string() != nullptr)
        return text_value(*left.string() + *right.string());
    if (name == "+" && left.list() != nullptr && right.list() != nullptr) {
        List both = *left.list();
        both.insert(both.end(), right.list()->begin(), right.list()->end());
        return list_value(std::move(both));
    }
    if (name == "*" && left.string() != nullptr && right.integer() != nullptr) {
        const auto count = static_cast<std::size_t>(std::max<int64_t>(*right.integer(), 0));
        if (count > 0 && left.string()->size() > kTextLimit / count)
            return invalid_argument(fmt::format("a text is longer than {} bytes", kTextLimit));
        std::string text;
        for (std::size_t i = 0; i < count; ++i) text += *left.string();
        return Value(std::move(text));
    }
    if (!left.is_number() || !right.is_number())
        return wrong_type(fmt::format("'{}'", name),
                          left.is_number() || (name == "+" && left.string() != nullptr) ? right : left,
                          left.string() != nullptr && name == "+" ? "another string" : "two numbers");
    const double a = left.real(), b = right.real();
    const bool whole = !std::holds_alternative<double>(left.held()) && !std::holds_alternative<double>(right.held());
    if ((name == "/" || name == "//" || name == "%") && b == 0.0) return invalid_argument("a division by 0");
    double value = 0.0;
    if (name == "+") value = a + b;
    if (name == "-") value = a - b;
    if (name == "*") value = a * b;
    if (name == "/") return Value(a / b);
    if (name == "//") value = std::floor(a / b);
    if (name == "%") value = a - b * std::floor(a / b);
    if (!whole) return Value(value);
    if (std::abs(value) > 0x1p53) return invalid_argument("an integer is larger than 2^53");
    return Value(static_cast<int64_t>(value));
}

Result<Value> string_method(const std::string& text, std::string_view name, const Arguments& arguments) {
    const Value *first = arguments.get(0, "sep"), *second = arguments.get(1, "maxsplit");
    const auto first_text = [&]() -> Result<std::string> {
        if (first != nullptr && first->string() != nullptr) return *first->string();
        return wrong_type(fmt::format("'{}'", name), first != nullptr ? *first : Value::undefined("argument"),
                          "a string");
    };
    if (name == "strip" || name == "lstrip" || name == "rstrip")
        return Value(stripped(text,
                              name == "strip"    ? Side::both
                              : name == "lstrip" ? Side::left
                                                 : Side::right,
                              optional_text(first)));
    if (name == "upper") return Value(upper(text));
    if (name == "lower") return Value(lower(text));
    if (name == "title") return Value(title(text));
    if (name == "capitalize") return Value(capitalized(text));
    if (name == "splitlines") return list_value(lines(text, kListLimit));
    if (name == "split") {
        const std::optional<std::string> separator = optional_text(first);
        if (separator && separator->empty()) return invalid_argument("'split' needs a separator that is not empty");
        return list_value(split(text, separator, integer_or(second, -1), kListLimit));
    }
    if (name == "startswith" || name == "endswith") {
        List options = first != nullptr && first->list() != nullptr ? *first->list() : List();
        if (options.empty()) {
            HK_ASSIGN(std::string one, first_text());
            options.emplace_back(std::move(one));
        }
        return Value(std::ranges::any_of(options, [&](const Value& one) {
            return one.string() != nullptr &&
                   (name == "startswith" ? text.starts_with(*one.string()) : text.ends_with(*one.string()));
        }));
    }
    if (name == "replace") {
        HK_ASSIGN(const std::string from, first_text());
        const Value* to = arguments.get(1, "new");
        if (to == nullptr || to->string() == nullptr || from.empty())
            return invalid_argument("'replace' needs two strings, the first of which is not empty");
        return text_value(replaced(text, from, *to->string(), integer_or(arguments.get(2, "count"), -1), kTextLimit));
    }
    if (name == "find" || name == "count") {
        HK_ASSIGN(const std::string part, first_text());
        if (name == "find") {
            const std::size_t at = found_at(text, part);
            return Value(at == std::string::npos
                             ? int64_t{-1}
                             : static_cast<int64_t>(character_count(std::string_view(text).substr(0, at))));
        }
        if (part.empty()) return invalid_argument("'count' needs a string that is not empty");
        int64_t count = 0;
        std::string_view rest = text;
        for (std::size_t at = found_at(rest, part); at != rest.npos; at = found_at(rest, part)) {
            ++count;
            rest.remove_prefix(at + part.size());
        }
        return Value(count);
    }
    if (name == "join" && first != nullptr) {
        HK_ASSIGN(const List items, items_of(*first));
        std::string all;
        for (std::size_t i = 0; i < items.size() && all.size() <= kTextLimit; ++i) {
            if (i > 0) all += text;
            all += items[i].text();
        }
        return text_value(std::move(all));
    }
    if (name == "isdigit" || name == "isspace") {
        return Value(!text.empty() && std::ranges::all_of(text, [&](char c) {
            return name == "isdigit" ? c >= '0' && c <= '9' : std::string_view(" \t\n\r\f\v").find(c) != text.npos;
        }));
    }
    return unsupported(fmt::format("strings have no method '{}' here", name));
}

} // namespace

const Value* Arguments::get(std::size_t position, std::string_view name) const {
    return position < values.size() ? &values[position] : named.find(name);
}

Result<List> items_of(const Value& value) {
    if (value.list() != nullptr) return *value.list();
    List items;
    if (value.is_undefined()) return items;
    if (const Dict* dict = value.dict()) {
        for (const auto& [key, item] : dict->entries) items.emplace_back(key);
        return items;
    }
    if (value.string() != nullptr) {
        std::string_view rest = *value.string();
        while (!rest.empty() && items.size() < kListLimit) items.emplace_back(take_character(rest));
        if (!rest.empty())
            return invalid_argument(fmt::format("a text has more than {} characters to list", kListLimit));
        return items;
    }
    return wrong_type("a loop", value, "a list, a dictionary or a string");
}

Result<Value> attribute_of(const Value& object, std::string_view name) {
    if (object.is_undefined())
        return invalid_argument(
            fmt::format("'{}' is undefined, and has no attribute '{}'", std::get<Undefined>(object.held()).name, name));
    if (const Dict* dict = object.dict())
        if (const Value* found = dict->find(name)) return *found;
    return Value::undefined(name);
}

Result<Value> item_of(const Value& object, const Value& index) {
    if (index.string() != nullptr) return attribute_of(object, *index.string());
    if (object.is_undefined()) return attribute_of(object, index.text());
    const std::string* const text = object.string();
    if (index.integer() != nullptr && (object.list() != nullptr || text != nullptr)) {
        // Nothing is copied: templates look at the messages around each message.
        const auto size = static_cast<int64_t>(text != nullptr ? character_count(*text) : object.list()->size());
        const int64_t at = *index.integer() < 0 ? *index.integer() + size : *index.integer();
        if (at < 0 || at >= size) return Value::undefined(index.text());
        const auto number = static_cast<std::size_t>(at);
        if (text == nullptr) return (*object.list())[number];
        std::string_view rest = std::string_view(*text).substr(character_offset(*text, number));
        return Value(take_character(rest));
    }
    return Value::undefined(index.text());
}

Result<Value> slice_of(const Value& object, const Value& begin, const Value& end, const Value& step) {
    if (object.string() == nullptr && object.list() == nullptr)
        return wrong_type("a slice", object, "a list or a string");
    const std::string* const text = object.string();
    const auto size = static_cast<int64_t>(text != nullptr ? character_count(*text) : object.list()->size());
    const auto given = [](const Value& bound) { return !bound.is_undefined() && !bound.is_none(); };
    for (const Value* bound : {&begin, &end, &step})
        if (given(*bound) && bound->integer() == nullptr) return wrong_type("a slice", *bound, "integers");
    constexpr int64_t kFarthest = int64_t{1} << 53;
    const int64_t by = given(step) ? std::clamp(*step.integer(), -kFarthest, kFarthest) : 1;
    if (by == 0) return invalid_argument("a slice has a step of 0");
    const auto place = [&](const Value& bound, int64_t otherwise) {
        if (!given(bound)) return otherwise;
        const int64_t at = *bound.integer() < 0 ? *bound.integer() + size : *bound.integer();
        return by > 0 ? std::clamp<int64_t>(at, 0, size) : std::clamp<int64_t>(at, -1, size - 1);
    };
    const int64_t from = place(begin, by > 0 ? 0 : size - 1), to = place(end, by > 0 ? size : -1);
    // No item after the first is within a step that is longer than the list, and the sum would not be a number.
    const auto next = [&](int64_t at) { return by > size || -by > size ? to : at + by; };
    const auto within = [&](int64_t at) { return by > 0 ? at < to : at > to; };
    if (text == nullptr) {
        List kept;
        for (int64_t at = from; within(at); at = next(at))
            kept.push_back((*object.list())[static_cast<std::size_t>(at)]);
        return Value(std::move(kept));
    }
    if (by == 1) {
        const std::size_t first = character_offset(*text, static_cast<std::size_t>(from));
        const auto count = static_cast<std::size_t>(std::max<int64_t>(to - from, 0));
        return Value(text->substr(first, character_offset(std::string_view(*text).substr(first), count)));
    }
    std::vector<std::string_view> characters;
    for (std::string_view rest = *text; !rest.empty();) characters.push_back(take_character(rest));
    std::string kept;
    for (int64_t at = from; within(at); at = next(at)) kept += characters[static_cast<std::size_t>(at)];
    return Value(std::move(kept));
}

Result<Value> apply_binary(std::string_view name, const Value& left, const Value& right) {
    if (name == "==") return Value(equal(left, right));
    if (name == "!=") return Value(!equal(left, right));
    if (name == "~") return text_value(left.text() + right.text());
    if (name == "in" || name == "not in") {
        HK_ASSIGN(const bool found, contains(right, left));
        return Value(found == (name == "in"));
    }
    if (name == "<" || name == ">" || name == "<=" || name == ">=") {
        HK_ASSIGN(const int order, compare(name, left, right));
        return Value(name == "<" ? order < 0 : name == ">" ? order > 0 : name == "<=" ? order <= 0 : order >= 0);
    }
    return arithmetic(name, left, right);
}

Result<Value> apply_filter(std::string_view name, const Value& value, const Arguments& arguments) {
    const auto text = [&] { return value.text(); };
    if (name == "trim") return Value(stripped(text(), Side::both, optional_text(arguments.get(0, "chars"))));
    if (name == "upper") return Value(upper(text()));
    if (name == "lower") return Value(lower(text()));
    if (name == "title") return Value(words_capitalized(text()));
    if (name == "capitalize") return Value(capitalized(text()));
    if (name == "string") return Value(text());
    if (name == "safe") return value;
    if (name == "length" || name == "count") return length_of(value);
    if (name == "tojson") {
        const int64_t indent = integer_or(arguments.get(0, "indent"), -1);
        if (indent > 16) return invalid_argument("the filter 'tojson' indents by 16 at most");
        Separators separators;
        if (indent >= 0) separators.item = ",";
        if (const Value* given = arguments.named.find("separators"); given != nullptr && given->list() != nullptr) {
            if (given->list()->size() != 2) return invalid_argument("'separators' needs two strings");
            separators = {(*given->list())[0].text(), (*given->list())[1].text()};
            if (std::max(separators.item.size(), separators.key.size()) > 16)
                return invalid_argument("'separators' has 16 bytes at most");
        }
        return text_value(value.json(static_cast<int>(indent), separators));
    }
    if (name == "default" || name == "d") {
        const Value *otherwise = arguments.get(0, "default_value"), *also_false = arguments.get(1, "boolean");
        const bool replaces =
            value.is_undefined() || (also_false != nullptr && also_false->is_true() && !value.is_true());
        return replaces ? (otherwise != nullptr ? *otherwise : Value("")) : value;
    }
    if (name == "int" || name == "float") {
        double number = value.is_number() ? value.real() : 0.0;
        if (const std::string* digits = value.string()) number = real_of(*digits);
        if (name == "float") return Value(number);
        if (!(std::abs(number) < 0x1p53)) return invalid_argument("an integer is larger than 2^53");
        return Value(static_cast<int64_t>(number));
    }
    if (name == "items" || name == "dictsort") {
        if (value.dict() == nullptr) return wrong_type(fmt::format("the filter '{}'", name), value, "a dictionary");
        List pairs = pairs_of(*value.dict());
        if (name == "items") return Value(std::move(pairs));
        std::vector<std::pair<std::string, Value>> sorted;
        for (Value& pair : pairs) {
            std::string key = lower((*pair.list())[0].text());
            sorted.emplace_back(std::move(key), std::move(pair));
        }
        std::ranges::stable_sort(sorted, {}, &std::pair<std::string, Value>::first);
        for (std::size_t i = 0; i < sorted.size(); ++i) pairs[i] = std::move(sorted[i].second);
        return Value(std::move(pairs));
    }
    if (name == "replace") {
        const Value *from = arguments.get(0, "old"), *to = arguments.get(1, "new");
        if (from == nullptr || to == nullptr || from->text().empty())
            return invalid_argument("the filter 'replace' needs two strings, the first of which is not empty");
        return text_value(
            replaced(text(), from->text(), to->text(), integer_or(arguments.get(2, "count"), -1), kTextLimit));
    }
    if (name == "map" || name == "select" || name == "reject" || name == "selectattr" || name == "rejectattr")
        return filter_items(name, value, arguments);
    if ((name == "first" || name == "last") && value.list() != nullptr) {
        const List& items = *value.list();
        return items.empty() ? Value::undefined(name) : name == "first" ? items.front() : items.back();
    }
    if (name == "first" || name == "last" || name == "list" || name == "reverse" || name == "join") {
        HK_ASSIGN(List items, items_of(value));
        if (name == "list") return Value(std::move(items));
        if (name == "first") return items.empty() ? Value::undefined("first") : items.front();
        if (name == "last") return items.empty() ? Value::undefined("last") : items.back();
        if (name == "reverse") {
            std::ranges::reverse(items);
            if (value.string() == nullptr) return Value(std::move(items));
        }
        const Value *separator = arguments.get(0, "d"), *attribute = arguments.get(1, "attribute");
        const std::string between = name == "join" && separator != nullptr ? separator->text() : "",
                          path = name == "join" && attribute != nullptr ? attribute->text() : "";
        if (path.size() > kTextLimit / std::max<std::size_t>(items.size(), 1))
            return invalid_argument(fmt::format("the filter 'join' has an attribute of {} bytes, too long for {} items",
                                                path.size(), items.size()));
        std::string all;
        for (std::size_t i = 0; i < items.size(); ++i) {
            if (i > 0) all += between;
            Value item = items[i];
            if (!path.empty()) { HK_ASSIGN(item, by_path(item, path)); }
            all += item.text();
            if (all.size() > kTextLimit) break;
        }
        return text_value(std::move(all));
    }
    return unsupported(fmt::format("there is no filter '{}' here", name));
}

Result<bool> apply_test(std::string_view name, const Value& value, const Arguments& arguments) {
    const bool is_boolean = std::holds_alternative<bool>(value.held());
    if (name == "defined") return !value.is_undefined();
    if (name == "undefined") return value.is_undefined();
    if (name == "none") return value.is_none();
    if (name == "string") return value.string() != nullptr;
    if (name == "mapping") return value.dict() != nullptr;
    if (name == "iterable" || name == "sequence")
        return value.string() != nullptr || value.list() != nullptr || value.dict() != nullptr ||
               (name == "iterable" && value.is_undefined());
    if (name == "number") return value.is_number();
    if (name == "integer") return value.integer() != nullptr;
    if (name == "float") return std::holds_alternative<double>(value.held());
    if (name == "boolean") return is_boolean;
    if (name == "true") return is_boolean && value.is_true();
    if (name == "false") return is_boolean && !value.is_true();
    if (name == "odd" || name == "even") {
        if (value.integer() == nullptr) return wrong_type(fmt::format("the test '{}'", name), value, "an integer");
        return (*value.integer() % 2 != 0) == (name == "odd");
    }
    const Value* other = arguments.get(0, "other");
    if (name == "eq" || name == "equalto" || name == "==" || name == "ne" || name == "!=" || name == "in" ||
        name == "divisibleby") {
        if (other == nullptr) return invalid_argument(fmt::format("the test '{}' needs a value", name));
        if (name == "in") return contains(*other, value);
        if (name == "divisibleby") {
            HK_ASSIGN(const Value rest, apply_binary("%", value, *other));
            return rest.real() == 0.0;
        }
        return equal(value, *other) == (name != "ne" && name != "!=");
    }
    return unsupported(fmt::format("there is no test '{}' here", name));
}

Result<Value> call_method(const Value& value, std::string_view name, const Arguments& arguments) {
    if (const std::string* text = value.string()) return string_method(*text, name, arguments);
    if (const Dict* dict = value.dict()) {
        List all;
        if (name == "items") return Value(pairs_of(*dict));
        if (name == "keys" || name == "values") {
            for (const auto& [key, item] : dict->entries) all.push_back(name == "keys" ? Value(key) : item);
            return Value(std::move(all));
        }
        if (name == "get") {
            const Value *key = arguments.get(0, "key"), *otherwise = arguments.get(1, "default");
            const Value* found = key != nullptr && key->string() != nullptr ? dict->find(*key->string()) : nullptr;
            return found != nullptr ? *found : otherwise != nullptr ? *otherwise : Value::none();
        }
    }
    if (value.is_undefined()) return attribute_of(value, name);
    return unsupported(fmt::format("{} has no method '{}' here", value.type_name(), name));
}

} // namespace hekla::text::jinja
