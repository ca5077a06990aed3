#include "verbs/eval_tasks.hpp"

#include "base/file.hpp"
#include "base/installed_path.hpp"
#include "base/interrupts.hpp"
#include "base/path_text.hpp"
#include "base/stopwatch.hpp"
#include "harness/results.hpp"
#include "harness/task_file.hpp"
#include "infer/open/open_model.hpp"
#include "infer/texts/chat.hpp"
#include "output.hpp"
#include "pages/tasks_page.hpp"
#include "program/runtime.hpp"
#include "program/runtime_source.hpp"
#include "training_progress.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <map>

namespace hekla::app {
namespace {

namespace fs = std::filesystem;
using harness::Task;
using harness::TaskResult;
using nlohmann::ordered_json;

// Lines of cells, as a table in Markdown.
std::string table_text(const std::vector<std::vector<std::string>>& lines, std::size_t texts) {
    std::vector<std::size_t> widths(lines[0].size(), 3);
    const auto width_of = [](const std::string& cell) { // of UTF-8
        return static_cast<std::size_t>(
            std::ranges::count_if(cell, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
    };
    for (const auto& line : lines)
        for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], width_of(line[i]));
    std::string out;
    for (std::size_t l = 0; l < lines.size(); ++l) {
        out += "|";
        for (std::size_t i = 0; i < lines[l].size(); ++i) {
            const std::string space(widths[i] - width_of(lines[l][i]), ' ');
            out += i < texts ? " " + lines[l][i] + space + " |" : " " + space + lines[l][i] + " |";
        }
        out += "\n";
        if (l > 0) continue;
        out += "|";
        for (std::size_t i = 0; i < widths.size(); ++i)
            out += i < texts ? std::string(widths[i] + 2, '-') + "|" : std::string(widths[i] + 1, '-') + ":|";
        out += "\n";
    }
    return out;
}

std::string metrics_of(const Task& task) {
    std::string names;
    for (const harness::MetricUse& use : task.metrics) names += (names.empty() ? "" : ", ") + use.name;
    return names;
}

int list_tasks(const TaskArguments& a) {
    std::vector<std::string> paths(a.tasks.begin() + 1, a.tasks.end());
    if (paths.empty()) paths.push_back(installed_path("apps/tasks"));
    const Result<std::vector<Task>> tasks = harness::read_tasks(paths);
    if (!tasks.ok()) return fail(tasks.status());
    std::vector<std::vector<std::string>> lines{{"task", "output type", "data", "metrics", "version", "file"}};
    ordered_json list = ordered_json::array();
    for (const Task& task : tasks.value()) {
        lines.push_back(
            {task.name, output_type_name(task.output_type), task.dataset, metrics_of(task), task.version, task.file});
        list.push_back({{"task", task.name},
                        {"output_type", output_type_name(task.output_type)},
                        {"dataset", task.dataset},
                        {"version", task.version},
                        {"file", task.file}});
    }
    print_foreign(a.json ? json_line(list) + "\n" : table_text(lines, lines[0].size()));
    return kDone;
}

// Returns a name for a file from a path: the last part that has a name.
std::string short_name(const std::string& path) {
    const fs::path whole = path_of(path).lexically_normal();
    const std::string last = whole.has_filename() ? whole.filename().string() : whole.parent_path().filename().string();
    return is_plain_file_name(last) ? last : "model";
}

// Returns the names of the models in tables and folders: short ones, numbered where they are equal.
std::vector<std::string> names_of(const std::vector<std::string>& models) {
    std::vector<std::string> names;
    for (const std::string& model : models) {
        const std::string name = short_name(model);
        std::string unique = name;
        for (int i = 2; std::ranges::find(names, unique) != names.end(); ++i) unique = fmt::format("{}-{}", name, i);
        names.push_back(unique);
    }
    return names;
}

std::string score_table(const std::vector<EvaluatedModel>& models) {
    std::vector<std::vector<std::string>> lines{{"task", "version", "filter", "shots", "metric", ""}};
    for (const EvaluatedModel& model : models) lines[0].push_back(model.name);
    for (std::size_t t = 0; t < models[0].results.size(); ++t) {
        const TaskResult& first = models[0].results[t];
        for (std::size_t s = 0; s < first.scores.size(); ++s) {
            const harness::Score& score = first.scores[s];
            auto& line = lines.emplace_back();
            line = {first.task.name, first.task.version,
                    score.filter,    std::to_string(first.num_fewshot),
                    score.metric,    score.higher_is_better ? "↑" : "↓"};
            for (const EvaluatedModel& model : models) line.push_back(score_text(model.results[t].scores[s]));
        }
    }
    return table_text(lines, 6);
}

// A line on a terminal that shows how far a task is.
class TaskProgress {
public:
    void show(const std::string& model, const Task& task, std::size_t done, std::size_t all) {
        if (!terminal_) return;
        std::fprintf(stderr, "\r\x1b[K%s: %s: %zu of %zu %s", model.c_str(), task.name.c_str(), done, all,
                     task.output_type == harness::OutputType::generate_until ? "texts" : "rows");
        open_ = true;
    }
    void end() {
        if (open_) std::fprintf(stderr, "\r\x1b[K");
        open_ = false;
    }

private:
    bool terminal_ = Progress::is_terminal();
    bool open_ = false;
};

class Run {
public:
    Run(const Globals& globals, const TaskArguments& arguments)
        : globals_(globals), a_(arguments), registry_(scan_plugins(globals)) {}

