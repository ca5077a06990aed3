#include "generate/generator.hpp"
#include "generate/stop_texts.hpp"

#include "support.hpp"

#include <algorithm>
#include <optional>
#include <set>

using namespace hekla;
using namespace hekla::generate;
using test::HistoryDecoder;
using test::Ids;

namespace stop_texts_test {

namespace {

using Texts = std::vector<std::string>;

// Returns what comes out of the filter for a text in pieces of these sizes, one after the other.
std::string filtered(const Texts& stops, const std::string& text, const std::vector<std::size_t>& sizes) {
    StopTexts filter(stops);
    std::string out;
    std::size_t at = 0;
    for (std::size_t i = 0; at < text.size() && !filter.found(); ++i) {
        const std::size_t size = std::min(sizes[i % sizes.size()], text.size() - at);
        out += filter.push(std::string_view(text).substr(at, size));
        for (const std::string& stop : stops) CHECK(out.find(stop) == std::string::npos);
        at += size;
    }
    const bool found = filter.found();
    const std::string rest = filter.finish();
    CHECK((!found || rest.empty()));
    return out + rest;
}

// The same by definition: the text before the stop that is complete first, of several the longest.
std::string expected(const Texts& stops, const std::string& text) {
    for (std::size_t end = 1; end <= text.size(); ++end) {
        std::size_t longest = 0;
        for (const std::string& stop : stops)
            if (std::string_view(text).substr(0, end).ends_with(stop)) longest = std::max(longest, stop.size());
        if (longest > 0) return text.substr(0, end - longest);
    }
    return text;
}

} // namespace

TEST_CASE("stop texts: the text before the first that is complete, however it is divided into pieces") {
    const Texts sets[] = {
        {},       {"b"},         {"ab"}, {"aab", "b"}, {"abab", "ba"}, {"aaa", "ab"}, {"abcabd", "cab"}, {"ca", "bca"},
        {"\n\n"}, {"abc", "zzz"}};
    const std::string texts[] = {"",          "a",      "b",        "aab",  "aaab",  "ababab",
                                 "abcabcabd", "aabbca", "x\n\ny\n", "abca", "cabcab"};
    for (const Texts& stops : sets)
        for (const std::string& text : texts)
            for (const std::vector<std::size_t>& sizes :
                 std::vector<std::vector<std::size_t>>{{1}, {2}, {3, 1}, {1, 5}, {64}}) {
                CAPTURE(text);
                CAPTURE(sizes[0]);
                CHECK(filtered(stops, text, sizes) == expected(stops, text));
            }
}

TEST_CASE("stop texts: what may be the beginning of one is held back, and no more") {
    StopTexts filter({"stop", "END"});
    CHECK(filter.push("a s") == "a ");
    CHECK(filter.push("t") == "");
    CHECK(filter.push("E") == "st");
    CHECK(filter.push("") == "");
    CHECK(filter.push("NE") == "EN");
    CHECK(filter.push("NDsto") == "");
    CHECK(filter.found());
    CHECK(filter.push("more") == "");
    CHECK(filter.finish() == "");
    StopTexts open({"stop"});
    CHECK(open.push("sto") == "");
    CHECK(open.finish() == "sto");
    CHECK(!open.found());
}

TEST_CASE("generator: a row that the caller ends has the tokens that it has alone, and others go on") {
    Options o;
    o.max_new_tokens = 23;
    const auto ids_of = [&](const std::vector<Ids>& prompts, std::optional<int32_t> last) {
        HistoryDecoder decoder(50);
        Request request;
        request.prompts = prompts;
        std::vector<int32_t> newest(prompts.size());
        request.ended = [&](std::size_t row) { return last && newest[row] % 10 == *last; };
        const auto output = generate::generate(decoder, request, o, [&](std::size_t row, int32_t token) {
            newest[row] = token;
            return true;
        });
        REQUIRE_MESSAGE(output.ok(), output.message());
        CHECK(!output->stopped);
        std::vector<Ids> all;
        for (const Output::Row& row : output->rows) all.push_back(row.ids);
        return all;
    };
    const std::vector<Ids> prompts{{1, 2, 3}, {4}, {5, 6, 7, 8, 9}, {10, 11}};
    const std::vector<Ids> whole = ids_of(prompts, {}), ended = ids_of(prompts, 3);
    std::set<std::size_t> sizes;
    for (std::size_t row = 0; row < prompts.size(); ++row) {
        auto end = whole[row].begin() + static_cast<std::ptrdiff_t>(prompts[row].size());
        while (end != whole[row].end() && *end % 10 != 3) ++end;
        if (end != whole[row].end()) ++end;
        CHECK(ended[row] == Ids(whole[row].begin(), end));
        CHECK(ids_of({prompts[row]}, 3)[0] == ended[row]);
        sizes.insert(ended[row].size() - prompts[row].size());
    }
    CHECK(sizes.size() > 1); // they end at different tokens
}

} // namespace stop_texts_test
