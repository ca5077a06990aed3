#include "check/check.hpp"

#include "base/json.hpp"
#include "check/child.hpp"
#include "check/tests.hpp"

#include "base/child_process.hpp"
#include "base/shell_word.hpp"
#include "base/temporary_folder.hpp"
#include "hekla/plugin/operation.h"

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

struct Test {
    const char* name;
    const char* about;
    int level; // see CheckOptions
    double seconds;
    std::function<Status(Trial&)> run;
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
    static const std::vector<Test> all{
        {"file.exports", "one name is exported: the entry", 1, 10, test_exports},
        {"file.relocations", "code is never written to, and nothing of the host is linked", 1, 10, test_relocations},
        {"file.opens", "it opens with every symbol bound, at once", 1, 20, test_opens},
        {"file.entry", "the entry is whole and says what the manifest says", 1, 10, test_entry},
        {"file.ids", "it has what its manifest offers, and null for everything else", 1, 10, test_unknown_ids},
        {"file.lifecycle", "it serves one host at a time, and another one after that", 1, 10, test_lifecycle},
        {"host.without-error", "a host that lacks an interface is no crash", 1, 10, without(HK_ERROR_INTERFACE)},
        {"host.without-log", "a host that lacks an interface is no crash", 1, 10, without("hekla.log/1")},
        {"host.without-config", "a host that lacks an interface is no crash", 1, 10, without(HK_CONFIG_INTERFACE)},
        {"host.without-graph", "a host that lacks an interface is no crash", 1, 10, without(HK_GRAPH_INTERFACE)},
        {"host.without-tokenizer", "a host that lacks an interface is no crash", 1, 10, without("hekla.tokenizer/1")},
        {"host.fails", "whichever call of the host fails, the error goes back to it", 2, 120, test_failing_host},
        {"host.memory", "whichever piece of memory is not to be had, the error says so", 2, 300, test_failing_memory},
        {"instances.many", "instances share nothing", 2, 60, test_many_instances},
        {"instances.leaks", "what is made is given back", 2, 120, test_leaks},
        {"graph.same", "the same configuration and fields describe the same graph", 2, 60, test_same_graph},
        {"graph.config", "what an architecture writes of itself describes it again", 2, 60, test_own_configuration},
        {"graph.shapes", "rows and lengths of any number", 2, 60, test_odd_shapes},
        {"graph.configurations", "any configuration is described or refused in words", 2, 120,
         test_strange_configurations},
        {"graph.fields", "any fields are described or refused in words", 2, 60, test_strange_fields},
        {"batch.pure", "a batch is made of its arguments and nothing else", 2, 60, test_pure_batches},
        {"batch.threads", "many threads may make batches at once", 2, 60, test_threads},
        {"batch.bounds", "nothing is written outside the fields", 2, 60, test_bounds},
        {"batch.examples", "any example makes a batch or is refused in words", 2, 60, test_strange_examples},
        {"decode", "what is said of outputs is JSON, one object a row", 2, 60, test_decoding},
        {"network.causal", "nothing that is to be predicted is seen", 2, 120, test_causal},
        {"network.rows", "a row is the same alone and beside others", 2, 120, test_rows_apart},
        {"network.padding", "padding changes nothing", 2, 120, test_padding},
        {"network.decode", "rows that are fed in chunks give the logits of the whole row", 2, 120, test_decode_mode},
        {"network.gradient", "gradients are those of finite differences", 2, 300, test_gradient},
        {"operation.shapes", "shapes and costs are said for any shapes, or refused in words", 2, 60,
         test_operation_shapes},
        {"operation.reference", "the CPU reference computes the same twice, inside of its tensors", 2, 60,
         test_operation_reference},
        {"operation.gradient", "an operation's gradients are those of finite differences", 2, 120,
         test_operation_gradient},
        {"operation.float32", "its kernel and gradient compute what the reference does", 3, 300,
         in(test_operation_device, program::Storage::f32)},
        {"operation.float16", "the same where what it reads is stored in float16", 3, 300,
         in(test_operation_device, program::Storage::f16)},
        {"operation.bfloat16", "the same where what it reads is stored in bfloat16", 3, 300,
         in(test_operation_device, program::Storage::bf16)},
        {"operation.order", "the same bits again, and in whatever order its invocations run", 3, 300,
         test_operation_order},
        {"operation.bounds", "it reads and writes its tensors and nothing else", 3, 600, test_operation_bounds},
        {"train.device", "the device computes what float64 does", 3, 300, on({})},
        {"train.gradients", "and so are its gradients", 3, 300, in(test_precision, program::Storage::f32)},
        {"train.float16", "outputs and gradients with 16-bit storage", 3, 300,
         in(test_precision, program::Storage::f16)},
        {"train.bfloat16", "outputs and gradients with 16-bit storage", 3, 300,
         in(test_precision, program::Storage::bf16)},
        {"device.subgroups-4", "the same with subgroups of 4", 3, 300, on({.subgroup = 4})},
        {"device.subgroups-8", "the same with subgroups of 8", 3, 300, on({.subgroup = 8})},
        {"device.subgroups-16", "the same with subgroups of 16", 3, 300, on({.subgroup = 16})},
        {"device.16-kib", "the same with 16 KiB of shared memory", 3, 300, on({.shared_memory_bytes = 16384})},
        {"device.bounds", "no operation of a plugin reads or writes outside of its tensors", 3, 600,
         test_bounds_on_device},
        {"train.learns", "the loss of 32 examples falls", 3, 600, test_learns},
        {"train.repeats", "the same training, the same bits", 3, 300, test_repeats},
        {"train.resumes", "stopped and gone on with, the same bits", 3, 300, test_resumes},
        {"abi.used", "which host it needs", 2, 60, test_used_abi},
    };
    return all;
}

