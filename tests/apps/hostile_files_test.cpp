// Files of others that are written to harm: indexes and plugins, captures of calls, adapters, and disks that are full.
#include "program.hpp"

#include <algorithm>
#include <doctest/doctest.h>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace hostile_files_test {

using namespace hekla::test;
using nlohmann::json;

namespace fs = std::filesystem;

namespace {

const fs::path kPlugins = fs::path(HEKLA_PROGRAM).parent_path().parent_path() / "lib" / "hekla" / "plugins";

json entry(const std::string& name, const json& needs = json::array()) {
    return {{"plugin", name},     {"version", "1.0"},
            {"licence", "MIT"},   {"about", ""},
            {"abi_major", 1},     {"abi_minor_needed", 0},
            {"needs", needs},     {"platforms", json::array({"source"})},
            {"archive", "a.zip"}, {"sha256", std::string(64, '0')}};
}

void write_index(const Place& place, const std::string& name, const json& plugins) {
    place.write(name, json{{"hekla_plugin_index", 1}, {"plugins", plugins}}.dump());
}

void refused(const Ran& ran, const std::string& part, bool at_once = true) {
    CAPTURE(ran.err);
    CHECK(ran.status == 1);
    if (at_once) CHECK(std::ranges::count(ran.err, '\n') == 1);
    CHECK(has(ran.err, "hekla: error: "));
    CHECK(has(ran.err, part));
    CHECK_FALSE(has(ran.err, "json.exception"));
    CHECK(std::ranges::none_of(ran.err + ran.out, [](char c) { return (c >= 0 && c < ' ' && c != '\n') || c == 127; }));
}

} // namespace

