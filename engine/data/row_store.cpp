#include "data/row_store.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace hekla::data {
namespace {

constexpr std::size_t kFlushBytes = std::size_t{1} << 20;

Status cannot(const char* what, const std::string& folder) {
    return io_error(
        fmt::format("{}: {} a temporary file for the rows of a large table: {}; TMPDIR names another folder", folder,
                    what, std::strerror(errno)));
}

// Opens an unnamed file in `folder`, which is deleted when it is closed.
int open_nameless(const std::string& folder) {
    int descriptor = -1;
#ifdef O_TMPFILE
    descriptor = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
#endif
    if (descriptor >= 0) return descriptor;
    std::string name = folder + "/hekla-rows.XXXXXX"; // if the file system does not support unnamed files
    descriptor = ::mkostemp(name.data(), O_CLOEXEC);
    if (descriptor >= 0) ::unlink(name.c_str());
    return descriptor;
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
    if (mapped_ != nullptr) ::munmap(const_cast<char*>(mapped_), mapped_size_);
    if (descriptor_ >= 0) ::close(descriptor_);
}

void Records::swap(Records& other) noexcept {
    std::swap(in_memory_, other.in_memory_);
    std::swap(buffer_, other.buffer_);
    std::swap(ends_, other.ends_);
    std::swap(descriptor_, other.descriptor_);
    std::swap(folder_, other.folder_);
    std::swap(mapped_, other.mapped_);
    std::swap(mapped_size_, other.mapped_size_);
}

Status Records::add(std::string_view record) {
    buffer_.insert(buffer_.end(), record.begin(), record.end());
    ends_.push_back((ends_.empty() ? 0 : ends_.back()) + record.size());
    if (descriptor_ < 0 ? buffer_.size() > in_memory_ : buffer_.size() >= kFlushBytes) return flush();
    return {};
}

Status Records::flush() {
    if (descriptor_ < 0) {
        std::error_code problem;
        const std::filesystem::path folder = std::filesystem::temp_directory_path(problem);
        folder_ = problem ? "/tmp" : folder.string();
        descriptor_ = open_nameless(folder_);
        if (descriptor_ < 0) return cannot("cannot make", folder_);
    }
    for (std::string_view rest(buffer_.data(), buffer_.size()); !rest.empty();) {
        const ssize_t put = ::write(descriptor_, rest.data(), rest.size());
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return cannot("cannot write", folder_);
        rest.remove_prefix(static_cast<std::size_t>(put));
    }
    buffer_.clear();
    buffer_.shrink_to_fit();
    return {};
}

Status Records::finish() {
    if (descriptor_ < 0 || mapped_ != nullptr) return {};
    HK_TRY(flush());
    if (ends_.back() == 0) return {};
    mapped_size_ = static_cast<std::size_t>(ends_.back());
    void* data = ::mmap(nullptr, mapped_size_, PROT_READ, MAP_SHARED, descriptor_, 0);
    if (data == MAP_FAILED) return cannot("cannot map", folder_);
    mapped_ = static_cast<const char*>(data);
    return {};
}

std::string_view Records::operator[](uint64_t index) const {
    const uint64_t begin = index == 0 ? 0 : ends_[index - 1];
    return {(mapped_ != nullptr ? mapped_ : buffer_.data()) + begin, static_cast<std::size_t>(ends_[index] - begin)};
}

} // namespace hekla::data
