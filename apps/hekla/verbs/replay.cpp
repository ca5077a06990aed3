// hekla replay: repeats one step of a run bit for bit and shows what was wrong in it. hekla diff: finds where two runs
// diverge.
#include "base/json.hpp"
#include "command.hpp"
#include "described.hpp"
#include "non_finite.hpp"
#include "output.hpp"
#include "program/parameter_store.hpp"
#include "program/runtime.hpp"

#include "base/file.hpp"
#include "model/checkpoint.hpp"
#include "model/weights.hpp"
#include "train/recipe/recipe_file.hpp"
#include "train/replay.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <optional>

namespace hekla::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

// ---- the log of a run ----------------------------------------------------------------------------------------------

// The fields that are compared; times are not.
constexpr const char* kCompared[] = {"loss", "grad_norm", "learning_rate", "skipped"};

struct LoggedStep {
    json step, evaluation; // null if there is none
};

Result<std::map<int64_t, LoggedStep>> read_log(const fs::path& run) {
    const fs::path file = run / "train_log.jsonl";
    HK_ASSIGN(const std::string text, read_file(file));
    std::map<int64_t, LoggedStep> steps;
    std::size_t number = 0;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = text.find('\n', begin);
        if (end == std::string::npos) break; // an unfinished line
        ++number;
        json record = json_or_null(std::string_view(text).substr(begin, end - begin));
        begin = end + 1;
        if (!record.is_object() || !record.value("step", json()).is_number_integer())
            return corrupt(fmt::format("{}:{}: not a record of a step", file.string(), number));
        LoggedStep& at = steps[record["step"].get<int64_t>()];
        (record.contains("eval_loss") ? at.evaluation : at.step) = std::move(record);
    }
    return steps;
}

Status check_run(const fs::path& run) {
    std::error_code problem;
    for (const char* name : {"recipe.toml", "tokenizer.json", "train_log.jsonl"})
        if (!fs::exists(run / name, problem))
            return not_found(fmt::format("{}: is not a run, it has no {}", run.string(), name));
    return {};
}

// ---- replay --------------------------------------------------------------------------------------------------------

struct ReplayArguments {
    std::string run;
    int64_t step = 0;
    std::string output;
    bool json = false;
};

bool all_finite(std::span<const float> values) {
    return std::ranges::all_of(values, [](float v) { return std::isfinite(v); });
}

double norm(std::span<const float> values) {
    double sum = 0.0;
    for (const float v : values) sum += static_cast<double>(v) * static_cast<double>(v);
    return std::sqrt(sum);
}

int32_t int_at(const data::Field& field, std::size_t i) {
    int32_t value;
    std::memcpy(&value, field.bytes.data() + i * 4, 4);
    return value;
}

float float_at(const data::Field& field, std::size_t i) {
    float value;
    std::memcpy(&value, field.bytes.data() + i * 4, 4);
    return value;
}

// Formats the batch as readable text: rows of tokens, each with its position.
std::string batch_text(const std::vector<data::Batch>& batches, const text::Tokenizer& tokenizer) {
    std::string out;
    for (std::size_t micro = 0; micro < batches.size(); ++micro)
        for (const data::Field& field : batches[micro].fields) {
            if (field.kind != data::FieldKind::int32 || field.shape.size() != 2 || !field.name.ends_with("ids"))
                continue;
            const auto rows = static_cast<std::size_t>(field.shape[0]),
                       length = static_cast<std::size_t>(field.shape[1]);
            for (std::size_t row = 0; row < rows; ++row) {
                std::vector<int32_t> ids;
                for (std::size_t i = 0; i < length; ++i)
                    if (const int32_t id = int_at(field, row * length + i); id >= 0)
                        ids.push_back(id); // -100: not scored
                out +=
                    fmt::format("---- micro-batch {}, {}, row {}\n{}\n", micro, field.name, row, tokenizer.decode(ids));
            }
        }
    return out;
}

ordered_json batch_json(const std::vector<data::Batch>& batches) {
    ordered_json list = ordered_json::array();
    for (std::size_t micro = 0; micro < batches.size(); ++micro)
        for (const data::Field& field : batches[micro].fields) {
            ordered_json values = ordered_json::array();
            for (std::size_t i = 0; i < field.bytes.size() / 4; ++i)
                if (field.kind == data::FieldKind::int32)
                    values.push_back(int_at(field, i));
                else
                    values.push_back(float_at(field, i));
            list.push_back(
                {{"micro_batch", micro}, {"field", field.name}, {"shape", field.shape}, {"values", std::move(values)}});
        }
    return list;
}

Status save_gradients(const fs::path& file, const train::Replay& replay, const program::ParameterStore& store) {
    std::vector<model::TensorSource> sources;
    for (const auto& [name, values] : replay.gradients) {
        model::TensorSource source;
        source.name = name;
        source.dtype = model::DType::f32;
        if (const program::ParameterEntry* entry = store.find(name)) source.dims = entry->shape.vector();
        source.stream = [&values = values](const model::Sink& sink) { return sink(std::as_bytes(std::span(values))); };
        sources.push_back(std::move(source));
    }
    HK_ASSIGN(const model::FileRecord written, model::write_safetensors_file(file, sources));
    (void)written;
    return {};
}

