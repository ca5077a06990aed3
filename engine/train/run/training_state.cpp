#include "train/run/training_state.hpp"
#include "plugin/composition/record.hpp"
#include "plugin/instances/rollout_use.hpp"

#include "base/file.hpp"
#include "base/json.hpp"
#include "infer/adapters/combined_parameters.hpp"
#include "infer/open/base_model.hpp"
#include "infer/open/model_tensors.hpp"
#include "model/checkpoint.hpp"
#include "model/finite.hpp"
#include "model/folder.hpp"
#include "model/stacked_tensors.hpp"
#include "plugin/composition/compose.hpp"
#include "plugin/composition/model_names.hpp"
#include "plugin/composition/text_record.hpp"
#include "program/parameter_store.hpp"
#include "program/runtime.hpp"
#include "program/tuning.hpp"
#include "train/recipe/recipe_file.hpp"
#include "train/run/compiled_training.hpp"
#include "train/run/described_training.hpp"
#include "train/run/held_out.hpp"
#include "train/run/prepared_run.hpp"
#include "train/run/run_mask.hpp"
#include "train/run/state_tensor.hpp"
#include "train/start/initial_weights.hpp"
#include "train/start/value_function.hpp"
#include "train/update/prune_weights.hpp"
#include "train/update/schedule.hpp"

#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::train {

namespace fs = std::filesystem;
using nlohmann::json;

TrainingState::TrainingState(CompiledTraining& compiled)
    : compiled_(compiled), training_(compiled.training), run_(compiled.run) {}

void TrainingState::message(const std::string& text) const { run_.context.message(text); }

Status TrainingState::begin(bool initial) {
    program::ParameterStore& store = *compiled_.store;
    HK_TRY(infer::upload_described_buffers(store, training_.graph()));
    HK_ASSIGN(const Hash128 teacher, load_teacher(run_.recipe, *training_.composition, training_.graph(), store));
    if (training_.composition->teacher() != nullptr) teacher_ = to_hex(teacher);
    if (initial) {
        HK_TRY(infer::check_combined(training_.graph(), run_.recipe.combine.how));
        progress.step = run_.recipe.train.max_steps;
    }
    return run_.checkpoint ? resume() : initialize();
}

Status TrainingState::initialize() {
    const auto tell = [this](const std::string& text) { message(text); };
    HK_ASSIGN(random_, start_parameters(run_.recipe, run_.context.registry, *training_.composition, training_.graph(),
                                        *compiled_.store, tell));
    HK_TRY(start_value(run_.recipe, *training_.composition, training_.graph(), *compiled_.store, tell));
    HK_TRY(start_masked());
    return compiled_.average.begin();
}

// Replaces the initial weights by those that [prune] names, and sets the pruned ones to zero.
Status TrainingState::start_masked() {
    const PruneSection& p = run_.recipe.prune;
    const fs::path from = p.weights_from;
    switch (masked_start(p)) {
    case MaskedStart::initial: break;
    case MaskedStart::random:
        HK_TRY(draw_again(run_.recipe, training_.graph(), training_.rules.frozen, *compiled_.store));
        break;
    case MaskedStart::trained:
        HK_TRY(load_weights(from));
        message(fmt::format("starting from the trained weights of {}", from.string()));
        break;
    case MaskedStart::rewound: {
        HK_ASSIGN(const model::Checkpoint checkpoint,
                  model::verify_checkpoint(model::checkpoint_path(from, p.rewind_step)));
        HK_TRY(load(checkpoint));
        progress = RunProgress();
        progress.step = p.rewind_step;
        message(fmt::format("rewound to step {}: {}", p.rewind_step, checkpoint.path.string()));
    }
    }
    return apply_mask();
}

Status TrainingState::apply_mask() {
    for (const program::StoreArena arena :
         {program::StoreArena::parameters, program::StoreArena::moment1, program::StoreArena::moment2})
        if (compiled_.store->has(arena)) HK_TRY(training_.mask.apply(*compiled_.store, arena));
    return {};
}

