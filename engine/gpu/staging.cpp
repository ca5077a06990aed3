#include "gpu/staging.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace hekla::gpu {

namespace {

Status check_range(const char* what, const Buffer& buffer, uint64_t offset, uint64_t bytes) {
    if (buffer && offset <= buffer.bytes() && bytes <= buffer.bytes() - offset) return {};
    return internal_error(fmt::format("{} of {} bytes at {} of buffer \"{}\", which has {}", what, bytes, offset,
                                      buffer.name(), buffer.bytes()));
}

// Estimates the duration of a copy.
double seconds_of(uint64_t bytes) { return static_cast<double>(bytes) / 5e9; }

} // namespace

Result<std::shared_ptr<Staging>> Staging::create(std::shared_ptr<Memory> memory, std::shared_ptr<Queue> queue,
                                                 uint64_t chunk_bytes) {
    if (chunk_bytes < 256 || chunk_bytes % 256 != 0)
        return invalid_argument(fmt::format("staging chunks of {} bytes: a multiple of 256", chunk_bytes));
    auto staging = std::shared_ptr<Staging>(new Staging);
    staging->chunk_bytes_ = std::min(chunk_bytes, std::max<uint64_t>(memory->max_buffer_bytes() / 256, 1) * 256);
    staging->memory_ = std::move(memory);
    staging->queue_ = std::move(queue);
    return staging;
}

Status Staging::prepare() {
    if (pool_) return {};
    const auto residence = [](bool up) { return up ? Residence::upload : Residence::readback; };
    std::array<Lane, 2> lanes;
    HK_ASSIGN(std::shared_ptr<CommandPool> pool, CommandPool::create(queue_->device()));
    for (Lane& lane : lanes) {
        HK_ASSIGN(lane.up, memory_->create_buffer(chunk_bytes_, residence(true), "staging upload"));
        HK_ASSIGN(lane.down, memory_->create_buffer(chunk_bytes_, residence(false), "staging readback"));
        HK_ASSIGN(lane.commands, pool->allocate(Level::secondary));
    }
    lanes_ = std::move(lanes);
    pool_ = std::move(pool);
    return {};
}

Status Staging::reserve() {
    const std::lock_guard guard(mutex_);
    return prepare();
}

Status Staging::settle_on_error(Status status) {
    // Copies of earlier chunks may still be running, so wait before anything is reused.
    if (!status.ok()) queue_->settle_after(queue_->wait_all());
    for (Lane& lane : lanes_) lane.value = 0;
    return status;
}

Status Staging::upload(const Buffer& destination, uint64_t offset, std::span<const std::byte> bytes) {
    HK_TRY(check_range("upload", destination, offset, bytes.size()));
    if (bytes.empty()) return {};
    const std::lock_guard guard(mutex_);
    HK_TRY(queue_->wait_all());
    if (destination.mapped()) {
        std::memcpy(destination.host().data() + offset, bytes.data(), bytes.size());
        return destination.flush(offset, bytes.size());
    }
    HK_TRY(prepare());
    return settle_on_error(upload_chunks(destination, offset, bytes));
}

Status Staging::upload_chunks(const Buffer& destination, uint64_t offset, std::span<const std::byte> bytes) {
    for (uint64_t at = 0; at < bytes.size(); at += chunk_bytes_) {
        // The host fills one lane while the device empties the other.
        Lane& lane = lanes_[at / chunk_bytes_ % 2];
        if (lane.value != 0) HK_TRY(queue_->wait(lane.value));
        const uint64_t count = std::min<uint64_t>(chunk_bytes_, bytes.size() - at);
        std::memcpy(lane.up.host().data(), bytes.data() + at, static_cast<std::size_t>(count));
        HK_TRY(lane.up.flush(0, count));
        HK_TRY(lane.commands.begin());
        lane.commands.copy(lane.up, 0, destination, offset + at, count);
        HK_TRY(lane.commands.end());
        HK_ASSIGN(lane.value, queue_->submit(lane.commands, seconds_of(count)));
    }
    return queue_->wait_all();
}

Status Staging::upload(std::span<const Part> parts) {
    for (const Part& part : parts) HK_TRY(check_range("upload", *part.destination, part.offset, part.bytes.size()));
    const std::lock_guard guard(mutex_);
    HK_TRY(queue_->wait_all());
    if (std::ranges::all_of(parts, [](const Part& part) { return part.destination->mapped(); })) {
        for (const Part& part : parts) {
            std::memcpy(part.destination->host().data() + part.offset, part.bytes.data(), part.bytes.size());
            HK_TRY(part.destination->flush(part.offset, part.bytes.size()));
        }
        return {};
    }
    HK_TRY(prepare());
    return settle_on_error(upload_parts(parts));
}

