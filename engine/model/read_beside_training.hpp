// Reading a run's folder while its training, often another process, replaces checkpoints in it.
#pragma once

#include "model/checkpoint.hpp"

#include <fmt/format.h>

#include <filesystem>

namespace hekla::model {

// Returns read(), a Result; calls it again while good(result) is false and run_dir has other checkpoints after it than
// before. Error: failed_precondition after 100 calls.
template<typename Read, typename Good>
auto read_beside_training(const std::filesystem::path& run_dir, const Read& read, const Good& good)
    -> decltype(read()) {
    constexpr int kTries = 100; // a try is short where checkpoints are small enough to be replaced that fast
    for (int tries = 1; tries <= kTries; ++tries) {
        const Result<std::vector<int64_t>> before = list_checkpoints(run_dir);
        auto result = read();
        if (good(result)) return result;
        const Result<std::vector<int64_t>> after = list_checkpoints(run_dir);
        if (!before.ok() || !after.ok() || before.value() == after.value()) return result;
    }
    return failed_precondition(fmt::format("{}: its training replaces checkpoints faster than they can be read; raise "
                                           "train.save_total_limit, or wait for its end",
                                           run_dir.string()));
}

template<typename Read>
auto read_beside_training(const std::filesystem::path& run_dir, const Read& read) -> decltype(read()) {
    return read_beside_training(run_dir, read, [](const auto& result) { return result.ok(); });
}

} // namespace hekla::model
