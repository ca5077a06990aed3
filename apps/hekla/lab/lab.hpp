// The stages of `hekla doctor --lab` that measure kernels of this device. Each checks results against float64 first;
// what it measures is written into the report, and report/decisions.hpp makes sentences of it.
#pragma once

#include "base/log.hpp"
#include "report/outcome.hpp"

#include <vector>

namespace hekla::program {
class Runtime;
}

namespace hekla::lab {

struct Input {
    program::Runtime& runtime;
    double seconds = 0; // after which the stage should end
    const std::vector<report::Line>& before;
};

// Each is defined in its own file.
Result<report::Outcome> clock(const Input& input);      // before and after work
Result<report::Outcome> memory(const Input& input);     // bandwidth by size
Result<report::Outcome> units(const Input& input);      // peak arithmetic by shape and type
Result<report::Outcome> products(const Input& input);   // the engine's matrix kernels
Result<report::Outcome> attention(const Input& input);  // the engine's attention kernels
Result<report::Outcome> chains(const Input& input);     // dispatches that wait for each other
Result<report::Outcome> stores(const Input& input);     // variants of a product: banks of shared memory
Result<report::Outcome> shapes(const Input& input);     // variants of a product: shapes of the matrix units
Result<report::Outcome> epilogues(const Input& input);  // variants of a product: activation and rounding
Result<report::Outcome> orders(const Input& input);     // variants of a product: orders of tiles
Result<report::Outcome> workgroups(const Input& input); // products by matrices of a whole workgroup

} // namespace hekla::lab
