// hekla plugin check: tests every guarantee that a plugin makes through the ABI.
#include "command.hpp"
#include "output.hpp"

#include "base/interrupts.hpp"
#include "check/check.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace hekla::app {
namespace {

using nlohmann::ordered_json;

struct CheckArguments {
    std::string plugin, one;
    std::vector<std::string> only;
    int level = 3;
    uint64_t seed = 1;
    double patience = 1.0;
    bool json = false, list = false;
};

const char* outcome_name(check::Outcome outcome) {
    return outcome == check::Outcome::passed ? "passed" : outcome == check::Outcome::failed ? "failed" : "skipped";
}

int list_tests(bool json) {
    ordered_json all = ordered_json::array();
    for (const check::TestName& test : check::test_names()) {
        if (json)
            all.push_back({{"test", test.name}, {"about", test.about}, {"level", test.level}});
        else
            fmt::print("{} {:<24} {}\n", test.level, test.name, test.about);
    }
    if (json) std::printf("%s\n", json_line(all).c_str());
    return kDone;
}

int run_check(const Globals& globals, const CheckArguments& a) {
    if (a.list) return list_tests(a.json);
    if (a.plugin.empty()) {
        std::fprintf(stderr, "hekla: error: plugin check: give the plugin's library or manifest\n");
        return kUsage;
    }
    check::CheckOptions options;
    options.plugin = a.plugin;
    options.folders = globals.plugin_folders();
    options.only = a.only;
    options.level = a.level;
    options.seed = a.seed;
    options.patience = a.patience;
    options.cache_folder = globals.cache_folder();
    if (!a.one.empty()) { // in the child process
        choose_vector_width();
        const Status ran = check::run_test(a.one, options);
        return ran.ok() ? kDone : fail(ran);
    }
    Result<std::vector<std::string>> program = own_command(globals);
    if (!program.ok()) return fail(program.status());
    options.program = program.take();
    watch_interrupts(kStoppedEarly);
    std::size_t passed = 0, failed = 0, skipped = 0;
    ordered_json results = ordered_json::array();
    const Status checked = check::check_plugin(options, [&](const check::TestResult& result) {
        (result.outcome == check::Outcome::passed   ? passed
         : result.outcome == check::Outcome::failed ? failed
                                                    : skipped) += 1;
        if (a.json) {
            ordered_json one{{"test", result.test},
                             {"about", result.about},
                             {"outcome", outcome_name(result.outcome)},
                             {"findings", result.findings},
                             {"seconds", result.seconds}};
            if (result.outcome == check::Outcome::failed) one["reproduce"] = result.reproduce;
            results.push_back(std::move(one));
        } else {
            fmt::print("{:<8}{:<24} {}\n",
                       result.outcome == check::Outcome::failed ? "FAILED" : outcome_name(result.outcome), result.test,
                       result.about);
            for (const std::string& finding : result.findings) fmt::print("          {}\n", finding);
            if (result.outcome == check::Outcome::failed) fmt::print("          again: {}\n", result.reproduce);
            std::fflush(stdout);
        }
        return !interrupted();
    });
    if (!checked.ok()) return fail(checked);
    if (a.json)
        std::printf("%s\n", json_line(ordered_json{{"plugin", a.plugin},
                                                   {"passed", passed},
                                                   {"failed", failed},
                                                   {"skipped", skipped},
                                                   {"tests", results}})
                                .c_str());
    else
        fmt::print("{}: {} passed, {} failed, {} skipped\n", a.plugin, passed, failed, skipped);
    return failed == 0 ? kDone : kFailed;
}

} // namespace

void add_plugin_check(CLI::App& plugin, const Globals& globals, Verbs& verbs) {
    CLI::App* parser = plugin.add_subcommand(
        "check",
        "Test every promise of a plugin, each test in its own process: its file, entry, graphs, batches, gradients, "
        "decode mode and training. Exit status 1 if a test fails.");
    const auto a = std::make_shared<CheckArguments>();
    parser->add_option("plugin", a->plugin, "the library or its manifest");
    parser
        ->add_option("--only", a->only,
                     "run this test; with a dot at the end, all tests with this prefix (may be repeated)")
        ->allow_extra_args(false);
    parser
        ->add_option("--level", a->level,
                     "1: the file and its entry; 2: also graphs and batches; 3: also the device and training")
        ->check(CLI::Range(1, 3))
        ->capture_default_str();
    parser->add_option("--seed", a->seed, "seed of all random numbers")->capture_default_str();
    parser->add_option("--patience", a->patience, "factor of all time limits")->check(CLI::Range(0.01, 1000.0));
    parser->add_flag("--list", a->list, "list the tests and exit");
    parser->add_flag("--json", a->json, "print JSON");
    parser->add_option("--one", a->one, "run one test in this process and print its findings as JSON lines")->group("");
    parser->footer("Example: hekla plugin check build/mixer.so --level 2");
    verbs.push_back({parser, [&globals, a] { return run_check(globals, *a); }});
}

} // namespace hekla::app