Status Staging::upload_parts(std::span<const Part> parts) {
    const uint64_t most = std::min(chunk_bytes_, kSubmitted);
    uint64_t filled = 0;
    std::size_t number = 0;
    const auto submit = [&]() -> Status {
        Lane& lane = lanes_[number++ % 2];
        HK_TRY(lane.up.flush(0, filled));
        HK_TRY(lane.commands.end());
        HK_ASSIGN(lane.value, queue_->submit(lane.commands, seconds_of(filled)));
        filled = 0;
        return {};
    };
    for (const Part& part : parts)
        for (uint64_t at = 0; at < part.bytes.size();) {
            Lane& lane = lanes_[number % 2];
            if (filled == 0) {
                if (lane.value != 0) HK_TRY(queue_->wait(lane.value));
                HK_TRY(lane.commands.begin());
            }
            const uint64_t count = std::min<uint64_t>(most - filled, part.bytes.size() - at);
            std::memcpy(lane.up.host().data() + filled, part.bytes.data() + at, static_cast<std::size_t>(count));
            lane.commands.copy(lane.up, filled, *part.destination, part.offset + at, count);
            filled += count;
            at += count;
            if (filled == most) HK_TRY(submit());
        }
    if (filled > 0) HK_TRY(submit());
    return queue_->wait_all();
}

Status Staging::download(const Buffer& source, uint64_t offset, std::span<std::byte> bytes) {
    HK_TRY(check_range("download", source, offset, bytes.size()));
    if (bytes.empty()) return {};
    const std::lock_guard guard(mutex_);
    HK_TRY(queue_->wait_all());
    if (source.mapped()) {
        HK_TRY(source.invalidate(offset, bytes.size()));
        std::memcpy(bytes.data(), source.host().data() + offset, bytes.size());
        return {};
    }
    HK_TRY(prepare());
    return settle_on_error(download_chunks(source, offset, bytes));
}

Status Staging::download_chunks(const Buffer& source, uint64_t offset, std::span<std::byte> bytes) {
    const uint64_t chunks = (bytes.size() + chunk_bytes_ - 1) / chunk_bytes_;
    const auto size_of = [&](uint64_t chunk) {
        return std::min<uint64_t>(chunk_bytes_, bytes.size() - chunk * chunk_bytes_);
    };
    // One chunk ahead: the device fills one lane while the host empties the other.
    for (uint64_t chunk = 0; chunk <= chunks; ++chunk) {
        if (chunk < chunks) {
            Lane& lane = lanes_[chunk % 2];
            HK_TRY(lane.commands.begin());
            lane.commands.copy(source, offset + chunk * chunk_bytes_, lane.down, 0, size_of(chunk));
            HK_TRY(lane.commands.end());
            HK_ASSIGN(lane.value, queue_->submit(lane.commands, seconds_of(size_of(chunk))));
        }
        if (chunk > 0) {
            const Lane& lane = lanes_[(chunk - 1) % 2];
            HK_TRY(queue_->wait(lane.value));
            HK_TRY(lane.down.invalidate(0, size_of(chunk - 1)));
            std::memcpy(bytes.data() + (chunk - 1) * chunk_bytes_, lane.down.host().data(),
                        static_cast<std::size_t>(size_of(chunk - 1)));
        }
    }
    return {};
}

Status Staging::fill(const Buffer& destination, uint64_t offset, uint64_t bytes, uint32_t word) {
    HK_TRY(check_range("fill", destination, offset, bytes));
    if (offset % 4 != 0 || bytes % 4 != 0)
        return invalid_argument(fmt::format("fill of {} bytes at {}: multiples of 4", bytes, offset));
    if (bytes == 0) return {};
    const std::lock_guard guard(mutex_);
    HK_TRY(queue_->wait_all());
    if (destination.mapped()) {
        std::byte* to = destination.host().data() + offset;
        for (uint64_t at = 0; at < bytes; at += 4) std::memcpy(to + at, &word, 4);
        return destination.flush(offset, bytes);
    }
    HK_TRY(prepare());
    Lane& lane = lanes_[0];
    HK_TRY(lane.commands.begin());
    lane.commands.fill(destination, offset, bytes, word);
    HK_TRY(lane.commands.end());
    HK_TRY(queue_->submit(lane.commands, seconds_of(bytes)).status());
    return queue_->wait_all();
}

} // namespace hekla::gpu
