// Runs the program as a shell would.
#pragma once

#include <filesystem>
#include <string>
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

// A temporary folder for one test case, used as the program's current folder. Caches are kept for the whole test run,
// so that kernels are compiled only once.
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
    // Runs hekla ARGUMENTS..., with `input` on its standard input.
    Ran run(const std::vector<std::string>& arguments, const std::string& input = "") const;
    // Runs it in another folder.
    Ran run_in(const std::filesystem::path& folder, const std::vector<std::string>& arguments,
               const std::string& input = "") const;
    // Runs it with another standard output: an existing file, such as /dev/full, or "" for a closed one.
    Ran run_into(const std::filesystem::path& output, const std::vector<std::string>& arguments) const;
    // Runs a copy of the program.
    Ran run_copy(const std::filesystem::path& program, const std::vector<std::string>& arguments) const;

private:
    struct Run {
        std::filesystem::path program, folder;
        std::vector<std::string> arguments;
        std::string input = {};
        bool captured = true;              // standard output is captured in Ran::out
        std::filesystem::path output = {}; // if not captured: the output file; empty: closed
    };
    Ran run_program(const Run& run) const;
    std::filesystem::path folder_;
};

// Returns the texts that `hekla generate ARGUMENTS` writes for two or more prompts, without the speed.
std::string generated_texts(const Place& place, const Arguments& arguments);

} // namespace hekla::test
