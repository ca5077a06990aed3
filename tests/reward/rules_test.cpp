// Rewards that are computed from texts: values, keys, what is refused, and weighted sums.
#include "base/file.hpp"
#include "plugin/registry/registry.hpp"
#include "reward/reward_set.hpp"
#include "reward/rules.hpp"
#include "support/test_folder.hpp"

#include <cmath>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <limits>

using namespace hekla;
using namespace hekla::test;
using namespace hekla::reward;
using nlohmann::json;

namespace {

RewardSet made(const std::vector<RewardSpec>& specs) {
    static const plugin::Registry none = plugin::Registry::scan({});
    Result<RewardSet> set = RewardSet::create(specs, none, {}, {});
    REQUIRE_MESSAGE(set.ok(), set.message());
    return set.take();
}

std::string refused(const std::string& id, const json& config) {
    static const plugin::Registry none = plugin::Registry::scan({});
    const RewardSpec spec{"mine", id, 1.0, 0.0, config};
    const Result<RewardSet> set = RewardSet::create(std::span(&spec, 1), none, {}, {});
    REQUIRE_FALSE(set.ok());
    return set.message();
}

double score(const std::string& id, const json& config, const TextToScore& text) {
    Result<Scores> scores = made({{"mine", id, 1.0, 0.0, config}}).score(std::span(&text, 1));
    REQUIRE_MESSAGE(scores.ok(), scores.message());
    return scores->total[0];
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

} // namespace

TEST_CASE("exact_match: the whole text of a column, or the share of its characters") {
    CHECK(score("exact_match", {}, {"a", " 12\n", {{"answer", "12"}}}) == 1.0);
    CHECK(score("exact_match", {}, {"a", "123", {{"answer", "12"}}}) == 0.0);
    CHECK(score("exact_match", {{"column", "prompt"}}, {"abc", "abc", {}}) == 1.0);
    const json partial{{"column", "prompt"}, {"partial", true}};
    CHECK(score("exact_match", partial, {"abcd", "abxd", {}}) == 0.75);
    CHECK(score("exact_match", partial, {"abcd", "ab", {}}) == 0.5);
    CHECK(score("exact_match", partial, {"ab", "abcd", {}}) == 0.5);
    CHECK(score("exact_match", partial, {"\xC3\xA9t\xC3\xA9", "\xC3\xA9ta", {}}) == doctest::Approx(2.0 / 3.0));
    CHECK(made({{"a", "exact_match", 1.0, 0.0, {{"column", "right"}}}}).columns() == std::vector<std::string>{"right"});
    CHECK(made({{"a", "exact_match", 1.0, 0.0, {{"column", "prompt"}}}}).columns().empty());
    CHECK(has(refused("exact_match", {{"colum", "a"}}), "[rewards.mine] has no key 'colum'; did you mean 'column'?"));
    CHECK(has(refused("exact_match", {{"partial", 1}}), "rewards.mine.partial: is 1, expected true or false"));
}

TEST_CASE("regex: somewhere, everywhere, or what it finds last") {
    CHECK(score("regex", {{"pattern", "[0-9]+"}}, {"", "so 12", {}}) == 1.0);
    CHECK(score("regex", {{"pattern", "[0-9]+"}}, {"", "so", {}}) == 0.0);
    CHECK(score("regex", {{"pattern", "[0-9]+"}, {"whole", true}}, {"", "so 12", {}}) == 0.0);
    const json last{{"pattern", "#### ([0-9]+)"}, {"column", "answer"}};
    CHECK(score("regex", last, {"", "#### 3 no #### 12", {{"answer", "12"}}}) == 1.0);
    CHECK(score("regex", last, {"", "#### 12 no #### 3", {{"answer", "12"}}}) == 0.0);
    CHECK(has(refused("regex", {}), "rewards.mine: the key 'pattern' is missing"));
    CHECK(has(refused("regex", {{"pattern", "("}}), "rewards.mine.pattern:"));
    CHECK(has(refused("regex", {{"pattern", "a"}, {"whole", true}, {"column", "b"}}), "rewards.mine.column:"));
}

TEST_CASE("length: characters or words near a target") {
    CHECK(score("length", {{"target", 4}}, {"", "abcd", {}}) == 1.0);
    CHECK(score("length", {{"target", 4}}, {"", "abcdef", {}}) == 0.5);
    CHECK(score("length", {{"target", 2}}, {"", "abcdef", {}}) == 0.0);
    CHECK(score("length", {{"target", 2}}, {"", "\xC3\xA9\xC3\xA9", {}}) == 1.0);
    CHECK(score("length", {{"target", 2}, {"unit", "words"}}, {"", " two  words\n", {}}) == 1.0);
    CHECK(has(refused("length", {{"target", 0}}), "rewards.mine.target: is 0, expected a length above 0"));
    CHECK(has(refused("length", {{"target", 1}, {"unit", "lines"}}), "expected characters or words"));
}

TEST_CASE("arithmetic: the value of the prompt's last line") {
    CHECK(score("arithmetic", {}, {"37+85=", "122", {}}) == 1.0);
    CHECK(score("arithmetic", {}, {"37+85=", "12", {}}) == 0.0);
    CHECK(score("arithmetic", {}, {"1+1=2\n2*(3-5)= ", " -4", {}}) == 1.0);
    CHECK(std::isnan(score("arithmetic", {}, {"how much is it?", "3", {}})));
    CHECK(value_of_expression("7 - 2 - 1") == 4);
    CHECK(value_of_expression("12/4*3") == 9);
    CHECK(value_of_expression("-(2+3)*-2") == 10);
    for (const char* bad :
         {"", "1+", "1/0", "7/2", "(1", "1)", "1 2", "a", "9223372036854775807+1", "1.5", "9223372036854775808"})
        CHECK_MESSAGE(!value_of_expression(bad), bad);
    CHECK_FALSE(value_of_expression(std::string(100000, '(')));
    CHECK_FALSE(value_of_expression(std::string(100000, '-') + "1"));
    CHECK(has(refused("arithmetic", {{"column", "x"}}), "this reward has no keys of its own"));
}

TEST_CASE("lexicon: weights of words from a file") {
    const TestFolder folder;
    const std::string file = (folder.path() / "words.txt").string();
    const auto write = [&](const std::string& text) { REQUIRE(write_file_atomically(file, text).ok()); };
    write("# words\ngood 1.5\nbad\t-2\nnot so, 0.25\n\n");
    const json config{{"from", file}};
    CHECK(score("lexicon", config, {"", "Good, good... BAD!", {}}) == 1.0);
    CHECK(score("lexicon", config, {"", "nothing", {}}) == 0.0);
    CHECK(score("lexicon", {{"from", file}, {"distinct", true}}, {"", "Good, good... BAD!", {}}) == -0.5);
    CHECK(score("lexicon", {{"from", file}, {"mean", true}}, {"", "good thing", {}}) == 0.75);
    CHECK(score("lexicon", {{"from", file}, {"lower_case", false}}, {"", "Good", {}}) == 0.0);
    write("good\n");
    CHECK(has(refused("lexicon", config), "line 1: 'good': expected a word and a number"));
    write("good nan\n");
    CHECK(has(refused("lexicon", config), "line 1"));
    write("good 1\nGood 2\n");
    CHECK(has(refused("lexicon", config), "line 2: the word 'Good' has a weight already"));
    write("# none\n");
    CHECK(has(refused("lexicon", config), "has no word with a weight"));
    CHECK(has(refused("lexicon", {{"from", file + ".none"}}), "rewards.mine.from:"));
}

TEST_CASE("several rewards: clipped, weighted and summed; one without a number is left out") {
    const RewardSet set =
        made({{"sum", "arithmetic", 2.0, 0.0, json::object()}, {"short", "length", -1.0, 0.25, {{"target", 2}}}});
    const std::vector<TextToScore> texts{{"1+1=", "2", {}}, {"hello", "ab", {}}, {"1+1=", "22", {}}};
    const Result<Scores> scores = set.score(texts);
    REQUIRE(scores.ok());
    CHECK(scores->of_rewards[1] == std::vector<double>{0.25, 0.25, 0.25}); // 0.5, 1 and 1 are clipped
    CHECK(scores->total[0] == 1.75);
    CHECK(scores->total[1] == -0.25); // arithmetic has none
    CHECK(std::isnan(scores->of_rewards[0][1]));
    CHECK(scores->total[2] == -0.25);
    CHECK(std::isnan(made({}).score(texts)->total[0]));
    CHECK(
        has(refused("arithmetik", {}), "rewards.mine.id: there is no reward 'arithmetik'; did you mean 'arithmetic'?"));
    CHECK(
        has(refused("", {}), "there are exact_match, regex, length, arithmetic, lexicon, model, and those of plugins"));
}
