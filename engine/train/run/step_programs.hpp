// The compiled steps of a training: a program for each turn of train.alternate and each length of rows.
#pragma once

#include "base/status.hpp"

#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace hekla::graph {
struct Graph;
}
namespace hekla::program {
class ParameterStore;
class Program;
class Runtime;
} // namespace hekla::program

namespace hekla::train {

struct DescribedTraining;

class StepPrograms {
public:
    // longest: the graph of the first turn over rows of the full length. choices: kernels of another start, to which
    // those that were measured here are added. `store` must outlive this.
    static Result<StepPrograms> compile(program::Runtime& runtime, program::ParameterStore& store,
                                        const DescribedTraining& training, const graph::Graph& longest,
                                        std::map<std::string, std::string>& choices);

    void use_turn(std::size_t turn) { turn_ = turn; } // of the following steps
    program::Program& at(int64_t length) const { return *turns_[turn_].at(length); }
    program::Program& longest() const { return *turns_.front().rbegin()->second; } // of the first turn
    int64_t longest_length() const { return turns_.front().rbegin()->first; }
    // Returns the length of the shortest rows that hold `tokens`, or of the longest.
    int64_t fitting(int64_t tokens) const;
    bool has_lengths() const { return turns_.front().size() > 1; }
    void for_each(const std::function<void(int64_t length, program::Program&)>& use) const;

private:
    std::vector<std::map<int64_t, std::unique_ptr<program::Program>>> turns_; // by the length of rows
    std::size_t turn_ = 0;
};

} // namespace hekla::train
