#include "data/line_reader.hpp"

#include <algorithm>

namespace hekla::data {
namespace {

constexpr std::size_t kRead = std::size_t{1} << 16;

} // namespace

Result<LineReader> LineReader::open(const std::filesystem::path& path, std::size_t max_line,
                                    const ReadOptions& options) {
    HK_ASSIGN(std::unique_ptr<ByteStream> stream, ByteStream::open(path, options.decompression));
    return LineReader(std::move(stream), path.string(), max_line, options.stop);
}

Result<bool> LineReader::fill() {
    if (at_end_) return false;
    HK_TRY(stop_.check("reading data"));
    buffer_.erase(0, begin_);
    begin_ = 0;
    const std::size_t before = buffer_.size();
    buffer_.resize(before + kRead);
    HK_ASSIGN(const std::size_t got, stream_->read(buffer_.data() + before, kRead));
    buffer_.resize(before + got);
    at_end_ = got == 0;
    return !at_end_;
}

Result<bool> LineReader::only_blanks_follow() {
    for (;;) {
        const auto from = buffer_.begin() + static_cast<std::ptrdiff_t>(begin_);
        if (buffer_.find_first_not_of(" \t\r\n\v\f", begin_) != std::string::npos) return false;
        if (buffer_.size() - begin_ > kRead) { // more blanks than are worth keeping
            number_ += static_cast<uint64_t>(std::count(from, buffer_.end(), '\n'));
            begin_ = buffer_.size();
        }
        HK_ASSIGN(const bool more, fill());
        if (!more) return true;
    }
}

Result<std::optional<Line>> LineReader::next() {
    Line line;
    std::size_t looked = 0; // bytes after begin_ that are known to contain no newline
    for (;;) {
        const std::size_t found = buffer_.find('\n', begin_ + looked);
        if (found != std::string::npos) {
            line.text = std::string_view(buffer_).substr(begin_, found - begin_);
            line.end = std::string_view(buffer_).substr(found, 1);
            begin_ = found + 1;
            if (line.text.ends_with('\r')) {
                line.text.remove_suffix(1);
                line.end = std::string_view(buffer_).substr(found - 1, 2);
            }
            break;
        }
        looked = buffer_.size() - begin_;
        if (looked > max_line_) { // skipped piece by piece
            line.too_long = true;
            begin_ = buffer_.size();
            looked = 0;
        }
        HK_ASSIGN(const bool more, fill());
        if (more) continue;
        line.text = std::string_view(buffer_).substr(begin_);
        begin_ = buffer_.size();
        if (line.text.empty() && !line.too_long) return std::optional<Line>();
        break;
    }
    line.number = ++number_;
    line.limit = max_line_;
    if (line.number == 1 && line.text.starts_with("\xEF\xBB\xBF")) line.text.remove_prefix(3);
    line.too_long = line.too_long || line.text.size() > max_line_;
    if (line.too_long) line.text = {};
    return std::optional(line);
}

} // namespace hekla::data
