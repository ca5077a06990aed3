// What every kernel must meet on every driver of a GPU, judged from what its compiler reports.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::test {

// Which kernels are judged, from the lenient to the strict.
enum class Kernels {
    token,    // of a generated token: they may have few waves
    any_size, // of training steps with sizes that are not multiples of anything: they may load single floats
    training, // of a training step
};

// A kernel as `hekla doctor --kernels --json` prints it, and its assembly where innermost_loops() can read it; else "".
// allowed_spills: registers that it may spill, with scratch memory for them. Returns one line per rule that it breaks.
std::vector<std::string> broken_rules(const nlohmann::json& kernel, std::string_view driver, Kernels kind,
                                      std::string_view assembly, double allowed_spills = 0);

} // namespace hekla::test
