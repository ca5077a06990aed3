#include "base/child_process.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace hekla {
namespace {

constexpr std::size_t kMostOutput = std::size_t{1} << 16; // bytes of one program's output; the rest is dropped
constexpr std::size_t kLastWords = 600;

std::string with_reason(const char* what) { return fmt::format("{}: {}", what, std::strerror(errno)); }

// Returns the file under a number above those that the child uses.
FileHandle above_childs_own(FileHandle file) { return FileHandle(::fcntl(file.get(), F_DUPFD_CLOEXEC, 16)); }

// The arguments of posix_spawn, freed with the object.
struct SpawnActions {
    SpawnActions() { ::posix_spawn_file_actions_init(&files), ::posix_spawnattr_init(&attributes); }
    ~SpawnActions() { ::posix_spawn_file_actions_destroy(&files), ::posix_spawnattr_destroy(&attributes); }
    SpawnActions(const SpawnActions&) = delete;
    SpawnActions& operator=(const SpawnActions&) = delete;
    posix_spawn_file_actions_t files{};
    posix_spawnattr_t attributes{};
};

} // namespace

std::string signal_text(int signal) {
    const char* name = ::sigabbrev_np(signal);
    const char* text = ::sigdescr_np(signal);
    return fmt::format("{}{} ({})", name != nullptr ? "SIG" : "signal ",
                       name != nullptr ? name : std::to_string(signal), text != nullptr ? text : "unknown");
}

Result<SharedMemory> SharedMemory::make() {
    SharedMemory memory;
    memory.handle_ = above_childs_own(FileHandle(::memfd_create("hekla", MFD_CLOEXEC | MFD_ALLOW_SEALING)));
    // Without the seal the other side could shrink it, and reading here would raise SIGBUS.
    if (memory.handle_.get() < 0 || ::fcntl(memory.handle_.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0)
        return io_error(with_reason("cannot create shared memory"));
    return memory;
}

Result<SharedMemory> SharedMemory::of(FileHandle handle) {
    SharedMemory memory;
    memory.handle_ = std::move(handle);
    return memory;
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : handle_(std::move(other.handle_)), data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
    if (this != &other) {
        unmap();
        handle_ = std::move(other.handle_);
        data_ = std::exchange(other.data_, nullptr);
        size_ = std::exchange(other.size_, 0);
    }
    return *this;
}

SharedMemory::~SharedMemory() { unmap(); }

void SharedMemory::unmap() {
    if (data_ != nullptr) ::munmap(data_, size_);
    data_ = nullptr;
    size_ = 0;
}

Status SharedMemory::grow(std::size_t size) {
    if (size <= size_) return {};
    std::size_t whole = std::size_t{1} << 16;
    while (whole < size) whole *= 2;
    if (::ftruncate(handle_.get(), static_cast<off_t>(whole)) != 0)
        return out_of_memory(with_reason(fmt::format("cannot extend the shared memory to {} bytes", whole).c_str()));
    return map(whole);
}

Status SharedMemory::map(std::size_t size) {
    if (size <= size_) return {};
    struct stat info {};
    if (::fstat(handle_.get(), &info) != 0 || info.st_size < static_cast<off_t>(size))
        return corrupt(fmt::format("the shared memory has fewer than {} bytes", size));
    unmap();
    void* const data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, handle_.get(), 0);
    if (data == MAP_FAILED)
        return out_of_memory(with_reason(fmt::format("cannot map {} bytes of shared memory", size).c_str()));
    data_ = static_cast<std::byte*>(data);
    size_ = size;
    return {};
}

