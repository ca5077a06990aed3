#include "base/json.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <new>
#include <optional>
#include <type_traits>
#include <unordered_set>
#include <vector>

namespace hekla {
namespace {

// An input that counts the characters read, because the library does not report the position to a handler. It is also
// local to this file so that the linker cannot replace this optimized parser by a copy from a test or tool compiled
// without optimization.
class CountedText {
public:
    using iterator_category = std::input_iterator_tag;
    using value_type = char;
    using difference_type = std::ptrdiff_t;
    using pointer = const char*;
    using reference = const char&;

    CountedText(const char* at, const char** reached) : at_(at), reached_(reached) {}
    reference operator*() const { return *at_; }
    CountedText& operator++() {
        *reached_ = ++at_;
        return *this;
    }
    bool operator==(const CountedText& other) const { return at_ == other.at_; }
    bool operator!=(const CountedText& other) const { return at_ != other.at_; }

private:
    const char* at_;
    const char** reached_;
};

// A handler that builds a value from the parser's events. Returning false ends the parsing.
template<class Json>
class ValueBuilder {
public:
    using number_integer_t = typename Json::number_integer_t;
    using number_unsigned_t = typename Json::number_unsigned_t;
    using number_float_t = typename Json::number_float_t;
    using string_t = typename Json::string_t;
    using binary_t = typename Json::binary_t;
    using Object = typename Json::object_t;
    using Array = typename Json::array_t;
    static constexpr bool kIsOrdered = !std::is_same_v<Json, nlohmann::json>;

    bool null() { return put(nullptr); }
    bool boolean(bool value) { return put(value); }
    bool number_integer(number_integer_t value) { return put(value); }
    bool number_unsigned(number_unsigned_t value) { return put(value); }
    bool number_float(number_float_t value, const string_t&) { return put(value); }
    bool string(string_t& value) { return put(std::move(value)); }
    bool binary(binary_t&) { return refuse("binary data"); }
    bool start_object(std::size_t) { return open(Object()); }
    bool end_object() {
        if constexpr (kIsOrdered) keys_.pop_back();
        open_.pop_back();
        return true;
    }
    bool start_array(std::size_t) { return open(Array()); }
    bool end_array() {
        if constexpr (kIsOrdered) keys_.pop_back();
        open_.pop_back();
        return true;
    }
    bool key(string_t& key) {
        auto& object = open_.back()->template get_ref<Object&>();
        if constexpr (kIsOrdered) { // ordered_json searches linearly, which makes an object quadratic
            if (!keys_.back().insert(key).second) return refuse_key(key);
            object.emplace_back(std::move(key), nullptr);
            slot_ = &object.back().second;
        } else {
            const auto [at, is_new] = object.try_emplace(std::move(key), nullptr);
            if (!is_new) return refuse_key(at->first);
            slot_ = &at->second;
        }
        return true;
    }
    bool parse_error(std::size_t place, const std::string&, const nlohmann::detail::exception& error) {
        place_of_error_ = place;
        return refuse("not valid JSON: " + json_reason(error));
    }

    Json take() { return std::move(root_); }
    const std::string& problem() const { return problem_; } // why parsing ended early
    std::optional<std::size_t> place_of_error() const {
        return place_of_error_;
    } // in characters, if the parser reported it

private:
    bool refuse(std::string problem) {
        problem_ = std::move(problem);
        return false;
    }
    bool refuse_key(const std::string& key) {
        constexpr std::size_t kLongest = 160;
        const std::string quoted = nlohmann::json(key).dump(); // UTF-8, as the parser has checked
        return refuse(quoted.size() <= kLongest
                          ? fmt::format("the key {} occurs twice in one object", quoted)
                          : fmt::format("a key of {} bytes occurs twice in one object", key.size()));
    }
    template<class Value>
    bool put(Value&& value) {
        place() = std::forward<Value>(value);
        return true;
    }
    template<class Container>
    bool open(Container&& empty) {
        if (open_.size() == kJsonDepthLimit)
            return refuse(fmt::format("nested deeper than {} levels", kJsonDepthLimit));
        Json& at = place();
        at = std::forward<Container>(empty);
        open_.push_back(&at);
        if constexpr (kIsOrdered) keys_.emplace_back();
        return true;
    }
    // Returns where to store the next value. An array grows only while none of its elements is open, so pointers stay
    // valid.
    Json& place() {
        if (open_.empty()) return root_;
        if (!open_.back()->is_array()) return *slot_;
        auto& array = open_.back()->template get_ref<Array&>();
        array.emplace_back(nullptr);
        return array.back();
    }

