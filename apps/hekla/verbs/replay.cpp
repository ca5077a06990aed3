// hekla replay: repeats one step of a run bit for bit and shows what was wrong in it.
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/path_text.hpp"
#include "command.hpp"
#include "described.hpp"
#include "logged_steps.hpp"
#include "model/weights.hpp"
#include "non_finite.hpp"
#include "output.hpp"
#include "program/parameter_store.hpp"
#include "program/runtime.hpp"
#include "replayed_step.hpp"
#include "train/recipe/recipe_file.hpp"
#include "train/training_events.hpp"
#include "train/training_run.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>
#include <optional>

namespace hekla::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

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

Status save_gradients(const fs::path& file, const ReplayedStep& replay, const program::ParameterStore& store) {
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
    HK_ASSIGN(const ReplayedStep replayed, replay_step(*trainer, a.step));

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
        HK_TRY(write_file_atomically(path_of(a.output) / "batch.txt", text));
        HK_TRY(write_file_atomically(path_of(a.output) / "batch.json", json_line(batch_json(replayed.batches)) + "\n"));
        HK_TRY(save_gradients(path_of(a.output) / "gradients.safetensors", replayed, trainer->store()));
        HK_TRY(write_file_atomically(path_of(a.output) / "replay.json", j.dump(1) + "\n"));
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

} // namespace

void add_replay(CLI::App& app, const Globals& globals, Verbs& verbs) {
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

} // namespace hekla::app
