// `hekla plugin check`: everything that a plugin promises by its ABI, tried. Each test runs in a process of its own,
// with a time and a memory limit, so that a plugin that crashes, hangs or eats all memory is a finding like any other.
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace hekla::check {

enum class Outcome { passed, failed, skipped };

struct TestResult {
    std::string test;  // "network.causal"
    std::string about; // the rule, in one line
    Outcome outcome = Outcome::passed;
    std::vector<std::string> findings; // what is wrong, with whose; or why it was skipped; or what is worth knowing
    std::string reproduce;             // the command that runs this test alone
    double seconds = 0.0;
};

struct CheckOptions {
    std::filesystem::path plugin;               // the library or its manifest
    std::vector<std::filesystem::path> folders; // of other plugins: bodies for a head, heads for a body
    std::vector<std::string> program;           // how this program is started again: its path and global options
    std::vector<std::string> only;              // of tests; with a dot at the end, all that begin so; empty: all
    int level = 3;                              // 1: the file; 2: also what is described; 3: also trained on the device
    uint64_t seed = 1;
    std::filesystem::path cache_folder; // of compiled kernels; empty: none
    double patience = 1.0;              // times every limit of time, for slow machines
};

// All tests, one after the other; `tell` gets each result as it is there and returns false to stop. Errors: a file that
// is no plugin with a manifest, a name in `only` that no test has.
Status check_plugin(const CheckOptions& options, const std::function<bool(const TestResult&)>& tell);

// In the child: runs one test of the plugin and says what it finds as JSON lines on standard output. Errors: those of
// the test's own preparation, which are findings too.
Status run_test(const std::string& name, const CheckOptions& options);

struct TestName {
    std::string name, about;
    int level = 1;
};
std::vector<TestName> test_names();

} // namespace hekla::check
