// One recipe with several seeds: the folder of each run, and the statistics of their scores.
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace hekla::app {

struct SeedRun {
    int64_t seed = 0;
    std::string folder;                 // DIR/seed-N of the recipe's output.dir
    std::vector<std::string> overrides; // those given, plus this run's seed and folder
};

// Returns `count` runs with consecutive seeds, starting at the recipe's.
Result<std::vector<SeedRun>> seed_runs(const std::string& recipe, const std::vector<std::string>& overrides,
                                       int64_t count);

using Scores = std::vector<std::pair<std::string, double>>;

// Reads the scores of a run's last or best evaluation from its log. not_found: the log has no evaluation.
Result<Scores> logged_scores(const std::string& folder, bool best);

// The scores of all seeds with mean, standard deviation (of a sample), minimum and maximum.
class SeedScores {
public:
    void add(int64_t seed, Scores scores);
    std::string table() const;
    nlohmann::ordered_json json() const;

private:
    struct Summary {
        double mean = 0.0, deviation = 0.0, least = 0.0, greatest = 0.0;
    };
    std::vector<std::string> names() const; // of the scores that every seed has, in the order of the first
    std::vector<double> values(const std::string& name) const;
    static Summary summary(const std::vector<double>& values);
    std::vector<std::pair<int64_t, Scores>> seeds_;
};

} // namespace hekla::app
