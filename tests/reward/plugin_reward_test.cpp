// A reward of a plugin: the draft interface, from C++ and through a library.
#include "plugin/registry/registry.hpp"
#include "reward/reward_set.hpp"

#include <cmath>
#include <doctest/doctest.h>

namespace plugin_reward_test {

using namespace hekla;
using namespace hekla::reward;
using nlohmann::json;

TEST_CASE("a plugin's reward: columns, scores, errors") {
    const plugin::Registry registry = plugin::Registry::scan({HEKLA_REWARD_PLUGINS});
    const auto set_of = [&](const json& config) {
        const RewardSpec spec{"short", "brevity", 1.0, 0.0, config};
        return RewardSet::create(std::span(&spec, 1), registry, {}, {});
    };
    Result<RewardSet> set = set_of({{"factor", 2}});
    REQUIRE_MESSAGE(set.ok(), set.message());
    CHECK(set->columns() == std::vector<std::string>{"limit"});
    const RewardSpec spec{"short", "brevity", 1.0, 0.0, {{"column", "other"}}};
    const auto columns = columns_of_rewards(std::span(&spec, 1), registry);
    REQUIRE(columns.ok());
    CHECK(columns.value() == std::vector<std::string>{"other"});
    std::vector<TextToScore> texts{
        {"a", "abc", {{"limit", "xx"}}}, {"b", "a", {{"limit", "x"}}}, {"c", "infinite", {}}};
    const Result<Scores> scores = set->score(texts);
    REQUIRE_MESSAGE(scores.ok(), scores.message());
    CHECK(scores->total[0] == 1.0);
    CHECK(scores->total[1] == 2.0);
    CHECK(std::isnan(scores->total[2]));
    // A text's score does not depend on the others.
    CHECK(set->score(std::span(texts).subspan(1, 1))->total[0] == 2.0);
    texts[2].completion = "throw";
    const Result<Scores> failed = set->score(texts);
    REQUIRE_FALSE(failed.ok());
    CHECK(failed.message() == "rewards.short: reward 'brevity': score: this text cannot be scored");
    CHECK(set_of({{"factor", 0}}).message().find("factor is not above 0") != std::string::npos);
    CHECK(set_of({{"facto", 1}}).message().find("does not know the key 'facto'; did you mean 'factor'?") !=
          std::string::npos);
    // Instances are independent of each other, and can be created again.
    for (int i = 0; i < 4; ++i) CHECK(set_of(json::object()).ok());
}

} // namespace plugin_reward_test
