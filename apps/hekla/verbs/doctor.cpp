// hekla doctor: this machine's devices, whether they compute correctly, and their kernels.
#include "base/file.hpp"
#include "base/json.hpp"
#include "device_test/lab_stages.hpp"
#include "device_test/test_stages.hpp"
#include "examination.hpp"
#include "output.hpp"
#include "report/decisions.hpp"
#include "report/summary.hpp"
#include "stages.hpp"
#include "verbs/kernels.hpp"
#include "verbs/verify.hpp"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>

namespace hekla::app {
namespace {

struct DoctorArguments {
    bool list = false, test = false, lab = false, kernels = false, json = false;
    std::string report, dtype = "f32";
    std::vector<std::string> what;
    VerifyArguments verify;
    KernelsArguments listed;
    StageProcess stage; // with a name: this process runs one stage of --test or --lab
};

constexpr double kTestSeconds = 300; // of a slow CPU; a GPU needs less than one minute

int run_device_test(const Globals& globals, const DoctorArguments& a) {
    if (!a.stage.name.empty()) return run_stage(globals, test_stages(), a.stage);
    return run_stages(
        globals, test_stages(),
        {.kind = "test", .file = a.report, .seconds = kTestSeconds, .json = a.json, .summary = report::summary_of});
}

constexpr double kLabSeconds = 480;

int run_lab(const Globals& globals, const DoctorArguments& a) {
    if (!a.stage.name.empty()) return run_stage(globals, lab_stages(), a.stage);
    return run_stages(globals, lab_stages(),
                      {.kind = "lab",
                       .file = a.report,
                       .seconds = kLabSeconds,
                       .json = a.json,
                       .decide = report::decisions,
                       .summary = report::summary_of});
}

int run_examination(const Globals& globals, const DoctorArguments& a) {
    Doctor doctor(a.json);
    examine(doctor, globals);
    const std::string report = json_line(doctor.report()) + "\n";
    if (a.json) std::fwrite(report.data(), 1, report.size(), stdout);
    if (!a.report.empty())
        if (const Status written = write_file_atomically(a.report, report); !written.ok()) return fail(written);
    return doctor.healthy() ? kDone : kFailed;
}

int usage(const char* message) {
    std::fprintf(stderr, "hekla: error: 'hekla doctor': %s\nSee: hekla doctor --help\n", message);
    return kUsage;
}

// Returns an option that was given and that the test of a device does not have; null: none.
const char* option_of_folders(const DoctorArguments& a) {
    const gpu::CapabilityOverrides& limits = a.verify.overrides;
    if (a.verify.reference) return "--reference";
    if (a.verify.bisect) return "--bisect";
    if (a.verify.gpu_kernels) return "--gpu-kernels";
    if (a.verify.gpu_assisted) return "--gpu-assisted";
    if (!limits.disable.empty()) return "--disable";
    if (limits.shared_memory_bytes) return "--shared-memory";
    if (limits.max_workgroup_invocations) return "--invocations";
    if (limits.max_allocation_bytes) return "--allocation";
    return a.dtype != "f32" ? "--dtype" : nullptr;
}

int run_doctor(const Globals& globals, const DoctorArguments& a) {
    if (!a.what.empty() && !a.test && !a.kernels)
        return usage("expected --test before fixture folders, or --kernels before a recipe");
    if (a.list) return list_devices(globals, a.json);
    if (a.lab) return run_lab(globals, a);
    if (a.test) {
        if (a.what.empty()) {
            if (const char* const option = option_of_folders(a); option != nullptr)
                return usage(fmt::format("{} is for --test with fixture folders: name some", option).c_str());
            return run_device_test(globals, a);
        }
        if (!a.report.empty()) return usage("--report is for --test without fixture folders");
        VerifyArguments verify = a.verify;
        verify.folders = a.what;
        verify.json = a.json;
        verify.dtype = a.dtype;
        return run_verify(globals, verify);
    }
    if (a.kernels) {
        KernelsArguments kernels = a.listed;
        if (!a.what.empty()) kernels.recipe = a.what.front();
        if (a.what.size() > 1) kernels.overrides.assign(a.what.begin() + 1, a.what.end());
        kernels.json = a.json;
        kernels.type = a.dtype;
        return run_kernels(globals, kernels);
    }
    return run_examination(globals, a);
}

// The options that `add` defines need `mode`, and say so.
template<class Add>
void add_options_of(CLI::App& parser, CLI::Option* mode, const Add& add) {
    const std::vector<CLI::Option*> before = parser.get_options();
    add();
    for (CLI::Option* option : parser.get_options()) {
        if (std::ranges::find(before, option) != before.end()) continue;
        option->needs(mode);
        option->description(fmt::format("with {}: {}", mode->get_name(), option->get_description()));
    }
}

CLI::Option* add_dtype(CLI::App& parser, std::string& dtype, const char* about) {
    return parser.add_option("--dtype", dtype, about)
        ->check(CLI::IsMember({"f32", "f16", "bf16"}))
        ->capture_default_str();
}

// The verbs of which doctor was made.
void add_old_names(CLI::App& app, const Globals& globals, Verbs& verbs) {
    const auto a = std::make_shared<DoctorArguments>();
    const auto add = [&](const char* name, const char* about, bool DoctorArguments::*mode) {
        CLI::App* parser = app.add_subcommand(name, about)->group("");
        parser->add_flag("--json", a->json, "print JSON");
        verbs.push_back({parser, [&globals, a, mode] {
                             (*a).*mode = true;
                             return run_doctor(globals, *a);
                         }});
        return parser;
    };
    add("devices", "The same as: hekla doctor --list", &DoctorArguments::list);
    CLI::App* verify = add("verify", "The same as: hekla doctor --test", &DoctorArguments::test);
    verify->add_option("folders", a->what, "fixture folders")->required();
    add_dtype(*verify, a->dtype, "precision of the training step");
    add_verify_options(*verify, a->verify);
    CLI::App* kernels = add("kernels", "The same as: hekla doctor --kernels", &DoctorArguments::kernels);
    kernels->add_option("recipe", a->what, "recipe and overrides");
    add_dtype(*kernels, a->dtype, "storage of the matrices");
    add_kernels_options(*kernels, a->listed);
}

} // namespace

void add_doctor(CLI::App& app, const Globals& globals, Verbs& verbs) {
    CLI::App* parser = app.add_subcommand(
        "doctor", "Check this machine (loader, driver, features, correctness, speed) and advise how to repair it.");
    const auto a = std::make_shared<DoctorArguments>();
    parser->add_option("what", a->what,
                       "with --test: fixture folders (config.json, model, inputs, expected); with --kernels: a recipe "
                       "(TOML) or the folder of a run, and recipe keys to override");
    CLI::Option* list = parser->add_flag("--list", a->list, "list the Vulkan devices and whether they can be used");
    CLI::Option* test =
        parser
            ->add_flag("--test", a->test,
                       "test this device: models against their reference implementation, a training with a resume, "
                       "generation, and which models fit; with fixture folders: compare these alone")
            ->excludes(list);
    CLI::Option* lab =
        parser
            ->add_flag("--lab", a->lab,
                       "measure this device in at most eight minutes: memory, matrix units, kernels and variants of "
                       "them, training and generation; prints what the figures decide")
            ->excludes(list)
            ->excludes(test);
    CLI::Option* kernels =
        parser
            ->add_flag("--kernels", a->kernels,
                       "list the kernels of a training step, a pass or a token, and what the driver's compiler reports "
                       "about them; runs nothing")
            ->excludes(list)
            ->excludes(test)
            ->excludes(lab);
    parser
        ->add_option(
            "--report", a->report,
            "also write the findings as JSON into this file; with --test and --lab a line for each stage, without "
            "names of users, hosts and paths")
        ->excludes(list)
        ->excludes(kernels);
    // Of the processes that --test and --lab start.
    parser->add_option("--stage", a->stage.name)->group("");
    parser->add_option("--stage-report", a->stage.report)->group("");
    parser->add_option("--stage-seconds", a->stage.seconds)->group("");
    parser->add_flag("--json", a->json, "print JSON");
    add_dtype(*parser, a->dtype,
              "with --test: precision of the training step (16 bits have wider bounds, and generate nothing); with "
              "--kernels: storage of the matrices of --model and --case");
    add_options_of(*parser, test, [&] { add_verify_options(*parser, a->verify); });
    add_options_of(*parser, kernels, [&] { add_kernels_options(*parser, a->listed); });
    parser->footer(
        "--kernels prints a line per pipeline: dispatches and workgroups of a step or token; registers of an\n"
        "invocation; registers spilled to memory; bytes of scratch memory an invocation; bytes of shared memory a\n"
        "workgroup; waves (subgroups that a core or SIMD unit holds at the same time); instructions. `-`: the driver\n"
        "does not report it. None of these is a speed.\n"
        "\n"
        "Examples:\n"
        "  hekla --device 0 doctor\n"
        "  hekla doctor --list\n"
        "  hekla doctor --test --report test.jsonl\n"
        "  hekla doctor --lab --report lab.jsonl\n"
        "  hekla doctor --kernels --case gpt2-124m --json");
    verbs.push_back({parser, [&globals, a] { return run_doctor(globals, *a); }});
    add_old_names(app, globals, verbs);
}

} // namespace hekla::app
