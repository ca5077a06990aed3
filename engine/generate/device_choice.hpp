// The options of the kernel generate/choose, which chooses tokens on the device.
#pragma once

#include "generate/options.hpp"
#include "program/lowering/records.hpp"

#include <optional>

namespace hekla::generate {

// Returns the options for the kernel. Empty: they need the whole text of a row (a repetition penalty, n-grams), several
// beams, or more than kListedIds ids, and Sampler chooses.
std::optional<program::kernels::generate::ChooseOptions> device_choice(const Options& options);

} // namespace hekla::generate
