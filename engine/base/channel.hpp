// One end of a socket between two processes. A message is a kind and bytes of a bounded size.
#pragma once

#include "base/file_handle.hpp"
#include "base/status.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace hekla {

struct Message {
    uint32_t kind = 0;
    std::string bytes; // aligned as WireReader requires
};

// One end of the socket. Thread: one at a time.
class Channel {
public:
    using Clock = std::chrono::steady_clock;
    static constexpr uint64_t kMostBytes = uint64_t{1} << 30; // of one message
    static constexpr uint32_t kMagic = 0x4d4b4c48;            // "HLKM", before the kind and the size of every message

    explicit Channel(FileHandle socket) : socket_(std::move(socket)) {}

    // Errors: cancelled (the deadline has passed), io (the other end is closed), corrupt (the bytes are not a message,
    // or it is too long). receive() allocates for bytes that arrived, not for those that a header announces.
    Status send(uint32_t kind, std::string_view bytes, Clock::time_point deadline = Clock::time_point::max());
    Result<Message> receive(Clock::time_point deadline = Clock::time_point::max());
    // Sends a message without bytes if that is possible at once. A signal handler may call it.
    static void send_at_crash(NativeFile socket, uint32_t kind);
    // Calls `readable` whenever `file` can be read while this waits, until it returns false.
    void watch(NativeFile file, std::function<bool()> readable) {
        watched_ = file;
        readable_ = std::move(readable);
    }
    NativeFile socket() const { return socket_.get(); }
    void close() { socket_.close(); }

private:
    enum class Need : uint8_t { read, write };
    Status wait(Need need, Clock::time_point deadline);
    Status read(char* into, std::size_t size, Clock::time_point deadline);
    FileHandle socket_;
    NativeFile watched_ = FileHandle::kNone;
    std::function<bool()> readable_;
};

} // namespace hekla
