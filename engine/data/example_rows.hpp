// Readers of single formats, which find the next row of one file. Internal; data/examples.hpp is the interface.
#pragma once

#include "base/status.hpp"
#include "data/example.hpp"
#include "data/line_reader.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::data {

// An error of one row; the next row can be read.
struct BadRow {
    Defect defect = Defect::malformed;
    std::string why;
};

struct Row {
    std::vector<Value> values; // one per column, absent at first
    uint64_t line = 0;
    std::optional<BadRow> bad;
};

class JsonRecords;
class RowForm;

class RowSource {
public:
    virtual ~RowSource() = default;
    // Fills `row`, whose values are absent. Returns false at the end. An error ends reading.
    virtual Result<bool> next(Row& row) = 0;
};

using Columns = std::span<const ColumnRequest>; // with every source filled in; must outlive the RowSource

// form: of the rows; null: columns are read from their sources. It must outlive the RowSource.
std::unique_ptr<RowSource> json_rows(std::unique_ptr<JsonRecords> records, Columns columns, const RowForm* form);
Result<std::unique_ptr<RowSource>> table_rows(LineReader lines, Columns columns, bool quotes,
                                              std::optional<bool> header, std::size_t max_bytes);
std::unique_ptr<RowSource> conllu_rows(LineReader lines, Columns columns, std::size_t max_bytes);
std::unique_ptr<RowSource> tagged_rows(LineReader lines, Columns columns, std::size_t max_bytes);
std::unique_ptr<RowSource> parallel_rows(std::vector<LineReader> lines);
std::unique_ptr<RowSource> line_rows(LineReader lines, Columns columns);
std::unique_ptr<RowSource> document_rows(LineReader lines, Columns columns, std::size_t max_bytes);

// Returns whether a CoNLL-U source is a list: a field, not a comment.
bool is_conllu_field(std::string_view source);

// Shared by several formats.
std::optional<BadRow> check_line(const Line& line); // too long, not UTF-8, NUL
// Refuses a file whose lines end in CR alone, which is one line otherwise.
Status check_line_ends(const Line& line, const std::string& file);
bool is_blank(std::string_view line);
std::optional<std::size_t> column_number(std::string_view source); // converts "3" to 3; counted from 1
std::vector<std::string_view> split_tabs(std::string_view line);
BadRow too_long(std::string_view what, std::size_t max_bytes);

} // namespace hekla::data