Status TrainingState::resume() {
    const model::Checkpoint& checkpoint = *run_.checkpoint;
    if (training_.adapted.is_kept()) HK_TRY(initialize()); // checkpoints do not contain the body
    HK_TRY(load(checkpoint));
    random_.clear();
    HK_TRY(check_same_mask(checkpoint, training_.mask, run_.folder));
    HK_TRY(apply_mask());
    message(fmt::format("resuming after step {} from {}", progress.step, checkpoint.path.string()));
    if (!run_.owned.owned()) return {};
    HK_ASSIGN(const std::string text, read_file(checkpoint.file("recipe.toml")));
    HK_ASSIGN(const Recipe before, parse_resolved_recipe(text, checkpoint.file("recipe.toml").string()));
    if (const std::string change = schedule_change(before.train, run_.recipe.train, progress.step); !change.empty())
        run_.context.log.warning(change);
    return {};
}

Status TrainingState::restart() {
    for (const auto& [prefix, arena] : kMoments)
        if (compiled_.store->has(arena)) HK_TRY(compiled_.store->zero(arena));
    HK_TRY(compiled_.optimizers.reset());
    compiled_.scalars.restore(json::object());
    compiled_.source->restart();
    progress = RunProgress();
    return initialize();
}

// What must be the same as in the training that wrote a checkpoint.
Status TrainingState::check_same(const json& state, const std::string& where) const {
    const auto same = [&](const char* key, std::string_view ours) -> Status {
        const std::string theirs = state.at(key).get<std::string>();
        if (theirs == ours) return {};
        return failed_precondition(
            fmt::format("{}: was made with {} {}, this recipe has {}: use another [output] dir, or the old {}", where,
                        key, theirs, ours, key));
    };
    HK_TRY(same("architecture", training_.composition->architecture().id));
    HK_TRY(same("tokenizer", to_hex(run_.tokenizer->hash())));
    if (state.at("data").get<std::string>() != run_.data.identity())
        return failed_precondition(
            fmt::format("{}: was trained on other data than [data] train = {} holds now: choose another [output] "
                        "dir, or bring the old data back",
                        where, fmt::join(run_.recipe.data.train, ", ")));
    if (state.value("teacher", std::string()) != teacher_)
        return failed_precondition(fmt::format("{}: was made with another teacher than teacher.from = {} is now: "
                                               "choose another [output] dir, or bring the old teacher back",
                                               where, run_.recipe.teacher.from));
    if (state.value("value", false) != (training_.composition->value() != nullptr))
        return failed_precondition(fmt::format(
            "{}: its value function {}, and with value.from = \"{}\" it {} now: choose another [output] "
            "dir, or bring the old [value] back",
            where, training_.composition->value() != nullptr ? "is a head of the policy" : "has a network of its own",
            run_.recipe.value.from, training_.composition->value() != nullptr ? "has its own network" : "is a head"));
    if (state.value("base", json()) != training_.adapted.weights())
        return failed_precondition(fmt::format("{}: its adapter was trained with another body than model.from = "
                                               "{} is now: choose another [output] dir, or bring the old body back",
                                               where, run_.recipe.model.from));
    return {};
}

Status TrainingState::restore(const json& state, const model::Checkpoint& checkpoint) {
    progress = RunProgress();
    progress.step = state.at("step").get<int64_t>();
    if (!state.at("best_evaluation").is_null()) progress.best_evaluation = state.at("best_evaluation").get<double>();
    progress.best_step = state.at("best_step").get<int64_t>();
    progress.evaluations_since_best = state.value("evaluations_since_best", int64_t{0});
    progress.seconds = state.at("seconds").get<double>();
    compiled_.scalars.restore(state.value("scalars", json::object()));
    HK_TRY(compiled_.source->restore(state.value("rollouts", json()), checkpoint.path, progress.step));
    for (const json& loss : state.at("loss_window")) progress.losses.add(loss.get<double>());
    const auto choices = state.at("kernel_choices").get<std::vector<std::string>>();
    if (run_.owned.owned() && choices != compiled_.kernel_choices())
        run_.context.log.warning(
            "the kernels chosen here are not those of the checkpoint (another device or version): the run "
            "resumes, and its results will differ in the last bits");
    return {};
}

