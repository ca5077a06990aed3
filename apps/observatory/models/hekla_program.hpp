// The program hekla in this program's folder: runs verbs that the C API does not have.
#pragma once

#include <string>
#include <vector>

namespace observatory {

class HeklaProgram {
public:
    // plugin_folders: passed to the verbs; empty: Hekla's own.
    explicit HeklaProgram(std::vector<std::string> plugin_folders);
    // Runs `hekla ARGUMENTS` to its end and returns what it prints. Throws a Failure with the verb's error message, or
    // if the program does not exist. Thread: any.
    std::string run(std::vector<std::string> arguments) const;

private:
    std::string path_; // of the program
    std::vector<std::string> plugin_folders_;
};

} // namespace observatory
