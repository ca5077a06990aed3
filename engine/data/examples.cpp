#include "data/examples.hpp"

#include "base/json.hpp"
#include "data/example_rows.hpp"
#include "data/json_records.hpp"
#include "data/row_form.hpp"
#include "data/text_files.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <span>

namespace hekla::data {
namespace {

constexpr std::array<const char*, 8> kFormats = {"jsonl",  "csv",      "tsv",   "conllu",
                                                 "tagged", "parallel", "lines", "text"};

class Reader final : public ExampleReader {
public:
    // requests: the columns of the files that are read, those of the options first, then those of templates.
    Reader(ExampleOptions options, std::vector<ColumnRequest> requests, ExampleFormat format,
           std::vector<std::string> files)
        : options_(std::move(options)), requests_(std::move(requests)), format_(format), files_(std::move(files)) {}

    const std::vector<std::string>& files() const override { return files_; }
    const Skipped& skipped() const override { return skipped_; }
    std::string form() const override { return form_text_; }

    // Recognizes the form of the rows of JSON files by the first rows, where the task leaves it open.
    Status recognize(std::span<const ColumnRequest> asked) {
        if (format_ != ExampleFormat::jsonl) return {};
        known_forms_ = RowForm::known(asked);
        if (known_forms_.empty()) return {};
        HK_ASSIGN(const FirstRows first, first_json_rows(files_.front(), options_.max_bytes, options_.reading));
        form_ = RowForm::recognize(first.rows, asked);
        if (!form_) return {};
        form_text_ =
            fmt::format("{}: {}{}", files_.front(), form_->description(), first.is_array ? ", in one JSON array" : "");
        for (std::size_t c = 0; c < asked.size(); ++c) {
            const RowForm::Source& source = form_->source(c);
            for (std::vector<ColumnRequest>* columns : {&options_.columns, &requests_})
                if ((*columns)[c].templates.empty()) (*columns)[c].source = source.key;
        }
        return {};
    }

    Result<bool> next(Example& example) override {
        if (ended_) return false;
        Result<bool> found = advance(example);
        ended_ = !found.ok() || !found.value();
        return found;
    }

    Status open_next() {
        const std::size_t limit = options_.max_bytes;
        if (format_ == ExampleFormat::parallel) {
            std::vector<LineReader> all;
            for (const std::string& file : files_) {
                HK_ASSIGN(LineReader lines, LineReader::open(file, limit, options_.reading));
                all.push_back(std::move(lines));
            }
            rows_ = parallel_rows(std::move(all));
            opened_ = files_.size();
            return {};
        }
        const Columns columns = requests_;
        if (format_ == ExampleFormat::jsonl) {
            HK_ASSIGN(std::unique_ptr<JsonRecords> records,
                      JsonRecords::open(files_[opened_], limit, options_.reading));
            rows_ = json_rows(std::move(records), columns, form_ ? &*form_ : nullptr);
            ++opened_;
            return {};
        }
        HK_ASSIGN(LineReader lines, LineReader::open(files_[opened_], limit, options_.reading));
        switch (format_) {
        case ExampleFormat::csv:
        case ExampleFormat::tsv: {
            HK_ASSIGN(rows_,
                      table_rows(std::move(lines), columns, format_ == ExampleFormat::csv, options_.header, limit));
            break;
        }
        case ExampleFormat::conllu: rows_ = conllu_rows(std::move(lines), columns, limit); break;
        case ExampleFormat::tagged: rows_ = tagged_rows(std::move(lines), columns, limit); break;
        case ExampleFormat::lines: rows_ = line_rows(std::move(lines), columns); break;
        case ExampleFormat::text: rows_ = document_rows(std::move(lines), columns, limit); break;
        case ExampleFormat::jsonl:
        case ExampleFormat::parallel: break; // above
        }
        ++opened_;
        return {};
    }

private:
    Result<bool> advance(Example& example) {
        for (;;) {
            if (!rows_) {
                if (opened_ == files_.size()) return false;
                HK_TRY(open_next());
            }
            Row row;
            row.values.resize(requests_.size());
            const bool parallel = format_ == ExampleFormat::parallel;
            Result<bool> found = rows_->next(row);
            const std::string& file = files_[parallel ? 0 : opened_ - 1];
            if (!found.ok()) return found;
            if (!found.value()) {
                rows_.reset();
                continue;
            }
            if (!row.bad) row.bad = compose(row);
            if (!row.bad) row.bad = check_required(row);
            if (row.bad) {
                std::string what = fmt::format("{}: line {}: {}", file, row.line, row.bad->why);
                if (options_.on_bad == OnBadExample::refuse)
                    return invalid_argument(what + remedy_of_bad_example(options_.of_recipe));
                const auto d = static_cast<std::size_t>(row.bad->defect);
                if (skipped_.counts[d]++ == 0) skipped_.first[d] = std::move(what);
                continue;
            }
            example.values = std::move(row.values);
            example.file = static_cast<uint32_t>(parallel ? 0 : opened_ - 1);
            example.line = row.line;
            return true;
        }
    }

