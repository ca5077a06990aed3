// JSON: one object per line, or one array of objects.
#include "data/example_rows.hpp"

#include "base/json.hpp"
#include "base/read_real.hpp"
#include "data/json_records.hpp"
#include "data/message_forms.hpp"
#include "data/row_form.hpp"
#include "text/files/json_file.hpp"

#include <algorithm>
#include <cmath>
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

// Returns the integer of a line of JSON whose value as a double is `value`; nothing if that number is written in
// another way.
std::optional<std::string_view> long_integer(std::string_view line, double value) {
    bool quoted = false;
    for (std::size_t at = 0; at < line.size(); ++at) {
        if (quoted && line[at] == '\\') {
            ++at;
        } else if (line[at] == '"') {
            quoted = !quoted;
        } else if (!quoted && (line[at] == '-' || (line[at] >= '0' && line[at] <= '9'))) {
            const std::size_t end = std::min(line.find_first_not_of("+-.0123456789eE", at), line.size());
            const std::string_view number = line.substr(at, end - at);
            double read = 0.0;
            const auto [last, problem] = read_real(number.data(), number.data() + number.size(), read);
            if (problem == std::errc() && read == value && number.find_first_of(".eE") == std::string_view::npos)
                return number;
            at = end - 1;
        }
    }
    return std::nullopt;
}

class JsonRows final : public RowSource {
public:
    JsonRows(std::unique_ptr<JsonRecords> records, Columns columns, const RowForm* form)
        : records_(std::move(records)), columns_(columns), form_(form) {}

    Result<bool> next(Row& row) override {
        HK_ASSIGN(const std::optional<Line> line, records_->next());
        if (!line) return false;
        row.line = line->number;
        row.bad = check_line(*line);
        if (row.bad) return true;
        if (is_blank(line->text)) {
            HK_ASSIGN(const bool last, records_->only_blanks_follow());
            if (last) return false; // empty lines at the end of a file are skipped
            row.bad = {Defect::empty, "the line is empty"};
            return true;
        }
        const char* what = records_->is_array() ? "the element of the array" : "the line";
        const Result<Json> json = parse_json_line(line->text, what);
        if (!json.ok() || !json.value().is_object()) {
            row.bad = {Defect::malformed,
                       json.ok() ? fmt::format("{} is JSON but not an object", what) : json.message()};
            if (!json.ok() && !records_->is_array() && line->number == 1)
                row.bad->why += "; expected one object a line, or one array of objects";
            return true;
        }
        ordered_.reset();
        line_ = line->text;
        for (std::size_t c = 0; c < columns_.size() && !row.bad; ++c) row.bad = read(json.value(), c, row.values[c]);
        return true;
    }

private:
    // Returns the line with its keys in their order.
    const nlohmann::ordered_json& ordered() {
        if (!ordered_) ordered_ = ordered_json_or_null(line_);
        return *ordered_;
    }

    std::optional<BadRow> read(const Json& object, std::size_t c, Value& value) {
        const ColumnRequest& column = columns_[c];
        if (form_ != nullptr && form_->source(c).kind != RowForm::Kind::key) {
            Result<Value> composed = form_->compose(ordered(), c);
            if (!composed.ok())
                return BadRow{composed.code() == Code::not_found ? Defect::missing_column : Defect::malformed,
                              composed.message()};
            value = composed.take();
            return std::nullopt;
        }
        const auto found = column.or_messages ? object.find(column.source) : object.end();
        if (found == object.end() || !holds_messages(*found)) return read(object, column, value);
        const Result<nlohmann::ordered_json> messages = plain_messages(ordered()[column.source]);
        if (!messages.ok())
            return BadRow{Defect::malformed, fmt::format("\"{}\": {}", column.source, messages.message())};
        value = {true, messages->dump(), {}, true};
        return std::nullopt;
    }

    std::optional<BadRow> read(const Json& object, const ColumnRequest& column, Value& value) const {
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
        if (const std::optional<std::string_view> digits = lost_digits(*found))
            return BadRow{Defect::malformed, inexact(source, *digits)};
        const std::optional<std::string> text = as_text(*found);
        if (column.is_list || !text)
            return BadRow{Defect::malformed,
                          fmt::format("\"{}\" is {}, {} was expected", source, found->type_name(),
                                      column.is_list ? "a list of texts" : "a text, a number, true or false")};
        value.present = true;
        value.text = *text;
        return std::nullopt;
    }

    std::optional<BadRow> read_list(const Json& list, std::string_view key, const ColumnRequest& column,
                                    Value& value) const {
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
            if (inner != nullptr)
                if (const std::optional<std::string_view> digits = lost_digits(*inner))
                    return BadRow{Defect::malformed, inexact(column.source, *digits)};
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

    // Returns an integer of the line that has more digits than the number that was parsed from it; nothing if there is
    // none.
    std::optional<std::string_view> lost_digits(const Json& value) const {
        constexpr double kMost = 9.2e18; // integers of 64 bits are exact
        if (!value.is_number_float() || std::abs(value.get<double>()) < kMost) return std::nullopt;
        return long_integer(line_, value.get<double>());
    }
    static std::string inexact(const std::string& source, std::string_view digits) {
        return fmt::format(
            "\"{}\" is {}, which has more than 64 bits and would lose digits: write it in quotes, as a text", source,
            digits);
    }

    std::unique_ptr<JsonRecords> records_;
    Columns columns_;
    const RowForm* form_;
    std::string_view line_;                         // that is read
    std::optional<nlohmann::ordered_json> ordered_; // the same, once a column needs it
};

} // namespace

std::unique_ptr<RowSource> json_rows(std::unique_ptr<JsonRecords> records, Columns columns, const RowForm* form) {
    return std::make_unique<JsonRows>(std::move(records), columns, form);
}

} // namespace hekla::data