// "graph.same" is a test, "graph." all that begin so.
bool means(std::string_view one, std::string_view name) {
    return one == name || (one.ends_with('.') && name.starts_with(one));
}

bool asked_for(const std::vector<std::string>& only, std::string_view name) {
    return only.empty() || std::ranges::any_of(only, [&](const std::string& one) { return means(one, name); });
}

// The manifest of a library or of itself.
Result<plugin::Manifest> manifest_of(const fs::path& given, ReadOnlyArena& kept) {
    std::error_code problem;
    fs::path file = fs::absolute(given, problem);
    if (file.extension() != ".json") file.replace_extension(".json");
    if (!fs::exists(file, problem))
        return not_found(
            fmt::format("{}: there is no manifest beside the plugin: {} was expected (LIBRARY.json, made by the "
                        "build)",
                        given.string(), file.string()));
    HK_ASSIGN(const plugin::Manifest manifest, plugin::read_manifest(file, kept));
    if (!fs::exists(manifest.library, problem))
        return not_found(fmt::format("{}: its library {} is not there", file.string(), manifest.library));
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
        const json said = json_or_null(line);
        if (!said.is_object()) continue; // the plugin's own words
        if (said.contains("doing")) doing = said["doing"].get<std::string>();
        if (said.contains("done")) done = true;
        for (const char* kind : {"failed", "skipped", "noted"})
            if (said.contains(kind)) result.findings.push_back(said[kind].get<std::string>());
        if (said.contains("failed")) result.outcome = Outcome::failed;
        if (said.contains("skipped")) skipped = true;
    }
    if (skipped && result.outcome != Outcome::failed) result.outcome = Outcome::skipped;
    if (done && child.status == 0) return result;
    result.outcome = Outcome::failed;
    const std::string where = doing.empty() ? "" : fmt::format(" ({})", doing);
    std::string what;
    if (child.timed_out)
        what = fmt::format("did not come back within {:g} s{}", limit, where);
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
    for (const std::string& one : options.only)
        if (std::ranges::none_of(tests(), [&](const Test& test) { return means(one, test.name); })) {
            std::vector<std::string> names;
            for (const Test& test : tests()) names.emplace_back(test.name);
            return not_found(fmt::format("there is no test '{}': there are {}", one, fmt::join(names, ", ")));
        }
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
    if (test == tests().end()) return not_found(fmt::format("there is no test '{}'", name));
    ReadOnlyArena kept;
    HK_ASSIGN(plugin::Manifest manifest, manifest_of(options.plugin, kept));
    std::vector<fs::path> folders{fs::path(manifest.file).parent_path()};
    folders.insert(folders.end(), options.folders.begin(), options.folders.end());
    plugin::Registry registry = plugin::Registry::scan(folders);
    HK_ASSIGN(const TemporaryFolder folder, TemporaryFolder::make());
    Trial trial;
    trial.manifest_ = &manifest;
    trial.registry_ = &registry;
    trial.seed_ = options.seed;
    trial.folder_ = folder.path();
    trial.cache_ = options.cache_folder;
    std::vector<plugin::Provided> parts; // of networks; an operation is tried alone, and in those that use it
    if (test->level > 1) {
        for (const plugin::Provided& provided : manifest.provides) {
            const json check = provided.check.parse();
            if (const auto why = check.find("skip"); why == check.end())
                (provided.interface_id == HK_OPERATION_INTERFACE ? trial.operations_ : parts).push_back(provided);
            else if (why->is_string())
                trial.skip(fmt::format("{}: {}", name_of(provided), why->get<std::string>()));
        }
        manifest.provides = parts;
    }
    const auto run = [&]() -> Status {
        try {
            return test->run(trial);
        } catch (const json::exception& e) {
            return invalid_argument(
                fmt::format("{}: \"check\" holds something else than a test expects: {}", manifest.file, e.what()));
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
