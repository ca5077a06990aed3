// The command line: global options and verbs. Each verb has a file of its own.
#include "command.hpp"

#include <cstdio>

int main(int argc, char** argv) {
    using namespace hekla::app;
    CLI::App app("Hekla trains and runs transformers on any Vulkan device.", "hekla");
    app.require_subcommand(1);
    app.set_version_flag("--version", "hekla " HEKLA_VERSION);
    app.fallthrough();
    Globals globals;
    app.add_option("--device", globals.device, "the device: an index of `hekla devices`, or a part of its name");
    app.add_option("--plugin-path", globals.plugin_paths, "a folder with plugins, before the others (may be repeated)")
        ->allow_extra_args(false); // what follows it is the verb's
    app.add_option("--measure-kernels", globals.measure_kernels,
                   "before training and in bench, measure once which kernels are fastest: never, on GPUs, always")
        ->check(CLI::IsMember({"never", "gpus", "always"}))
        ->capture_default_str();
    app.add_option("--describe-in", globals.describe,
                   "where plugins describe: `child`, a process of their own that cannot harm this one; `process`, this "
                   "one; automatic: in this one those that came with Hekla")
        ->check(CLI::IsMember({"automatic", "child", "process"}))
        ->capture_default_str();
    app.add_option("--describe-program", globals.describe_program,
                   "hekla-describe, which a child is (else: beside this program, or in libexec/ beside its folder)");
    app.add_option("--describe-seconds", globals.describe_seconds, "how long a child may take for an answer")
        ->check(CLI::Range(0.01, 1e6))
        ->capture_default_str();
    app.add_option("--describe-memory", globals.describe_memory,
                   "MiB of address space that a child may take; 0: no end")
        ->check(CLI::Range(uint64_t{0}, uint64_t{1} << 30))
        ->capture_default_str();
    app.add_flag("--isolate-plugins", globals.isolate_plugins,
                 "what runs of plugins while training and using a model runs in worker processes");
    app.add_flag("--validate", globals.validate, "run with Vulkan's validation layer");
    app.add_flag("--verbose", globals.verbose, "say more");
    app.add_flag("--no-cache", globals.no_cache, "keep no compiled kernels between runs");
    app.add_option("--capture", globals.capture,
                   "train, generate, embed, predict and eval: write their calls of the library to this file, for "
                   "replay-calls");
    app.add_option("--trace-plugins", globals.trace, "as plugin trace: where it is written")->group("");
    app.add_flag("--trace-json", globals.trace_json)->group("");
    Verbs verbs;
    add_train(app, globals, verbs);
    add_predict(app, globals, verbs);
    add_generate(app, globals, verbs);
    add_embed(app, globals, verbs);
    add_tokenize(app, globals, verbs);
    add_inspect(app, globals, verbs);
    add_bench(app, globals, verbs);
    add_devices(app, globals, verbs);
    add_verify(app, globals, verbs);
    add_convert(app, globals, verbs);
    add_export(app, globals, verbs);
    add_plugin(app, globals, verbs);
    add_batches(app, globals, verbs);
    add_replay(app, globals, verbs);
    add_replay_calls(app, globals, verbs);
    add_recipe(app, verbs);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
        const int code = app.exit(e);
        return code == 0 ? kDone : kUsage;
    }
    try {
        if (const hekla::Status traced = begin_trace(globals); !traced.ok()) return fail(traced);
        for (const Verb& verb : verbs)
            if (verb.parser->parsed()) return end_trace(globals, verb.run());
    } catch (const std::bad_alloc&) { return fail(std::string("out of memory")); } catch (const std::exception& e) {
        return fail(std::string(e.what()));
    }
    return kUsage;
}