Status TrainingState::load(const model::Checkpoint& checkpoint) {
    const std::string where = checkpoint.path.string();
    HK_ASSIGN(const std::string text, read_file(checkpoint.file("trainer_state.json")));
    HK_ASSIGN(const json state, parse_json_object(text, checkpoint.file("trainer_state.json").string()));
    try {
        HK_TRY(check_same(state, where));
        HK_TRY(restore(state, checkpoint));
    } catch (const json::exception& e) { return corrupt(fmt::format("{}: trainer_state.json: {}", where, e.what())); }
    // A rebuilt plugin may describe another network. If all weights still match, a warning is logged; otherwise the
    // difference explains the error.
    HK_ASSIGN(const std::optional<plugin::Record> record, plugin::read_record(checkpoint.path));
    std::string difference;
    if (record) { HK_ASSIGN(difference, plugin::difference_from(*record, *training_.composition)); }
    if (Status loaded = load_parameters(checkpoint); !loaded.ok() && !difference.empty())
        return Status(loaded.code(), fmt::format("{}\n  {}\n  Install the plugin that the run began with, or choose "
                                                 "another [output] dir",
                                                 loaded.message(), difference));
    else if (!loaded.ok())
        return loaded;
    if (!difference.empty())
        run_.context.log.warning(
            fmt::format("{}: {}\n  Every weight has its place, so the run resumes with this graph; its "
                        "results differ from those of a run with the earlier plugin",
                        where, difference));
    HK_ASSIGN(const std::vector<StateFile> all, files());
    for (const StateFile& file : all) HK_TRY(load_state(checkpoint.path, file));
    return {};
}

Result<std::vector<StateFile>> TrainingState::files() {
    std::vector<StateFile> all{{"optimizer"}};
    const program::Moments moments = training_.updates.moments();
    StepStrategy& strategy = *compiled_.strategy;
    for (const program::ParameterEntry& entry : compiled_.store->table()) {
        if (!entry.trained) continue;
        for (const auto& [prefix, arena] : kMoments)
            if (moments.count > (arena == program::StoreArena::moment2 ? 1u : 0u))
                all[0].tensors.push_back(float_state(
                    prefix, entry, [&strategy, &entry, arena = arena] { return strategy.moment(entry, arena); },
                    [&strategy, &entry, arena = arena](std::span<const float> values) {
                        return strategy.set_moment(entry, arena, values);
                    }));
    }
    HK_ASSIGN(const std::vector<StateTensor> counters, compiled_.optimizers.state());
    all[0].tensors.insert(all[0].tensors.end(), counters.begin(), counters.end());
    HK_ASSIGN(const std::vector<StateFile> of_strategy, strategy.state_files());
    all.insert(all.end(), of_strategy.begin(), of_strategy.end());
    return all;
}

json TrainingState::to_json() const {
    json state;
    state["step"] = progress.step;
    state["architecture"] = training_.composition->architecture().id;
    state["tokenizer"] = to_hex(run_.tokenizer->hash());
    state["data"] = run_.data.identity();
    state[kHeldOut] = run_.data.held_out();
    if (!teacher_.empty()) state["teacher"] = teacher_;
    if (training_.composition->value() != nullptr) state["value"] = true;
    if (training_.adapted.is_kept()) state["base"] = training_.adapted.weights();
    add_mask(training_.mask, state);
    state["best_evaluation"] = std::isnan(progress.best_evaluation) ? json() : json(progress.best_evaluation);
    state["best_step"] = progress.best_step;
    state["seconds"] = progress.seconds;
    state["loss_window"] = progress.losses.losses();
    if (const json set = compiled_.scalars.state(); !set.empty()) state["scalars"] = set;
    state["kernels_of"] = compiled_.runtime.tuning().identity();
    state["kernel_choices"] = compiled_.kernel_choices();
    state["evaluations_since_best"] = progress.evaluations_since_best;
    if (const json of_source = compiled_.source->state(progress.step); !of_source.is_null())
        state["rollouts"] = of_source;
    return state;
}

