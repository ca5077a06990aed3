// The command line: global options and verbs. Each verb has a file of its own.
#include "command.hpp"
#include "help/help_text.hpp"
#include "output.hpp"

#include "base/nearest_name.hpp"
#include "base/standard_streams.hpp"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::app {
namespace {

// Where plugins come from and run, and the limits of the processes that they run in.
void add_plugin_options(CLI::App& app, Globals& globals) {
    const char* const kPlugins = "Plugins";
    app.add_option("--plugin-path", globals.plugin_paths,
                   "folder with plugins, searched before the others; may be given several times")
        ->allow_extra_args(false) // the next word is the verb's
        ->group(kPlugins);
    app.add_option(
           "--describe-in", globals.describe,
           "where plugins describe their models: `child`, a process that cannot crash this one; `process`, this "
           "one; `automatic`, this one for the plugins that came with Hekla and a child for the others")
        ->check(CLI::IsMember({"automatic", "child", "process"}))
        ->capture_default_str()
        ->group(kPlugins);
    app.add_option("--describe-program", globals.describe_program,
                   "the hekla-describe program that children run (default: next to this program, or in ../libexec)")
        ->group(kPlugins);
    app.add_flag("--isolate-plugins", globals.isolate_plugins,
                 "run plugin callbacks (collate, decode) in worker processes")
        ->group(kPlugins);
    const char* const kLimits = "Limits for plugin processes";
    app.add_option("--plugin-seconds", globals.plugin_seconds, "time limit for one answer of a plugin process")
        ->check(CLI::Range(0.01, 1e6))
        ->capture_default_str()
        ->group(kLimits);
    app.add_option("--plugin-memory", globals.plugin_memory, "memory limit of a plugin process in MiB; 0: unlimited")
        ->check(CLI::Range(uint64_t{0}, uint64_t{1} << 30))
        ->capture_default_str()
        ->group(kLimits);
}

void add_global_options(CLI::App& app, Globals& globals) {
    const char* const kDevice = "Device";
    app.add_option("--device", globals.device,
                   "device to use: an index of `hekla doctor --list`, or a part of a device's name")
        ->group(kDevice);
    app.add_option("--measure-kernels", globals.measure_kernels,
                   "measure which kernels are fastest, once per shape and for 10 seconds at most, in train, eval, "
                   "generate, embed, predict and bench; `gpus`: not on CPUs")
        ->check(CLI::IsMember({"never", "gpus", "always"}))
        ->capture_default_str()
        ->group(kDevice);
    app.add_flag("--no-cache", globals.no_cache, "do not read or write compiled kernels in ~/.cache/hekla")
        ->group(kDevice);
    add_plugin_options(app, globals);
    const char* const kDebugging = "Debugging";
    app.add_flag("--validate", globals.validate, "enable Vulkan's validation layer")->group(kDebugging);
    app.add_flag("--verbose", globals.verbose, "print debug messages")->group(kDebugging);
    app.add_option(
           "--capture", globals.capture,
           "record the library calls of train, generate, embed, predict and eval in this file, for replay-calls")
        ->group(kDebugging);
    app.add_option("--trace-plugins", globals.trace, "as plugin trace: where it is written")->group("");
    app.add_flag("--trace-json", globals.trace_json)->group("");
}

void add_verbs(CLI::App& app, const Globals& globals, Verbs& verbs) {
    add_train(app, globals, verbs);
    add_prune(app, globals, verbs);
    add_scale(app, globals, verbs);
    add_eval(app, globals, verbs);
    add_predict(app, globals, verbs);
    add_preferences(app, globals, verbs);
    add_frontier(app, globals, verbs);
    add_generate(app, globals, verbs);
    add_chat(app, globals, verbs);
    add_embed(app, globals, verbs);
    add_tokenize(app, globals, verbs);
    add_inspect(app, globals, verbs);
    add_plugin(app, globals, verbs);
    add_convert(app, globals, verbs);
    add_adapter(app, globals, verbs);
    add_export(app, globals, verbs);
    add_batches(app, globals, verbs);
    add_replay(app, globals, verbs);
    add_diff(app, globals, verbs);
    add_replay_calls(app, globals, verbs);
    add_recipe(app, verbs);
    add_doctor(app, globals, verbs);
    add_bench(app, globals, verbs);
    add_completion(app, verbs);
    // Headings of the program's help, in the order of the first verb under each.
    constexpr std::pair<const char*, const char*> kGroups[] = {{"train", "Train and evaluate"},
                                                               {"prune", "Train and evaluate"},
                                                               {"scale", "Train and evaluate"},
                                                               {"eval", "Train and evaluate"},
                                                               {"preferences", "Train and evaluate"},
                                                               {"frontier", "Train and evaluate"},
                                                               {"predict", "Use a model"},
                                                               {"generate", "Use a model"},
                                                               {"chat", "Use a model"},
                                                               {"embed", "Use a model"},
                                                               {"tokenize", "Data and files"},
                                                               {"convert", "Data and files"},
                                                               {"adapter", "Data and files"},
                                                               {"export", "Data and files"},
                                                               {"batches", "Data and files"},
                                                               {"inspect", "Look into models"},
                                                               {"describe", "Look into models"},
                                                               {"recipe", "Train and evaluate"},
                                                               {"replay", "Look into models"},
                                                               {"diff", "Look into models"},
                                                               {"replay-calls", "Look into models"},
                                                               {"plugin", "Plugins"},
                                                               {"doctor", "This machine"},
                                                               {"bench", "This machine"}};
    for (CLI::App* verb : app.get_subcommands([](CLI::App*) { return true; }))
        for (const auto& [name, group] : kGroups)
            if (verb->get_name() == name) verb->group(group);
}

// The verb that was given, and what it is called: "hekla tokenize train".
struct GivenVerb {
    const CLI::App* app;
    std::string command = "hekla";
};

GivenVerb given_verb(const CLI::App& program) {
    GivenVerb given{&program};
    while (!given.app->get_subcommands().empty()) {
        given.app = given.app->get_subcommands().front();
        given.command += " " + given.app->get_name();
    }
    return given;
}

// The error of a command line without a verb, or with one that does not exist.
std::string verb_error(const CLI::App& program) {
    const auto [app, command] = given_verb(program);
    std::vector<std::string> verbs;
    for (const CLI::App* verb : app->get_subcommands([](const CLI::App* one) { return !one->get_group().empty(); }))
        verbs.push_back(verb->get_name());
    const std::vector<std::string> unknown = program.remaining(true); // fallthrough() leaves them to the program
    const auto given = std::ranges::find_if(unknown, [](const std::string& word) { return !word.starts_with('-'); });
    if (given == unknown.end())
        return fmt::format("'{}' needs a verb: one of {}\nSee: {} --help", command, fmt::join(verbs, ", "), command);
    const std::string_view nearest = nearest_name(*given, verbs);
    return fmt::format("'{}' has no verb '{}'; {} verbs are {}\nSee: {} --help", command, *given,
                       nearest.empty() ? "the" : fmt::format("did you mean '{}'? The", nearest), fmt::join(verbs, ", "),
                       command);
}

// The error of a command line with an option that the verb does not have, with the nearest of those that it has. Empty
// if no option is near.
std::string misspelled_option_error(const CLI::App& program) {
    const auto [app, command] = given_verb(program);
    const std::vector<std::string> unknown = program.remaining(true);
    const auto given =
        std::ranges::find_if(unknown, [](const std::string& word) { return word.size() > 1 && word.starts_with('-'); });
    if (given == unknown.end()) return {};
    std::vector<std::string> known;
    for (const CLI::App* owner = app; owner != nullptr; owner = owner->get_parent())
        for (const CLI::Option* option : owner->get_options())
            for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    const std::string name = given->substr(0, given->find('='));
    const std::string_view nearest = nearest_name(name, known);
    if (nearest.empty()) return {};
    return fmt::format("'{0}' has no option '{1}'; did you mean '{2}'?\nSee: {0} --help", command, name, nearest);
}

std::string usage_error(const CLI::App& program, const CLI::Error& error) {
    const std::string what = error.what();
    if (what.find("subcommand is required") != std::string::npos) return verb_error(program);
    const bool is_of_words = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
    if (is_of_words || dynamic_cast<const CLI::RequiredError*>(&error) != nullptr)
        if (std::string misspelled = misspelled_option_error(program); !misspelled.empty()) return misspelled;
    const std::string command = given_verb(program).command;
    if (is_of_words) {
        std::vector<std::string> unknown = program.remaining(true);
        std::erase(unknown, "--"); // what is after it was expected
        return fmt::format("'{0}' does not expect '{1}'\nSee: {0} --help", command, fmt::join(unknown, " "));
    }
    return fmt::format("'{0}': {1}\nSee: {0} --help", command, what);
}

// Returns the words of a command line without the program's name, the last one first, as CLI11 wants them. `help VERB`
// is `VERB --help`.
std::vector<std::string> reversed_words(int argc, char** argv) {
    std::vector<std::string> words(argv + 1, argv + argc);
    if (words.front() == "help") {
        words.erase(words.begin());
        words.emplace_back("--help");
    }
    std::ranges::reverse(words);
    return words;
}

int run(int argc, char** argv) {
    CLI::App app("Hekla trains and runs transformers on any Vulkan device.", "hekla");
    app.formatter(std::make_shared<HelpFormatter>());
    app.require_subcommand(1);
    app.failure_message([](const CLI::App* program, const CLI::Error& e) {
        return fmt::format("hekla: error: {}\n", usage_error(*program, e));
    });
    app.set_version_flag("--version", "hekla " HEKLA_VERSION);
    app.fallthrough();
    Globals globals;
    Verbs verbs;
    add_global_options(app, globals);
    add_verbs(app, globals, verbs);
    app.footer("Examples:\n  hekla train recipe.toml\n"
               "  hekla generate out/quickstart --prompt \"namespace\"\n  hekla doctor\n"
               "`hekla VERB --help` describes a verb and its options.");
    if (argc < 2) {
        std::fputs(first_steps_text().c_str(), stdout);
        return kDone;
    }
    try {
        app.parse(reversed_words(argc, argv));
    } catch (const CLI::ParseError& e) {
        const int code = app.exit(e);
        return code == 0 ? kDone : kUsage;
    }
    try {
        if (const Status traced = begin_trace(globals); !traced.ok()) return fail(traced);
        for (const Verb& verb : verbs)
            if (verb.parser->parsed()) return end_trace(globals, verb.run());
    } catch (const std::bad_alloc&) { return fail(std::string("out of memory")); } catch (const std::exception& e) {
        // fmt throws if standard output cannot be written; that is reported below.
        if (output_closed()) return kDone;
        return std::ferror(stdout) != 0 ? kFailed : fail(std::string(e.what()));
    }
    return kUsage;
}

} // namespace
} // namespace hekla::app

int main(int argc, char** argv) {
    using namespace hekla::app;
    hekla::open_standard_streams();
    hekla::outlive_failed_writes(); // a training continues when its output is closed
    const int status = run(argc, argv);
    const hekla::Status written = flush_output();
    if (written.ok()) return status;
    const int failed = fail(written);
    return status == kDone ? failed : status;
}
