// The log of a training while it grows, is truncated, or was restarted.
#include "failure.hpp"
#include "models/log_reader.hpp"
#include "support/test_folder.hpp"

#include <cstdlib>
#include <doctest/doctest.h>
#include <fstream>

using observatory::LogReader;
namespace fs = std::filesystem;

namespace {

struct Run {
    void write(const std::string& text, std::ios::openmode mode = std::ios::app) const {
        std::ofstream(folder / "train_log.jsonl", mode) << text;
    }
    hekla::test::TestFolder folder;
};

std::string step(int number, double loss) {
    return "{\"step\":" + std::to_string(number) + ",\"loss\":" + std::to_string(loss) +
           ",\"grad_norm\":1.5,\"learning_rate\":0.001,\"seconds\":0.1,\"tokens_per_second\":640.0}\n";
}

} // namespace

TEST_CASE("a log is read as it grows, and a line only when it is complete") {
    const Run run;
    run.write(step(1, 4.0) + step(2, 3.5));
    LogReader log(run.folder);
    CHECK(log.curves().loss.values == std::vector<double>{4.0, 3.5});
    CHECK(log.curves().gradient_norm.values.size() == 2);
    CHECK(log.curves().tokens_per_second == 640.0);
    const std::string third = step(3, 3.0);
    run.write(third.substr(0, 20));
    log.read();
    CHECK(log.curves().step == 2);
    run.write(third.substr(20) +
              "{\"step\":3,\"eval_loss\":3.25,\"eval_accuracy\":0.5,\"best\":true,\"seconds\":1.0}\n");
    log.read();
    CHECK(log.curves().step == 3);
    CHECK(log.curves().loss.values.back() == 3.0);
    CHECK(log.curves().evaluation.values == std::vector<double>{3.25});
    CHECK(log.curves().best == 3.25);
    REQUIRE(log.curves().scores.size() == 1);
    CHECK(log.curves().scores[0].first == "accuracy");
    // A step without an update has no loss, and lines that are not steps are counted.
    run.write("{\"step\":4,\"loss\":null,\"grad_norm\":null,\"learning_rate\":0.001,\"skipped\":true}\nnot a step\n");
    log.read();
    CHECK(log.curves().skipped == 1);
    CHECK(log.curves().loss.values.size() == 3);
    CHECK(log.curves().learning_rate.values.size() == 4);
    CHECK(log.bad_lines() == 1);
}

TEST_CASE("a log that was restarted restarts its curves") {
    const Run run;
    run.write(step(1, 4.0) + step(2, 3.5));
    LogReader log(run.folder / "train_log.jsonl");
    run.write(step(1, 9.0), std::ios::trunc);
    log.read();
    CHECK(log.curves().loss.values == std::vector<double>{9.0});
    run.write(step(1, 8.0) + step(2, 7.0) + step(3, 6.0), std::ios::trunc); // longer than the part that was read
    log.read();
    CHECK(log.curves().loss.values == std::vector<double>{8.0, 7.0, 6.0});
    fs::remove(run.folder / "train_log.jsonl");
    CHECK_THROWS_AS(log.read(), observatory::Failure);
    CHECK_THROWS_WITH_AS(LogReader(run.folder), doctest::Contains("train_log.jsonl"), observatory::Failure);
}