Result<model::CheckpointWriter> TrainingState::write_checkpoint() {
    HK_ASSIGN(model::CheckpointWriter writer, model::CheckpointWriter::create(run_.folder, progress.step));
    HK_ASSIGN(const std::string config, config_text(model::checkpoint_path(run_.folder, progress.step)));
    HK_TRY(writer.add_text("config.json", config));
    HK_ASSIGN(const plugin::Record record, training_.record(HK_MODE_TRAIN));
    for (const model::NamedText& file : plugin::record_files(record)) HK_TRY(writer.add_text(file.name, file.content));
    HK_TRY(writer.add_text("recipe.toml", write_recipe(run_.recipe)));
    HK_TRY(writer.add_text("trainer_state.json", to_json().dump(1) + "\n"));
    for (const fs::path& file : model::auxiliary_files_in(run_.folder)) HK_TRY(writer.add_copy(file));
    // Buffers may hold infinities by design (masks); trained parameters must be finite.
    const program::ParameterStore& store = *compiled_.store;
    std::vector<model::TensorSource> tensors = own_tensors();
    for (model::TensorSource& tensor : tensors)
        if (store.find(tensor.name) != nullptr) tensor = model::finite_source(std::move(tensor));
    HK_TRY(writer.add_sharded("model", divided(std::move(tensors))));
    if (training_.composition->value() != nullptr) {
        std::vector<model::TensorSource> values = infer::value_tensor_sources(*compiled_.store, training_.graph());
        for (model::TensorSource& tensor : values)
            if (store.find(plugin::kValueFunction + tensor.name) != nullptr)
                tensor = model::finite_source(std::move(tensor));
        HK_TRY(writer.add_sharded(kValueWeights, values));
    }
    HK_ASSIGN(const std::vector<StateFile> all, files());
    for (const StateFile& file : all) HK_TRY(write_state(writer, file));
    if (const std::vector<model::TensorView> of_source = compiled_.source->tensors(progress.step); !of_source.empty())
        HK_TRY(writer.add_sharded("rollouts", model::sources_of(of_source)));
    HK_TRY(write_state(writer, compiled_.average.state()));
    return writer;
}

Result<std::string> TrainingState::config_text(const fs::path& folder) const {
    HK_ASSIGN(const std::string text, training_.composition->write_config());
    return training_.adapted.config_text(text, folder);
}

// Returns the tensors of the model's folder: with an adapter the trained ones only; the body stays in its own folder.
std::vector<model::TensorSource> TrainingState::own_tensors() const {
    std::vector<model::TensorSource> tensors = infer::tensor_sources(*compiled_.store, training_.graph());
    std::erase_if(tensors, [&](const model::TensorSource& tensor) { return training_.adapted.contains(tensor.name); });
    return tensors;
}

// An adapter's folder is read by its parameters' own names.
std::vector<model::TensorSource> TrainingState::divided(std::vector<model::TensorSource> tensors) const {
    return training_.adapted.is_kept() ? std::move(tensors) : model::divide_stacks(std::move(tensors), stacks());
}

std::vector<std::string> TrainingState::stacks() const {
    return plugin::model_rules(training_.composition->architecture().names).stacks;
}

