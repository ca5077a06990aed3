#include "base/cache.hpp"

#include "base/file.hpp"

namespace hekla {
namespace {

class FolderCache final : public Cache {
public:
    explicit FolderCache(std::filesystem::path folder) : folder_(std::move(folder)) {}
    Result<std::optional<std::string>> load(const std::string& name) override {
        std::error_code problem;
        if (!std::filesystem::exists(folder_ / name, problem)) return std::optional<std::string>();
        HK_ASSIGN(std::string content, read_file(folder_ / name));
        return std::optional(std::move(content));
    }
    Status store(const std::string& name, std::string_view content) override {
        std::error_code problem; // errors are reported by the write
        std::filesystem::create_directories(folder_, problem);
        return write_file_atomically(folder_ / name, content);
    }
    std::string place(const std::string& name) const override { return (folder_ / name).string(); }

private:
    std::filesystem::path folder_;
};

} // namespace

std::shared_ptr<Cache> folder_cache(const std::filesystem::path& folder) {
    return folder.empty() ? nullptr : std::make_shared<FolderCache>(folder);
}

} // namespace hekla
