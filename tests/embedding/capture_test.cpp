// hekla/capture.h: the contents of a capture, and that capturing does not affect the host's calls.
#include "work.hpp"

#include "hekla/capture.h"
#include "hekla/plan.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

namespace capture_test {

using namespace hekla::test;
using nlohmann::json;

namespace {

std::vector<json> lines_of(const Place& place, const char* name) {
    std::istringstream text(place.read(name));
    std::vector<json> lines;
    for (std::string line; std::getline(text, line);) lines.push_back(json::parse(line));
    return lines;
}

std::ptrdiff_t calls_of(const std::vector<json>& lines, const std::string& name) {
    return std::ranges::count_if(lines, [&](const json& line) { return line.value("call", "") == name; });
}

} // namespace

TEST_CASE("a capture contains calls, arguments, results, losses and texts, until it is ended") {
    FaultDriver::get().reset();
    const Place place;
    Host host;
    const Error error;
    hk_context context{};
    REQUIRE(host.context(context) == HK_OK);
    train(context, Training(place, "before"));
    const std::string weights = place.read("before/model.safetensors");
    const std::string nowhere = place.at("nowhere/calls.jsonl"), path = place.at("calls.jsonl");
    CHECK(hk_capture(context, view(nowhere), error) == HK_IO);
    CHECK_MESSAGE(error.says("nowhere/calls.jsonl"), error.message());
    REQUIRE_MESSAGE(hk_capture(context, view(path), error) == HK_OK, error.message());

    train(context, Training(place, "call"));
    CHECK(place.read("call/model.safetensors") == weights);
    Writing writing(place.at("before"));
    hk_session session{};
    REQUIRE(hk_session_generate(context, &writing.options, nullptr, &session, error) == HK_OK);
    run_until(session, HK_SESSION_IDLE, 2000.0);
    const std::string text = writing.taken();
    CHECK(hk_session_prompt(session, nullptr, 3, error) == HK_INVALID_ARGUMENT);
    CHECK(hk_session_pass(session, nullptr, nullptr, error) == HK_INVALID_ARGUMENT);
    hk_session_destroy(session);
    CHECK(hk_generate(context, nullptr, nullptr, error) == HK_INVALID_ARGUMENT);
    Writing answering(place.at("nowhere"), R"([{"role": "user", "content": "a"}])");
    const std::string chatml = "chatml";
    answering.options.chat_template = view(chatml);
    CHECK(hk_generate(context, &answering.options, nullptr, error) != HK_OK);
    REQUIRE(hk_capture(context, hk_string{nullptr, 0}, error) == HK_OK);
    const std::size_t size = place.read("calls.jsonl").size();
    REQUIRE(hk_generate(context, &writing.options, nullptr, error) == HK_OK);
    CHECK(place.read("calls.jsonl").size() == size);
    hk_context_destroy(context);

    const std::vector<json> lines = lines_of(place, "calls.jsonl");
    REQUIRE(!lines.empty());
    CHECK(lines.front().at("threads") == true);
    CHECK(calls_of(lines, "hk_train") == 1);
    CHECK(calls_of(lines, "hk_session_generate") == 1);
    CHECK(calls_of(lines, "hk_session_advance") > 1);
    CHECK(calls_of(lines, "hk_session_destroy") == 1);
    int64_t steps = 0;
    std::string written;
    double last = 0;
    for (const json& line : lines) {
        if (!line.contains("at")) continue;
        if (line.contains("step")) CHECK(line.at("step").get<int64_t>() == ++steps);
        if (line.contains("text")) written += line.at("text").get<std::string>();
        if (line.contains("call")) continue; // written after the session ended
        CHECK(line.at("at").get<double>() >= last);
        last = line.at("at").get<double>();
    }
    CHECK(steps == 6);
    CHECK(written == text);
    const auto call = [&](const std::string& name) {
        return *std::ranges::find_if(lines, [&](const json& line) { return line.value("call", "") == name; });
    };
    CHECK(call("hk_train").at("arguments").at("recipe") == place.recipe());
    const json generate = call("hk_session_generate");
    CHECK(generate.at("arguments").at("prompts") == json{"line "});
    CHECK(generate.at("arguments").at("greedy") == 1);
    CHECK(generate.at("code") == HK_OK);
    CHECK(generate.at("session") == call("hk_session_advance").at("session"));
    CHECK(call("hk_session_advance").at("arguments").at("microseconds") == 2000.0);
    const json refused = call("hk_session_prompt");
    CHECK(refused.at("code") == HK_INVALID_ARGUMENT);
    CHECK(refused.at("message") == "prompts is null, but count is 3");
    CHECK(call("hk_generate").at("code") == HK_INVALID_ARGUMENT); // options were null
    CHECK(call("hk_generate").at("arguments").empty());
    CHECK(generate.at("arguments").at("chat_date") == "");
    const json answer = *std::ranges::find_if(lines, [](const json& line) {
        return line.contains("arguments") && line["arguments"].contains("chat_date") &&
               line["arguments"]["chat_template"] == "chatml";
    });
    CHECK(answer.at("arguments").at("chat_date").get<std::string>().size() == 10); // the day of the capture
    CHECK(FaultDriver::get().leaks().empty());
}

TEST_CASE("a captured plan has the ranks that it was made for, and their link") {
    const Place place;
    const Error error;
    hk_context context{};
    REQUIRE(make_context(context, error, [](hk_context_options& o) { o.device_kind = HK_DEVICE_NONE; }) == HK_OK);
    const std::string path = place.at("calls.jsonl"), nowhere = place.at("nowhere.toml");
    REQUIRE(hk_capture(context, view(path), error) == HK_OK);
    hk_plan_options plan{};
    plan.struct_size = sizeof plan;
    plan.recipe = view(nowhere);
    plan.ranks = 4;
    plan.nodes = 2;
    plan.link_bytes_per_second = 1e9;
    plan.link_latency = 0.5;
    plan.report = [](void*, const hk_plan_report*) {};
    CHECK(hk_plan(context, &plan, error) != HK_OK);
    hk_context_destroy(context);
    const json arguments = lines_of(place, "calls.jsonl").back().at("arguments");
    CHECK(arguments.at("ranks") == 4);
    CHECK(arguments.at("nodes") == 2);
    CHECK(arguments.at("link_bytes_per_second") == 1e9);
    CHECK(arguments.at("link_latency") == 0.5);
}

TEST_CASE("a capture whose file cannot be written any more ends, and the host's calls continue") {
    const Place place;
    Host host;
    const Error error;
    hk_context context{};
    std::string logged;
    REQUIRE(host.context(context, error, [&](hk_context_options& o) {
        o.user = &logged;
        o.log = [](void* user, int32_t, hk_string message) {
            static_cast<std::string*>(user)->append(message.data, static_cast<std::size_t>(message.size));
        };
    }) == HK_OK);
    const std::string full = "/dev/full";
    REQUIRE(hk_capture(context, view(full), error) == HK_OK);
    train(context, Training(place, "run"));
    CHECK_MESSAGE(logged.find("the capture of calls ends") != std::string::npos, logged);
    hk_context_destroy(context);
}

} // namespace capture_test
