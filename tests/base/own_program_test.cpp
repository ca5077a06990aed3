// A copy of this process, and the calls of the system that only programs use.
#include "base/file.hpp"
#include "base/own_program.hpp"
#include "base/system_file.hpp"
#include "support/test_folder.hpp"

#include <cstdlib>
#include <doctest/doctest.h>

using namespace hekla;

TEST_CASE("a question to a copy of this process changes nothing here") {
    int asked = 0;
    CHECK(answer_of_copy([&] { return ++asked == 1; }));
    CHECK(answer_of_copy([&] { return ++asked == 1; }));
    CHECK(!answer_of_copy([] { return false; }));
    CHECK(!answer_of_copy([]() -> bool { std::_Exit(0); })); // no answer
    CHECK(asked == 0);
}

TEST_CASE("a program that does not exist does not replace this one") {
    const test::TestFolder folder;
    CHECK(become_program({(folder / "none").string()}) == std::errc::no_such_file_or_directory);
}

TEST_CASE("an unsynced file has the last content") {
    const test::TestFolder folder;
    const std::filesystem::path file = folder / "a.txt";
    CHECK(!write_unsynced(file, "long content\n"));
    CHECK(!write_unsynced(file, "short\n"));
    CHECK(read_file(file).value() == "short\n");
    CHECK(write_unsynced(folder / "none" / "a.txt", "") == std::errc::no_such_file_or_directory);
    CHECK(!check_writable_folder(folder));
    CHECK(check_writable_folder(folder / "none") == std::errc::no_such_file_or_directory);
}
