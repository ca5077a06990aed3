// hekla plugin dev: builds a plugin whenever its sources change, checks it, trains it for a few steps, and shows how
// the change affected the graph and the loss.
#include "command.hpp"
#include "watched_files.hpp"

#include "base/chart.hpp"
#include "base/curves.hpp"
#include "base/file.hpp"
#include "base/interrupts.hpp"
#include "base/json.hpp"
#include "base/number_text.hpp"
#include "base/path_text.hpp"
#include "base/run_child.hpp"
#include "base/shell_word.hpp"
#include "check/check.hpp"
#include "graph/text.hpp"
#include "model/safetensors.hpp"
#include "model/weights.hpp"
#include "train/recipe/recipe_file.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

namespace hekla::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr double kBuildSeconds = 600.0, kDescribeSeconds = 60.0, kTrainSeconds = 3600.0;

struct DevArguments {
    std::string folder, recipe, build;
    int64_t steps = 100;
    bool once = false, fresh = false;
};

// The outcome of one version of the plugin.
struct Version {
    int64_t number = 0;
    std::string graph;
    std::vector<std::pair<int64_t, double>> losses;
    fs::path run;
};

fs::path plugins_of(const fs::path& folder) { return folder / "build" / "plugins"; }

// A plugin's folder over successive versions.
class Development {
public:
    // program: the command that starts this program again, with the folder's plugins.
    Development(const Globals& globals, const DevArguments& a, fs::path folder, fs::path recipe,
                std::vector<std::string> program)
        : globals_(globals), a_(a), folder_(std::move(folder)), recipe_(std::move(recipe)),
          kept_(folder_ / "build" / "dev"), program_(std::move(program)) {}

    // Runs one version, from its sources to its losses. An error ends the version; the folder is still watched.
    Status round() {
        Version now;
        HK_TRY(build());
        HK_TRY(check());
        HK_TRY(describe(now));
        HK_TRY(train(now));
        show(now);
        last_ = std::move(now);
        return keep();
    }

    // Restores the last version of an earlier start, so that the first round has a version to compare with.
    void remember() {
        const Result<std::string> text = read_file((kept_ / kLast).string());
        const json last = text.ok() ? json_or_null(text.value()) : json();
        try {
            Version version;
            version.number = last.at("number").get<int64_t>();
            version.graph = last.at("graph").get<std::string>();
            version.losses = last.at("losses").get<std::vector<std::pair<int64_t, double>>>();
            version.run = kept_ / last.at("run").get<std::string>();
            std::error_code problem;
            if (fs::exists(version.run / "model.safetensors", problem)) last_ = std::move(version);
        } catch (const json::exception&) { // missing, or written by another version of Hekla: the first round shows no
                                           // difference
        }
    }

    FileStates sources() const { return watched_files(folder_, recipe_); }

private:
    static constexpr const char* kLast = "last.json";

    Status keep() const {
        const json last{{"number", last_.number},
                        {"graph", last_.graph},
                        {"losses", last_.losses},
                        {"run", last_.run.filename().string()}};
        return write_file_atomically(kept_ / kLast, last.dump(-1, ' ', false, json::error_handler_t::replace));
    }

    Result<std::string> build_command() const {
        if (!a_.build.empty()) return a_.build;
        std::error_code problem;
        if (fs::exists(folder_ / "CMakeLists.txt", problem))
            return fmt::format("{{ test -f build/Makefile || test -f build/build.ninja || cmake -S . -B build "
                               "-DCMAKE_PREFIX_PATH={}; }} && cmake --build build",
                               shell_word(path_of(program_.front()).parent_path().parent_path().string()));
        if (fs::exists(folder_ / "build.sh", problem)) return std::string("sh build.sh");
        if (fs::exists(folder_ / "Makefile", problem)) return std::string("make");
        return not_found(
            fmt::format("{}: has no CMakeLists.txt, build.sh or Makefile; give the command that builds it with --build",
                        folder_.string()));
    }

    // Runs a shell command in the plugin's folder.
    Result<ChildResult> run(const std::string& command, double seconds) const {
        return run_child({"/bin/sh", "-c", fmt::format("cd {} && {}", shell_word(folder_.string()), command)},
                         {.seconds = seconds});
    }

    Status build() {
        HK_ASSIGN(const std::string command, build_command());
        HK_ASSIGN(const ChildResult built, run(command, kBuildSeconds));
        if (built.status == 0) {
            fmt::print("built in {}\n", duration_text(built.seconds));
            return {};
        }
        return failed_precondition(fmt::format("the build failed:\n{}{}", built.out, built.error));
    }

    std::vector<fs::path> manifests() const {
        std::vector<fs::path> found;
        std::error_code problem;
        for (const auto& entry : fs::directory_iterator(plugins(), problem))
            if (entry.path().extension() == ".json") found.push_back(entry.path());
        std::ranges::sort(found);
        return found;
    }
    fs::path plugins() const { return plugins_of(folder_); }

