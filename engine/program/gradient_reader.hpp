// Reads gradients of a replay while the rest of it still runs, range by range: see Program::submit_by_range().
#pragma once

#include "gpu/commands.hpp"
#include "program/parameter_store.hpp"

#include <memory>
#include <span>
#include <vector>

namespace hekla::program {

class GradientReader {
public:
    // ranges: of the store's gradient arena, in the order in which they are read. Where the host cannot read the arena,
    // this has a host-visible buffer of the size of all ranges. Runtime and store must outlive this.
    static Result<std::unique_ptr<GradientReader>> create(Runtime& runtime, const ParameterStore& store,
                                                          std::vector<ElementRange> ranges);
    ~GradientReader();
    GradientReader(const GradientReader&) = delete;
    GradientReader& operator=(const GradientReader&) = delete;

    const std::vector<ElementRange>& ranges() const { return ranges_; }
    // Returns the commands that copy a range to the host; null if the host reads the arena.
    const gpu::CommandBuffer* copy(std::size_t range) const { return copies_.empty() ? nullptr : &copies_[range]; }
    // Copies a range, of as many elements, after `value` of the queue's timeline was reached. values: what
    // submit_by_range() returned.
    Status read(std::size_t range, uint64_t value, std::span<float> to) const;

private:
    GradientReader() = default;
    Runtime* runtime_ = nullptr;
    const ParameterStore* store_ = nullptr;
    std::vector<ElementRange> ranges_;
    gpu::Buffer readback_; // of all ranges, one after the other; null if the host reads the arena
    std::vector<uint64_t> places_;
    std::shared_ptr<gpu::CommandPool> pool_;
    std::vector<gpu::CommandBuffer> copies_;
};

} // namespace hekla::program
