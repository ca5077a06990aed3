// A program of ours in a process of its own, spoken with over a socket: what it does to itself, or never finishes,
// stays with it.
#pragma once

#include "base/channel.hpp"

#include <filesystem>
#include <memory>
#include <sys/types.h>
#include <vector>

namespace hekla {

// How a process ended.
struct ProcessEnd {
    int status = -1; // what it exited with; -1 where a signal ended it, or nobody knows
    int signal = 0;
};

// "SIGSEGV (Segmentation fault)"
std::string signal_text(int signal);

// Memory of two processes, which only grows. Its maker (the host) hands the descriptor on. Thread: one at a time.
class SharedMemory {
public:
    static Result<SharedMemory> make(); // nothing of it yet
    static Result<SharedMemory> of(Descriptor descriptor);
    SharedMemory() = default;
    SharedMemory(SharedMemory&& other) noexcept;
    SharedMemory& operator=(SharedMemory&& other) noexcept;
    ~SharedMemory();

    int descriptor() const { return descriptor_.get(); }
    // At least so many bytes, mapped; addresses from before are no more. grow: the maker's; map: the other side's, of
    // what there is already.
    Status grow(std::size_t size);
    Status map(std::size_t size);
    std::byte* data() const { return data_; }
    std::size_t size() const { return size_; }

private:
    void unmap();
    Descriptor descriptor_;
    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
};

// Thread: one at a time.
class ChildProcess {
public:
    static constexpr int kSocket = 3, kMemory = 4; // the descriptors that the program finds

    // Starts it in a process group of its own, with nothing to read, every signal as usual, and its output and errors
    // coming to `say`, line by line. arguments: without the program's name. Errors: it cannot be started.
    static Result<std::unique_ptr<ChildProcess>> start(const std::filesystem::path& program,
                                                       const std::vector<std::string>& arguments,
                                                       std::function<void(std::string_view line)> say);
    ~ChildProcess(); // the socket is closed, which ends it; killed where it is not gone within two seconds
    ChildProcess(const ChildProcess&) = delete;
    ChildProcess& operator=(const ChildProcess&) = delete;

    Channel& channel() { return channel_; }
    SharedMemory& memory() { return memory_; }
    // Killed, with all that it started, where it has not ended by itself.
    ProcessEnd end();
    const std::string& last_words() const { return last_words_; } // of its output and errors

private:
    ChildProcess(pid_t id, Descriptor socket, Descriptor output, SharedMemory memory,
                 std::function<void(std::string_view)> say);
    bool read_output();
    bool collect(double seconds);
    pid_t id_;
    Channel channel_;
    Descriptor output_;
    SharedMemory memory_;
    std::function<void(std::string_view)> say_;
    std::string line_, last_words_;
    std::size_t said_ = 0;
    bool ended_ = false;
    ProcessEnd end_;
};

} // namespace hekla
