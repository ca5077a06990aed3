#include "base/toml.hpp"

#include "base/utf8.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <vector>

namespace hekla {
namespace {

using nlohmann::json;

// A scanner for the nesting depth of a text, without recursion: dotted keys, table headers, arrays and inline tables.
// It knows just enough of TOML to skip strings and comments.
class DepthScanner {
public:
    explicit DepthScanner(std::string_view text) : text_(text) {}

    // Returns the offset at which the text is deeper than `limit`; its size if it never is.
    std::size_t deeper_than(int limit) {
        while (at_ < text_.size()) {
            step();
            if (depth_ > limit) return at_ - 1;
        }
        return at_;
    }

private:
    void step() {
        const char c = text_[at_];
        if (c == '#') {
            at_ = std::min(text_.find('\n', at_), text_.size());
            return;
        }
        if (c == '"' || c == '\'') {
            line_begins_ = false;
            return skip_string(c);
        }
        switch (c) {
        case '\n':
            in_header_ = false;
            if (open_.empty()) end_key();
            line_begins_ = true;
            break;
        case ' ':
        case '\t':
        case '\r': break;
        case '.': deeper(); break;
        case ',': end_key(); break;
        case '[':
        case '{':
            if (line_begins_ && open_.empty()) { // a table's header
                keys_ = 0;
                depth_ = header_ = 1;
                in_header_ = true;
            } else if (!in_header_) {
                open_.push_back(keys_);
                keys_ = 0;
                ++depth_;
            }
            line_begins_ = false;
            break;
        case ']':
        case '}':
            if (!in_header_ && !open_.empty()) {
                depth_ -= keys_ + 1;
                keys_ = open_.back();
                open_.pop_back();
            }
            break;
        default: line_begins_ = false;
        }
        ++at_;
    }

    void deeper() {
        ++depth_;
        ++(in_header_ ? header_ : keys_);
    }

    void end_key() {
        depth_ -= keys_;
        keys_ = 0;
    }

    void skip_string(char quote) {
        const bool multi_line = text_.substr(at_, 3) == std::string(3, quote);
        at_ += multi_line ? 3 : 1;
        for (; at_ < text_.size(); ++at_) {
            if (text_[at_] == '\\' && quote == '"') {
                ++at_;
            } else if (multi_line ? text_.substr(at_, 3) == std::string(3, quote) : text_[at_] == quote) {
                at_ += multi_line ? 3 : 1;
                return;
            } else if (!multi_line && text_[at_] == '\n') {
                return; // a syntax error, which the parser reports
            }
        }
        at_ = text_.size();
    }

    std::string_view text_;
    std::size_t at_ = 0;
    int depth_ = 0;         // header_, plus open keys and brackets
    int header_ = 0;        // parts of the header above
    int keys_ = 0;          // dots of the key that is being read, or whose value is being read
    std::vector<int> open_; // keys_ around each open bracket
    bool in_header_ = false;
    bool line_begins_ = true;
};

std::string position(std::string_view text, std::size_t at, const std::string& name) {
    const std::string_view before = text.substr(0, at);
    const auto line = std::ranges::count(before, '\n') + 1;
    const std::size_t begin = before.rfind('\n') + 1; // npos + 1 is 0
    return fmt::format("{}:{}:{}", name, line, at - begin + 1);
}

std::string place_of(const toml::node& node, const std::string& file) {
    const toml::source_region& source = node.source();
    if (source.path != nullptr && *source.path != file) return *source.path;
    if (source.begin.line > 0) return fmt::format("{}:{}", file, source.begin.line);
    // A table that was made of a key alone has no place, but its first value has.
    if (const toml::table* table = node.as_table(); table != nullptr && !table->empty())
        return place_of(table->begin()->second, file);
    return file;
}

// path: of the value, for messages.
Result<json> value_of(const toml::node& node, const std::string& file, const std::string& path) {
    if (const auto* text = node.as_string()) return json(text->get());
    if (const auto* integer = node.as_integer()) return json(integer->get());
    if (const auto* real = node.as_floating_point()) return json(real->get());
    if (const auto* flag = node.as_boolean()) return json(flag->get());
    if (const auto* array = node.as_array()) {
        json list = json::array();
        for (const toml::node& element : *array) {
            HK_ASSIGN(json value, value_of(element, file, path));
            list.push_back(std::move(value));
        }
        return list;
    }
    if (const auto* table = node.as_table()) {
        json object = json::object();
        for (const auto& [key, element] : *table) {
            const std::string name(key.str());
            HK_ASSIGN(object[name], value_of(element, file, path.empty() ? name : path + "." + name));
        }
        return object;
    }
    return invalid_argument(
        fmt::format("{}: {}: a date or time cannot be used here; write it as a string", place_of(node, file), path));
}

// Notes the places of what value_of() made of a node.
void note_places(const toml::node& node, const json& value, TableReading& reading) {
    reading.set_place(value, place_of(node, reading.file()));
    if (const auto* array = node.as_array())
        for (std::size_t i = 0; i < array->size(); ++i) note_places((*array)[i], value[i], reading);
    if (const auto* table = node.as_table())
        for (const auto& [key, element] : *table) note_places(element, value.at(std::string(key.str())), reading);
}

} // namespace

Status check_toml_depth(std::string_view text, const std::string& name) {
    const std::size_t at = DepthScanner(text).deeper_than(kDeepestToml);
    if (at == text.size()) return {};
    return invalid_argument(fmt::format("{}: keys, tables and arrays are nested more than {} levels deep",
                                        position(text, at, name), kDeepestToml));
}

Result<toml::table> parse_toml(std::string_view text, const std::string& name) {
    if (const std::size_t at = find_invalid_utf8(text); at < text.size())
        return invalid_argument(fmt::format("{}: byte 0x{:02X} is not valid UTF-8", position(text, at, name),
                                            static_cast<unsigned char>(text[at])));
    HK_TRY(check_toml_depth(text, name));
    toml::parse_result parsed = toml::parse(text, name);
    if (!parsed) {
        const toml::parse_error& e = parsed.error();
        return invalid_argument(
            fmt::format("{}:{}:{}: {}", name, e.source().begin.line, e.source().begin.column, e.description()));
    }
    return std::move(parsed).table();
}

Result<json> toml_values(const toml::table& table, TableReading& reading) {
    HK_ASSIGN(json values, value_of(table, reading.file(), ""));
    for (const auto& [key, element] : table) note_places(element, values.at(std::string(key.str())), reading);
    return values;
}

Result<json> toml_values(std::string_view text, TableReading& reading) {
    HK_ASSIGN(const toml::table table, parse_toml(text, reading.file()));
    return toml_values(table, reading);
}

} // namespace hekla
