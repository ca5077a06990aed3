// Runs, a token cache, an exported file and a captured call from before config.json recorded how texts become ids
// (tests/fixtures/old-runs): they are used and resumed by their own rules. HEKLA_PROGRAM is the program.
#include "base/file.hpp"
#include "support/program.hpp"

#include <cmath>
#include <cstdio>
#include <doctest/doctest.h>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

using namespace hekla;
using namespace hekla::test;
using nlohmann::json;

namespace old_runs_test {
namespace {

namespace fs = std::filesystem;

// The fixture in a folder of its own, where commands run.
class Runs {
public:
    Runs() {
        fs::copy(fs::path(HEKLA_SOURCE_DIR) / "tests" / "fixtures" / "old-runs", folder(), fs::copy_options::recursive);
        expected = read("expected.json");
    }
    fs::path folder() const { return place_ / "runs"; }
    json read(const char* name) const {
        const Result<std::string> text = read_file(folder() / name);
        REQUIRE_MESSAGE(text.ok(), text.message());
        return json::parse(text.value());
    }
    std::string shell(const std::string& command) const { return succeed(test::shell(folder(), command)).out; }
    std::string run(const std::string& arguments) const {
        return shell(std::string("'") + HEKLA_PROGRAM + "' " + arguments);
    }
    // Returns the last line of a run's log that has this key.
    json logged(const std::string& run, const char* key) const {
        const Result<std::string> log = read_file(folder() / run / "train_log.jsonl");
        REQUIRE_MESSAGE(log.ok(), log.message());
        json last;
        for (std::size_t at = 0; at < log->size();) {
            const std::size_t end = std::min(log->find('\n', at), log->size());
            const json line = json::parse(log->substr(at, end - at));
            if (line.contains(key)) last = line;
            at = end + 1;
        }
        return last;
    }
    json expected;

private:
    TestFolder place_;
};

void check_close(const json& made, const json& expected) {
    if (expected.is_array()) {
        REQUIRE(made.size() == expected.size());
        for (std::size_t i = 0; i < made.size(); ++i) check_close(made[i], expected[i]);
        return;
    }
    CHECK(std::abs(made.get<double>() - expected.get<double>()) < 1e-4);
}

} // namespace

TEST_CASE("a run from before the record of frames is used by its own rules") {
    const Runs runs;
    for (const auto& one : runs.expected["predicted"]) {
        const std::string text = one[0];
        CAPTURE(text);
        check_close(json::parse(runs.run("predict cls --text '" + text + "'")).at("probabilities"), one[1]);
    }
    const std::string prompt = runs.expected["prompt"], embedded = runs.expected["embedded"][0];
    runs.shell("gzip -d clm.hekla.gz");
    for (const char* model : {"clm", "clm.hekla"}) {
        CAPTURE(model);
        const json written = json::parse(runs.run(std::string("generate ") + model +
                                                  " --greedy --json --max-new-tokens 8 --prompt '" + prompt + "'"));
        CHECK(written.at("rows").at(0).at("text") == runs.expected["text"]);
    }
    check_close(json::parse(runs.run("embed cls '" + embedded + "' --pooling last")).at("embedding"),
                runs.expected["embedded"][1]);
    check_close(json::parse(runs.run("eval clm.toml --json")).at("loss"), runs.expected["eval_loss"]);
    const std::string replayed = runs.run("replay-calls calls.jsonl");
    CHECK_MESSAGE(replayed.find("1 calls made again, 0 left out, 0 differences") != std::string::npos, replayed);
}

TEST_CASE("a run from before the record of frames is resumed by its own rules") {
    const Runs runs;
    runs.run("train clm.toml train.max_steps=64 2>&1");
    check_close(runs.logged("clm", "eval_loss").at("eval_loss"), runs.expected["eval_loss_64"]);
    int caches = 0; // the token cache fits, and no other is made
    for ([[maybe_unused]] const auto& file : fs::directory_iterator(runs.folder() / "clm" / "cache")) ++caches;
    CHECK(caches == 1);
    runs.run("train cls.toml train.max_steps=64 2>&1");
    check_close(runs.logged("cls", "loss").at("loss"), runs.expected["loss_64"]);
    CHECK(!runs.read("cls/config.json").at("hekla").contains("frame"));
}

} // namespace old_runs_test
