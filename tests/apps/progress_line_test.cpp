// The line of progress: all of it, and what is left where it does not fit.
#include "progress_line.hpp"

#include <doctest/doctest.h>
#include <vector>

using namespace hekla;

namespace {

hk_string name_of(std::string_view of) { return {of.data(), of.size()}; }

} // namespace

TEST_CASE("a line of progress fits the columns, and keeps step, loss and the time left longest") {
    const hk_score losses[] = {{name_of("lm"), 2.0}, {name_of("balance"), 0.5}};
    const hk_score metrics[] = {{name_of("accuracy"), 0.25}};
    hk_train_step step{};
    step.step = 80;
    step.max_steps = 2000;
    step.loss = 2.5713;
    step.gradient_norm = 1.15;
    step.learning_rate = 1e-3;
    step.seconds = 0.041;
    step.tokens_per_second = 18700;
    step.share_of_peak = 0.12;
    step.remaining_seconds = 80;
    step.epoch = 1.257;
    step.device_bytes = 47 << 20;
    step.losses = losses;
    step.loss_count = 2;
    step.metrics = metrics;
    step.metric_count = 1;
    const std::string all = "step 80/2000 | loss 2.5713 (lm 2.0000, balance 0.5000) | norm 1.15 | accuracy 0.2500 | "
                            "epoch 1.26 | lr 1.0e-03 | 41 ms | 18,700 tok/s | 12% of peak | 47.0 MiB | ETA 1:20";
    CHECK(app::progress_line(step) == all);
    CHECK(app::progress_line(step, all.size()) == all);
    CHECK(app::progress_line(step, all.size() - 1).find("of peak") == std::string::npos);
    CHECK(app::progress_line(step, 79) ==
          "step 80/2000 | loss 2.5713 | epoch 1.26 | lr 1.0e-03 | 18,700 tok/s | ETA 1:20");
    CHECK(app::progress_line(step, 40) == "step 80/2000 | loss 2.5713 | ETA 1:20");
    CHECK(app::progress_line(step, 12) == "step 80/2000");
    CHECK(app::progress_line(step, 5) == "step ");
    for (std::size_t columns = 1; columns < 160; ++columns) CHECK(app::progress_line(step, columns).size() <= columns);
    step.skipped = 1;
    CHECK(app::progress_line(step, 60) == "step 80/2000 | SKIPPED: loss or gradient is not finite");
}
