// Runs the program as a shell would.
#pragma once

#include "support/program.hpp"

#include <filesystem>
#include <string>

namespace hekla::test {

// A temporary folder for one test case, used as the program's current folder.
class Place {
public:
    std::filesystem::path path(const std::string& name) const { return folder_ / name; }
    void write(const std::string& name, const std::string& content) const { folder_.write(name, content); }
    std::string read(const std::string& name) const { return folder_.read(name); }
    bool exists(const std::string& name) const { return folder_.exists(name); }
    // Runs hekla ARGUMENTS..., with `input` on its standard input.
    Ran run(const Arguments& arguments, const std::string& input = "") const {
        return run_in(folder_, arguments, input);
    }
    // Runs it in another folder.
    Ran run_in(const std::filesystem::path& folder, const Arguments& arguments, const std::string& input = "") const {
        return test::run(folder, arguments, {.environment = {{"XDG_DATA_HOME", folder_.path()}}, .input = input});
    }
    // Runs it with another standard output: an existing file, such as /dev/full, or "" for a closed one.
    Ran run_into(const std::filesystem::path& output, const Arguments& arguments) const {
        return test::run(folder_, arguments, {.output = output});
    }
    // Runs a copy of the program.
    Ran run_copy(const std::filesystem::path& program, const Arguments& arguments) const {
        return test::run(folder_, arguments, {.program = program});
    }

private:
    TestFolder folder_;
};

// Returns the texts that `hekla generate ARGUMENTS` writes for two or more prompts, without the speed.
inline std::string generated_texts(const Place& place, const Arguments& arguments) {
    const std::string out = succeed(place.run(joined({"generate"}, arguments))).out;
    return out.substr(out.find("--- 1"));
}

} // namespace hekla::test