    Json root_;
    std::vector<Json*> open_;                           // the open arrays and objects, outermost first
    Json* slot_ = nullptr;                              // of the last key
    std::vector<std::unordered_set<std::string>> keys_; // of open_; only for an ordered value
    std::string problem_;
    std::optional<std::size_t> place_of_error_;
};

enum class Source { document, line };

// Returns the position of the `count`-th character, the last one read; one past the end means the end of the text.
std::string position_of(std::size_t count, std::string_view text, Source source) {
    const std::string_view before = text.substr(0, count > 0 ? count - 1 : 0);
    const std::size_t newline = before.rfind('\n');
    const std::size_t column = before.size() - (newline == before.npos ? 0 : newline + 1) + 1;
    if (source == Source::line) return fmt::format("column {}", column);
    return fmt::format("line {}, column {}", std::count(before.begin(), before.end(), '\n') + 1, column);
}

template<class Json>
Result<Json> parse_strictly(std::string_view text, const std::string& name, Source source = Source::document) {
    const char* reached = text.data();
    std::size_t place = 0;
    const auto bad = [&](const std::string& problem) {
        return corrupt(fmt::format("{}: {}: {}", name, position_of(place, text, source), problem));
    };
    if (text.find_first_not_of(" \t\r\n") == text.npos) return bad("not valid JSON: the text is empty");
    try {
        ValueBuilder<Json> builder;
        const CountedText begin(text.data(), &reached), end(text.data() + text.size(), &reached);
        if (!Json::sax_parse(begin, end, &builder)) {
            place = builder.place_of_error().value_or(static_cast<std::size_t>(reached - text.data()));
            return bad(builder.problem());
        }
        if (const std::size_t nul = text.find('\0'); nul != text.npos) { // which the library treats as the end
            place = nul + 1;
            return bad("not valid JSON: a NUL byte");
        }
        return builder.take();
    } catch (const std::bad_alloc&) {
        return out_of_memory(fmt::format("{}: not enough memory to read {} bytes of JSON", name, text.size()));
    } catch (const std::exception& error) { return bad("not valid JSON: " + json_reason(error)); }
}

template<class Json>
Result<Json> parse_object_strictly(std::string_view text, const std::string& name) {
    Result<Json> value = parse_strictly<Json>(text, name);
    if (!value.ok() || value->is_object()) return value;
    return corrupt(fmt::format("{}: a JSON object was expected, this is {} {}", name, value->is_array() ? "an" : "a",
                               value->type_name()));
}

} // namespace

Result<nlohmann::json> parse_json(std::string_view text, const std::string& name) {
    return parse_strictly<nlohmann::json>(text, name);
}

Result<nlohmann::json> parse_json_line(std::string_view line, const std::string& name) {
    return parse_strictly<nlohmann::json>(line, name, Source::line);
}

Result<nlohmann::json> parse_json_object(std::string_view text, const std::string& name) {
    return parse_object_strictly<nlohmann::json>(text, name);
}

Result<nlohmann::ordered_json> parse_ordered_json_object(std::string_view text, const std::string& name) {
    return parse_object_strictly<nlohmann::ordered_json>(text, name);
}

nlohmann::json json_or_null(std::string_view text) {
    Result<nlohmann::json> value = parse_strictly<nlohmann::json>(text, "");
    return value.ok() ? value.take() : nlohmann::json();
}

nlohmann::ordered_json ordered_json_or_null(std::string_view text) {
    Result<nlohmann::ordered_json> value = parse_strictly<nlohmann::ordered_json>(text, "");
    return value.ok() ? value.take() : nlohmann::ordered_json();
}

Result<std::string> dump_json(const nlohmann::json& value) {
    try {
        return value.dump(2) + "\n";
    } catch (const std::exception& error) {
        return invalid_argument(fmt::format("cannot be written as JSON: {}", json_reason(error)));
    }
}

std::string json_reason(const std::exception& error) {
    constexpr std::size_t kLongest = 200;
    std::string_view reason = error.what();
    if (const std::size_t bracket = reason.find("] "); reason.starts_with('[') && bracket != reason.npos)
        reason.remove_prefix(bracket + 2);
    // Removes "parse error at line 1, column 5: " from the reason, because the caller adds the position.
    if (const std::size_t colon = reason.find(": "); reason.starts_with("parse error at ") && colon != reason.npos)
        reason.remove_prefix(colon + 2);
    std::string text;
    for (const char c : reason.substr(0, kLongest)) { // the quoted input can be invalid UTF-8
        const auto byte = static_cast<unsigned char>(c);
        if (byte >= 0x20 && byte < 0x7f)
            text += c;
        else
            text += fmt::format("\\x{:02x}", byte);
    }
    return reason.size() > kLongest ? text + "..." : text;
}

} // namespace hekla
