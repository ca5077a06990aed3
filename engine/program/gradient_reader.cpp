#include "program/gradient_reader.hpp"

#include "program/parameter_store.hpp"
#include "program/runtime.hpp"

#include <algorithm>
#include <cstring>

namespace hekla::program {

Result<std::unique_ptr<GradientReader>> GradientReader::create(Runtime& runtime, const ParameterStore& store,
                                                               std::vector<ElementRange> ranges) {
    std::unique_ptr<GradientReader> reader(new GradientReader);
    reader->runtime_ = &runtime;
    reader->store_ = &store;
    reader->ranges_ = std::move(ranges);
    const auto buffer = [&](const ElementRange& range) -> const gpu::Buffer& {
        return store.buffer(StoreArena::gradients, range.chunk);
    };
    uint64_t bytes = 0;
    for (const ElementRange& range : reader->ranges_) {
        reader->places_.push_back(bytes);
        bytes += range.count * sizeof(float);
    }
    if (std::ranges::all_of(reader->ranges_, [&](const ElementRange& range) { return buffer(range).mapped(); }))
        return reader;
    HK_ASSIGN(reader->readback_,
              runtime.gpu().memory->create_buffer(bytes, gpu::Residence::readback, "gradients on their way"));
    HK_ASSIGN(reader->pool_, gpu::CommandPool::create(runtime.gpu().device));
    for (std::size_t i = 0; i < reader->ranges_.size(); ++i) {
        const ElementRange& range = reader->ranges_[i];
        HK_ASSIGN(gpu::CommandBuffer commands, reader->pool_->allocate(gpu::Level::secondary));
        HK_TRY(commands.begin());
        commands.barrier();
        commands.copy(buffer(range), range.first * sizeof(float), reader->readback_, reader->places_[i],
                      range.count * sizeof(float));
        HK_TRY(commands.end());
        reader->copies_.push_back(std::move(commands));
    }
    return reader;
}

GradientReader::~GradientReader() {
    if (runtime_ != nullptr) static_cast<void>(runtime_->gpu().queue->wait_all()); // its commands may be pending
}

Status GradientReader::read(std::size_t range, uint64_t value, std::span<float> to) const {
    HK_TRY(runtime_->gpu().queue->wait(value));
    const ElementRange& elements = ranges_[range];
    const gpu::Buffer& from = copies_.empty() ? store_->buffer(StoreArena::gradients, elements.chunk) : readback_;
    const uint64_t at = copies_.empty() ? elements.first * sizeof(float) : places_[range];
    HK_TRY(from.invalidate(at, to.size_bytes()));
    std::memcpy(to.data(), from.host().data() + at, to.size_bytes());
    return {};
}

} // namespace hekla::program
