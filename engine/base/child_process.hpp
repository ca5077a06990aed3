// A child process with a message socket. A crash or a hang there does not affect this process.
#pragma once

#include "base/channel.hpp"

#include <filesystem>
#include <memory>
#include <vector>

namespace hekla {

// How a process ended.
struct ProcessEnd {
    int status = -1; // exit status; -1 if a signal ended it, or if it is unknown
    int signal = 0;  // the signal that ended it; 0: none
};

// Returns "SIGSEGV (Segmentation fault)".
std::string signal_text(int signal);

// Memory shared by two processes, which only grows. The host creates it and passes the handle on. Thread: one at a
// time.
class SharedMemory {
public:
    static Result<SharedMemory> make(); // of size 0
    static Result<SharedMemory> of(FileHandle handle);
    SharedMemory() = default;
    SharedMemory(SharedMemory&& other) noexcept;
    SharedMemory& operator=(SharedMemory&& other) noexcept;
    ~SharedMemory();

    NativeFile handle() const { return handle_.get(); }
    // Map at least `size` bytes; earlier addresses become invalid. grow(): for the creator, extends the memory; map():
    // for the other side, maps the existing memory.
    Status grow(std::size_t size);
    Status map(std::size_t size);
    std::byte* data() const { return data_; }
    std::size_t size() const { return size_; }

private:
    void unmap();
    FileHandle handle_;
    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
};

// A running program with a message socket. Thread: one at a time.
class ChildProcess {
public:
    static constexpr NativeFile kSocket = 3, kMemory = 4; // the program's handles

    // Starts the program in a new process group, with /dev/null as its standard input, default signal handlers, and its
    // output and errors passed to `say` line by line. arguments: without the program's name. Errors: it cannot be
    // started.
    static Result<std::unique_ptr<ChildProcess>> start(const std::filesystem::path& program,
                                                       const std::vector<std::string>& arguments,
                                                       std::function<void(std::string_view line)> say);
    ~ChildProcess(); // closes the socket, which ends the program; kills it if it has not ended within two seconds
    ChildProcess(const ChildProcess&) = delete;
    ChildProcess& operator=(const ChildProcess&) = delete;

    Channel& channel() { return channel_; }
    SharedMemory& memory() { return memory_; }
    // Returns how the process ended; if it has not, kills it with all its child processes.
    ProcessEnd end();
    const std::string& last_words() const { return last_words_; } // the last part of its output and errors

private:
    ChildProcess(int64_t id, FileHandle socket, FileHandle output, SharedMemory memory,
                 std::function<void(std::string_view)> say);
    bool read_output();
    bool collect(double seconds);
    int64_t id_; // the system's number of the process
    Channel channel_;
    FileHandle output_;
    SharedMemory memory_;
    std::function<void(std::string_view)> say_;
    std::string line_, last_words_;
    std::size_t printed_ = 0; // bytes passed to say_
    bool ended_ = false;
    bool taken_ = false; // its status, by another part of the program
    ProcessEnd end_;
};

} // namespace hekla
