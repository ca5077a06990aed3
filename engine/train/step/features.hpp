// The outputs of frozen layers for every training example, computed once: the steps then compute only what is above
// them.
#pragma once

#include "base/resource_array.hpp"
#include "graph/passes/cut_frozen.hpp"

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace hekla::exchange {
class Communicator;
}
namespace hekla::plugin {
class Composition;
}
namespace hekla::program {
class Estimator;
class ParameterStore;
class Program;
class Runtime;
} // namespace hekla::program

namespace hekla::train {

class Split;

// The layers below the first one that is trained, or none.
class FrozenLayers {
public:
    FrozenLayers() = default; // none
    // Cuts them off a described step, unless they save too little time for their memory. Their rows must be the same
    // in every epoch. rows: of a batch; examples: of the training data.
    static Result<FrozenLayers> cut(const graph::Graph& step, const std::set<std::string, std::less<>>& frozen,
                                    int64_t rows, uint64_t examples);
    const graph::Graph& trained_part(const graph::Graph& step) const { return cut_ ? cut_->above : step; }
    // Adds what computing them allocates on a device.
    Status estimate(program::Estimator& estimator) const;

private:
    friend class Features;
    std::optional<graph::FrozenCut> cut_;
};

class Features {
public:
    // What features are computed from; all of it outlives them.
    struct Source {
        const FrozenLayers& layers;
        program::Runtime& runtime;
        program::ParameterStore& store;
        const plugin::Composition& composition;
        const Split& split; // whose fields do not depend on the epoch
        int64_t batch;      // rows that are computed at a time
        int64_t length;
        uint64_t seed;
        exchange::Communicator& ranks; // each computes a part of the examples, and gets the rest from the others
        std::function<void(const std::string&)> message;
    };
    // Computes them for every example of the split, unless this was done before or there are no frozen layers.
    Status prepare(const Source& source);
    // Sets the features of these examples (by index), one per row, as fields of a program.
    Status set(program::Program& program, std::span<const uint64_t> examples) const;

private:
    Status compute(const Source& source, const graph::FrozenCut& cut);
    struct One {
        std::string name;
        std::size_t row_bytes = 0;
        ResourceArray<std::byte> rows; // by example
    };
    std::vector<One> features_;
};

} // namespace hekla::train