    // Fills in the columns with templates, and leaves only the columns of the options.
    std::optional<BadRow> compose(Row& row) const {
        const auto text_of = [&](std::string_view source) -> std::string_view {
            for (std::size_t r = options_.columns.size(); r < requests_.size(); ++r)
                if (requests_[r].source == source) return row.values[r].text;
            return {};
        };
        for (std::size_t c = 0; c < options_.columns.size(); ++c) {
            const ColumnRequest& column = options_.columns[c];
            if (column.templates.empty()) continue;
            std::optional<std::string> text;
            for (std::size_t t = 0; t < column.templates.size() && !text; ++t) text = column.templates[t].fill(text_of);
            if (!text && column.required)
                return BadRow{Defect::missing_column,
                              fmt::format("no template of \"{}\" has text in all of its columns ({})", column.name,
                                          fmt::join(column.templates.back().columns(), ", "))};
            row.values[c] = text ? Value{.present = true, .text = std::move(*text)} : Value{};
        }
        row.values.resize(options_.columns.size());
        return std::nullopt;
    }

    std::optional<BadRow> check_required(Row& row) const {
        for (std::size_t c = 0; c < options_.columns.size(); ++c) {
            const ColumnRequest& column = options_.columns[c];
            Value& value = row.values[c];
            const bool empty = column.is_list ? value.items.empty() : is_blank(value.text);
            if (column.required && !value.present)
                return BadRow{
                    Defect::missing_column,
                    fmt::format("there is no \"{}\"{}", column.source,
                                form_ || known_forms_.empty()
                                    ? std::string()
                                    : fmt::format(" (rows that are read without data.columns have {})", known_forms_))};
            if (column.required && empty) return BadRow{Defect::empty, fmt::format("\"{}\" is empty", column.source)};
            if (!column.required && value.present && empty) value = {};
        }
        return std::nullopt;
    }

