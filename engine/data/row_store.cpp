#include "data/row_store.hpp"

#include "base/path_text.hpp"
#include "base/system_file.hpp"

#include <filesystem>
#include <fmt/format.h>
#include <utility>

namespace hekla::data {
namespace {

constexpr std::size_t kFlushBytes = std::size_t{1} << 20;

Status cannot(const char* what, const std::string& folder, const std::error_code& problem) {
    return io_error(
        fmt::format("{}: {} a temporary file for the rows of a large table: {}; TMPDIR names another folder", folder,
                    what, problem.message()));
}

} // namespace

Records::Records(Records&& other) noexcept : Records(other.buffer_.get_allocator().resource, other.in_memory_) {
    swap(other);
}
Records& Records::operator=(Records&& other) noexcept {
    swap(other);
    return *this;
}
Records::~Records() {
    if (mapped_ != nullptr) unmap_file(mapped_, mapped_size_);
}

void Records::swap(Records& other) noexcept {
    std::swap(in_memory_, other.in_memory_);
    std::swap(buffer_, other.buffer_);
    std::swap(ends_, other.ends_);
    std::swap(file_, other.file_);
    std::swap(folder_, other.folder_);
    std::swap(mapped_, other.mapped_);
    std::swap(mapped_size_, other.mapped_size_);
}

Status Records::add(std::string_view record) {
    buffer_.insert(buffer_.end(), record.begin(), record.end());
    ends_.push_back((ends_.empty() ? 0 : ends_.back()) + record.size());
    if (!file_.is_open() ? buffer_.size() > in_memory_ : buffer_.size() >= kFlushBytes) return flush();
    return {};
}

Status Records::flush() {
    std::error_code problem;
    if (!file_.is_open()) {
        const std::filesystem::path folder = std::filesystem::temp_directory_path(problem);
        folder_ = problem ? "/tmp" : path_text(folder);
        file_ = create_nameless(folder_, "hekla-rows", problem);
        if (problem) return cannot("cannot make", folder_, problem);
    }
    problem = write_all(file_, std::string_view(buffer_.data(), buffer_.size()));
    if (problem) return cannot("cannot write", folder_, problem);
    buffer_.clear();
    buffer_.shrink_to_fit();
    return {};
}

Status Records::finish() {
    if (!file_.is_open() || mapped_ != nullptr) return {};
    HK_TRY(flush());
    if (ends_.back() == 0) return {};
    mapped_size_ = static_cast<std::size_t>(ends_.back());
    std::error_code problem;
    mapped_ = static_cast<const char*>(map_file(file_, mapped_size_, problem));
    if (problem) return cannot("cannot map", folder_, problem);
    return {};
}

std::string_view Records::operator[](uint64_t index) const {
    const uint64_t begin = index == 0 ? 0 : ends_[index - 1];
    return {(mapped_ != nullptr ? mapped_ : buffer_.data()) + begin, static_cast<std::size_t>(ends_[index] - begin)};
}

} // namespace hekla::data
