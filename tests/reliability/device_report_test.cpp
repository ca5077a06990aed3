// `hekla doctor --test` and `--lab` where drivers are broken: each ends with a report, whose stages say what happened.
#include "cases.hpp"

#include <sstream>

using namespace hekla::test;
using nlohmann::json;

namespace {

struct Reported {
    Ran ran;
    std::vector<json> lines;

    const json* stage(const std::string& name) const {
        for (const json& line : lines)
            if (line.value("stage", "") == name) return &line;
        return nullptr;
    }
    // Whether the stage has a problem that contains the text.
    bool has_problem(const std::string& name, const std::string& text) const {
        return stage(name) != nullptr && has(stage(name)->value("problem", ""), text);
    }
};

Reported report(const TestFolder& folder, const char* kind, const Surroundings& surroundings) {
    Reported all;
    all.ran = run(folder, {"doctor", kind, "--report", "card.jsonl"}, surroundings);
    std::istringstream text(folder.read("card.jsonl"));
    for (std::string line; std::getline(text, line);) all.lines.push_back(json::parse(line));
    INFO(all.ran.out << all.ran.err);
    REQUIRE(all.lines.size() >= 2);
    CHECK(all.lines.front().at("report") == std::string(kind).substr(2));
    CHECK(all.lines.back().contains("summary"));
    CHECK(all.ran.status <= 1); // no crash
    return all;
}

Surroundings with_faults(const std::string& plan) {
    return {.environment = {{"LD_LIBRARY_PATH", HEKLA_FAULT_FOLDER}, {"HEKLA_FAULTS", plan}}};
}

} // namespace

TEST_CASE("a report without a device: nothing is run, and the end is written") {
    const TestFolder folder;
    const Surroundings nothing{
        .environment = {{"VK_ICD_FILENAMES", "/nowhere.json"}, {"VK_DRIVER_FILES", "/nowhere.json"}}};
    for (const char* kind : {"--test", "--lab"}) {
        const Reported all = report(folder, kind, nothing);
        CHECK(all.ran.status == 1);
        CHECK_FALSE(all.stage("device")->at("ok").get<bool>());
        CHECK(all.has_problem("device", "Vulkan"));
        CHECK(all.lines.back().at("healthy") == false);
        CHECK(has(all.lines.back().at("summary"), "no device that can be used"));
        for (const json& line : all.lines)
            if (line.contains("stage") && line.at("stage") != "device") CHECK(line.contains("skipped"));
    }
}

TEST_CASE("a report of a driver that lacks a required feature names it") {
    const TestFolder folder;
    const Reported all = report(folder, "--test", with_faults("hide=bufferDeviceAddress"));
    CHECK(all.ran.status == 1);
    CHECK(all.has_problem("device", "bufferDeviceAddress"));
    CHECK(all.stage("device")->at("result").at("devices").at(0).at("usable") == false);
}

// Every process of a stage has the same faults: a stage fails where it submits often, and the others are run.
TEST_CASE("a report of a driver that loses the device has the stages before and after") {
    const TestFolder folder;
    const Reported all = report(folder, "--test", with_faults("vkQueueSubmit2:40:-4"));
    CHECK(all.ran.status == 1);
    CHECK(all.stage("device")->at("ok") == true);
    CHECK((all.has_problem("models", "lost") || all.has_problem("training", "lost")));
    CHECK(all.stage("plan")->at("ok") == true);
    CHECK(has(all.lines.back().at("summary"), "FAIL"));
}

TEST_CASE("a report of a driver that cannot compile has every stage") {
    const TestFolder folder;
    const Reported all = report(folder, "--lab", with_faults("vkCreateComputePipelines:1:-1"));
    CHECK(all.ran.status == 1);
    for (const char* stage : {"clock", "memory", "chains"}) CHECK_FALSE(all.stage(stage)->at("ok").get<bool>());
    CHECK(all.stage("others") != nullptr);
}
