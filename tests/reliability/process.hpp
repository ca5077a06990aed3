// The program as a process that can be killed, limited and sent signals.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <sys/types.h>
#include <vector>

namespace hekla::test {

struct Ended {
    int status = -1; // the exit status; 128 + n after signal n
    std::string out, err;
};

struct Surroundings {
    std::map<std::string, std::string> environment = {}; // added to this process's
    bool nobody = false;                                 // runs as a user without privileges (requires root)
    std::string program = {};                            // another program than hekla, by its path
};

// A folder for one test case, deleted by the destructor.
class Folder {
public:
    Folder();
    ~Folder();
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;

    const std::filesystem::path& root() const { return root_; }
    std::filesystem::path path(const std::string& name) const { return root_ / name; }
    void write(const std::string& name, const std::string& content) const;
    std::string read(const std::string& name) const;
    bool exists(const std::string& name) const { return std::filesystem::exists(path(name)); }
    // Lists the names below `name`, sorted, with sizes and times: an equal list means that nothing changed.
    std::string listing(const std::string& name) const;

private:
    std::filesystem::path root_;
};

// A running hekla whose current folder is the given one. Caches are shared by the whole test run.
class Process {
public:
    Process(const Folder& folder, const std::vector<std::string>& arguments, const Surroundings& surroundings = {});
    ~Process(); // kills it if it still runs
    Process(const Process&) = delete;
    Process& operator=(const Process&) = delete;

    void send(int signal) const;
    bool running();
    // Waits until it has a handler for the signal, at most a minute. Returns false if it has none by then, or ended.
    bool wait_until_handled(int signal);
    Ended wait(double seconds = 600.0); // kills it afterwards: status 128 + SIGKILL
    pid_t id() const { return id_; }
    std::string errors() const; // standard error so far

private:
    void collect(int status);
    pid_t id_ = -1;
    bool ended_ = false;
    Ended result_;
    std::filesystem::path out_, err_;
};

Ended run(const Folder& folder, const std::vector<std::string>& arguments, const Surroundings& surroundings = {});

} // namespace hekla::test
