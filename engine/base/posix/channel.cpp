#include "base/channel.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

namespace hekla {
namespace {

struct Header {
    uint32_t magic = Channel::kMagic;
    uint32_t kind = 0;
    uint64_t size = 0;
};

Status gone() { return io_error("the other process does not listen any more"); }

} // namespace

Status Channel::wait(Need need, Clock::time_point deadline) {
    const short events = need == Need::read ? POLLIN : POLLOUT;
    while (true) {
        int milliseconds = -1;
        if (deadline != Clock::time_point::max()) {
            const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
            if (left < 0) return Status(Code::cancelled, "the time is over");
            milliseconds = static_cast<int>(std::min<int64_t>(left + 1, 60'000));
        }
        std::array<pollfd, 2> open{pollfd{socket_.get(), events, 0}, pollfd{watched_, POLLIN, 0}};
        const int ready = ::poll(open.data(), open.size(), milliseconds);
        if (ready < 0 && errno != EINTR) return io_error(fmt::format("poll: {}", std::strerror(errno)));
        if (ready <= 0) continue;
        if (open[1].revents != 0 && !readable_()) watched_ = FileHandle::kNone;
        if (open[0].revents != 0) return {};
    }
}

Status Channel::send(uint32_t kind, std::string_view bytes, Clock::time_point deadline) {
    if (bytes.size() > kMostBytes)
        return unsupported(
            fmt::format("a message of {} bytes to another process, at most {} are possible", bytes.size(), kMostBytes));
    const Header header{kMagic, kind, bytes.size()};
    for (std::string_view rest :
         {std::string_view(reinterpret_cast<const char*>(&header), sizeof header), std::string_view(bytes)})
        while (!rest.empty()) {
            const ssize_t sent = ::send(socket_.get(), rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
            if (sent >= 0) {
                rest.remove_prefix(static_cast<std::size_t>(sent));
            } else if (errno == EAGAIN) {
                HK_TRY(wait(Need::write, deadline));
            } else if (errno != EINTR) {
                return gone();
            }
        }
    return {};
}

void Channel::send_at_crash(NativeFile socket, uint32_t kind) {
    const Header header{kMagic, kind, 0};
    static_cast<void>(!::send(socket, &header, sizeof header, MSG_NOSIGNAL | MSG_DONTWAIT));
}

Status Channel::read(char* into, std::size_t size, Clock::time_point deadline) {
    while (size > 0) {
        HK_TRY(wait(Need::read, deadline));
        const ssize_t got = ::recv(socket_.get(), into, size, MSG_DONTWAIT);
        if (got > 0) {
            into += got;
            size -= static_cast<std::size_t>(got);
        } else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
            return gone();
        }
    }
    return {};
}

Result<Message> Channel::receive(Clock::time_point deadline) {
    Header header;
    HK_TRY(read(reinterpret_cast<char*>(&header), sizeof header, deadline));
    if (header.magic != kMagic || header.size > kMostBytes)
        return corrupt("the data from the other process is not a message");
    Message message;
    message.kind = header.kind;
    constexpr std::size_t kStep = std::size_t{1} << 20;
    while (message.bytes.size() < header.size) {
        const std::size_t before = message.bytes.size();
        message.bytes.resize(before + std::min<std::size_t>(std::max(kStep, before), header.size - before));
        HK_TRY(read(message.bytes.data() + before, message.bytes.size() - before, deadline));
    }
    return message;
}

} // namespace hekla