    ExampleOptions options_;
    std::vector<ColumnRequest> requests_;
    ExampleFormat format_;
    std::vector<std::string> files_;
    std::size_t opened_ = 0; // files opened so far
    std::unique_ptr<RowSource> rows_;
    Skipped skipped_;
    bool ended_ = false;
    std::optional<RowForm> form_;
    std::string form_text_, known_forms_;
};

// Checks whether the format supports such columns.
Status check_columns(std::span<const ColumnRequest> columns, ExampleFormat format) {
    if (columns.empty()) return invalid_argument("no column of the examples is asked for");
    for (const ColumnRequest& column : columns) {
        if (!column.templates.empty()) { // its columns follow
            if (format == ExampleFormat::parallel)
                return invalid_argument(fmt::format("the column \"{}\" has a template, and the files of format "
                                                    "\"parallel\" have no columns: use another format",
                                                    column.name));
            if (column.is_list)
                return invalid_argument(
                    fmt::format("the column \"{}\" has a template, which is one text, and a list of "
                                "texts is asked for",
                                column.name));
            continue;
        }
        const auto wrong = [&](std::string_view expected) {
            return invalid_argument(fmt::format("the column \"{}\" cannot be read from \"{}\" of {} files: {}",
                                                column.name, column.source, format_name(format), expected));
        };
        const auto wants = [&](bool list) {
            return column.is_list == list ? Status()
                                          : wrong(list ? "it is a list of texts, and one text is asked for"
                                                       : "it is one text, and a list of texts is asked for");
        };
        switch (format) {
        case ExampleFormat::jsonl: break;
        case ExampleFormat::csv:
        case ExampleFormat::tsv:
        case ExampleFormat::parallel: HK_TRY(wants(false)); break;
        case ExampleFormat::conllu: HK_TRY(wants(is_conllu_field(column.source))); break;
        case ExampleFormat::tagged:
            if (column.source != "words" && column.source != "tags" && !column_number(column.source))
                return wrong("\"words\", \"tags\" or a column's number from 1 was expected");
            HK_TRY(wants(true));
            break;
        case ExampleFormat::lines:
            if (column.source != "text") return wrong("there is only \"text\"");
            HK_TRY(wants(false));
            break;
        case ExampleFormat::text:
            if (column.source != "text" && column.source != "lines")
                return wrong("there are only \"text\" and \"lines\"");
            HK_TRY(wants(column.source == "lines"));
            break;
        }
    }
    return {};
}

} // namespace

const char* format_name(ExampleFormat format) { return kFormats[static_cast<std::size_t>(format)]; }

Result<ExampleFormat> format_of_name(std::string_view name) {
    const auto found = std::ranges::find(kFormats, name);
    if (found != kFormats.end()) return static_cast<ExampleFormat>(found - kFormats.begin());
    return invalid_argument(
        fmt::format("\"{}\" is not a format of examples; there are: {}", name, fmt::join(kFormats, ", ")));
}

Result<ExampleFormat> format_of_file(const std::string& path) {
    std::string_view name = path;
    for (const std::string_view packed : {".gz", ".zst"})
        if (name.ends_with(packed)) name.remove_suffix(packed.size());
    for (const auto& [ending, format] :
         {std::pair(".jsonl", ExampleFormat::jsonl), std::pair(".ndjson", ExampleFormat::jsonl),
          std::pair(".json", ExampleFormat::jsonl), std::pair(".csv", ExampleFormat::csv),
          std::pair(".pos.tsv", ExampleFormat::tagged), std::pair(".tsv", ExampleFormat::tsv),
          std::pair(".conllu", ExampleFormat::conllu), std::pair(".txt", ExampleFormat::text)})
        if (name.ends_with(ending)) return format;
    return invalid_argument(fmt::format("{}: the format cannot be told from the name: set it to one of {}", path,
                                        fmt::join(kFormats, ", ")));
}

uint64_t Skipped::total() const {
    uint64_t sum = 0;
    for (const uint64_t count : counts) sum += count;
    return sum;
}

std::string Skipped::describe() const {
    std::string out;
    for (std::size_t d = 0; d < counts.size(); ++d)
        if (counts[d] > 0)
            out += fmt::format("{}{} {} (first: {})", out.empty() ? "" : ", ", counts[d],
                               defect_name(static_cast<Defect>(d)), first[d]);
    return out;
}

std::string ExampleReader::place(const Example& example) const {
    return fmt::format("{}: line {}", files()[example.file], example.line);
}

Result<FirstRows> first_json_rows(const std::filesystem::path& file, std::size_t max_bytes,
                                  const ReadOptions& reading) {
    constexpr std::size_t kLooked = 16;
    HK_ASSIGN(const std::unique_ptr<JsonRecords> records, JsonRecords::open(file, max_bytes, reading));
    FirstRows first;
    first.is_array = records->is_array();
    for (std::size_t i = 0; i < kLooked; ++i) {
        HK_ASSIGN(const std::optional<Line> line, records->next());
        if (!line) break;
        if (check_line(*line)) continue; // an error once it is read
        nlohmann::json row = json_or_null(line->text);
        if (row.is_object()) first.rows.push_back(std::move(row));
    }
    return first;
}

Result<std::unique_ptr<ExampleReader>> open_examples(const ExampleOptions& given) {
    ExampleOptions options = given;
    const std::vector<ColumnRequest> asked = given.columns;
    for (ColumnRequest& column : options.columns)
        if (column.source.empty()) column.source = column.name;
    std::vector<std::string> files;
    if (options.format == ExampleFormat::parallel) {
        for (const ColumnRequest& column : options.columns) files.push_back(column.source);
    } else {
        HK_ASSIGN(const std::vector<std::filesystem::path> found, find_text_files(options.inputs));
        for (const std::filesystem::path& path : found) files.push_back(path.string());
        if (files.empty()) return invalid_argument("no files of examples are given");
    }
    if (!options.format) {
        HK_TRY(ByteStream::open(files.front(), options.reading.decompression).status()); // Parquet has its own error
        HK_ASSIGN(options.format, format_of_file(files.front()));
    }
    std::vector<ColumnRequest> requests = options.columns;
    for (ColumnRequest& request : requests)
        if (!request.templates.empty()) { // what is read for it is replaced
            request.required = false;
            if (!request.templates.front().columns().empty()) request.source = request.templates.front().columns()[0];
        }
    for (const ColumnRequest& column : options.columns)
        for (const TextTemplate& one : column.templates)
            for (const std::string& source : one.columns())
                requests.push_back({source, source, false, false, false, {}});
    HK_TRY(check_columns(requests, *options.format));
    const ExampleFormat format = *options.format;
    auto reader = std::make_unique<Reader>(std::move(options), std::move(requests), format, std::move(files));
    HK_TRY(reader->recognize(asked));
    HK_TRY(reader->open_next()); // an error about a missing column of the first file is reported before any row
    return std::unique_ptr<ExampleReader>(std::move(reader));
}

} // namespace hekla::data
