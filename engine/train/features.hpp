// The outputs of frozen layers for every training example, computed once: the steps then compute only what is above
// them.
#pragma once

#include "base/resource_array.hpp"
#include "data/batcher.hpp"
#include "exchange/communicator.hpp"
#include "graph/cut_frozen.hpp"
#include "program/program.hpp"
#include "train/run_data.hpp"

#include <memory>
#include <string>
#include <vector>

namespace hekla::train {

class Features {
public:
    // Runs the part below the cut over every example of `split`, `batch` rows at a time. The split's fields must not
    // depend on the epoch. Each of `ranks` computes a part of the examples, and gets the rest from the others.
    static Result<Features> compute(program::Runtime& runtime, program::ParameterStore& store,
                                    const plugin::Composition& composition, const graph::FrozenCut& cut,
                                    const Split& split, int64_t batch, int64_t length, uint64_t seed,
                                    exchange::Communicator& ranks);
    // Returns how the program of the part below the cut is compiled.
    static program::CompileOptions options(const graph::FrozenCut& cut);
    // Returns the memory for that many examples, in bytes.
    static uint64_t bytes(const graph::FrozenCut& cut, uint64_t examples, int64_t batch);

    // Sets the features of these examples (by index), one per row, as fields of a program.
    Status set(program::Program& program, std::span<const uint64_t> examples) const;

private:
    struct One {
        std::string name;
        std::size_t row_bytes = 0;
        ResourceArray<std::byte> rows; // by example
    };
    std::vector<One> features_;
};

} // namespace hekla::train
