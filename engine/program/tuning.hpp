// Which kernel is fastest where several would do: measured once for a device, a driver, the kernels' text and a bucket
// of sizes, and kept in a file. A kernel whose product is not that of the plainest one is never chosen.
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

// On which devices kernels are measured. CPUs' kernels are chosen by rules that were measured (shaders/TRIED.md).
enum class Measure : uint8_t { never, on_gpus, always };

// Runs the products that Tuning measures. The program room's upper half implements it, since a program is needed for
// that and programs are compiled with what was measured.
class TuningBench {
public:
    virtual ~TuningBench() = default;
    // Makes the state `name` with this content.
    virtual Status upload(const std::string& name, std::span<const std::byte> content) = 0;
    // Compiles the dispatches and runs them several times. Returns the shortest time in seconds.
    virtual Result<double> run(const Lowering& lowering) = 0;
    virtual Result<std::vector<std::byte>> download(const std::string& name) = 0;
};

// What Tuning::choose() measures with.
struct MakeTuningBench {
    Limits limits; // of the device
    std::function<Result<std::unique_ptr<TuningBench>>()> make;
};

// Kernels that were measured, by bucket of problems. Thread: its runtime's.
class Tuning {
public:
    // Reads what was measured before from `cache` (null: nothing is read or written). What cannot be read is a warning;
    // it is replaced.
    static Result<std::unique_ptr<Tuning>> create(const gpu::Capabilities& device, std::shared_ptr<Cache> cache,
                                                  const Log& log);

    // Adds to `choices` (key -> kernel) the fastest kernel for each problem. The most expensive problems are measured
    // first; those that do not fit into 10 seconds keep their preferred kernel and are measured another time. A kernel
    // replaces the preferred one only if it is at least 5 percent faster.
    Status choose(const MakeTuningBench& benches, const std::vector<KernelProblem>& problems,
                  std::map<std::string, std::string>& choices);
    Status save() const; // does nothing if nothing was measured since create()

    // Sizes rounded up to powers of two: what is measured for one holds for all. "matmul NT f32 [1x 512, 128, 512]".
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
