// Programs that tests run: hekla, unless another is named. Their caches are shared by the whole test run, so that
// kernels are compiled only once.
#pragma once

#include "support/test_folder.hpp"

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace hekla::test {

struct Ran {
    int status = -1; // the exit status; 128 + n after signal n
    std::string out, err;
};
Ran succeed(const Ran& ran); // requires exit status 0

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

using Arguments = std::vector<std::string>;
inline Arguments joined(Arguments all, const Arguments& more) {
    all.insert(all.end(), more.begin(), more.end());
    return all;
}

struct Surroundings {
    std::map<std::string, std::string> environment = {}; // added to this process's
    std::string input = {};                              // standard input
    // The file of standard output, such as /dev/full; "": it is closed; nothing: it is captured in Ran::out.
    std::optional<std::filesystem::path> output = {};
    bool nobody = false;                // runs as a user without privileges (requires root)
    std::filesystem::path program = {}; // another program than hekla
};

// A running program whose current folder is the given one, where it also looks for plugins of the user. It can be
// killed, limited and sent signals.
class Process {
public:
    Process(const std::filesystem::path& folder, const Arguments& arguments, const Surroundings& surroundings = {});
    ~Process(); // kills it if it still runs
    Process(const Process&) = delete;
    Process& operator=(const Process&) = delete;

    void send(int signal) const;
    bool running();
    // Waits until it has a handler for the signal, at most a minute. Returns false if it has none by then, or ended.
    bool wait_until_handled(int signal);
    Ran wait(double seconds = 600.0); // kills it afterwards: status 128 + SIGKILL
    pid_t id() const { return id_; }
    std::string errors() const; // standard error so far

private:
    void collect(int status);
    TestFolder streams_; // files of standard input, output and error
    pid_t id_ = -1;
    bool ended_ = false;
    Ran result_;
};

Ran run(const std::filesystem::path& folder, const Arguments& arguments, const Surroundings& surroundings = {});
// Runs a command of the shell in a folder.
Ran shell(const std::filesystem::path& folder, const std::string& command);

} // namespace hekla::test