    Result<int> run() {
        if (!a_.output.empty()) {
            std::error_code problem;
            fs::create_directories(a_.output, problem);
            if (problem) return io_error(fmt::format("{}: {}", a_.output, problem.message()));
        }
        HK_ASSIGN(const ordered_json all, evaluate_all(names_of(a_.models)));
        if (!a_.output.empty()) HK_TRY(write_file_atomically(path_of(a_.output) / "report.html", tasks_page(models_)));
        const std::string text = a_.models.size() == 1 ? json_line(all.front()) : json_line({{"models", all}});
        print_foreign(a_.json ? text + "\n" : score_table(models_));
        return kDone;
    }

    // Returns the results of each model by its name.
    Result<ordered_json> evaluate_all(const std::vector<std::string>& names) {
        HK_ASSIGN(tasks_, harness::read_tasks(a_.tasks));
        HK_ASSIGN(const infer::AdapterUses adapters, infer::parse_adapter_uses(a_.adapters));
        watch_interrupts(kStoppedEarly);
        ordered_json all = ordered_json::object();
        for (std::size_t i = 0; i < a_.models.size(); ++i) {
            HK_ASSIGN(ordered_json results, evaluate(a_.models[i], names[i], adapters));
            all[names[i]] = std::move(results);
        }
        warn_of_more();
        return all;
    }
    std::vector<EvaluatedModel> take_models() { return std::move(models_); }

private:
    std::string prompts() const {
        std::string how;
        if (a_.chat_template == "auto")
            how = "in the model's own chat template";
        else if (!a_.chat_template.empty())
            how = fmt::format("in the chat template {}", a_.chat_template);
        if (!how.empty()) how += a_.fewshot_as_multiturn ? ", demonstrations as turns" : ", demonstrations in one turn";
        if (!a_.system_instruction.empty())
            how += fmt::format("{}after the instruction \"{}\"", how.empty() ? "" : ", ", a_.system_instruction);
        return how;
    }

    Result<ordered_json> evaluate(const std::string& path, const std::string& name,
                                  const infer::AdapterUses& adapters) {
        infer::ModelOptions open;
        open.head = "lm";
        open.adapters = adapters;
        const program::RuntimeSource source = a_.reference ? program::RuntimeSource() : device_.source();
        HK_ASSIGN(infer::Model model, infer::open_model(registry_, source, path, open, globals_.log()));
        TaskProgress progress;
        harness::ResultsOf of;
        of.model = path;
        if (a_.num_fewshot.size() == 1) of.options.num_fewshot = a_.num_fewshot[0];
        of.options.limit = a_.limit;
        of.options.seed = a_.seed;
        std::optional<text::ChatTemplate> chat;
        if (!a_.chat_template.empty()) {
            HK_ASSIGN(chat, infer::chat_template_of(model, a_.chat_template, a_.chat_date));
            of.options.layout.chat = &*chat;
            of.options.layout.tokens = &model.tokenizer->vocabulary();
        }
        of.options.layout.system_instruction = a_.system_instruction;
        of.options.layout.fewshot_as_multiturn = a_.fewshot_as_multiturn;
        of.options.stop = [] { return interrupted(); };
        of.options.progress = [&](const Task& task, std::size_t done, std::size_t rows) {
            progress.show(name, task, done, rows);
        };
        HK_ASSIGN(const std::unique_ptr<harness::Evaluator> evaluator,
                  harness::Evaluator::create(registry_, model, of.options));
        EvaluatedModel& evaluated = models_.emplace_back();
        evaluated.name = name;
        evaluated.prompts = prompts();
        ordered_json by_shots = ordered_json::object();
        const std::size_t rounds = std::max<std::size_t>(a_.num_fewshot.size(), 1);
        for (std::size_t round = 0; round < rounds; ++round) {
            const auto began = std::chrono::steady_clock::now();
            std::vector<TaskResult> results;
            for (Task task : tasks_) {
                // A whole text has no demonstrations, and one score.
                if (task.output_type == harness::OutputType::loglikelihood_rolling && round > 0) continue;
                if (rounds > 1) task.num_fewshot = a_.num_fewshot[round];
                Result<TaskResult> result = evaluator->run(task);
                progress.end();
                if (!result.ok()) return result.status();
                tell(name, result.value());
                results.push_back(result.take());
            }
            of.seconds = seconds_since(began);
            const std::string shots = rounds > 1 ? std::to_string(a_.num_fewshot[round]) : std::string();
            by_shots[shots] = harness::results_json(of, results);
            if (!a_.output.empty()) HK_TRY(write(name, shots, by_shots[shots], results));
            for (TaskResult& result : results) evaluated.results.push_back(std::move(result));
        }
        const auto place = [&](const TaskResult& result) {
            return std::ranges::find(tasks_, result.task.name, &Task::name) - tasks_.begin();
        };
        std::ranges::stable_sort(evaluated.results, {}, place);
        return rounds > 1 ? ordered_json{{"shots", by_shots}} : by_shots.front();
    }