Result<std::unique_ptr<ChildProcess>> ChildProcess::start(const std::filesystem::path& program,
                                                          const std::vector<std::string>& arguments,
                                                          std::function<void(std::string_view)> say) {
    std::array<int, 2> sockets{-1, -1}, pipes{-1, -1};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0)
        return io_error(with_reason("cannot create a socket"));
    FileHandle ours(sockets[0]);
    const FileHandle theirs = above_childs_own(FileHandle(sockets[1]));
    if (::pipe2(pipes.data(), O_CLOEXEC) != 0) return io_error(with_reason("cannot create a pipe"));
    FileHandle output(pipes[0]);
    const FileHandle output_end = above_childs_own(FileHandle(pipes[1]));
    if (theirs.get() < 0 || output_end.get() < 0) return io_error(with_reason("cannot duplicate a descriptor"));
    ::fcntl(output.get(), F_SETFL, O_NONBLOCK);
    HK_ASSIGN(SharedMemory memory, SharedMemory::make());

    SpawnActions actions;
    ::posix_spawn_file_actions_addopen(&actions.files, 0, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions.files, output_end.get(), 1);
    ::posix_spawn_file_actions_adddup2(&actions.files, output_end.get(), 2);
    ::posix_spawn_file_actions_adddup2(&actions.files, theirs.get(), kSocket);
    ::posix_spawn_file_actions_adddup2(&actions.files, memory.handle(), kMemory);
    sigset_t none, all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&actions.attributes, &none);
    ::posix_spawnattr_setsigdefault(&actions.attributes, &all);
    ::posix_spawnattr_setpgroup(&actions.attributes, 0); // only the host receives Ctrl+C
    ::posix_spawnattr_setflags(&actions.attributes,
                               POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    std::string name = program.string();
    std::vector<std::string> words = arguments;
    std::vector<char*> raw{name.data()};
    for (std::string& word : words) raw.push_back(word.data());
    raw.push_back(nullptr);
    pid_t id = -1;
    if (const int problem = ::posix_spawn(&id, name.c_str(), &actions.files, &actions.attributes, raw.data(), environ);
        problem != 0)
        return io_error(fmt::format("{} cannot be started: {}", name, std::strerror(problem)));
    return std::unique_ptr<ChildProcess>(
        new ChildProcess(id, std::move(ours), std::move(output), std::move(memory), std::move(say)));
}

ChildProcess::ChildProcess(int64_t id, FileHandle socket, FileHandle output, SharedMemory memory,
                           std::function<void(std::string_view)> say)
    : id_(id), channel_(std::move(socket)), output_(std::move(output)), memory_(std::move(memory)),
      say_(std::move(say)) {
    channel_.watch(output_.get(), [this] { return read_output(); });
}

bool ChildProcess::read_output() {
    std::array<char, 4096> block;
    const ssize_t got = ::read(output_.get(), block.data(), block.size());
    if (got <= 0) return got < 0 && (errno == EAGAIN || errno == EINTR);
    const std::string_view more(block.data(), static_cast<std::size_t>(got));
    last_words_ += more;
    if (last_words_.size() > kLastWords) last_words_.erase(0, last_words_.size() - kLastWords);
    for (const char c : more) {
        if (c != '\n') {
            line_ += c;
            continue;
        }
        if (printed_ < kMostOutput && say_) say_(line_);
        printed_ += line_.size() + 1;
        line_.clear();
    }
    if (line_.size() > kLastWords) line_.resize(kLastWords);
    return true;
}

bool ChildProcess::collect(double seconds) {
    const auto until = Channel::Clock::now() + std::chrono::duration<double>(seconds);
    while (!ended_) {
        int status = 0;
        const pid_t got = ::waitpid(static_cast<pid_t>(id_), &status, WNOHANG);
        if (got == id_ || (got < 0 && errno != EINTR)) {
            ended_ = true;
            // A host that waits for all child processes, or ignores SIGCHLD, has taken the status; the number may be
            // that of another process by now.
            taken_ = got != id_;
            if (got == id_ && WIFEXITED(status)) end_.status = WEXITSTATUS(status);
            if (got == id_ && WIFSIGNALED(status)) end_.signal = WTERMSIG(status);
        } else if (Channel::Clock::now() > until) {
            return false;
        } else {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    }
    return true;
}

ProcessEnd ChildProcess::end() {
    if (!ended_ && !collect(0.0)) {
        // A program that waits for messages ends when the socket is closed; any other is stuck.
        ::shutdown(channel_.socket(), SHUT_RDWR);
        if (!collect(0.2)) {
            ::kill(static_cast<pid_t>(-id_), SIGKILL);
            collect(10.0);
        }
    }
    if (!taken_) ::kill(static_cast<pid_t>(-id_), SIGKILL); // its child processes
    for (errno = 0; read_output() && errno != EAGAIN; errno = 0) {}
    return end_;
}

ChildProcess::~ChildProcess() {
    if (ended_) return;
    channel_.close();
    if (collect(2.0)) return;
    ::kill(static_cast<pid_t>(-id_), SIGKILL);
    collect(10.0);
}

} // namespace hekla
