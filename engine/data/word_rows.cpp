// Sentences with one word per line: CoNLL-U (universaldependencies.org/format.html) and words with tags after tabs.
#include "data/example_rows.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace hekla::data {
namespace {

constexpr std::array<std::string_view, 10> kFields = {"id",    "form", "lemma",  "upos", "xpos",
                                                      "feats", "head", "deprel", "deps", "misc"};

std::optional<std::size_t> conllu_field(std::string_view source) {
    if (source == "words") source = "form";
    if (source == "tags") source = "upos";
    const auto found = std::ranges::find(kFields, source);
    if (found == kFields.end()) return std::nullopt;
    return static_cast<std::size_t>(found - kFields.begin());
}

// Both formats: a sentence consists of the lines up to an empty one.
class SentenceRows : public RowSource {
public:
    SentenceRows(LineReader lines, Columns columns, std::size_t max_bytes)
        : columns_(columns), lines_(std::move(lines)), max_bytes_(max_bytes) {}

    Result<bool> next(Row& row) override {
        std::size_t size = 0;
        for (;;) {
            HK_ASSIGN(const std::optional<Line> line, lines_.next());
            if (!line && row.line == 0) return false;
            if (!line) return true;
            if (line->text.empty() && !line->too_long) {
                if (row.line == 0) continue; // several empty lines
                return true;
            }
            if (row.line == 0) row.line = line->number;
            if (row.bad) continue; // to the sentence's end
            row.bad = check_line(*line);
            if (!row.bad && (size += line->text.size()) > max_bytes_) row.bad = too_long("sentence", max_bytes_);
            if (!row.bad) row.bad = take(*line, row);
        }
    }

protected:
    virtual std::optional<BadRow> take(const Line& line, Row& row) = 0;
    static void put(Value& value, std::string_view item) {
        value.present = true;
        value.items.emplace_back(item);
    }
    Columns columns_;

private:
    LineReader lines_;
    std::size_t max_bytes_;
};

class ConlluRows final : public SentenceRows {
public:
    using SentenceRows::SentenceRows;

protected:
    std::optional<BadRow> take(const Line& line, Row& row) override {
        std::string_view text = line.text;
        if (text.starts_with('#')) {
            const std::size_t equals = text.find(" = ");
            if (equals == std::string_view::npos) return std::nullopt;
            const std::size_t begin = text.find_first_not_of("# ");
            const std::string_view key = begin < equals ? text.substr(begin, equals - begin) : std::string_view();
            for (std::size_t c = 0; c < columns_.size(); ++c) {
                if (columns_[c].source != key || is_conllu_field(key)) continue;
                row.values[c].present = true;
                row.values[c].text = text.substr(equals + 3);
            }
            return std::nullopt;
        }
        const std::vector<std::string_view> fields = split_tabs(text);
        if (fields.size() != kFields.size())
            return BadRow{Defect::ragged, fmt::format("line {} has {} columns, CoNLL-U has {}", line.number,
                                                      fields.size(), kFields.size())};
        const std::string_view id = fields[0];
        if (id.find_first_of("-.") != std::string_view::npos) return std::nullopt; // a range or an empty node
        if (!column_number(id))
            return BadRow{Defect::malformed,
                          fmt::format("line {}: the id is \"{}\", a number from 1 was expected", line.number, id)};
        for (std::size_t c = 0; c < columns_.size(); ++c)
            if (const auto field = conllu_field(columns_[c].source)) put(row.values[c], fields[*field]);
        return std::nullopt;
    }
};

class TaggedRows final : public SentenceRows {
public:
    TaggedRows(LineReader lines, Columns columns, std::size_t max_bytes)
        : SentenceRows(std::move(lines), columns, max_bytes) {
        for (const ColumnRequest& column : columns)
            places_.push_back(column.source == "words"  ? 0
                              : column.source == "tags" ? 1
                                                        : column_number(column.source).value_or(1) - 1);
    }

protected:
    std::optional<BadRow> take(const Line& line, Row& row) override {
        const std::vector<std::string_view> fields = split_tabs(line.text);
        if (width_ == 0) width_ = fields.size();
        const std::size_t last = *std::ranges::max_element(places_);
        if (fields.size() != width_ || fields.size() <= last)
            return BadRow{Defect::ragged, fmt::format("line {} has {} columns, {} were expected", line.number,
                                                      fields.size(), std::max(width_, last + 1))};
        for (std::size_t c = 0; c < columns_.size(); ++c) {
            if (fields[places_[c]].empty())
                return BadRow{Defect::empty, fmt::format("line {}: \"{}\" is empty", line.number, columns_[c].name)};
            put(row.values[c], fields[places_[c]]);
        }
        return std::nullopt;
    }

private:
    std::vector<std::size_t> places_;
    std::size_t width_ = 0;
};

} // namespace

bool is_conllu_field(std::string_view source) { return conllu_field(source).has_value(); }

std::unique_ptr<RowSource> conllu_rows(LineReader lines, Columns columns, std::size_t max_bytes) {
    return std::make_unique<ConlluRows>(std::move(lines), columns, max_bytes);
}

std::unique_ptr<RowSource> tagged_rows(LineReader lines, Columns columns, std::size_t max_bytes) {
    return std::make_unique<TaggedRows>(std::move(lines), columns, max_bytes);
}

} // namespace hekla::data