    void tell(const std::string& name, const TaskResult& result) {
        const std::string of_prompts = fmt::format(" of {}", result.answers.size());
        warn(name, result, result.cut, of_prompts, "prompts lost tokens on the left, for want of positions");
        warn(name, result, result.without_system, of_prompts,
             "prompts have no system message, because the chat template refuses it");
        warn(name, result, result.joined, "",
             "continuations have tokens that may begin within the prompt, because the tokenizer joins the two");
    }

    // Warns of the first model at once; warn_of_more() of all others together.
    void warn(const std::string& name, const TaskResult& result, uint64_t count, const std::string& of,
              const std::string& what) {
        if (count == 0) return;
        const auto [told, first] = told_.try_emplace({result.task.name, what}, 0);
        if (first)
            globals_.log().warning(fmt::format("{}: {}: {}{} {}", name, result.task.name, count, of, what));
        else
            ++told->second;
    }

    void warn_of_more() const {
        for (const auto& [of, more] : told_)
            if (more > 0)
                globals_.log().warning(fmt::format("{}: in {} more {}, too, {}", of.first, more,
                                                   more == 1 ? "evaluation" : "evaluations", of.second));
    }

    // shots: their number where there are several.
    Status write(const std::string& name, const std::string& shots, const ordered_json& results,
                 const std::vector<TaskResult>& tasks) const {
        fs::path folder = a_.output;
        if (a_.models.size() > 1) folder /= name;
        if (!shots.empty()) folder /= shots + "-shot";
        std::error_code problem;
        fs::create_directories(folder, problem);
        if (problem) return io_error(fmt::format("{}: {}", folder.string(), problem.message()));
        const std::string text = results.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
        HK_TRY(write_file_atomically(folder / "results.json", text));
        for (const TaskResult& result : tasks)
            if (a_.log_samples)
                HK_TRY(write_file_atomically(folder / fmt::format("samples_{}.jsonl", result.task.name),
                                             harness::samples_lines(result)));
        return {};
    }

    const Globals& globals_;
    const TaskArguments& a_;
    std::vector<Task> tasks_;
    plugin::Registry registry_;
    DeviceOnDemand device_{globals_, measuring(globals_)};
    std::vector<EvaluatedModel> models_;
    std::map<std::pair<std::string, std::string>, uint64_t> told_; // by task and warning: more evaluations with it

    static program::RuntimeOptions measuring(const Globals& globals) {
        program::RuntimeOptions options;
        options.measure_kernels = measure_of(globals);
        return options;
    }
};

} // namespace

Result<std::vector<EvaluatedModel>> evaluate_on_tasks(const Globals& globals, const TaskArguments& arguments,
                                                      const std::vector<std::string>& names) {
    Run run(globals, arguments);
    HK_TRY(run.evaluate_all(names).status());
    return run.take_models();
}

int run_eval_tasks(const Globals& globals, const TaskArguments& arguments) {
    if (arguments.tasks[0] == "list") return list_tasks(arguments);
    return finish(Run(globals, arguments).run());
}

} // namespace hekla::app
