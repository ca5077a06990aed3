#include "check/check.hpp"

#include "base/child_process.hpp"
#include "base/json.hpp"
#include "base/nearest_name.hpp"
#include "base/path_text.hpp"
#include "base/run_child.hpp"
#include "base/shell_word.hpp"
#include "base/temporary_folder.hpp"
#include "check/tests.hpp"
#include "hekla/plugin/adapter.h"
#include "hekla/plugin/architecture.h"
#include "hekla/plugin/combiner.h"
#include "hekla/plugin/head.h"
#include "hekla/plugin/objective.h"
#include "hekla/plugin/operation.h"
#include "hekla/plugin/optimizer.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <sstream>

namespace hekla::check {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// What a plugin must provide for a test to apply to it.
enum class Applies { always, architecture, body, objective, head, adapter, network, operation, optimizer, trained };

struct Test {
    const char* name;
    const char* about;
    int level; // see CheckOptions
    double seconds;
    std::function<Status(Trial&)> run;
    Applies applies = Applies::network; // always, for tests of level 1
};

std::function<Status(Trial&)> without(const char* interface_id) {
    return [interface_id](Trial& trial) { return test_host_without(trial, interface_id); };
}

std::function<Status(Trial&)> on(const DeviceSetting& setting) {
    return [setting](Trial& trial) { return test_device(trial, setting); };
}

std::function<Status(Trial&)> in(Status (*test)(Trial&, program::Storage), program::Storage precision) {
    return [=](Trial& trial) { return test(trial, precision); };
}

const std::vector<Test>& tests() {
    static const auto& kAll = *new std::vector<Test>{
        {"file.exports", "the library exports one symbol: the entry", 1, 10, test_exports, Applies::always},
        {"file.relocations", "it has no text relocations and links nothing of the host", 1, 10, test_relocations,
         Applies::always},
        {"file.opens", "it loads quickly, with every symbol bound", 1, 20, test_opens, Applies::always},
        {"file.entry", "the entry is complete and agrees with the manifest", 1, 10, test_entry, Applies::always},
        {"file.ids", "it provides what its manifest lists, and null for every other id", 1, 10, test_unknown_ids,
         Applies::always},
        {"file.lifecycle", "it serves one host at a time, and another one afterwards", 1, 10, test_lifecycle,
         Applies::always},
        {"host.without-error", "it does not crash if the host lacks an interface", 1, 10, without(HK_ERROR_INTERFACE),
         Applies::always},
        {"host.without-log", "it does not crash if the host lacks an interface", 1, 10, without("hekla.log/1"),
         Applies::always},
        {"host.without-config", "it does not crash if the host lacks an interface", 1, 10, without(HK_CONFIG_INTERFACE),
         Applies::always},
        {"host.without-graph", "it does not crash if the host lacks an interface", 1, 10, without(HK_GRAPH_INTERFACE),
         Applies::always},
        {"host.without-tokenizer", "it does not crash if the host lacks an interface", 1, 10,
         without("hekla.tokenizer/1"), Applies::always},
        {"host.fails", "an error of any host call is returned to the host", 2, 120, test_failing_host},
        {"host.memory", "any failed allocation is reported as an error", 2, 300, test_failing_memory},
        {"instances.many", "instances share no state", 2, 60, test_many_instances},
        {"instances.leaks", "everything that is allocated is freed", 2, 120, test_leaks},
        {"graph.same", "the same configuration and fields give the same graph", 2, 60, test_same_graph},
        {"graph.config", "the configuration that an architecture writes gives the same graph again", 2, 60,
         test_own_configuration, Applies::architecture},
        {"graph.shapes", "batches with any number of rows and tokens", 2, 60, test_odd_shapes},
        {"graph.configurations", "any configuration is accepted, or refused with a reason", 2, 120,
         test_strange_configurations},
        {"graph.fields", "any fields are accepted, or refused with a reason", 2, 60, test_strange_fields},
        {"batch.pure", "a batch depends on its arguments alone", 2, 60, test_pure_batches, Applies::objective},
        {"batch.threads", "several threads may make batches at once", 2, 60, test_threads, Applies::objective},
        {"batch.bounds", "nothing is written outside the fields", 2, 60, test_bounds, Applies::objective},
        {"batch.examples", "any example makes a batch, or is refused with a reason", 2, 60, test_strange_examples,
         Applies::objective},
        {"decode", "outputs are decoded to JSON, one object per row", 2, 60, test_decoding, Applies::head},
        {"network.causal", "no token depends on the tokens after it", 2, 120, test_causal, Applies::body},
        {"network.rows", "a row does not depend on the other rows of its batch", 2, 120, test_rows_apart},
        {"network.padding", "padding changes nothing", 2, 120, test_padding, Applies::architecture},
        {"network.random", "evaluation draws no random numbers", 2, 120, test_random},
        {"network.sums", "the losses of a batch are the sums over its rows", 2, 120, test_sums},
        {"network.buffers", "what training writes to buffers is what evaluation reads", 2, 300, test_buffers,
         Applies::architecture},
        {"network.decode", "rows fed in chunks give the logits of the whole row", 2, 120, test_decode_mode,
         Applies::architecture},
        {"network.gradient", "gradients match finite differences", 2, 300, test_gradient},
        {"adapter.merge", "adapt() computes what the layer computes with the merged weight", 2, 60, test_merge,
         Applies::adapter},
        {"optimizer.shapes", "parameters of any shape that it takes have an update", 2, 60, test_optimizer_shapes,
         Applies::optimizer},
        {"optimizer.same", "the same configuration and parameter give the same update", 2, 60, test_optimizer_same,
         Applies::optimizer},
        {"optimizer.finite", "parameters and states stay finite, also where gradients are 0", 2, 60,
         test_optimizer_finite, Applies::optimizer},
        {"optimizer.still", "a learning rate or gradients of 0 change nothing but by decay", 2, 60,
         test_optimizer_still, Applies::optimizer},
        {"optimizer.descends", "it makes a sum of squares smaller, whatever the shape", 2, 120, test_optimizer_descends,
         Applies::optimizer},
        {"operation.shapes", "any shapes give output shapes and costs, or are refused with a reason", 2, 60,
         test_operation_shapes, Applies::operation},
        {"operation.reference", "the CPU reference is repeatable and stays inside its tensors", 2, 60,
         test_operation_reference, Applies::operation},
        {"operation.gradient", "an operation's gradients match finite differences", 2, 120, test_operation_gradient,
         Applies::operation},
        {"operation.float32", "its kernel and gradient match the reference", 3, 300,
         in(test_operation_device, program::Storage::f32), Applies::operation},
        {"operation.float16", "the same with inputs stored in float16", 3, 300,
         in(test_operation_device, program::Storage::f16), Applies::operation},
        {"operation.bfloat16", "the same with inputs stored in bfloat16", 3, 300,
         in(test_operation_device, program::Storage::bf16), Applies::operation},
        {"operation.order", "the same bits every time, in any order of its invocations", 3, 300, test_operation_order,
         Applies::operation},
        {"operation.bounds", "it reads and writes only its own tensors", 3, 600, test_operation_bounds,
         Applies::operation},
        {"train.device", "outputs on the device match float64", 3, 300, on({})},
        {"train.gradients", "gradients on the device match float64", 3, 300, in(test_precision, program::Storage::f32)},
        {"train.float16", "outputs and gradients with 16-bit storage", 3, 300,
         in(test_precision, program::Storage::f16)},
        {"train.bfloat16", "outputs and gradients with 16-bit storage", 3, 300,
         in(test_precision, program::Storage::bf16)},
        {"device.subgroups-4", "outputs with subgroups of 4 lanes", 3, 300, on({.subgroup = 4})},
        {"device.subgroups-8", "outputs with subgroups of 8 lanes", 3, 300, on({.subgroup = 8})},
        {"device.subgroups-16", "outputs with subgroups of 16 lanes", 3, 300, on({.subgroup = 16})},
        {"device.16-kib", "outputs with 16 KiB of shared memory", 3, 300, on({.shared_memory_bytes = 16384})},
        {"device.bounds", "the plugin's operations read and write only their own tensors", 3, 600,
         test_bounds_on_device},
        {"train.learns", "the loss on 32 examples falls", 3, 600, test_learns, Applies::trained},
        {"train.repeats", "two runs give the same bits", 3, 300, test_repeats, Applies::trained},
        {"train.resumes", "a run that is stopped and resumed gives the same bits", 3, 300, test_resumes,
         Applies::trained},
        {"abi.used", "the oldest host that can run it", 2, 60, test_used_abi},
    };
    return kAll;
}

// "graph.same" selects a test, "graph." all tests with this prefix.
bool means(std::string_view one, std::string_view name) {
    return one == name || (one.ends_with('.') && name.starts_with(one));
}

bool applies(Applies to, std::string_view interface_id) {
    switch (to) {
    case Applies::architecture: return interface_id == HK_ARCHITECTURE_INTERFACE;
    case Applies::body:
        return interface_id == HK_ARCHITECTURE_INTERFACE || interface_id == HK_ADAPTER_INTERFACE ||
               interface_id == HK_COMBINER_INTERFACE;
    case Applies::objective: return interface_id == HK_OBJECTIVE_INTERFACE;
    case Applies::head: return interface_id == HK_HEAD_INTERFACE;
    case Applies::adapter: return interface_id == HK_ADAPTER_INTERFACE;
    case Applies::operation: return interface_id == HK_OPERATION_INTERFACE;
    case Applies::optimizer: return interface_id == HK_OPTIMIZER_INTERFACE;
    case Applies::network: return interface_id != HK_OPERATION_INTERFACE && interface_id != HK_OPTIMIZER_INTERFACE;
    case Applies::trained: return interface_id != HK_OPERATION_INTERFACE;
    case Applies::always: break;
    }
    return true;
}

const char* needed_text(Applies to) {
    switch (to) {
    case Applies::architecture: return "an architecture";
    case Applies::body: return "an architecture, adapter or combiner";
    case Applies::objective: return "an objective";
    case Applies::head: return "a head";
    case Applies::adapter: return "an adapter";
    case Applies::operation: return "an operation";
    case Applies::optimizer: return "an optimizer";
    case Applies::trained: return "an architecture, objective, head, adapter, combiner or optimizer";
    default: return "an architecture, objective, head, adapter or combiner";
    }
}

// Returns why this test is skipped, by "skip" and "waive" of the "check" member; empty if it runs.
std::string exemption(const plugin::Provided& provided, const json& check, std::string_view test) {
    if (const auto skip = check.find("skip"); skip != check.end())
        return fmt::format("{}: {}", name_of(provided), skip->is_string() ? skip->get<std::string>() : skip->dump());
    const json waived = check.value("waive", json::object());
    const auto reason = waived.find(test);
    if (reason == waived.end()) return {};
    return fmt::format("{}: waived by the manifest: {}", name_of(provided), reason->get<std::string>());
}

// Refuses waivers of unknown tests, and of tests of the file, which are not about a single thing that it provides.
Status check_waivers(const plugin::Manifest& manifest) {
    for (const plugin::Provided& provided : manifest.provides) {
        const json waived = provided.check.parse().value("waive", json::object());
        for (const auto& [name, reason] : waived.items()) {
            const auto test =
                std::ranges::find_if(tests(), [&, &wanted = name](const Test& t) { return wanted == t.name; });
            const std::string where = fmt::format("{}: {}: \"waive\"", manifest.file, name_of(provided));
            if (test == tests().end()) {
                std::vector<std::string> names;
                for (const Test& known : tests()) names.emplace_back(known.name);
                return invalid_argument(
                    fmt::format("{}: unknown test '{}'{}", where, name,
                                did_you_mean(name, names, "; `hekla plugin check --list` lists the tests")));
            }
            if (test->level == 1)
                return invalid_argument(
                    fmt::format("{}: test '{}' cannot be waived: it checks the library as a whole", where, name));
        }
    }
    return {};
}

bool asked_for(const std::vector<std::string>& only, std::string_view name) {
    return only.empty() || std::ranges::any_of(only, [&](const std::string& one) { return means(one, name); });
}

// The folder of the plugin and those of the others.
std::vector<fs::path> folders_of(const plugin::Manifest& manifest, const CheckOptions& options) {
    std::vector<fs::path> folders{path_of(manifest.file).parent_path()};
    folders.insert(folders.end(), options.folders.begin(), options.folders.end());
    return folders;
}

// Reads the manifest, given its own path or that of its library.
Result<plugin::Manifest> manifest_of(const fs::path& given, ReadOnlyArena& kept) {
    std::error_code problem;
    fs::path file = fs::absolute(given, problem);
    if (file.extension() != ".json") file.replace_extension(".json");
    if (!fs::exists(file, problem))
        return not_found(
            fmt::format("{}: the plugin has no manifest: expected {} (LIBRARY.json, which the build writes)",
                        given.string(), file.string()));
    HK_ASSIGN(const plugin::Manifest manifest, plugin::read_manifest(file, kept));
    if (!fs::exists(manifest.library, problem))
        return not_found(fmt::format("{}: its library {} does not exist", file.string(), manifest.library));
    return manifest;
}

std::string last_lines(const std::string& text, std::size_t count) {
    std::size_t at = text.size();
    while (at > 0 && count > 0) {
        at = text.rfind('\n', at - 1);
        if (at == std::string::npos) return text;
        --count;
    }
    return text.substr(at);
}

TestResult result_of(const Test& test, const ChildResult& child, double limit) {
    TestResult result;
    result.test = test.name;
    result.about = test.about;
    result.seconds = child.seconds;
    std::string doing;
    bool done = false, skipped = false;
    std::istringstream lines(child.out);
    for (std::string line; std::getline(lines, line);) {
        const json message = json_or_null(line);
        if (!message.is_object()) continue; // printed by the plugin itself
        if (message.contains("doing")) doing = message["doing"].get<std::string>();
        if (message.contains("done")) done = true;
        for (const char* kind : {"failed", "skipped", "noted"})
            if (message.contains(kind)) result.findings.push_back(message[kind].get<std::string>());
        if (message.contains("failed")) result.outcome = Outcome::failed;
        if (message.contains("skipped")) skipped = true;
    }
    if (skipped && result.outcome != Outcome::failed) result.outcome = Outcome::skipped;
    if (done && child.status == 0) return result;
    result.outcome = Outcome::failed;
    const std::string where = doing.empty() ? "" : fmt::format(" ({})", doing);
    std::string what;
    if (child.timed_out)
        what = fmt::format("did not finish within {:g} s{}", limit, where);
    else if (child.signal != 0)
        what = fmt::format("crashed with {}{}", signal_text(child.signal), where);
    else
        what = fmt::format("ended the process with status {}{}", child.status, where);
    const std::string words = last_lines(child.error, 6);
    if (!words.empty()) what += ": " + words;
    while (!what.empty() && what.back() == '\n') what.pop_back();
    result.findings.push_back(what);
    return result;
}

} // namespace

