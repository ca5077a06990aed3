#include "train/step/batch_wait.hpp"

#include <chrono>
#include <fmt/format.h>

namespace hekla::train {

using std::chrono::milliseconds;

bool wait_for_batch(data::Batcher& batcher, const TrainerEvents& events, const BatchMaker& maker) {
    constexpr milliseconds kPoll(200);
    milliseconds next_message(10'000);
    for (milliseconds waited(0);; waited += kPoll) {
        if (waited >= next_message) {
            if (events.message)
                events.message(
                    fmt::format("waiting for collate() of {} for {} s{}", maker.objective, waited.count() / 1000,
                                maker.isolated ? ", in a worker process with a time limit"
                                               : "; if it never returns, plugins.isolate = true runs it in a "
                                                 "process with a time limit"));
            next_message *= 4;
        }
        if (batcher.wait(kPoll)) return true;
        if (events.stop.stopped()) return false;
    }
}

void end_batches(data::Batcher& batcher, const TrainerEvents& events, const BatchMaker& maker) {
    constexpr milliseconds kPatience(3'000);
    if (batcher.end(kPatience) || !events.abandoned) return;
    events.abandoned(fmt::format("collate() of {}", maker.objective));
}

} // namespace hekla::train
