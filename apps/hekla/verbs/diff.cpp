// hekla diff: finds where two runs diverge.
#include "base/json.hpp"
#include "command.hpp"
#include "logged_steps.hpp"
#include "model/checkpoint.hpp"
#include "model/weights.hpp"
#include "output.hpp"
#include "train/recipe/recipe_file.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fmt/format.h>
#include <map>
#include <optional>

namespace hekla::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

// The fields that are compared; times are not.
constexpr const char* kCompared[] = {"loss", "grad_norm", "learning_rate", "skipped"};

std::optional<std::string> log_difference(const LoggedStep& a, const LoggedStep& b) {
    for (const char* key : kCompared) {
        const json x = a.step.is_object() ? a.step.value(key, json()) : json(),
                   y = b.step.is_object() ? b.step.value(key, json()) : json();
        if (x != y) return fmt::format("{} is {} in the first and {} in the second", key, x.dump(), y.dump());
    }
    // One of them may have been evaluated more often, which is not a difference.
    if (a.evaluation.is_object() && b.evaluation.is_object() && a.evaluation["eval_loss"] != b.evaluation["eval_loss"])
        return fmt::format("eval_loss is {} in the first and {} in the second", a.evaluation["eval_loss"].dump(),
                           b.evaluation["eval_loss"].dump());
    return std::nullopt;
}

// The first tensor that differs, model before optimizer, and the number of tensors that do.
struct TensorDifference {
    std::string first;
    std::string how;
    std::size_t count = 0;
};

Status compare_weights(const fs::path& a, const fs::path& b, const char* stem, TensorDifference& difference) {
    HK_ASSIGN(const model::Weights x, model::Weights::open(a, stem));
    HK_ASSIGN(const model::Weights y, model::Weights::open(b, stem));
    const auto note = [&](const std::string& name, const std::string& how) {
        if (difference.count++ > 0) return;
        difference.first = name;
        difference.how = how;
    };
    for (const model::TensorView& tensor : x.tensors()) {
        const model::TensorView* other = y.find(tensor.name);
        if (other == nullptr) {
            note(tensor.name, "it is only in the first");
        } else if (other->dtype != tensor.dtype || other->dims != tensor.dims) {
            note(tensor.name,
                 fmt::format("{} in the first, {} in the second", model::describe(tensor), model::describe(*other)));
        } else if (!std::ranges::equal(tensor.bytes, other->bytes)) {
            std::string how = "the bytes differ";
            if (model::is_floating(tensor.dtype) && difference.count == 0) {
                HK_ASSIGN(const int64_t count, model::element_count(tensor.dims));
                std::vector<double> ours(static_cast<std::size_t>(count)), theirs(ours.size());
                HK_TRY(model::load_float64(tensor, ours));
                HK_TRY(model::load_float64(*other, theirs));
                std::size_t places = 0;
                double largest = 0.0;
                for (std::size_t i = 0; i < ours.size(); ++i) {
                    if (ours[i] == theirs[i]) continue;
                    ++places;
                    if (const double d = std::abs(ours[i] - theirs[i]); !(d <= largest)) largest = d;
                }
                how = fmt::format("{} of {} numbers differ, by at most {:.3e}", places, count, largest);
            }
            note(tensor.name, how);
        }
    }
    for (const model::TensorView& tensor : y.tensors())
        if (x.find(tensor.name) == nullptr) note(tensor.name, "it is only in the second");
    return {};
}

struct DiffArguments {
    std::string a, b;
    bool json = false;
};

