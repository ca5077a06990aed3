// How a score of a task changes with the size of a model: emergence and inverse scaling (Wei et al. 2022, arXiv
// 2206.07682; McKenzie et al. 2023, arXiv 2306.09479).
#pragma once

#include <cstddef>
#include <span>

namespace hekla::scaling {

// How a score changes from the smallest training to the largest, by FLOPs. A difference counts if it is more than two
// standard errors.
enum class Trend {
    flat,      // no difference that counts
    better,    // grows over several models
    emergence, // no difference that counts up to a model, and at least half of the whole difference in one step
    inverse,   // the largest is worse than the smallest
};
const char* trend_name(Trend trend); // "flat", "better with size", ...

struct TrendScore {
    double value = 0.0;
    double error = 0.0; // standard error; 0 if unknown
};
struct FoundTrend {
    Trend trend = Trend::flat;
    std::size_t at = 0; // emergence: the first model after the step
};
// Scores by ascending FLOPs; at least one.
FoundTrend trend_of(std::span<const TrendScore> scores, bool higher_is_better);

} // namespace hekla::scaling