    std::string shell(const std::vector<std::string>& arguments) const {
        std::string line = "exec";
        for (const std::vector<std::string>& words : {program_, arguments})
            for (const std::string& word : words) line += " " + shell_word(word);
        return line;
    }

    // Runs the tests that take seconds; `hekla plugin check` runs all.
    Status check() {
        const std::vector<fs::path> all = manifests();
        if (all.empty())
            return not_found(
                fmt::format("{}: the build put no plugin there (a library and its manifest)", plugins().string()));
        for (const fs::path& manifest : all) {
            check::CheckOptions options;
            options.plugin = manifest;
            options.folders = globals_.plugin_folders();
            options.program = program_;
            options.only = {"file.",      "graph.same",   "graph.config", "graph.shapes",
                            "batch.pure", "batch.bounds", "network."};
            options.level = 2;
            std::size_t tried = 0, failed = 0;
            const Status checked = check::check_plugin(options, [&](const check::TestResult& result) {
                ++tried;
                if (result.outcome != check::Outcome::failed) return !interrupted();
                ++failed;
                for (const std::string& finding : result.findings) fmt::print("FAILED {}: {}\n", result.test, finding);
                fmt::print("       again: {}\n", result.reproduce);
                return !interrupted();
            });
            HK_TRY(checked);
            fmt::print("{}: {} of {} quick tests pass\n", manifest.stem().string(), tried - failed, tried);
            if (failed > 0) return failed_precondition("not trained, since tests fail");
        }
        return {};
    }

    Status describe(Version& now) {
        const std::string command = shell({"inspect", recipe_.string(), "--graph", "text"});
        HK_ASSIGN(const ChildResult described, run(command, kDescribeSeconds));
        if (described.status != 0)
            return failed_precondition(fmt::format("the graph cannot be described: {}", described.error));
        now.graph = described.out;
        return {};
    }

    Status trained(const std::vector<std::string>& overrides) const {
        std::vector<std::string> arguments{"train", recipe_.string()};
        arguments.insert(arguments.end(), overrides.begin(), overrides.end());
        HK_ASSIGN(const ChildResult ran, run(shell(arguments), kTrainSeconds));
        if (ran.status == 0) return {};
        return failed_precondition(fmt::format("training failed: {}", ran.error));
    }

    Status train(Version& now) {
        std::error_code problem;
        now.number = last_.number + 1;
        now.run = kept_ / fmt::format("version-{}", now.number);
        const fs::path begin = kept_ / fmt::format("begin-{}", now.number);
        fs::create_directories(kept_, problem);
        for (const fs::path& old : {now.run, begin}) fs::remove_all(old, problem);
        std::vector<std::string> overrides{fmt::format("train.max_steps={}", a_.steps), "train.eval_steps=0",
                                           "train.save_steps=0", "output.dir=" + now.run.string()};
        if (!a_.fresh && !last_.run.empty()) {
            HK_TRY(trained({"train.max_steps=0", "train.eval_steps=0", "output.dir=" + begin.string()}));
            HK_TRY(keep_weights(last_.run / "model.safetensors", begin / "model.safetensors"));
            // Training would resume from a checkpoint; it must start from the model in the folder.
            for (const auto& entry : fs::directory_iterator(begin, problem))
                if (entry.is_directory(problem)) fs::remove_all(entry.path(), problem);
            overrides.push_back("model.from=" + begin.string());
            overrides.push_back("tokenizer.from=" + begin.string());
        }
        HK_TRY(trained(overrides));
        HK_ASSIGN(const std::string log, read_file((now.run / "train_log.jsonl").string()));
        std::istringstream lines(log);
        for (std::string line; std::getline(lines, line);) {
            const json record = json_or_null(line);
            if (record.is_object() && record.contains("step") && record.value("loss", json()).is_number())
                now.losses.emplace_back(record["step"].get<int64_t>(), record["loss"].get<double>());
        }
        return {};
    }

    // Copies the tensors that both versions have, by name and shape, from the old file into the new one.
    Status keep_weights(const fs::path& from, const fs::path& to) const {
        HK_ASSIGN(const model::Weights before, model::Weights::open(from));
        std::size_t kept = 0;
        std::vector<model::TensorSource> sources;
        std::string all = to.string() + ".kept";
        {
            HK_ASSIGN(const model::Weights fresh, model::Weights::open(to));
            for (const model::TensorView& tensor : fresh.tensors()) {
                const model::TensorView* old = before.find(tensor.name);
                const bool same = old != nullptr && old->dims == tensor.dims && old->dtype == tensor.dtype;
                kept += same ? 1 : 0;
                model::TensorSource source;
                source.name = tensor.name;
                source.dtype = tensor.dtype;
                source.dims = tensor.dims;
                source.stream = [bytes = same ? old->bytes : tensor.bytes](const model::Sink& sink) {
                    return sink(bytes);
                };
                sources.push_back(std::move(source));
            }
            HK_TRY(model::write_safetensors_file(all, sources).status());
            fmt::print("{} of {} tensors keep the last version's weights\n", kept, fresh.tensors().size());
        }
        std::error_code problem;
        fs::rename(all, to, problem);
        if (problem) return io_error(fmt::format("{}: {}", to.string(), problem.message()));
        return {};
    }

