// Which kernel is fastest where several would do: measured once for a device, a driver, the kernels' text and a bucket
// of sizes, and kept in a file. A kernel whose product is not that of the plainest one is never chosen.
#pragma once

#include "base/cache.hpp"
#include "base/log.hpp"
#include "gpu/capabilities.hpp"
#include "program/lowering/lowering.hpp"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace hekla::program {

class Runtime;

// On which devices kernels are measured. CPUs' kernels are chosen by rules that were measured (shaders/TRIED.md).
enum class Measure : uint8_t { never, on_gpus, always };

// Thread: its runtime's.
class Tuning {
public:
    // Reads what was measured before from `cache` (null: nothing is read or written). What cannot be read is a warning;
    // it is replaced.
    static Result<std::unique_ptr<Tuning>> create(const gpu::Capabilities& device, std::shared_ptr<Cache> cache,
                                                  const Log& log);

    // Adds to `choices` (key -> kernel) what is fastest for each problem. The dearest are measured first; those that
    // 10 seconds do not suffice for keep their preferred kernel, and are measured another time. Another kernel than the
    // preferred one must be a twentieth faster.
    Status choose(Runtime& runtime, const std::vector<KernelProblem>& problems,
                  std::map<std::string, std::string>& choices);
    Status save() const; // where something was measured since it was read

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
