// JSON lines: one object per line.
#include "data/example_rows.hpp"

#include "base/json.hpp"
#include "text/files/json_file.hpp"

#include <fmt/format.h>

namespace hekla::data {
namespace {

using text::Json;

// Returns a text, a number or a boolean as text; nothing for other types.
std::optional<std::string> as_text(const Json& value) {
    if (value.is_string()) return value.get<std::string>();
    if (value.is_number() || value.is_boolean()) return value.dump();
    return std::nullopt;
}

class JsonRows final : public RowSource {
public:
    JsonRows(LineReader lines, Columns columns) : lines_(std::move(lines)), columns_(columns) {}

    Result<bool> next(Row& row) override {
        HK_ASSIGN(const std::optional<Line> line, lines_.next());
        if (!line) return false;
        row.line = line->number;
        row.bad = check_line(*line);
        if (row.bad) return true;
        if (is_blank(line->text)) {
            row.bad = {Defect::empty, "the line is empty"};
            return true;
        }
        const Result<Json> json = parse_json_line(line->text, "the line");
        if (!json.ok() || !json.value().is_object()) {
            row.bad = {Defect::malformed, json.ok() ? "the line is JSON but not an object" : json.message()};
            return true;
        }
        Ordered ordered;
        for (std::size_t c = 0; c < columns_.size() && !row.bad; ++c)
            row.bad = read_messages(json.value(), line->text, ordered, columns_[c], row.values[c])
                          ? std::nullopt
                          : read(json.value(), columns_[c], row.values[c]);
        return true;
    }

private:
    using Ordered = std::optional<nlohmann::ordered_json>; // the line, once a column needs it

    // Reads a list of messages, whose keys keep their order. Returns false if the value is something else.
    static bool read_messages(const Json& object, std::string_view line, Ordered& ordered, const ColumnRequest& column,
                              Value& value) {
        const auto found = column.or_messages ? object.find(column.source) : object.end();
        if (found == object.end() || !found->is_array() || found->empty() || !found->front().is_object() ||
            !found->front().contains("role"))
            return false;
        if (!ordered) ordered = ordered_json_or_null(line);
        value = {true, (*ordered)[column.source].dump(), {}, true};
        return true;
    }

    static std::optional<BadRow> read(const Json& object, const ColumnRequest& column, Value& value) {
        const std::string& source = column.source;
        const Json* at = &object;
        std::string_view rest = source;
        if (!object.contains(source)) { // a key that contains a dot is tried first; otherwise dots select nested keys
            for (std::size_t dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
                const auto inner = at->find(std::string(rest.substr(0, dot)));
                if (inner == at->end() || inner->is_null()) return std::nullopt;
                at = &*inner;
                rest.remove_prefix(dot + 1);
                if (!at->is_object()) break;
            }
        }
        if (at->is_array()) return read_list(*at, rest, column, value); // of objects, one key of each
        const auto found = at->is_object() ? at->find(std::string(rest)) : at->end();
        if (!at->is_object() || found == at->end() || found->is_null()) return std::nullopt;
        if (found->is_array()) return read_list(*found, {}, column, value);
        const std::optional<std::string> text = as_text(*found);
        if (column.is_list || !text)
            return BadRow{Defect::malformed,
                          fmt::format("\"{}\" is {}, {} was expected", source, found->type_name(),
                                      column.is_list ? "a list of texts" : "a text, a number, true or false")};
        value.present = true;
        value.text = *text;
        return std::nullopt;
    }

    static std::optional<BadRow> read_list(const Json& list, std::string_view key, const ColumnRequest& column,
                                           Value& value) {
        if (!column.is_list && !column.or_first)
            return BadRow{Defect::malformed,
                          column.or_messages ? fmt::format("\"{}\" is a list, expected a text, or a list of messages "
                                                           "with \"role\" and \"content\"",
                                                           column.source)
                                             : fmt::format("\"{}\" is a list, a text was expected", column.source)};
        for (const Json& item : list) {
            const Json* inner = &item;
            if (!key.empty()) {
                const auto found = item.is_object() ? item.find(std::string(key)) : item.end();
                inner = item.is_object() && found != item.end() ? &*found : nullptr;
            }
            const std::optional<std::string> text = inner != nullptr ? as_text(*inner) : std::nullopt;
            if (!text)
                return BadRow{Defect::malformed, fmt::format("\"{}\": item {} of the list is not a text", column.source,
                                                             value.items.size() + 1)};
            if (!column.is_list) { // the first item is used
                value.text = *text;
                break;
            }
            value.items.push_back(*text);
        }
        value.present = column.is_list || !list.empty();
        return std::nullopt;
    }

    LineReader lines_;
    Columns columns_;
};

} // namespace

std::unique_ptr<RowSource> json_rows(LineReader lines, Columns columns) {
    return std::make_unique<JsonRows>(std::move(lines), columns);
}

} // namespace hekla::data
