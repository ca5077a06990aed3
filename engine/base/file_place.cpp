#include "base/file_place.hpp"

#include "base/file.hpp"

namespace hekla {

FilePlace FilePlace::at(std::filesystem::path path) const {
    FilePlace place = *this;
    place.path_ = std::move(path);
    return place;
}

const std::string_view* FilePlace::held() const {
    if (path_.parent_path() != folder_) return nullptr;
    const auto found = files_->find(path_.filename().string());
    return found == files_->end() ? nullptr : &found->second;
}

bool FilePlace::exists() const {
    std::error_code ignored;
    return files_ == nullptr ? std::filesystem::exists(path_, ignored) : path_ == folder_ || held() != nullptr;
}

bool FilePlace::is_file() const {
    std::error_code ignored;
    return files_ == nullptr ? std::filesystem::is_regular_file(path_, ignored) : held() != nullptr;
}

bool FilePlace::is_folder() const {
    std::error_code ignored;
    return files_ == nullptr ? std::filesystem::is_directory(path_, ignored) : path_ == folder_;
}

Result<std::string> FilePlace::read() const {
    if (files_ == nullptr) return read_file(path_);
    if (const std::string_view* content = held()) return std::string(*content);
    return not_found(path_.string() + ": is not among the files in memory");
}

} // namespace hekla
