// The warning of a resume that changes the schedule: learning rates before and after.
#include "train/update/schedule.hpp"

#include <doctest/doctest.h>

using namespace hekla::train;

namespace schedule_change_test {

TEST_CASE("a resume that changes the rate of the next step has old and new rate, and what is usually meant") {
    TrainSection before;
    before.max_steps = 100;
    before.learning_rate = 1e-3;
    before.warmup_ratio = 0.1;
    const auto change = [&](auto&& set, int64_t step) {
        TrainSection now = before;
        set(now);
        return schedule_change(before, now, step);
    };
    const auto has = [](const std::string& text, const char* part) {
        CHECK_MESSAGE(text.find(part) != std::string::npos, text);
    };
    const std::string longer = change([](TrainSection& s) { s.max_steps = 300; }, 100);
    for (const char* part : {"step 101 is 0.00", "was 3e-07 in step 100", "train.max_steps 100 -> 300", "cosine",
                             "lr_scheduler_type = \"constant\"", "model.from"})
        has(longer, part);
    has(change([](TrainSection& s) { s.max_steps = 2000; }, 100), "train.warmup_steps = 10 keeps the old warm-up");
    has(change([](TrainSection& s) { s.learning_rate = 1e-2; }, 50), "step 51 is");
    // Nothing to say: unchanged, a rate that does not depend on the length, the first step, a finished run.
    CHECK(change([](TrainSection&) {}, 50).empty());
    CHECK(change([](TrainSection& s) { s.max_steps = 300; }, 0).empty());
    CHECK(change([](TrainSection&) {}, 100).empty());
    before.lr_scheduler_type = "constant";
    CHECK(change([](TrainSection& s) { s.max_steps = 150; }, 100).empty());
}

} // namespace schedule_change_test