TEST_CASE("an index cannot exhaust the stack, run a command or write to the terminal") {
    const Place place;
    const auto install = [&](const std::string& index, const std::string& name) {
        return place.run({"plugin", "install", name, "--index", index, "--to", "installed"});
    };
    json chain = json::array();
    for (int i = 0; i < 20'000; ++i)
        chain.push_back(entry("p" + std::to_string(i),
                              json::array({json{{"plugin", "p" + std::to_string(i + 1)}, {"version", ""}}})));
    write_index(place, "chain.json", chain);
    refused(install("chain.json", "p0"), "needs a chain of more than 64 plugins");
    json evil = entry("evil");
    evil["archive"] = "\x1B[31mevil\x07.zip";
    write_index(place, "escapes.json", json::array({evil}));
    refused(install("escapes.json", "evil"), "plugins[0].archive: has a control character");
    evil["archive"] = "https://example.org/';touch PWN;'.zip";
    write_index(place, "quotes.json", json::array({evil}));
    refused(install("quotes.json", "evil"), "curl -fLO 'https://example.org/'\\'';touch PWN;'\\''.zip', then hekla "
                                            "plugin install ''\\'';touch PWN;'\\''.zip' --index quotes.json");
    evil["archive"] = "https://example.org/-o?x#y";
    write_index(place, "option.json", json::array({evil}));
    refused(install("option.json", "evil"), "install ./-o --index");
    place.write("large.json", "{\"hekla_plugin_index\": 1, \"plugins\": [" + std::string(17 << 20, ' ') + "]}");
    refused(install("large.json", "evil"), "large.json");
    CHECK_FALSE(place.exists("installed"));
}

TEST_CASE("a plugin with the name of a built-in one is installed only where that is wanted") {
    const Place place;
    fs::create_directories(place.path("own"));
    for (const char* file : {"gpt2.json", "gpt2.so"}) fs::copy_file(kPlugins / file, place.path("own") / file);
    refused(place.run({"plugin", "install", "own", "--to", "installed", "--check", "0"}), "--force installs it");
    CHECK_FALSE(place.exists("installed"));
    succeed(place.run({"plugin", "install", "own", "--to", "installed", "--check", "0", "--force"}));
    CHECK(place.exists("installed/gpt2.json"));
    json manifest = json::parse(place.read("own/gpt2.json"));
    manifest["provides"][0]["about"] = "a \x1B[2J model";
    place.write("own/gpt2.json", manifest.dump());
    refused(place.run({"plugin", "install", "own", "--to", "installed", "--check", "0", "--force"}),
            "provides[0].about: has a control character");
    const Ran list = succeed(place.run({"--plugin-path", "own", "plugin", "list"}));
    CHECK(has(list.err, "\\x1B[2J"));
    CHECK_FALSE(has(list.err + list.out, "\x1B"));
}

TEST_CASE("a capture whose lists contradict each other is refused with its line") {
    const Place place;
    const auto replay = [&](const json& line) {
        place.write("it.calls", "{\"hekla\": \"1\", \"device\": \"a\"}\n" + line.dump() + "\n");
        return place.run({"replay-calls", "it.calls"});
    };
    const auto refused = [](const Ran& ran, const std::string& part) {
        hostile_files_test::refused(ran, part, false); // after the line about the capture
    };
    const auto call = [](const char* name, const json& arguments, const json& code = 0) {
        return json{{"call", name}, {"session", 1}, {"code", code}, {"arguments", arguments}};
    };
    refused(replay(call("hk_predict", {{"model", "m"}, {"texts", json::array({"a"})}, {"second_texts", {"b", "c"}}})),
            "it.calls:2: \"second_texts\" has 2 elements and \"texts\" 1; expected as many");
    refused(replay(call("hk_predict", {{"model", "m"}, {"second_texts", json::array({"b"})}})),
            "\"second_texts\" has 1 elements");
    refused(replay(call("hk_generate", {{"prompts", json::array({"a"})}, {"prompt_adapters", {"b", "c", "d"}}})),
            "\"prompt_adapters\" has 3 elements and \"prompts\" 1");
    refused(replay(call("hk_generate", {{"prompts", {"a", 3}}})), "\"prompts\": expected strings, found 3");
    refused(replay(call("hk_generate", {{"beams", "many"}})), "\"beams\": expected an integer from");
    refused(replay(call("hk_generate", {{"greedy", 1e30}})), "\"greedy\": expected an integer from");
    refused(replay(call("hk_embed", {{"rows", json::array({json::array({1, "2"})})}})),
            "\"rows\": expected an integer from");
    refused(replay(call("hk_embed", json::object(), "none")), "\"code\": expected an integer from");
    refused(replay(call("hk_embed", {{"model", 3}})), "\"model\": expected a string, found 3");
    // A pass reads rows of the session's length.
    const std::string model = HEKLA_SOURCE_DIR "/tests/fixtures/models/gpt2-clm";
    const auto pass = [&](const json& arguments) {
        place.write("it.calls",
                    "{\"hekla\": \"1\"}\n" +
                        call("hk_session_forward",
                             {{"model", model}, {"rows", 2}, {"length", 8}, {"ports", json::array({"logits"})}})
                            .dump() +
                        "\n" + call("hk_session_pass", arguments).dump() + "\n");
        const Ran ran = place.run({"replay-calls", "it.calls"});
        CAPTURE(ran.err);
        CHECK(ran.status == 1);
        return ran.err;
    };
    const json ids{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    CHECK(has(pass({{"ids", {1, 2, 3}}}), "it.calls:3: \"ids\" has 3 elements; expected 2 rows of 8"));
    CHECK(has(pass({{"ids", ids}, {"lengths", json::array({8})}}), "\"lengths\" has 1 elements; expected 2 rows of 1"));
}

TEST_CASE("lists of adapters that would take long are refused") {
    const Place place;
    fs::copy(HEKLA_SOURCE_DIR "/tests/fixtures/adapters/lora-llama", place.path("it"), fs::copy_options::recursive);
    place.write("rows.jsonl", "{\"input_ids\": [1, 2, 3]}\n");
    const json config = json::parse(place.read("it/adapter/adapter_config.json"));
    const auto with = [&](const char* key, const json& value) {
        json changed = config;
        changed[key] = value;
        place.write("it/adapter/adapter_config.json", changed.dump());
        return place.run({"embed", "it", "--adapter", "a=it/adapter", "--file", "rows.jsonl"});
    };
    json names = json::object(), expressions = json::object(), targets = json::array();
    for (int i = 0; i < 5000; ++i) names["m" + std::to_string(i)] = 4;
    for (int i = 0; i < 300; ++i) expressions["m" + std::to_string(i) + "+"] = 4;
    for (int i = 0; i < 70'000; ++i) targets.push_back("m" + std::to_string(i));
    CHECK(has(with("rank_pattern", names).err, "rank_pattern has 5000 members; expected 4096 at most"));
    CHECK(has(with("rank_pattern", expressions).err, "rank_pattern has more than 256 regular expressions"));
    CHECK(has(with("target_modules", targets).err, "target_modules has 70000 members; expected 65536 at most"));
}

// The limit of a file's size ends a program that does not expect its signal.
TEST_CASE("a file that is too large is an error of writing, in every verb that writes") {
    const Place place;
    std::string text;
    for (int i = 0; i < 20'000; ++i) text += "word" + std::to_string(i * 7919 % 5003) + " and another\n";
    place.write("text.txt", text);
    const auto limited = [&](const std::string& command) {
        return place.run_copy("/bin/sh", {"-c", "ulimit -f 8; exec '" HEKLA_PROGRAM "' " + command});
    };
    const Ran trained = limited("tokenize train text.txt --kind bpe --vocab-size 2000 -o t");
    CAPTURE(trained.err);
    CHECK(trained.status == 1);
    CHECK(has(trained.err, "File too large"));
    CHECK_FALSE(place.exists("t"));
    const std::string model = HEKLA_SOURCE_DIR "/tests/fixtures/models/gpt2-clm";
    const Ran converted = limited("convert '" + model + "' copy");
    CAPTURE(converted.err);
    CHECK(converted.status == 1);
    CHECK(has(converted.err, "File too large"));
}

} // namespace hostile_files_test
