#include "verbs/scale_table.hpp"

#include "output.hpp"
#include "scaling_scores.hpp"
#include "verbs/eval_tasks.hpp"

#include "base/file.hpp"
#include "base/path_text.hpp"

#include <cstdio>
#include <filesystem>
#include <fmt/format.h>

namespace hekla::app {
namespace {

namespace fs = std::filesystem;
using scaling::Point;

struct TableArguments {
    std::string points;
    TaskArguments tasks;
};

// The trained models of a file of points: folders with their names next to it.
Result<std::vector<std::string>> folders_of(const std::vector<Point>& points, const fs::path& file) {
    std::vector<std::string> folders;
    for (const Point& point : points) {
        std::error_code problem;
        const fs::path folder = file.parent_path() / point.name;
        if (point.name.empty() || !fs::is_directory(folder, problem))
            return not_found(
                fmt::format("{}: the folder of the model '{}' ({}) does not exist; expected the points.csv "
                            "that `hekla scale run` wrote next to its runs",
                            file.string(), point.name, folder.string()));
        folders.push_back(folder.string());
    }
    return folders;
}

Result<int> run_table(const Globals& globals, const TableArguments& a) {
    std::error_code problem;
    const fs::path given = a.points, file = fs::is_directory(given, problem) ? given / "points.csv" : given;
    HK_ASSIGN(std::vector<Point> points, scaling::read_points(file.string(), {}));
    TaskArguments tasks = a.tasks;
    tasks.output.clear(); // of single models nothing is written
    HK_ASSIGN(tasks.models, folders_of(points, file));
    std::vector<std::string> names;
    for (const Point& point : points) names.push_back(point.name);
    HK_ASSIGN(std::vector<EvaluatedModel> models, evaluate_on_tasks(globals, tasks, names));
    const ScalingScores scores(std::move(points), std::move(models));
    const fs::path folder = a.tasks.output.empty() ? file.parent_path() : path_of(a.tasks.output);
    fs::create_directories(folder, problem);
    if (problem) return io_error(fmt::format("{}: {}", folder.string(), problem.message()));
    HK_TRY(write_file_atomically(folder / "scores.json", scores.json().dump(1) + "\n"));
    HK_TRY(write_file_atomically(folder / "scores.html", scores.page(fmt::format("Scores over size: {}", a.points))));
    for (const auto& [name, picture] : scores.pictures()) HK_TRY(write_file_atomically(folder / name, picture));
    std::printf("%s", a.tasks.json ? (scores.json().dump() + "\n").c_str() : scores.table().c_str());
    return kDone;
}

} // namespace

void add_scale_table(CLI::App& scale, const Globals& globals, Verbs& verbs) {
    CLI::App* parser =
        scale.add_subcommand("table", "Evaluate the models of a ladder on tasks: which abilities come with size.");
    const auto a = std::make_shared<TableArguments>();
    parser->add_option("points", a->points, "points.csv of `hekla scale run`, or its folder")->required();
    parser->add_option("--tasks", a->tasks.tasks, "task files (TOML) or folders of them")->required();
    parser
        ->add_option("--num-fewshot", a->tasks.num_fewshot,
                     "demonstrations in a prompt, instead of the tasks' own; several numbers (0,1,2): a score of each")
        ->delimiter(',')
        ->check(CLI::Range(0, 10'000));
    parser->add_option("--limit", a->tasks.limit, "documents of a task, the first ones; 0: all")
        ->check(CLI::NonNegativeNumber);
    parser->add_option("--seed", a->tasks.seed, "seed of demonstrations and sampled texts")->capture_default_str();
    parser->add_option("-o,--output", a->tasks.output, "folder for the files; default: that of the points");
    parser->add_flag("--reference", a->tasks.reference,
                     "compute with the float64 interpreter instead of the device (slow)");
    parser->add_flag("--json", a->tasks.json, "print the scores as JSON");
    parser->footer(
        "Writes scores.json, scores.html and a picture of each score over parameters. A score is flat, better with\n"
        "size, worse with size (inverse scaling), or emerges: it does not differ from that of the smallest model by\n"
        "more than two standard errors up to a model, and makes half of its whole difference in one step.\n"
        "\n"
        "Example: hekla scale table out/ladder --tasks copying.toml");
    verbs.push_back({parser, [&globals, a] { return finish(run_table(globals, *a)); }});
}

} // namespace hekla::app
