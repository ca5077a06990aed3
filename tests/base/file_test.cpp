// Files: reading anything else fails immediately, and a written file is complete or absent.
#include "base/file.hpp"
#include "support/test_folder.hpp"

#include <chrono>
#include <cstdlib>
#include <doctest/doctest.h>
#include <sys/stat.h>

using namespace hekla;
using namespace hekla::test;
namespace fs = std::filesystem;

namespace {

bool says(const Status& status, const std::string& text) {
    INFO(status.message());
    return !status.ok() && status.message().find(text) != std::string::npos;
}

} // namespace

TEST_CASE("a pipe, a folder, a device and a missing file are rejected immediately, by name") {
    const TestFolder folder;
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

TEST_CASE("a written file reads back completely, with no leftovers next to it") {
    const TestFolder folder;
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

TEST_CASE("only temporaries of killed writers are removed") {
    const TestFolder folder;
    const fs::path file = folder / "model.hekla";
    const auto old = [&](const char* name) {
        REQUIRE(write_file_atomically(folder / name, "half").ok());
        fs::last_write_time(folder / name, fs::file_time_type::clock::now() - std::chrono::minutes(1));
        return folder / name;
    };
    const fs::path left = old("model.hekla.tmp.a0Z9xy"), others = old("other.hekla.tmp.a0Z9xy"),
                   similar = old("model.hekla.tmp.long-name");
    auto living = AtomicFile::create(file);
    REQUIRE(living.ok());
    const auto is_temporary = [&](const fs::directory_entry& entry) {
        return entry.path() != left && entry.path() != others && entry.path() != similar;
    };
    for (const fs::directory_entry& entry : fs::directory_iterator(folder.path()))
        if (is_temporary(entry))
            fs::last_write_time(entry.path(), fs::file_time_type::clock::now() - std::chrono::hours(1));
    fs::create_directory(folder / "model.hekla.tmp.folder");
    remove_leftovers(file);
    CHECK(!fs::exists(left));
    CHECK(fs::exists(others));
    CHECK(fs::exists(similar));
    CHECK(fs::exists(folder / "model.hekla.tmp.folder"));
    REQUIRE(living.value().write(std::string_view("whole")).ok());
    REQUIRE(living.value().commit().ok()); // its temporary was left alone
    CHECK(read_file(file).value() == "whole");
}

TEST_CASE("a file above the size limit is rejected before it is read") {
    const TestFolder folder;
    REQUIRE(write_file_atomically(folder / "file", "12345").ok());
    CHECK(read_file(folder / "file", 5).value() == "12345");
    CHECK(says(read_file(folder / "file", 4).status(), "file: is 5 bytes long, at most 4 were expected"));
}

TEST_CASE("a new file has the mode that the umask leaves") {
    const TestFolder folder;
    for (const mode_t mask : {mode_t{0022}, mode_t{0077}, mode_t{0002}}) {
        const mode_t before = ::umask(mask);
        const Status written = write_file_atomically(folder / "file", "text");
        ::umask(before);
        REQUIRE_MESSAGE(written.ok(), written.message());
        struct stat info {};
        REQUIRE(::stat((folder / "file").c_str(), &info) == 0);
        CHECK((info.st_mode & 0777) == (0666 & ~mask));
    }
}
