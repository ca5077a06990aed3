// Plain text as examples: lines, documents separated by blank lines, and parallel files that are read line by line.
#include "data/example_rows.hpp"

#include <fmt/format.h>

namespace hekla::data {
namespace {

class LineRows final : public RowSource {
public:
    LineRows(LineReader lines, Columns columns) : lines_(std::move(lines)), columns_(columns) {}
    Result<bool> next(Row& row) override {
        for (;;) {
            HK_ASSIGN(const std::optional<Line> line, lines_.next());
            if (!line) return false;
            if (!line->too_long && is_blank(line->text)) continue;
            row.line = line->number;
            row.bad = check_line(*line);
            for (std::size_t c = 0; c < columns_.size() && !row.bad; ++c)
                row.values[c] = {true, std::string(line->text), {}};
            return true;
        }
    }

private:
    LineReader lines_;
    Columns columns_;
};

class DocumentRows final : public RowSource {
public:
    DocumentRows(LineReader lines, Columns columns, std::size_t max_bytes)
        : lines_(std::move(lines)), columns_(columns), max_bytes_(max_bytes) {}

    Result<bool> next(Row& row) override {
        std::vector<std::string> kept;
        std::size_t size = 0;
        for (;;) {
            HK_ASSIGN(const std::optional<Line> line, lines_.next());
            if (!line && row.line == 0) return false;
            if (!line || (!line->too_long && is_blank(line->text))) {
                if (row.line == 0) continue;
                break;
            }
            if (row.line == 0) row.line = line->number;
            if (row.bad) continue;
            row.bad = check_line(*line);
            if (!row.bad && (size += line->text.size() + 1) > max_bytes_) row.bad = too_long("document", max_bytes_);
            if (!row.bad) kept.emplace_back(line->text);
        }
        for (std::size_t c = 0; c < columns_.size() && !row.bad; ++c) {
            Value& value = row.values[c];
            value.present = true;
            if (columns_[c].is_list) {
                value.items = kept;
            } else {
                for (const std::string& line : kept) value.text += (value.text.empty() ? "" : "\n") + line;
            }
        }
        return true;
    }

private:
    LineReader lines_;
    Columns columns_;
    std::size_t max_bytes_;
};

class ParallelRows final : public RowSource {
public:
    explicit ParallelRows(std::vector<LineReader> lines) : lines_(std::move(lines)) {}

    Result<bool> next(Row& row) override {
        std::size_t ended = 0;
        for (std::size_t c = 0; c < lines_.size(); ++c) {
            HK_ASSIGN(const std::optional<Line> line, lines_[c].next());
            if (!line) {
                ++ended;
                continue;
            }
            row.line = line->number;
            if (!row.bad) row.bad = check_line(*line);
            if (row.bad && row.bad->why.find(lines_[c].name()) == std::string::npos)
                row.bad->why = lines_[c].name() + ": " + row.bad->why;
            row.values[c] = {true, std::string(line->text), {}};
        }
        if (ended == lines_.size()) return false;
        if (ended == 0) {
            ++count_;
            return true;
        }
        std::string lengths;
        for (LineReader& reader : lines_) lengths += (lengths.empty() ? "" : " and ") + reader.name();
        return corrupt(fmt::format("{} do not have the same number of lines: one ends after line {}, another continues",
                                   lengths, count_));
    }

private:
    std::vector<LineReader> lines_;
    uint64_t count_ = 0;
};

} // namespace

std::unique_ptr<RowSource> line_rows(LineReader lines, Columns columns) {
    return std::make_unique<LineRows>(std::move(lines), columns);
}

std::unique_ptr<RowSource> document_rows(LineReader lines, Columns columns, std::size_t max_bytes) {
    return std::make_unique<DocumentRows>(std::move(lines), columns, max_bytes);
}

std::unique_ptr<RowSource> parallel_rows(std::vector<LineReader> lines) {
    return std::make_unique<ParallelRows>(std::move(lines));
}

} // namespace hekla::data
