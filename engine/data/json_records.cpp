#include "data/json_records.hpp"

#include "data/example_rows.hpp"

#include <fmt/format.h>

namespace hekla::data {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::size_t kPiece = std::size_t{64} << 10; // bytes that are read at a time

bool is_blank_character(char c) { return c == '\n' || is_blank(std::string_view(&c, 1)); }

class Lines final : public JsonRecords {
public:
    explicit Lines(LineReader lines) : lines_(std::move(lines)) {}
    Result<std::optional<Line>> next() override {
        HK_ASSIGN(std::optional<Line> line, lines_.next());
        if (line) HK_TRY(check_line_ends(*line, lines_.name()));
        return line;
    }
    Result<bool> only_blanks_follow() override { return lines_.only_blanks_follow(); }
    bool is_array() const override { return false; }

private:
    LineReader lines_;
};

class Elements final : public JsonRecords {
public:
    Elements(std::unique_ptr<ByteStream> stream, std::string name, std::size_t max_bytes, StopPoll stop)
        : stream_(std::move(stream)), name_(std::move(name)), max_bytes_(max_bytes), stop_(std::move(stop)) {}

    Result<std::optional<Line>> next() override {
        if (!opened_) HK_TRY(open());
        if (closed_) {
            HK_TRY(check_end());
            return std::optional<Line>();
        }
        text_.clear();
        Scan scan;
        for (uint64_t first = 0;;) {
            HK_ASSIGN(const bool more, fill());
            if (!more)
                return corrupt(fmt::format("{}: line {}: the file ends inside of the array{}", name_, line_,
                                           first > 0 ? fmt::format(": its last element begins on line {}", first)
                                                     : std::string(": `]` was expected")));
            const char c = piece_[at_++];
            if (c == '\n') ++line_;
            if (scan.ends_at(c)) {
                closed_ = c == ']';
                if (first > 0) {
                    ++count_;
                    return std::optional(Line{too_long_ ? std::string_view() : text_, "\n", first,
                                              std::exchange(too_long_, false), max_bytes_});
                }
                if (!closed_ || count_ > 0)
                    return corrupt(fmt::format("{}: line {}: the array has nothing before `{}`; an object was expected",
                                               name_, line_, c));
                HK_TRY(check_end());
                return std::optional<Line>();
            }
            if (first == 0 && is_blank_character(c)) continue;
            if (first == 0) first = line_;
            too_long_ = too_long_ || text_.size() == max_bytes_;
            if (!too_long_) text_ += c;
        }
    }
    Result<bool> only_blanks_follow() override { return false; } // an empty element is an error of next()
    bool is_array() const override { return true; }

private:
    // Finds the end of an element.
    struct Scan {
        int64_t depth = 0;
        bool quoted = false, escaped = false;

        bool ends_at(char c) {
            if (quoted) {
                quoted = escaped || c != '"';
                escaped = !escaped && c == '\\';
                return false;
            }
            if (depth == 0 && (c == ',' || c == ']')) return true;
            quoted = c == '"';
            if (c == '{' || c == '[') ++depth;
            if ((c == '}' || c == ']') && depth > 0) --depth;
            return false;
        }
    };

    // Makes sure that there is a byte to read. Returns false at the end of the file.
    Result<bool> fill() {
        if (at_ < piece_.size()) return true;
        HK_TRY(stop_.check("reading data"));
        piece_.resize(kPiece);
        at_ = 0;
        HK_ASSIGN(const std::size_t size, stream_->read(piece_.data(), kPiece));
        piece_.resize(size);
        return size > 0;
    }

    Status open() {
        opened_ = true;
        for (;;) {
            HK_ASSIGN(const bool more, fill());
            if (!more) return {};
            if (std::string_view(piece_).substr(at_).starts_with(kByteOrderMark)) at_ += kByteOrderMark.size();
            const char c = piece_[at_++];
            if (c == '[') return {};
            if (c == '\n') ++line_;
        }
    }

    Status check_end() {
        for (;;) {
            HK_ASSIGN(const bool more, fill());
            if (!more) return {};
            const char c = piece_[at_++];
            if (c == '\n') ++line_;
            if (!is_blank_character(c))
                return corrupt(fmt::format("{}: line {}: more text follows the array; a file has one array, or one "
                                           "object a line",
                                           name_, line_));
        }
    }

    std::unique_ptr<ByteStream> stream_;
    std::string name_;
    std::size_t max_bytes_;
    StopPoll stop_;
    std::string piece_, text_;
    std::size_t at_ = 0; // in piece_
    uint64_t line_ = 1, count_ = 0;
    bool opened_ = false, closed_ = false, too_long_ = false;
};

// Returns whether the first character of a file, after blanks, is `[`.
Result<bool> begins_with_array(const std::filesystem::path& path, const ReadOptions& options) {
    HK_ASSIGN(const std::unique_ptr<ByteStream> stream, ByteStream::open(path, options.decompression));
    std::string piece(kPiece, '\0');
    for (bool first = true;; first = false) {
        HK_ASSIGN(const std::size_t size, stream->read(piece.data(), piece.size()));
        std::string_view text(piece.data(), size);
        if (first && text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
        for (const char c : text)
            if (!is_blank_character(c)) return c == '[';
        if (size == 0) return false;
    }
}

} // namespace

Result<std::unique_ptr<JsonRecords>> JsonRecords::open(const std::filesystem::path& path, std::size_t max_bytes,
                                                       const ReadOptions& options) {
    HK_ASSIGN(const bool array, begins_with_array(path, options));
    if (array) {
        HK_ASSIGN(std::unique_ptr<ByteStream> stream, ByteStream::open(path, options.decompression));
        return std::unique_ptr<JsonRecords>(
            std::make_unique<Elements>(std::move(stream), path.string(), max_bytes, options.stop));
    }
    HK_ASSIGN(LineReader lines, LineReader::open(path, max_bytes, options));
    return std::unique_ptr<JsonRecords>(std::make_unique<Lines>(std::move(lines)));
}

} // namespace hekla::data
