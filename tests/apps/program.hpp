// Runs the program as a shell does.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace hekla::test {

struct Ran {
    int status = -1; // the exit status; 128 + n after signal n
    std::string out, err;
};
Ran succeed(const Ran& ran); // requires the exit status 0

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A temporary folder for one test case, which is the program's current folder. Caches are kept for the whole test run,
// so that kernels are compiled once.
class Place {
public:
    Place();
    ~Place();
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    std::filesystem::path path(const std::string& name) const { return folder_ / name; }
    void write(const std::string& name, const std::string& content) const;
    std::string read(const std::string& name) const;
    bool exists(const std::string& name) const;
    // hekla ARGUMENTS..., with `input` on its standard input.
    Ran run(const std::vector<std::string>& arguments, const std::string& input = "") const;
    // The same in another folder.
    Ran run_in(const std::filesystem::path& folder, const std::vector<std::string>& arguments,
               const std::string& input = "") const;
    // The same with another standard output: a file that exists, such as /dev/full, or "" for a closed one.
    Ran run_into(const std::filesystem::path& output, const std::vector<std::string>& arguments) const;
    // The same with a copy of the program.
    Ran run_copy(const std::filesystem::path& program, const std::vector<std::string>& arguments) const;

private:
    struct Run {
        std::filesystem::path program, folder;
        std::vector<std::string> arguments;
        std::string input = {};
        bool captured = true;              // standard output is Ran::out
        std::filesystem::path output = {}; // without captured: where it goes; empty: it is closed
    };
    Ran run_program(const Run& run) const;
    std::filesystem::path folder_;
};

} // namespace hekla::test