std::vector<TestName> test_names() {
    std::vector<TestName> names;
    for (const Test& test : tests()) names.push_back({test.name, test.about, test.level});
    return names;
}

Status check_plugin(const CheckOptions& options, const std::function<bool(const TestResult&)>& tell) {
    ReadOnlyArena kept;
    HK_ASSIGN(const plugin::Manifest manifest, manifest_of(options.plugin, kept));
    HK_TRY(check_waivers(manifest));
    for (const std::string& one : options.only)
        if (std::ranges::none_of(tests(), [&](const Test& test) { return means(one, test.name); })) {
            std::vector<std::string> names;
            for (const Test& test : tests()) names.emplace_back(test.name);
            return not_found(fmt::format("unknown test '{}'; known are {}", one, fmt::join(names, ", ")));
        }
    if (options.level > 1) HK_TRY(plugin::Registry::scan(folders_of(manifest, options)).check_needs(manifest));
    for (const Test& test : tests()) {
        if (test.level > options.level || !asked_for(options.only, test.name)) continue;
        std::vector<std::string> command = options.program;
        const std::vector<std::string> more{"plugin",  "check",  std::string(manifest.file),     "--one",
                                            test.name, "--seed", fmt::format("{}", options.seed)};
        command.insert(command.end(), more.begin(), more.end());
        const double limit = test.seconds * options.patience;
        HK_ASSIGN(const ChildResult child, run_child(command, {.seconds = limit, .memory_bytes = uint64_t{16} << 30}));
        TestResult result = result_of(test, child, limit);
        std::vector<std::string> words;
        for (const std::string& word : command) words.push_back(shell_word(word));
        result.reproduce = fmt::format("{}", fmt::join(words, " "));
        if (!tell(result)) return Status(Code::cancelled, "stopped");
    }
    return {};
}

