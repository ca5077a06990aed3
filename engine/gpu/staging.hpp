// Bytes between host and device buffers of any size: a plain copy where the buffer is mapped, else in chunks through
// one host-visible buffer.
#pragma once

#include "gpu/memory.hpp"
#include "gpu/submit.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

namespace hekla::gpu {

// Both calls wait for everything that was submitted to the queue before, and are done when they return. Thread: any.
class Staging {
public:
    // `chunk_bytes`: the size of each of the two host buffers, made on first use.
    static Result<std::shared_ptr<Staging>> create(std::shared_ptr<Memory> memory, std::shared_ptr<Queue> queue,
                                                   uint64_t chunk_bytes = uint64_t{8} << 20);

    Status upload(const Buffer& destination, uint64_t offset, std::span<const std::byte> bytes);
    Status download(const Buffer& source, uint64_t offset, std::span<std::byte> bytes);
    // Offset and bytes are multiples of 4.
    Status fill(const Buffer& destination, uint64_t offset, uint64_t bytes, uint32_t word);

    template<class T>
    Status upload(const Buffer& destination, uint64_t offset, std::span<const T> values) {
        return upload(destination, offset, std::as_bytes(values));
    }
    template<class T>
    Status download(const Buffer& source, uint64_t offset, std::span<T> values) {
        return download(source, offset, std::as_writable_bytes(values));
    }

private:
    Staging() = default;
    Status prepare();
    Status copy_and_wait(const Buffer& source, uint64_t source_offset, const Buffer& destination,
                         uint64_t destination_offset, uint64_t bytes);

    std::shared_ptr<Memory> memory_;
    std::shared_ptr<Queue> queue_;
    uint64_t chunk_bytes_ = 0;
    std::mutex mutex_;
    Buffer to_device_;
    Buffer to_host_;
    std::shared_ptr<CommandPool> pool_;
};

} // namespace hekla::gpu
