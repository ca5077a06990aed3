// Helpers for the tests of this room: the optional folder of real data, random texts.
#pragma once

#include "base/file.hpp"
#include "base/philox.hpp"
#include "base/utf8.hpp"
#include "support/test_folder.hpp"
#include "text/tokenizer.hpp"

#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace hekla::test {

using namespace text;

// Returns a folder of real data next to the checkout, or an empty path if it is absent (the test then prints so and
// ends).
inline std::filesystem::path real_data(const std::string& name) {
    const std::filesystem::path path = std::filesystem::path(HEKLA_SOURCE_DIR) / ".." / "shared" / "data" / name;
    if (std::filesystem::exists(path)) return path;
    MESSAGE("skipped: ../shared/data/" << name << " is absent");
    return {};
}

template<class T>
T must(Result<T> result) {
    REQUIRE_MESSAGE(result.ok(), result.message());
    return result.take();
}

inline void must(const Status& status) { REQUIRE_MESSAGE(status.ok(), status.message()); }

// Returns the ids of a text encoded in parts, with safe cuts about `reach` bytes apart.
inline std::vector<int32_t> encoded_in_parts(const Tokenizer& tokenizer, std::string_view text, RandomStream& random,
                                             uint64_t reach) {
    std::vector<int32_t> ids;
    while (!text.empty()) {
        const std::size_t cut = tokenizer.safe_cut(text, random.next_below(reach));
        REQUIRE(cut > 0);
        must(tokenizer.encode(text.substr(0, cut), {}, ids));
        text.remove_prefix(cut);
    }
    return ids;
}

inline bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// Returns a text of letters, digits, marks, spaces of many kinds and characters of one to four bytes.
inline std::string random_text(uint64_t seed, std::size_t characters) {
    static const std::vector<char32_t> some = {
        'a',    'b',    'c',    'e',    't',    'T',  's',    'r',     'v',     'd',      'm',   'l',
        '\'',   '\'',   ' ',    ' ',    ' ',    '\n', '\t',   '\r',    '0',     '7',      '.',   ',',
        '!',    '<',    '|',    '>',    '_',    0x85, 0xA0,   0xE9,    0x301,   0x416,    0x5D0, 0x660,
        0x180E, 0x2003, 0x200D, 0x3000, 0x4E2D, 0xBD, 0xFFFD, 0x1F600, 0x1D7D8, 0x10FFFF, 0};
    RandomStream random(seed, 0);
    std::string text;
    for (std::size_t i = 0; i < characters; ++i) append_code_point(text, some[random.next_below(some.size())]);
    return text;
}

} // namespace hekla::test
