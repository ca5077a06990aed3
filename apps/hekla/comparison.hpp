// How `verify` compares: errors of tensors, their limits, and the report of one fixture.
#pragma once

#include "fixture.hpp"
#include "generate/decoder.hpp"

#include <map>
#include <optional>
#include <string>

namespace hekla::app {

// Bounds of errors. PyTorch's float32 results stay within 1e-6, 2e-7, 3e-6, 4e-7, 3e-4 of its float64 on the public
// fixtures.
struct Bars {
    double outputs = 1e-5, loss = 1e-6, gradients = 5e-5, adamw_loss = 1e-5, adamw = 2e-3;
};

// Returns the bounds of a training step in a precision, for a model that makes little of rounding.
Bars bars_of(program::Storage precision);

// The errors of tensors; the largest and the tensor that has it.
struct Worst {
    double error = 0.0;
    std::string tensor;
    std::map<std::string, double> all{};
    void take(double value, const std::string& name) {
        all.emplace(name, value);
        if (tensor.empty() || !(value <= error)) { // NaN counts as the worst
            error = value;
            tensor = name;
        }
    }
};

struct FixtureReport {
    std::string fixture;
    Status problem; // could not be run
    Worst outputs, gradients, adamw;
    double loss = 0.0, adamw_loss = 0.0;
    bool has_loss = false, has_adamw = false;
    std::optional<bool> generation; // whether the outputs are equal; empty without cases
    std::string generation_detail;
    std::optional<double> merged; // the largest relative error of a parameter that merging an adapter changes
    double seconds = 0.0;
    Bars bars; // what the errors are compared with
    // The bounds are those of the model (widen_bars), and the worst tensors those that come nearest to theirs.
    bool bars_of_model = false;

    bool pass() const;
    nlohmann::json json() const;
    std::string line() const;
};

double max_error(const graph::Tensor& a, const graph::Tensor& b);  // max|a-b| / max|b|
double norm_error(const graph::Tensor& a, const graph::Tensor& b); // ||a-b|| / ||b||

// The results of an engine for a fixture: "out.*", "loss", "grad.*" in `first`; then per AdamW step the loss before it,
// and the parameters after the last.
struct Computed {
    Tensors first;
    std::vector<double> losses;
    Tensors stepped;
};

// Fills in the numbers of the report.
Status compare(const Fixture& fixture, const Computed& computed, FixtureReport& report);

// Compares the parameters after merging an adapter, in float64; nothing if the fixture has none.
Status compare_merged(const Fixture& fixture, const FixtureModel& model, FixtureReport& report);

// Runs the fixture's generation cases on a decoder and fills in the report's generation; nothing without cases.
Status compare_generation(const Fixture& fixture, generate::Decoder& decoder, FixtureReport& report);

// Raises each tensor's bounds to several times the error that the float64 interpreter has with weights rounded to a
// precision: some models make much of every rounding, in the reference implementation as here.
Status widen_bars(const Fixture& fixture, const FixtureModel& model, program::Storage precision, FixtureReport& report);

// Uses the float64 interpreter as the engine.
Result<Computed> compute_reference(const Fixture& fixture, const FixtureModel& model);
Status generate_reference(const Fixture& fixture, const FixtureModel& model, FixtureReport& report);

} // namespace hekla::app
