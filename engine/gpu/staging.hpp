// Copies bytes between host and device buffers of any size: directly if the buffer is mapped, otherwise in chunks
// through a host-visible buffer.
#pragma once

#include "gpu/memory.hpp"
#include "gpu/submit.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

namespace hekla::gpu {

// Both copies wait for everything that was submitted to the queue before, and are complete on return. Thread: any.
class Staging {
public:
    // `chunk_bytes`: the size of each of the four host buffers (two up, two down), created on first use.
    static Result<std::shared_ptr<Staging>> create(std::shared_ptr<Memory> memory, std::shared_ptr<Queue> queue,
                                                   uint64_t chunk_bytes = uint64_t{8} << 20);

    // Creates the buffers now.
    Status reserve();

    Status upload(const Buffer& destination, uint64_t offset, std::span<const std::byte> bytes);
    struct Part {
        const Buffer* destination = nullptr;
        uint64_t offset = 0;
        std::span<const std::byte> bytes;
    };
    // Many small copies in few submissions, each of at most kSubmitted bytes, so that a budget can be kept.
    Status upload(std::span<const Part> parts);
    static constexpr uint64_t kSubmitted = uint64_t{512} << 10;
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
    // One of two alternating buffers, so that copying on the host and on the device overlap.
    struct Lane {
        Buffer up;
        Buffer down;
        CommandBuffer commands;
        uint64_t value = 0; // of the queue's timeline, when it can be reused
    };
    Status prepare();
    Status upload_parts(std::span<const Part> parts);
    Status upload_chunks(const Buffer& destination, uint64_t offset, std::span<const std::byte> bytes);
    Status download_chunks(const Buffer& source, uint64_t offset, std::span<std::byte> bytes);
    Status settle_on_error(Status status);

    std::shared_ptr<Memory> memory_;
    std::shared_ptr<Queue> queue_;
    uint64_t chunk_bytes_ = 0;
    std::mutex mutex_;
    std::shared_ptr<CommandPool> pool_;
    std::array<Lane, 2> lanes_;
};

} // namespace hekla::gpu
