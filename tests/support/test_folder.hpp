// A folder for one test, deleted by the destructor with all that is in it.
#pragma once

#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

namespace hekla::test {

// Returns what is in a file; nothing if it cannot be read.
inline std::string content_of(const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

class TestFolder {
public:
    TestFolder() {
        std::string name = (std::filesystem::temp_directory_path() / "hekla-test-XXXXXX").string();
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        path_ = name;
        std::filesystem::permissions(path_, std::filesystem::perms(0755)); // for programs of other users
    }
    ~TestFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TestFolder(const TestFolder&) = delete;
    TestFolder& operator=(const TestFolder&) = delete;

    const std::filesystem::path& path() const { return path_; }
    operator const std::filesystem::path&() const { return path_; } // NOLINT(google-explicit-constructor)
    std::filesystem::path operator/(const std::filesystem::path& name) const { return path_ / name; }
    // Writes a file and the folders that it is in, and returns its path. Not synced, unlike write_file_atomically(),
    // since tests write many files.
    std::filesystem::path write(const std::filesystem::path& name, std::string_view content) const {
        std::filesystem::create_directories((path_ / name).parent_path());
        std::ofstream file(path_ / name, std::ios::binary);
        file.write(content.data(), static_cast<std::streamsize>(content.size()));
        file.close();
        REQUIRE(file.good());
        return path_ / name;
    }
    std::string read(const std::filesystem::path& name) const { return content_of(path_ / name); }
    bool exists(const std::filesystem::path& name) const { return std::filesystem::exists(path_ / name); }

private:
    std::filesystem::path path_;
};

} // namespace hekla::test
