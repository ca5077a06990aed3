// Asks a driver's compiler how many registers it spills. A kernel is compiled for the answer, which is stored in the
// cache.
#pragma once

#include "base/cache.hpp"
#include "gpu/context.hpp"
#include "program/lowering/spill_counts.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>

namespace hekla::program {

class CompilerSpills : public SpillCounts {
public:
    // Returns null if the driver reports nothing. identity: of the device, its driver and the kernels' text
    // (Tuning::identity()). cache: null: nothing is read or written.
    static Result<std::shared_ptr<CompilerSpills>> create(const gpu::Context& context,
                                                          std::span<const gpu::EmbeddedShader> kernels,
                                                          const std::string& identity, std::shared_ptr<Cache> cache);
    // Only of the engine's own kernels. A kernel that cannot be compiled is not known.
    std::optional<uint64_t> of(const Dispatch& dispatch) override;
    Status save() const; // does nothing if nothing was compiled since create()
    // Releases the device. Afterwards only counts that are known already are returned.
    void close();

private:
    CompilerSpills() = default;
    std::optional<uint64_t> ask(const Dispatch& dispatch) const;
    std::string entry_;
    std::shared_ptr<Cache> cache_;
    std::span<const gpu::EmbeddedShader> kernels_;
    mutable std::mutex mutex_;
    std::shared_ptr<gpu::Device> device_;
    std::shared_ptr<gpu::Pipelines> pipelines_; // with reports
    std::map<std::string, uint64_t> counts_;    // by kernel, constants and subgroup size
    mutable bool changed_ = false;
};

} // namespace hekla::program
