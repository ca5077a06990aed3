// Exchanges of bytes between the ranks of a training, over a host's hk_communicator.
#pragma once

#include "base/status.hpp"
#include "hekla/communicator.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace hekla::exchange {

// Bytes and seconds of exchanges with other ranks.
struct Traffic {
    uint64_t sent = 0;
    uint64_t received = 0;
    double seconds = 0.0; // in which this rank waited
    Traffic since(const Traffic& earlier) const {
        return {sent - earlier.sent, received - earlier.received, seconds - earlier.seconds};
    }
};

// One rank of a group. Every rank calls the same functions in the same order, or the group hangs until a rank fails.
// Thread: one.
class Communicator {
public:
    Communicator() = default; // a single rank, which exchanges with itself
    // The struct and what it refers to must outlive this.
    explicit Communicator(const hk_communicator& seam) : seam_(&seam) {}

    int32_t rank() const { return seam_ != nullptr ? seam_->rank : 0; }
    int32_t size() const { return seam_ != nullptr ? seam_->size : 1; }

    // Sets what messages call each rank, "rank 2 (host b, process 4711)", and which ranks share a process.
    void set_names(std::vector<std::string> names, std::vector<std::string> processes) {
        names_ = std::move(names);
        processes_ = std::move(processes);
    }
    std::string name(int32_t rank) const;

    // Exchanges one part with each rank, and waits for it. If a rank ended: io, with its name and reason, on the lowest
    // rank that is left, and cancelled on all others, so that one of them reports it.
    Status exchange(std::span<const hk_exchange_part> parts);
    // The same in two steps, between which other exchanges may begin: the bytes stay as they are until finish().
    Result<uint64_t> begin(std::span<const hk_exchange_part> parts);
    Status finish(uint64_t number);

    // Replaces `bytes` by those of rank 0.
    Status broadcast(std::vector<std::byte>& bytes);
    // The same for a value of the same type on every rank.
    template<class T>
    Status broadcast(T& value) {
        static_assert(std::is_trivially_copyable_v<T>);
        return broadcast_fixed(std::as_writable_bytes(std::span(&value, 1)));
    }
    // The same for as many bytes on every rank.
    Status broadcast_fixed(std::span<std::byte> bytes);
    // Returns the bytes of every rank, by rank.
    Result<std::vector<std::vector<std::byte>>> gather(std::span<const std::byte> own);

    // Tells the other ranks that this one ends. Only the first call does something.
    void fail(const Status& why);

    const Traffic& traffic() const { return traffic_; }

private:
    Status ended(int32_t lost, const std::string& why) const;
    int32_t first_without(int32_t lost) const; // the lowest rank of another process
    const hk_communicator* seam_ = nullptr;
    uint64_t next_ = 0; // number of the next exchange
    bool failed_ = false;
    std::vector<std::string> names_;     // by rank; empty: only their numbers are known
    std::vector<std::string> processes_; // by rank; empty: each has its own
    Traffic traffic_;
};

// Copies values to and from bytes that are exchanged.
template<class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T>);
    return std::as_bytes(std::span(values));
}
template<class T>
Result<std::vector<T>> values_of(std::span<const std::byte> bytes) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (bytes.size() % sizeof(T) != 0) return internal_error("the ranks exchanged values of different sizes");
    std::vector<T> values(bytes.size() / sizeof(T));
    if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
}

} // namespace hekla::exchange
