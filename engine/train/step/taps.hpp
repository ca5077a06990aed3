// Taps of a training: statistics of the values that [tap] names in every step, and the values themselves in files.
#pragma once

#include "base/status.hpp"
#include "train/recipe/recipe.hpp"

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace hekla::program {
struct HostTensor;
class Program;
} // namespace hekla::program
namespace hekla::graph {
struct Graph;
}

namespace hekla::train {

// Of the elements of a tap in a step. Mean, deviation, minimum and maximum are those of its finite elements; NaN where
// there is none.
struct TapStatistics {
    std::string name;
    uint64_t elements = 0, nans = 0, infinities = 0;
    double mean = 0.0, deviation = 0.0, minimum = 0.0, maximum = 0.0;
    double zeros = 0.0; // share of all elements
};

// Adds up the elements of a tap over micro-batches.
class TapSum {
public:
    void add(std::span<const double> values);
    TapStatistics statistics(const std::string& name) const;

private:
    uint64_t elements_ = 0, zeros_ = 0, nans_ = 0, infinities_ = 0;
    double mean_ = 0.0, squares_ = 0.0, minimum_ = 0.0, maximum_ = 0.0; // squares_: of distances from the mean
};

class Taps {
public:
    Taps() = default;
    // Errors: a name that matches no tap of the graph; keys that need others. logging_steps: the default of tap.every.
    static Result<Taps> create(const TapSection& section, int64_t logging_steps, const graph::Graph& described);

    const std::vector<std::string>& names() const { return names_; }
    bool empty() const { return names_.empty(); }

    // step: its number, from 1.
    void begin_step(int64_t step);
    void skip_step() { step_ = 0; } // read() does nothing until the next one begins
    // Reads the taps of a micro-batch, in the order of the step. Writes the values of the steps that [tap] asks for.
    Status read(program::Program& program);
    std::vector<TapStatistics> statistics() const;

private:
    Status write(const std::vector<program::HostTensor>& values) const;
    std::vector<std::string> names_;
    std::vector<TapSum> sums_; // by name
    std::filesystem::path folder_;
    int64_t every_ = 0, step_ = 0, micro_ = 0; // step_ 0: none
};

} // namespace hekla::train
