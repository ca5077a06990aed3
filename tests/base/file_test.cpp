// Files: what is none is refused at once, and what is written is complete or absent.
#include "base/file.hpp"

#include <cstdlib>
#include <doctest/doctest.h>
#include <sys/stat.h>

using namespace hekla;
namespace fs = std::filesystem;

namespace {

class Folder {
public:
    Folder() {
        std::string name = (fs::temp_directory_path() / "hekla-base-XXXXXX").string();
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        path_ = name;
    }
    ~Folder() {
        std::error_code ignored;
        fs::remove_all(path_, ignored);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    fs::path operator/(const char* name) const { return path_ / name; }
    const fs::path& path() const { return path_; }

private:
    fs::path path_;
};

bool says(const Status& status, const std::string& text) {
    INFO(status.message());
    return !status.ok() && status.message().find(text) != std::string::npos;
}

} // namespace

TEST_CASE("a pipe, a folder, a device and what is not there are refused at once, by name") {
    const Folder folder;
    const fs::path pipe = folder / "pipe";
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    for (const bool mapped : {false, true}) {
        CAPTURE(mapped);
        const auto opened = [&](const fs::path& path) {
            return mapped ? MappedFile::open(path).status() : read_file(path).status();
        };
        CHECK(says(opened(pipe), pipe.string() + ": is a pipe, a regular file was expected"));
        CHECK(says(opened(folder.path()), folder.path().string() + ": is a folder, a regular file was expected"));
        CHECK(says(opened("/dev/null"), "/dev/null: is a device, a regular file was expected"));
        const Status missing = opened(folder / "nothing");
        CHECK(says(missing, "nothing: cannot open"));
        CHECK(missing.code() == Code::not_found);
    }
}

TEST_CASE("what is written is read back, whole, and nothing lies beside it") {
    const Folder folder;
    const fs::path file = folder / "file";
    for (const std::string& content : {std::string("one"), std::string(), std::string(100'000, 'x')}) {
        REQUIRE(write_file_atomically(file, content).ok());
        CHECK(read_file(file).value() == content);
        const auto mapped = MappedFile::open(file);
        REQUIRE(mapped.ok());
        CHECK(mapped.value().text() == content);
    }
    {
        auto abandoned = AtomicFile::create(file);
        REQUIRE(abandoned.ok());
        REQUIRE(abandoned.value().write(std::string_view("half")).ok());
    }
    CHECK(read_file(file).value() == std::string(100'000, 'x'));
    CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);
    CHECK(says(write_file_atomically(folder / "no/where", "x"), "no/where"));
}
