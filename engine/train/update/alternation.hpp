// Steps that take turns: which losses a step minimizes and which parameters it updates (train.alternate).
#pragma once

#include "graph/graph.hpp"
#include "train/recipe/recipe.hpp"

#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace hekla::train {

class Alternation {
public:
    Alternation(); // one turn of all losses and parameters, for every step
    // section: its `alternate` has the losses of one step after the other, several with '+'. described: the graph
    // before it is differentiated. Errors: a name that no loss has, or a loss that no step minimizes; losses that do
    // not name their parameters; train.fp16; those of loss_groups().
    static Result<Alternation> create(const TrainSection& section, const graph::Graph& described,
                                      const std::set<std::string, std::less<>>& frozen);

    // Parameters that the same turns update, so that they count the same steps.
    struct Class {
        std::set<std::string, std::less<>> parameters; // empty without train.alternate: all
        std::string state;                             // of the store: their OptimizerState
        bool contains(const std::string& parameter) const {
            return parameters.empty() || parameters.contains(parameter);
        }
    };
    struct Turn {
        std::set<std::size_t> losses;     // of the graph; empty: all
        std::vector<std::size_t> classes; // what it updates
        double share = 1.0;               // of the steps
    };

    bool on() const { return !classes_.front().parameters.empty(); } // with train.alternate
    const std::vector<Turn>& turns() const { return turns_; }        // different ones
    const std::vector<Class>& classes() const { return classes_; }
    // Returns the turn of the update that follows `step` applied or skipped ones.
    std::size_t turn_of(int64_t step) const { return cycle_[static_cast<std::size_t>(step) % cycle_.size()]; }

private:
    std::vector<Turn> turns_;
    std::vector<Class> classes_;
    std::vector<std::size_t> cycle_; // indices of turns
};

} // namespace hekla::train