Result<int> replay(const Globals& globals, const ReplayArguments& a) {
    const fs::path run = a.run;
    HK_TRY(check_run(run));
    // The run may have been moved since its recipe was written.
    HK_ASSIGN(const train::Recipe recipe,
              train::read_recipe(run / "recipe.toml", {fmt::format("output.dir={}", ordered_json(a.run).dump())}));
    HK_ASSIGN(const auto log, read_log(run));
    const plugin::Registry registry = scan_plugins(globals);
    DeviceOnDemand device(globals);
    train::TrainerEvents events;
    if (globals.verbose) events.message = [&](const std::string& line) { globals.log().info(line); };
    HK_ASSIGN(const auto trainer, train::TrainingRun::create(recipe, registry, device.source(), globals.log(), events));
    HK_ASSIGN(const train::Replay replayed, train::replay(*trainer, a.step));

    bool finite = std::isfinite(replayed.loss.total);
    std::vector<std::pair<double, std::string>> largest;
    for (const auto& [name, values] : replayed.gradients) {
        finite = finite && all_finite(values);
        largest.emplace_back(norm(values), name);
    }
    std::ranges::sort(largest, [](const auto& x, const auto& y) {
        return x.first > y.first || (std::isnan(x.first) && !std::isnan(y.first));
    });
    NonFiniteSearch search;
    if (!finite) {
        HK_ASSIGN(const Described described, describe_recipe(registry, recipe, globals.log()));
        HK_ASSIGN(program::Runtime * runtime, device.runtime());
        HK_ASSIGN(search, find_non_finite(*runtime, trainer->store(), described.graph, replayed.batches, recipe));
    }
    const std::optional<NonFinite>& culprit = search.device;
    std::string agreement = "the log has no such step";
    bool differs = false;
    if (const auto logged = log.find(a.step); logged != log.end() && logged->second.step.is_object()) {
        const json& then = logged->second.step["loss"];
        differs = then.is_number() ? then.get<double>() != replayed.loss.total : std::isfinite(replayed.loss.total);
        agreement = differs ? fmt::format("the run had {}: these are NOT the same bits", then.dump())
                            : "the same bits as the run's";
    }

    ordered_json j{{"step", a.step},
                   {"from_checkpoint", replayed.from_checkpoint},
                   {"loss", replayed.loss.total},
                   {"same_loss_as_log", !differs},
                   {"finite", finite}};
    j["first_non_finite"] = culprit ? ordered_json{{"node", culprit->what}, {"value", culprit->where}} : ordered_json();
    j["float64"] = search.exact ? ordered_json{{"node", search.exact->what}, {"value", search.exact->where}}
                   : search.computed_exactly ? ordered_json("finite")
                                             : ordered_json();
    j["gradient_norms"] = ordered_json::object();
    for (const auto& [size, name] : largest) j["gradient_norms"][name] = size;
    const std::string text = batch_text(replayed.batches, trainer->tokenizer());
    if (!a.output.empty()) {
        std::error_code problem;
        fs::create_directories(a.output, problem);
        if (problem) return io_error(fmt::format("{}: the folder cannot be made: {}", a.output, problem.message()));
        HK_TRY(write_file_atomically(fs::path(a.output) / "batch.txt", text));
        HK_TRY(
            write_file_atomically(fs::path(a.output) / "batch.json", json_line(batch_json(replayed.batches)) + "\n"));
        HK_TRY(save_gradients(fs::path(a.output) / "gradients.safetensors", replayed, trainer->store()));
        HK_TRY(write_file_atomically(fs::path(a.output) / "replay.json", j.dump(1) + "\n"));
    }
    if (a.json) {
        std::printf("%s\n", json_line(j).c_str());
    } else {
        if (a.output.empty()) std::fwrite(text.data(), 1, text.size(), stdout);
        fmt::print("step {} from {}: loss {} ({})\n", a.step,
                   replayed.from_checkpoint > 0 ? fmt::format("checkpoint-{}", replayed.from_checkpoint)
                                                : "the beginning",
                   replayed.loss.total, agreement);
        for (std::size_t i = 0; i < std::min<std::size_t>(5, largest.size()); ++i)
            fmt::print("  gradient norm {:>11.4e}  {}\n", largest[i].first, largest[i].second);
        if (finite)
            fmt::print("everything is finite\n");
        else if (culprit)
            fmt::print("not finite first in {}: {}\n", culprit->what, culprit->where);
        else
            fmt::print("the loss or a gradient is not finite, no node's value alone is\n");
        if (search.exact)
            fmt::print("in float64 too, first in {}: {}; the model or its data are at fault, not the precision\n",
                       search.exact->what, search.exact->where);
        else if (search.computed_exactly)
            fmt::print("in float64 everything is finite: the precision is at fault, not the mathematics\n");
        if (!a.output.empty())
            fmt::print("batch.txt, batch.json, gradients.safetensors and replay.json are in {}\n", a.output);
    }
    if (differs)
        return fail(fmt::format(
            "step {} did not come out as in the run: another device, driver, kernel choice, version or text", a.step));
    return kDone;
}

// ---- diff ----------------------------------------------------------------------------------------------------------

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

void add_replay(CLI::App& app, const Globals& globals, Verbs& verbs) {
    {
        CLI::App* parser = app.add_subcommand("replay", "Repeat a step of a run bit for bit, and show its batch, its "
                                                        "gradients and the first value that is not finite.");
        const auto a = std::make_shared<ReplayArguments>();
        parser->add_option("run", a->run, "folder of the run")->required();
        parser->add_option("--step", a->step, "number of the step, from 1")
            ->required()
            ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
        parser->add_option("-o,--output", a->output,
                           "folder for batch.txt, batch.json, gradients.safetensors and replay.json");
        parser->add_flag("--json", a->json, "print the result as JSON");
        parser->footer("Example: hekla replay out/quickstart --step 120 -o out/step-120\n"
                       "The exit status is 1 if the loss differs from the run's log.");
        verbs.push_back({parser, [&globals, a] { return finish(replay(globals, *a)); }});
    }
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
