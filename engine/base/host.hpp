// The process, its threads and the machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

namespace hekla {

int64_t process_id();      // differs in a forked child
std::string host_name();   // "unknown" if the system does not report it
std::string system_name(); // "Linux-x86_64"; "unknown" if the system does not report it

// Returns whether this process may run the file.
bool is_executable(const std::filesystem::path& file);
// Sets a variable of the environment. Thread: no other may read the environment meanwhile.
void set_environment(const char* name, const std::string& value);

// Blocks all signals of the calling thread, and of threads that it creates, until it is destroyed on that thread.
class BlockedSignals {
public:
    BlockedSignals();
    ~BlockedSignals();
    BlockedSignals(const BlockedSignals&) = delete;
    BlockedSignals& operator=(const BlockedSignals&) = delete;

private:
    struct State;
    std::unique_ptr<State> before_;
};

bool is_terminal(std::FILE* stream);
std::size_t terminal_columns(std::FILE* stream); // 0 if it is unknown

// name: at most 15 bytes, shown by debuggers.
void name_this_thread(const char* name);
std::size_t thread_count(); // of this process

// Makes heap_bytes() count the allocations of threads that are created later. Call it before there are any.
void share_one_heap();
std::size_t heap_bytes(); // allocated and not freed, in the main heap of this process
// The most physical memory that this process has used, in bytes; 0 if the system does not report it.
uint64_t peak_memory_bytes();

} // namespace hekla
