// Chooses the fastest kernel if several can be used: measured once for a device, a driver, the kernels' text and a
// bucket of sizes, and stored in a file. A kernel whose product differs from that of the simplest one is never chosen.
#pragma once

#include "base/cache.hpp"
#include "base/log.hpp"
#include "gpu/capabilities.hpp"
#include "program/lowering/lowering.hpp"

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace hekla::program {

// The devices on which kernels are measured. Kernels for CPUs are chosen by rules from measurements (shaders/TRIED.md).
enum class Measure : uint8_t { never, on_gpus, always };

// Runs the products that Tuning measures. Implemented in the upper half of the program room, because measuring needs a
// program, and programs are compiled with the measurements.
class TuningBench {
public:
    virtual ~TuningBench() = default;
    // Creates the state `name` with this content.
    virtual Status upload(const std::string& name, std::span<const std::byte> content) = 0;
    // Compiles the dispatches and runs them once. Returns their number for run().
    virtual Result<std::size_t> add(const Lowering& lowering) = 0;
    // Runs dispatches several times. Returns the shortest time in seconds.
    virtual Result<double> run(std::size_t dispatches) = 0;
    virtual Result<std::vector<std::byte>> download(const std::string& name) = 0;
};

// Creates the benches for Tuning::choose().
struct MakeTuningBench {
    Limits limits; // of the device
    std::function<Result<std::unique_ptr<TuningBench>>()> make;
};

// Measured kernels, by bucket of problems. Thread: its runtime's.
class Tuning {
public:
    // Reads earlier measurements from `cache` (null: nothing is read or written). Unreadable entries give a warning and
    // are replaced.
    static Result<std::unique_ptr<Tuning>> create(const gpu::Capabilities& device, std::shared_ptr<Cache> cache,
                                                  const Log& log);

    // Adds to `choices` (key -> kernel) the fastest kernel for each problem. The most expensive problems are measured
    // first; those that do not fit into 10 seconds keep their preferred kernel and are measured another time. A kernel
    // replaces the preferred one only if it is at least 5 percent faster.
    Status choose(const MakeTuningBench& benches, const std::vector<KernelProblem>& problems,
                  std::map<std::string, std::string>& choices);
    Status save() const; // does nothing if nothing was measured since create()

    // Rounds sizes up to powers of two, so that one measurement is used for all of them: "matmul NT f32 [1x 512, 128,
    // 512]".
    static std::string bucket(const KernelProblem& problem);
    const std::map<std::string, std::string>& measured() const { return measured_; } // bucket -> kernel
    const std::string& identity() const { return identity_; } // of the device, its driver and the kernels' text

private:
    Tuning(std::string identity, std::shared_ptr<Cache> cache, const Log& log);
    std::string entry() const { return "tuning-" + identity_ + ".json"; }
    void read();
    std::string identity_;
    std::shared_ptr<Cache> cache_;
    Log log_;
    std::map<std::string, std::string> measured_;
    mutable bool changed_ = false;
};

} // namespace hekla::program
