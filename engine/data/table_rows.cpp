// Tables: CSV (RFC 4180), and TSV without quotes.
#include "data/example_rows.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::data {
namespace {

class TableRows final : public RowSource {
public:
    TableRows(LineReader lines, Columns columns, bool quotes, std::size_t max_bytes)
        : lines_(std::move(lines)), columns_(columns), quotes_(quotes), max_bytes_(max_bytes) {}

    Status read_header(bool has_header) {
        std::vector<std::string> names;
        if (has_header) {
            Row row;
            HK_ASSIGN(const bool any, read_fields(row));
            if (!any) return corrupt(fmt::format("{}: is empty; a line with the columns' names was expected", name()));
            if (row.bad) return corrupt(fmt::format("{}: line 1: the columns' names: {}", name(), row.bad->why));
            names = fields_;
            width_ = names.size();
        }
        for (const ColumnRequest& column : columns_) {
            const auto found = std::ranges::find(names, column.source);
            if (found != names.end()) {
                if (std::find(found + 1, names.end(), column.source) != names.end())
                    return corrupt(fmt::format("{}: line 1: two columns are called \"{}\"", name(), column.source));
                places_.push_back(static_cast<std::size_t>(found - names.begin()));
                continue;
            }
            const std::optional<std::size_t> number = column_number(column.source);
            if (number && (!has_header || *number <= width_)) {
                places_.push_back(*number - 1);
                continue;
            }
            if (!column.required) {
                places_.push_back(kAbsent);
                continue;
            }
            return has_header
                       ? not_found(fmt::format("{}: has no column \"{}\"{}; its columns are: {}", name(), column.source,
                                               column.source == column.name
                                                   ? std::string()
                                                   : fmt::format(", which \"{}\" is read from", column.name),
                                               fmt::join(names, ", ")))
                       : invalid_argument(fmt::format("{}: \"{}\" is to be read from the column \"{}\", but the file "
                                                      "has no line of names: give the column's number, from 1",
                                                      name(), column.name, column.source));
        }
        return {};
    }

    Result<bool> next(Row& row) override {
        HK_ASSIGN(const bool any, read_fields(row));
        if (!any || row.bad) return any;
        if (blank_) {
            HK_ASSIGN(const bool last, lines_.only_blanks_follow());
            if (last) return false; // empty lines at the end of a file are skipped
        }
        if (fields_.size() == 1 && fields_[0].empty()) {
            row.bad = {Defect::empty, "the line is empty"};
            return true;
        }
        if (width_ == 0) {
            width_ = fields_.size();
            for (std::size_t c = 0; c < columns_.size(); ++c)
                if (places_[c] != kAbsent && places_[c] >= width_ && columns_[c].required)
                    return not_found(fmt::format("{}: \"{}\" is to be read from column {}, but line {} has {} column{}",
                                                 name(), columns_[c].name, places_[c] + 1, row.line, width_,
                                                 width_ == 1 ? "" : "s"));
        }
        if (fields_.size() != width_) {
            row.bad = {Defect::ragged,
                       fmt::format("the line has {} columns, {} were expected", fields_.size(), width_)};
            return true;
        }
        for (std::size_t c = 0; c < columns_.size(); ++c) {
            if (places_[c] >= width_) continue;
            row.values[c].present = true;
            row.values[c].text = fields_[places_[c]]; // of which several columns may be read
        }
        return true;
    }

private:
    static constexpr std::size_t kAbsent = ~std::size_t{0};
    const std::string& name() const { return lines_.name(); }

    // Reads the fields of the next record into fields_.
    Result<bool> read_fields(Row& row) {
        fields_.clear();
        HK_ASSIGN(std::optional<Line> line, lines_.next());
        if (!line) return false;
        HK_TRY(check_line_ends(*line, name()));
        row.line = line->number;
        blank_ = is_blank(line->text);
        row.bad = check_line(*line);
        if (row.bad) return true;
        if (!quotes_) {
            for (const std::string_view field : split_tabs(line->text)) fields_.emplace_back(field);
            return true;
        }
        std::size_t size = line->text.size();
        std::size_t at = 0;
        for (;;) {
            std::string& field = fields_.emplace_back();
            if (at < line->text.size() && line->text[at] == '"') {
                ++at;
                for (;;) {
                    if (at == line->text.size()) { // a newline inside quotes
                        field += line->end;
                        HK_ASSIGN(line, lines_.next());
                        if (!line || (size += line->text.size()) > max_bytes_)
                            return corrupt(fmt::format("{}: line {}: a quote is opened and not closed within {} bytes",
                                                       name(), row.line, max_bytes_));
                        if (!row.bad) row.bad = check_line(*line);
                        at = 0;
                        continue;
                    }
                    const char c = line->text[at++];
                    if (c != '"') {
                        field += c;
                    } else if (at < line->text.size() && line->text[at] == '"') {
                        field += '"';
                        ++at;
                    } else {
                        break;
                    }
                }
                if (at < line->text.size() && line->text[at] != ',') {
                    row.bad = {Defect::malformed,
                               fmt::format("line {}: after the closing quote of field {} comes \"{}\", a comma was "
                                           "expected",
                                           line->number, fields_.size(), line->text.substr(at, 8))};
                    return true;
                }
            } else {
                const std::size_t comma = std::min(line->text.find(',', at), line->text.size());
                field = line->text.substr(at, comma - at);
                at = comma;
            }
            if (at == line->text.size()) return true;
            ++at; // the comma; a field follows, even an empty one
        }
    }

    LineReader lines_;
    Columns columns_;
    bool quotes_;
    std::size_t max_bytes_;
    std::size_t width_ = 0; // columns per line; 0: not known yet
    std::vector<std::size_t> places_;
    std::vector<std::string> fields_;
    bool blank_ = false; // of the line of fields_
};

} // namespace

Result<std::unique_ptr<RowSource>> table_rows(LineReader lines, Columns columns, bool quotes,
                                              std::optional<bool> header, std::size_t max_bytes) {
    const bool named = !std::ranges::all_of(
        columns, [](const ColumnRequest& column) { return column_number(column.source).has_value(); });
    auto rows = std::make_unique<TableRows>(std::move(lines), columns, quotes, max_bytes);
    HK_TRY(rows->read_header(header.value_or(named)));
    return std::unique_ptr<RowSource>(std::move(rows));
}

} // namespace hekla::data
