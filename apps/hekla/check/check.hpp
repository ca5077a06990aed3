// `hekla plugin check`: tests every requirement that the ABI places on a plugin. Each test runs in its own process with
// limits of time and memory, so that a crash, a hang or excessive memory use is reported like any other finding.
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
    std::string about; // what is tested, in one line
    Outcome outcome = Outcome::passed;
    std::vector<std::string> findings; // failures with the part they occur in, reasons for skipping, or notes
    std::string reproduce;             // the command that runs this test alone
    double seconds = 0.0;
};

struct CheckOptions {
    std::filesystem::path plugin;               // the library or its manifest
    std::vector<std::filesystem::path> folders; // folders of other plugins: bodies for a head, heads for a body
    std::vector<std::string> program;           // command of this program: its path and global options
    std::vector<std::string> only;              // names of tests; with a dot at the end, a prefix; empty: all
    int level = 3; // 1: the file; 2: also graphs and batches; 3: also the device and training
    uint64_t seed = 1;
    std::filesystem::path cache_folder; // of compiled kernels; empty: none
    double patience = 1.0;              // factor of all time limits, for slow machines
};

// Runs the tests one after the other; `tell` receives each result immediately and returns false to stop. Errors: a file
// that is not a plugin with a manifest, an unknown test in `only` or in the manifest's "waive", above level 1 a plugin
// that it needs and that is missing; cancelled if stopped.
Status check_plugin(const CheckOptions& options, const std::function<bool(const TestResult&)>& tell);

// Runs one test in the child process and writes its findings as JSON lines to standard output. Errors during its
// preparation are findings too.
Status run_test(const std::string& name, const CheckOptions& options);

struct TestName {
    std::string name, about;
    int level = 1;
};
std::vector<TestName> test_names();

} // namespace hekla::check
