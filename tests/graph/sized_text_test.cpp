// Texts of graphs with symbolic sizes.
#include "graph/text_form/sized_text.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace sized_text_test {

using namespace hekla;
using namespace hekla::graph;

namespace {

std::string described(int64_t rows, int64_t tokens) {
    return fmt::format(
        "x = input(shape=[{0}, {1}])\n%2 = reshape(x, shape=[{2}]) # block.0 0.05\n%3 = slice(end={3})\n", rows, tokens,
        rows * tokens * 12, 2 * tokens - 1);
}

std::vector<SizedText> samples(const std::vector<std::pair<int64_t, int64_t>>& sizes) {
    std::vector<SizedText> all;
    for (const auto& [rows, tokens] : sizes) all.push_back({{rows, tokens}, described(rows, tokens)});
    return all;
}

} // namespace

TEST_CASE("a text is generated again for any sizes") {
    const Result<std::string> open = open_text(samples({{2, 2}, {3, 2}, {2, 3}, {3, 3}, {1, 1}, {7, 4096}}));
    REQUIRE_MESSAGE(open.ok(), open.message());
    for (const auto& [rows, tokens] : {std::pair<int64_t, int64_t>{1, 1}, {1, 128}, {4, 5}, {31, 77}, {65536, 4096}}) {
        const Result<std::string> closed = close_text(open.value(), std::vector{rows, tokens});
        REQUIRE_MESSAGE(closed.ok(), closed.message());
        CHECK(closed.value() == described(rows, tokens));
    }
}

TEST_CASE("a growing list is generated again from the longest one: its beginning, middle or end") {
    const auto with_lists = [](int64_t tokens) {
        std::vector<int64_t> first, middle, last;
        for (int64_t d = 0; d < tokens; ++d) first.push_back(d * d % 7);
        for (int64_t d = 1 - tokens; d < tokens; ++d) middle.push_back(d < 0 ? 100 - d : 50 + d);
        for (int64_t d = tokens; d > 0; --d) last.push_back(d / 2);
        return fmt::format("a([{}]) b([{}]) c([{}]) d([1, 2])\n", fmt::join(first, ", "), fmt::join(middle, ", "),
                           fmt::join(last, ", "));
    };
    std::vector<SizedText> all;
    for (const int64_t tokens : {2, 3, 1, 8, 40}) all.push_back({{tokens}, with_lists(tokens)});
    const Result<std::string> open = open_text(all);
    REQUIRE_MESSAGE(open.ok(), open.message());
    for (const int64_t tokens : {1, 2, 4, 17, 39, 40}) {
        const Result<std::string> closed = close_text(open.value(), std::vector{tokens});
        REQUIRE_MESSAGE(closed.ok(), closed.message());
        CHECK(closed.value() == with_lists(tokens));
    }
    CHECK(close_text(open.value(), std::vector<int64_t>{41}).code() == Code::corrupt); // longer than the longest sample
    for (std::size_t at = 0; at < open.value().size(); ++at) {
        for (const char changed : {'\x02', '\x05', '\x06', '\x03', '\x04', '9', ','}) {
            std::string text = open.value();
            text[at] = changed;
            const Result<std::string> closed = close_text(text, std::vector<int64_t>{5});
            CHECK((closed.ok() || closed.code() == Code::corrupt));
        }
    }
    all.push_back({{41}, "a([0]) b([0]) c([0]) d([1, 2])\n"});
    CHECK(open_text(all).code() == Code::unsupported);
}

TEST_CASE("a text without sizes is unchanged") {
    const Result<std::string> open = open_text(std::vector<SizedText>{{{}, described(3, 4)}});
    REQUIRE(open.ok());
    CHECK(open.value() == described(3, 4));
    const Result<std::string> closed = close_text(open.value(), {});
    REQUIRE(closed.ok());
    CHECK(closed.value() == described(3, 4));
}

TEST_CASE("other dependence on sizes is rejected") {
    std::vector<SizedText> square = samples({{2, 2}, {3, 2}, {2, 3}, {3, 3}, {2, 9}});
    square.back().text = described(2, 81);
    CHECK(open_text(square).code() == Code::unsupported);
    std::vector<SizedText> longer = samples({{2, 2}, {3, 2}, {2, 3}, {3, 3}});
    longer[2].text += "more\n";
    CHECK(open_text(longer).code() == Code::unsupported);
    std::vector<SizedText> halves = samples({{2, 2}, {4, 2}, {2, 4}, {4, 4}}); // (rows + 1) / 2: not a sum of products
    for (SizedText& one : halves) one.text += fmt::format("{}\n", (one.sizes[0] + 1) / 2);
    halves.push_back({{3, 2}, described(3, 2) + "2\n"});
    CHECK(open_text(halves).code() == Code::unsupported);
    CHECK(open_text(samples({{2, 2}, {3, 2}})).code() == Code::invalid_argument);
}

TEST_CASE("a damaged text is an error, whatever was changed") {
    const Result<std::string> open = open_text(samples({{2, 2}, {3, 2}, {2, 3}, {3, 3}}));
    REQUIRE(open.ok());
    for (std::size_t at = 0; at < open.value().size(); ++at) {
        for (const char changed : {'\x01', '\x02', '\x03', '\x04', '9', '-', ' ', '\xff'}) {
            std::string text = open.value();
            text[at] = changed;
            const Result<std::string> closed = close_text(text, std::vector<int64_t>{2, 3});
            CHECK((closed.ok() || closed.code() == Code::corrupt));
        }
        static_cast<void>(close_text(std::string_view(open.value()).substr(0, at), std::vector<int64_t>{2, 3}));
    }
    CHECK(close_text("\x01"
                     "9223372036854775807 1 0 0\x02",
                     std::vector<int64_t>{2, 3})
              .code() == Code::corrupt);
    CHECK(close_text("\x01"
                     "1 2\x02",
                     std::vector<int64_t>{2, 3})
              .code() == Code::corrupt);
    CHECK(close_text("\x01"
                     "-5 0 0 0\x02",
                     std::vector<int64_t>{2, 3})
              .code() == Code::corrupt);
    CHECK(close_text("[\x02"
                     "3 0 0 0\x03"
                     "1, 2\x04]",
                     std::vector<int64_t>{2, 3})
              .code() == Code::corrupt);
    CHECK(close_text("[\x02"
                     "1 0 0 0\x03"
                     "1, 2",
                     std::vector<int64_t>{2, 3})
              .code() == Code::corrupt);
}

} // namespace sized_text_test
