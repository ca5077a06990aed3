// Chooses the fastest way to compute a problem if there are several (kernels, parts of K, subgroup sizes): measured
// once for a device, a driver, the kernels' text and a bucket of sizes, and stored in a file. A kernel whose results
// differ from those of the simplest one is never chosen.
#pragma once

#include "base/cache.hpp"
#include "base/log.hpp"
#include "gpu/capabilities.hpp"
#include "program/measure.hpp"
#include "program/tuning_bench.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace hekla::program {

// Measured choices, by bucket of problems. Thread: its runtime's.
class Tuning {
public:
    // Reads earlier measurements from `cache` (null: nothing is read or written). Unreadable entries give a warning and
    // are replaced.
    static Result<std::unique_ptr<Tuning>> create(const gpu::Capabilities& device, std::shared_ptr<Cache> cache,
                                                  const Log& log);

    // Adds to `choices` (key -> KernelChoice::text()) the fastest choice for each problem: first the kernel, then its
    // parts of K, then its subgroup size. Nothing more is measured of a problem once a choice is close to the measured
    // peak. The most expensive problems are measured first, for kSeconds in the lifetime of this object; the others
    // keep what the rules prefer, and are measured another time. Something else replaces the preferred choice only if
    // it is at least 5 percent faster. A problem that cannot be measured gives a warning.
    void choose(const TuningBenches& benches, const std::vector<KernelProblem>& problems,
                std::map<std::string, std::string>& choices);
    Status save() const; // does nothing if nothing was measured since create()

    static constexpr double kSeconds = 10;
    const std::map<std::string, std::string>& measured() const { return measured_; } // bucket -> choice
    const std::string& identity() const { return identity_; } // of the device, its driver and the kernels' text

private:
    Tuning(std::string identity, std::shared_ptr<Cache> cache, const Log& log);
    std::string entry() const { return "tuning-" + identity_ + ".json"; }
    void read();
    std::string identity_;
    std::shared_ptr<Cache> cache_;
    Log log_;
    std::map<std::string, std::string> measured_;
    double spent_ = 0; // seconds of measuring
    mutable bool changed_ = false;
};

} // namespace hekla::program
