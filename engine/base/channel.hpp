// One end of a socket between two processes, and messages over it: a kind, and bytes of a bounded size.
#pragma once

#include "base/descriptor.hpp"
#include "base/status.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace hekla {

struct Message {
    uint32_t kind = 0;
    std::string bytes; // aligned as WireReader wants it
};

// Thread: one at a time.
class Channel {
public:
    using Clock = std::chrono::steady_clock;
    static constexpr uint64_t kMostBytes = uint64_t{1} << 30; // of one message
    static constexpr uint32_t kMagic = 0x4d4b4c48;            // "HLKM", before the kind and the size of every message

    explicit Channel(Descriptor socket) : socket_(std::move(socket)) {}

    // Errors: cancelled (the deadline has passed), io (nobody listens any more), corrupt (no message: what came is of
    // another kind of bytes, or too long). Memory is taken for bytes that came, never for those that were promised.
    // while_waiting, if given, is asked for another descriptor to watch (-1: none) and called when it can be read.
    Status send(uint32_t kind, std::string_view bytes, Clock::time_point deadline = Clock::time_point::max());
    Result<Message> receive(Clock::time_point deadline = Clock::time_point::max());
    void watch(int descriptor, std::function<bool()> readable) {
        watched_ = descriptor;
        readable_ = std::move(readable);
    }
    int socket() const { return socket_.get(); }
    void close() { socket_.close(); }

private:
    Status wait(short events, Clock::time_point deadline);
    Status read(char* into, std::size_t size, Clock::time_point deadline);
    Descriptor socket_;
    int watched_ = -1;
    std::function<bool()> readable_; // false: nothing more comes
};

} // namespace hekla