Status run_test(const std::string& name, const CheckOptions& options) {
    const auto test = std::ranges::find_if(tests(), [&](const Test& one) { return name == one.name; });
    if (test == tests().end()) return not_found(fmt::format("unknown test '{}'", name));
    ReadOnlyArena kept;
    HK_ASSIGN(plugin::Manifest manifest, manifest_of(options.plugin, kept));
    plugin::Registry registry = plugin::Registry::scan(folders_of(manifest, options));
    HK_ASSIGN(const TemporaryFolder folder, TemporaryFolder::make());
    std::vector<plugin::Provided> parts; // of networks; an operation is tried alone, and in those that use it
    std::vector<plugin::Provided> operations;
    std::vector<std::string> exemptions;
    bool applicable = test->level == 1;
    for (const plugin::Provided& provided : manifest.provides) {
        if (test->level == 1) break; // tests the library as a whole
        const bool wanted = applies(test->applies, provided.interface_id);
        applicable = applicable || wanted;
        // Optimizers have tests of their own; the others are about networks.
        const bool is_optimizer = provided.interface_id == HK_OPTIMIZER_INTERFACE;
        if ((is_optimizer || test->applies == Applies::optimizer) && !wanted) continue;
        if (const std::string why = exemption(provided, provided.check.parse(), test->name); why.empty())
            (provided.interface_id == HK_OPERATION_INTERFACE ? operations : parts).push_back(provided);
        else if (wanted)
            exemptions.push_back(why);
    }
    if (test->level > 1) manifest.provides = parts;
    Trial trial(manifest, registry, std::move(operations), options.seed, folder.path(), options.cache_folder);
    for (const std::string& why : exemptions) trial.skip(why);
    if (!applicable) {
        trial.skip(fmt::format("does not apply: the plugin does not provide {}", needed_text(test->applies)));
        trial.done();
        return {};
    }
    const auto run = [&]() -> Status {
        try {
            return test->run(trial);
        } catch (const json::exception& e) {
            return invalid_argument(
                fmt::format("{}: \"check\" has a value of the wrong type: {}", manifest.file, e.what()));
        }
    };
    if (const Status ran = run(); ran.code() == Code::cancelled)
        trial.skip(ran.message());
    else if (!ran.ok())
        trial.fail(ran.message());
    trial.done();
    return {};
}

} // namespace hekla::check
