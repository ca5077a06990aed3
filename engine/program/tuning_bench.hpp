// Runs dispatches to measure them.
#pragma once

#include "program/lowering/lowering.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace hekla::program {

// Programs and the states that they read and write. Implemented in the upper half of the program room, because
// measuring needs a program, and programs are compiled with the measurements.
class TuningBench {
public:
    virtual ~TuningBench() = default;
    // Creates the state `name` with this content.
    virtual Status upload(const std::string& name, std::span<const std::byte> content) = 0;
    // Compiles the kernels of several lowerings at once, so that add() of them does not have to. Errors are add()'s.
    virtual void compile(std::span<const Lowering> lowerings) = 0;
    // Compiles the dispatches and runs them once. Returns their number for run().
    virtual Result<std::size_t> add(const Lowering& lowering) = 0;
    // Runs dispatches several times. Returns the shortest time in seconds.
    virtual Result<double> run(std::size_t dispatches) = 0;
    virtual Result<std::vector<std::byte>> download(const std::string& name) = 0;
};

// What Tuning::choose() needs of a device.
struct TuningBenches {
    Limits limits;
    std::function<Result<std::unique_ptr<TuningBench>>()> make;
    std::function<double(Storage factors)> peak; // as measure_peak(); 0: not known
    std::function<double()> now;                 // a clock, in seconds
    // The device's speed at this moment as a share of the highest so far, measured with some milliseconds of work: a
    // GPU lowers its clock while it is idle, and takes a fraction of a second of work to raise it (an H200 0.2 s, from
    // a sixth). Empty: always 1.
    std::function<Result<double>()> speed = {};
};

} // namespace hekla::program
