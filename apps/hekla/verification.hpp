// Compares a device, or the float64 interpreter, with the reference implementation on one fixture.
#pragma once

#include "comparison.hpp"

#include <filesystem>

namespace hekla::program {
class ParameterStore;
class Runtime;
} // namespace hekla::program

namespace hekla::app {

// Computes a fixture and fills in the report. runtime: null for the interpreter. Errors: the fixture cannot be read or
// run.
Status verify_fixture(const plugin::Registry& registry, program::Runtime* runtime, const std::filesystem::path& folder,
                      const Log& log, program::Storage precision, FixtureReport& report);

// Returns the scale of the graph's gradients, weight / count, by the name of the step scalar. Counts depend on fields
// alone.
Result<std::map<std::string, double>> loss_scales(const Fixture& fixture, const FixtureModel& model);

Status upload(program::ParameterStore& store, const Tensors& parameters);

} // namespace hekla::app
