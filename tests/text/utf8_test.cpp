#include "support.hpp"
#include "text/text_position.hpp"

namespace utf8_test {

using namespace hekla;
using namespace hekla::text;
using namespace hekla::test;

TEST_CASE("utf8: every code point is valid, round-trips, and its neighbors are found") {
    for (char32_t value = 0; value <= 0x10FFFF; ++value) {
        std::string text;
        append_code_point(text, value);
        const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
        if (surrogate) {
            if (find_invalid_utf8(text) == 0) continue;
            FAIL("a surrogate was taken for valid: " << static_cast<uint32_t>(value));
        }
        if (find_invalid_utf8(text) != text.size() || first_code_point(text).value != value ||
            first_code_point(text).size != text.size() || last_code_point_start("a" + text) != 1)
            FAIL("code point " << static_cast<uint32_t>(value));
    }
}

TEST_CASE("utf8: invalid sequences are found at their first byte") {
    CHECK(find_invalid_utf8("abc\x80") == 3);
    CHECK(find_invalid_utf8("\xC0\x80") == 0);         // overlong
    CHECK(find_invalid_utf8("a\xE0\x80\x80") == 1);    // overlong
    CHECK(find_invalid_utf8("\xF0\x80\x80\x80") == 0); // overlong
    CHECK(find_invalid_utf8("\xF4\x90\x80\x80") == 0); // above U+10FFFF
    CHECK(find_invalid_utf8("\xF5\x80\x80\x80") == 0);
    CHECK(find_invalid_utf8("12345678\xE2\x82") == 8); // truncated
    CHECK(find_invalid_utf8("12345678\xE2\x82\xAC") == 11);
    const Status status = check_utf8("one\ntwo\nthr\xE9"
                                     "e\n",
                                     TextOrigin{"book.txt", 100, 7});
    CHECK(status.code() == Code::invalid_argument);
    CHECK(contains(status.message(), "book.txt: line 9, byte offset 111"));
    CHECK(contains(status.message(), "0xE9"));
}

TEST_CASE("utf8: a stream holds back incomplete sequences and replaces each maximal invalid part") {
    const std::string euro = "\xE2\x82\xAC";
    Utf8Stream stream;
    CHECK(stream.push("a\xE2") == "a");
    CHECK(stream.push("\x82") == "");
    CHECK(stream.push("\xAC!") == euro + "!");
    CHECK(stream.push("\xF0\x9F\x98") == "");
    CHECK(stream.finish() == kReplacement);
    CHECK(stream.finish() == "");
    const std::string r(kReplacement);
    // Unicode 15, table 3-8.
    CHECK(stream.push("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41") == r + r + r + r + r + r + r + r + "A");
    CHECK(stream.push("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41") == r + r + r + r + "A");
}

TEST_CASE("utf8: any bytes in any pieces give the same valid text") {
    for (uint64_t seed = 0; seed < 200; ++seed) {
        RandomStream random(seed, 1);
        std::string bytes = random_text(seed, 20);
        for (int i = 0; i < 5; ++i) bytes[random.next_below(bytes.size())] = static_cast<char>(random.next_below(256));
        Utf8Stream whole;
        std::string at_once = whole.push(bytes);
        at_once += whole.finish();
        CHECK(find_invalid_utf8(at_once) == at_once.size());
        Utf8Stream stream;
        std::string in_pieces;
        for (const char byte : bytes) {
            const std::string piece = stream.push(std::string_view(&byte, 1));
            CHECK(find_invalid_utf8(piece) == piece.size());
            in_pieces += piece;
        }
        CHECK(in_pieces + stream.finish() == at_once);
    }
}

} // namespace utf8_test