Status TrainingState::load_weights(const fs::path& folder) {
    HK_ASSIGN(model::Weights weights, model::Weights::open(folder));
    HK_TRY(weights.stack(stacks()));
    for (const program::ParameterEntry& entry : compiled_.store->table()) {
        if (plugin::is_of_other_network(entry.name) || training_.adapted.contains(entry.name)) continue;
        HK_ASSIGN(const model::TensorView* stored, weights.get(entry.name));
        HK_ASSIGN(const ResourceArray<float> values, values_of(*stored, folder, entry));
        HK_TRY(compiled_.store->upload(entry.name, values));
    }
    for (const plugin::ModelTensor& tensor : plugin::model_tensors(training_.graph()))
        if (const model::TensorView* stored = tensor.buffer ? weights.find(tensor.name) : nullptr)
            HK_TRY(infer::upload(*compiled_.store, {tensor, stored}));
    return training_.composition->value() != nullptr ? load_value(folder, training_.graph(), *compiled_.store)
                                                     : Status();
}

Status TrainingState::load_parameters(const model::Checkpoint& checkpoint) {
    HK_TRY(load_weights(checkpoint.path));
    return load_state(checkpoint.path, compiled_.average.state());
}

Status TrainingState::load_best() {
    HK_ASSIGN(const std::optional<int64_t> best, model::read_best(run_.folder));
    if (!best || *best == progress.step) return {};
    HK_ASSIGN(const model::Checkpoint checkpoint, model::verify_checkpoint(model::checkpoint_path(run_.folder, *best)));
    HK_TRY(load_parameters(checkpoint));
    message(fmt::format("using the weights of the best checkpoint, {}", checkpoint.path.string()));
    return {};
}

// Saves one of several adapters or tasks (adapter.names) as the folder of a run that has it alone. all: what has all of
// them.
Status TrainingState::save_slot(const fs::path& folder, std::size_t slot, const model::ModelContents& all) const {
    const fs::path target = folder / "adapters" / run_.recipe.adapter.names[slot];
    model::ModelContents one;
    HK_ASSIGN(const std::string text, config_text(target));
    HK_ASSIGN(nlohmann::ordered_json config, parse_ordered_json_object(text, "config.json"));
    nlohmann::ordered_json& own = config["hekla"]["adapter_config"];
    const bool slots = own.erase("slots") > 0;
    if (!slots) own["task"] = slot; // the tasks of one adapter share its tensors
    one.config_json = config.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
    for (model::TensorSource tensor : all.tensors) {
        if (slots && tensor.name.starts_with(plugin::kAdapter)) {
            tensor.dims.erase(tensor.dims.begin());
            std::size_t elements = 1;
            for (const int64_t dim : tensor.dims) elements *= static_cast<std::size_t>(dim);
            tensor.stream = [store = compiled_.store.get(), name = tensor.name, first = slot * elements,
                             elements](const model::Sink& sink) -> Status {
                HK_ASSIGN(const ResourceArray<float> values, store->download(name));
                return sink(std::as_bytes(std::span(values).subspan(first, elements)));
            };
        }
        one.tensors.push_back(std::move(tensor));
    }
    return model::save_folder(target, one, model::OnExisting::replace);
}

Status TrainingState::save_model(const fs::path& folder) const {
    model::ModelContents contents;
    HK_ASSIGN(contents.config_json, config_text(folder));
    contents.tensors = divided(own_tensors());
    HK_ASSIGN(const plugin::Record record, training_.record(HK_MODE_EVALUATE));
    contents.texts = plugin::record_files(record);
    HK_TRY(model::save_into_folder(folder, contents));
    if (training_.policy.value != nullptr)
        HK_TRY(save_value(folder / kValueWeights, *training_.policy.value, run_.context.registry, *run_.tokenizer,
                          training_.graph(), *compiled_.store));
    for (std::size_t i = 0; i < run_.recipe.adapter.names.size(); ++i) HK_TRY(save_slot(folder, i, contents));
    return keep_mask(training_.mask, folder);
}

} // namespace hekla::train
