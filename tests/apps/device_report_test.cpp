// `hekla doctor --test --report`: what it runs, and what the report must not contain.
#include "program.hpp"

#include "base/host.hpp"

#include <cstdlib>
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace device_report_test {

using namespace hekla::test;
using nlohmann::json;

TEST_CASE("doctor --test: models, a resumed training, generation and plans are right, and the report is public" *
          doctest::test_suite("long")) { // two minutes on two cores
    const Place place;
    const Ran ran = succeed(place.run({"doctor", "--test", "--report", "card.jsonl"}));
    const std::string text = place.read("card.jsonl");
    std::map<std::string, json> stages;
    json end;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        const json one = json::parse(line);
        if (one.contains("stage")) stages[one.at("stage")] = one;
        end = one;
    }
    for (const char* stage : {"device", "models", "training", "generation", "plan"}) {
        REQUIRE_MESSAGE(stages.contains(stage), stage);
        CHECK_MESSAGE(stages[stage].at("ok") == true, stages[stage].dump());
        CHECK(has(ran.out, std::string("ok   ") + stage));
    }
    CHECK(stages["models"].at("result").at("f32").at("right") == 5);
    CHECK(stages["training"].at("result").at("f32").at("resumed_equal") == true);
    CHECK(stages["generation"].at("result").at("llama-clm").at("tokens") == 24);
    CHECK(stages["plan"].at("result").at("models").contains("14B"));
    CHECK(end.at("healthy") == true);
    CHECK(ran.out.ends_with(end.at("summary").get<std::string>() + "\n"));
    // Nothing of this machine.
    CHECK_FALSE(std::regex_search(text, std::regex(R"(["\s(=]/[a-z])")));
    std::vector<std::string> names{hekla::host_name()};
    for (const char* variable : {"HOME", "USER", "LOGNAME"})
        if (const char* value = std::getenv(variable); value != nullptr) names.emplace_back(value);
    for (const std::string& name : names)
        if (name.size() > 4) CHECK_FALSE(has(text, name)); // a shorter one may be a part of a word
}

TEST_CASE("doctor --test: options that exclude each other, and a report that cannot be written") {
    const Place place;
    CHECK(place.run({"doctor", "--test", "fixture", "--report", "x"}).status == 2);
    CHECK(place.run({"doctor", "--test", "--lab"}).status == 2);
    const Ran closed = place.run({"doctor", "--lab", "--report", "nowhere/x.jsonl"});
    CHECK(closed.status == 1);
    CHECK(has(closed.err, "nowhere"));
}

} // namespace device_report_test