Result<int> diff(const DiffArguments& arguments) {
    const fs::path a = arguments.a, b = arguments.b;
    HK_TRY(check_run(a));
    HK_TRY(check_run(b));
    HK_ASSIGN(const auto log_a, read_log(a));
    HK_ASSIGN(const auto log_b, read_log(b));
    ordered_json j;
    std::string text;

    // Recipes first, since they contain the intended differences. The folder is not a difference.
    HK_ASSIGN(train::Recipe recipe_a, train::read_recipe(a / "recipe.toml"));
    HK_ASSIGN(train::Recipe recipe_b, train::read_recipe(b / "recipe.toml"));
    recipe_a.output.dir = recipe_b.output.dir = "-";
    std::vector<std::string> lines_a, lines_b;
    const auto lines_of = [](const std::string& whole) {
        std::vector<std::string> lines;
        std::string section;
        for (std::size_t begin = 0; begin < whole.size();) {
            const std::size_t end = std::min(whole.find('\n', begin), whole.size());
            const std::string line = whole.substr(begin, end - begin);
            begin = end + 1;
            if (line.starts_with('['))
                section = line;
            else if (!line.empty())
                lines.push_back(fmt::format("{} {}", section, line));
        }
        std::ranges::sort(lines);
        return lines;
    };
    lines_a = lines_of(train::write_recipe(recipe_a));
    lines_b = lines_of(train::write_recipe(recipe_b));
    std::vector<std::string> only_a, only_b;
    std::ranges::set_difference(lines_a, lines_b, std::back_inserter(only_a));
    std::ranges::set_difference(lines_b, lines_a, std::back_inserter(only_b));
    j["recipe"] = {{"first", only_a}, {"second", only_b}};
    for (const std::string& line : only_a) text += fmt::format("recipe  < {}\n", line);
    for (const std::string& line : only_b) text += fmt::format("recipe  > {}\n", line);

    bool parted = false;
    int64_t compared = 0;
    j["step"] = nullptr;
    for (const auto& [step, record] : log_a) {
        const auto other = log_b.find(step);
        if (other == log_b.end()) continue;
        ++compared;
        if (const auto difference = log_difference(record, other->second)) {
            parted = true;
            j["step"] = step;
            j["difference"] = *difference;
            text += fmt::format("step {}: {}\n", step, *difference);
            break;
        }
    }
    if (!parted) text += fmt::format("{} steps are logged in both, all alike\n", compared);
    j["steps_in_both"] = compared;

    HK_ASSIGN(const std::vector<int64_t> steps_a, model::list_checkpoints(a));
    HK_ASSIGN(const std::vector<int64_t> steps_b, model::list_checkpoints(b));
    std::vector<int64_t> both;
    std::ranges::set_intersection(steps_a, steps_b, std::back_inserter(both));
    j["checkpoints_in_both"] = both;
    j["checkpoint"] = nullptr;
    for (const int64_t step : both) {
        const fs::path at_a = model::checkpoint_path(a, step), at_b = model::checkpoint_path(b, step);
        HK_ASSIGN(const model::Checkpoint whole_a, model::verify_checkpoint(at_a));
        HK_ASSIGN(const model::Checkpoint whole_b, model::verify_checkpoint(at_b));
        TensorDifference difference;
        HK_TRY(compare_weights(whole_a.path, whole_b.path, "model", difference));
        HK_TRY(compare_weights(whole_a.path, whole_b.path, "optimizer", difference));
        if (difference.count == 0) continue;
        parted = true;
        j["checkpoint"] = step;
        j["tensor"] = difference.first;
        j["how"] = difference.how;
        text += fmt::format("checkpoint-{}: {} tensors differ, the first is {}: {}\n", step, difference.count,
                            difference.first, difference.how);
        break;
    }
    if (j["checkpoint"].is_null())
        text += both.empty() ? "no checkpoint is in both\n"
                             : fmt::format("{} checkpoints are in both, all alike\n", both.size());
    if (compared == 0 && both.empty())
        return failed_precondition(
            "the two runs have no step and no checkpoint in common: there is nothing to compare");
    j["equal"] = !parted;
    if (arguments.json)
        std::printf("%s\n", json_line(j).c_str());
    else
        std::fwrite(text.data(), 1, text.size(), stdout);
    return parted ? kFailed : kDone;
}

} // namespace

void add_diff(CLI::App& app, [[maybe_unused]] const Globals& globals, Verbs& verbs) {
    CLI::App* parser = app.add_subcommand(
        "diff",
        "Find the first difference of two runs: the first step in their logs, the first tensor in their checkpoints.");
    const auto a = std::make_shared<DiffArguments>();
    parser->add_option("run-a", a->a, "folder of a run")->required();
    parser->add_option("run-b", a->b, "folder of another run")->required();
    parser->add_flag("--json", a->json, "print the result as JSON");
    parser->footer(
        "Example: hekla diff out/first out/second\nThe exit status is 0 if they are equal, 1 if they differ.");
    verbs.push_back({parser, [a] { return finish(diff(*a)); }});
}

} // namespace hekla::app