    void show(const Version& now) const {
        if (last_.run.empty()) {
            fmt::print("the graph has {} lines\n", std::ranges::count(now.graph, '\n'));
        } else {
            const std::string difference = graph::text_difference(last_.graph, now.graph);
            if (difference.empty())
                fmt::print("the graph is the same\n");
            else
                fmt::print("the graph changed:\n{}", difference);
        }
        fmt::print("{:>8} {:>12} {:>12}\n", "step", "last loss", "loss");
        const std::size_t count = now.losses.size(), shown = std::min<std::size_t>(count, 10);
        for (std::size_t i = 1; i <= shown; ++i) {
            const std::size_t at = i * count / shown - 1;
            const auto& [step, loss] = now.losses[at];
            fmt::print("{:>8} {:>12} {:>12.4f}\n", step,
                       at < last_.losses.size() ? fmt::format("{:.4f}", last_.losses[at].second) : "-", loss);
        }
        std::vector<Curve> curves{{"this version", series_stroke(0).color, now.losses}};
        if (!last_.losses.empty()) curves.push_back({"last version", series_stroke(0).color, last_.losses, 0.4});
        const fs::path picture = kept_ / "loss.svg";
        if (const Status drawn = write_file_atomically(picture, curve_svg("Loss of two versions", curves)); drawn.ok())
            fmt::print("{}\n", picture.string());
        std::fflush(stdout);
    }

    const Globals& globals_;
    const DevArguments& a_;
    fs::path folder_, recipe_, kept_;
    std::vector<std::string> program_;
    Version last_;
};

int run_dev(const Globals& globals, const DevArguments& a) {
    std::error_code problem;
    const fs::path folder = fs::canonical(a.folder, problem);
    if (problem || !fs::is_directory(folder, problem))
        return fail(
            not_found(fmt::format("{}: not a folder; expected the folder with the plugin's sources", a.folder)));
    const fs::path recipe = a.recipe.empty() ? folder / "recipe.toml" : fs::absolute(a.recipe, problem);
    if (const Result<train::Recipe> read = train::read_recipe(recipe); !read.ok())
        return fail(read.status().with_context("no recipe to train with (--recipe)"));
    watch_interrupts(kStoppedEarly);
    Result<std::vector<std::string>> program = own_command(globals, plugins_of(folder));
    if (!program.ok()) return fail(program.status());
    Development development(globals, a, folder, recipe, program.take());
    development.remember();
    FileStates seen = development.sources();
    for (;;) {
        const Status done = development.round();
        if (interrupted()) return kDone;
        if (!done.ok()) fmt::print(stderr, "hekla: {}\n", done.message());
        if (a.once) return done.ok() ? kDone : kFailed;
        fmt::print("watching {} (Ctrl+C ends it)\n", folder.string());
        std::fflush(stdout);
        while (!interrupted() && development.sources() == seen)
            std::this_thread::sleep_for(std::chrono::milliseconds(300));
        if (interrupted()) return kDone;
        std::this_thread::sleep_for(std::chrono::milliseconds(200)); // an editor may write several files
        seen = development.sources();
    }
}

} // namespace

void add_plugin_dev(CLI::App& plugin, const Globals& globals, Verbs& verbs) {
    CLI::App* parser = plugin.add_subcommand("dev", "Build, check and train a plugin whenever its sources, manifest or "
                                                    "recipe change; show how graph and loss changed.");
    const auto a = std::make_shared<DevArguments>();
    parser->add_option("folder", a->folder, "the plugin's folder, as `plugin new` writes it")->required();
    parser->add_option("--recipe", a->recipe, "recipe to train with (default: recipe.toml in the folder)");
    parser->add_option("--build", a->build,
                       "command that builds into build/plugins (default: CMake, build.sh or make)");
    parser->add_option("--steps", a->steps, "training steps of each version")
        ->check(CLI::Range(1, 1 << 20))
        ->capture_default_str();
    parser->add_flag("--fresh", a->fresh, "start every version from new weights");
    parser->add_flag("--once", a->once, "run one version and exit");
    parser->footer("Example: hekla plugin dev gated-mixer\nThe runs are in build/dev.");
    verbs.push_back({parser, [&globals, a] { return run_dev(globals, *a); }});
}

} // namespace hekla::app
