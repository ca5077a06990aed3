// Writes and restores the checkpoints and models of a run.
#include "base/file.hpp"
#include "base/json.hpp"
#include "infer/base_model.hpp"
#include "infer/model_tensors.hpp"
#include "model/finite.hpp"
#include "model/folder.hpp"
#include "train/held_out.hpp"
#include "train/recipe_file.hpp"
#include "train/training_run.hpp"
#include "train/value_function.hpp"

#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kAverages = "ema"; // file of a checkpoint

} // namespace

Status TrainingRun::load_checkpoint(const model::Checkpoint& checkpoint) {
    HK_ASSIGN(const std::string text, read_file(checkpoint.file("trainer_state.json")));
    HK_ASSIGN(const json state, parse_json_object(text, checkpoint.file("trainer_state.json").string()));
    const std::string where = checkpoint.path.string();
    try {
        const auto same = [&](const char* key, std::string_view ours) -> Status {
            const std::string theirs = state.at(key).get<std::string>();
            if (theirs == ours) return {};
            return failed_precondition(
                fmt::format("{}: was made with {} {}, this recipe has {}: use another [output] dir, or the old {}",
                            where, key, theirs, ours, key));
        };
        HK_TRY(same("architecture", composition_->architecture().id));
        HK_TRY(same("tokenizer", to_hex(tokenizer_->hash())));
        if (state.at("data").get<std::string>() != data_.identity())
            return failed_precondition(
                fmt::format("{}: was trained on other data than [data] train = {} holds now: choose another [output] "
                            "dir, or bring the old data back",
                            where, fmt::join(recipe_.data.train, ", ")));
        if (state.value("teacher", std::string()) != teacher_)
            return failed_precondition(fmt::format("{}: was made with another teacher than teacher.from = {} is now: "
                                                   "choose another [output] dir, or bring the old teacher back",
                                                   where, recipe_.teacher.from));
        if (state.value("value", false) != (composition_->value() != nullptr))
            return failed_precondition(fmt::format(
                "{}: its value function {}, and with value.from = \"{}\" it {} now: choose another [output] "
                "dir, or bring the old [value] back",
                where, composition_->value() != nullptr ? "is a head of the policy" : "has a network of its own",
                recipe_.value.from, composition_->value() != nullptr ? "has its own network" : "is a head"));
        if (state.value("base", json()) != (base_.empty() ? json() : json(base_.at("weights"))))
            return failed_precondition(fmt::format("{}: its adapter was trained with another body than model.from = "
                                                   "{} is now: choose another [output] dir, or bring the old body back",
                                                   where, recipe_.model.from));
        progress_ = RunProgress();
        progress_.step = state.at("step").get<int64_t>();
        if (!state.at("best_evaluation").is_null())
            progress_.best_evaluation = state.at("best_evaluation").get<double>();
        progress_.best_step = state.at("best_step").get<int64_t>();
        progress_.evaluations_since_best = state.value("evaluations_since_best", int64_t{0});
        progress_.seconds = state.at("seconds").get<double>();
        scalars_.restore(state.value("scalars", json::object()));
        if (rollouts_ != nullptr)
            HK_TRY(rollouts_->restore(state.value("rollouts", json()), checkpoint.path, progress_.step));
        for (const json& loss : state.at("loss_window")) progress_.losses.add(loss.get<double>());
        const auto choices = state.at("kernel_choices").get<std::vector<std::string>>();
        if (folder_.owned() && choices != kernel_choices())
            log_.warning("the kernels chosen here are not those of the checkpoint (another device or version): the run "
                         "resumes, and its results will differ in the last bits");
    } catch (const json::exception& e) { return corrupt(fmt::format("{}: trainer_state.json: {}", where, e.what())); }
    // A rebuilt plugin may describe another network. If all weights still match, a warning is logged; otherwise the
    // difference explains the error.
    HK_ASSIGN(const std::optional<plugin::Record> record, plugin::read_record(checkpoint.path));
    std::string difference;
    if (record) { HK_ASSIGN(difference, plugin::difference_from(*record, *composition_)); }
    if (Status loaded = load_parameters(checkpoint); !loaded.ok() && !difference.empty())
        return Status(loaded.code(), fmt::format("{}\n  {}\n  Install the plugin that the run began with, or choose "
                                                 "another [output] dir",
                                                 loaded.message(), difference));
    else if (!loaded.ok())
        return loaded;
    if (!difference.empty())
        log_.warning(fmt::format("{}: {}\n  Every weight has its place, so the run resumes with this graph; its "
                                 "results differ from those of a run with the earlier plugin",
                                 where, difference));
    HK_ASSIGN(const model::Weights optimizer, model::Weights::open(checkpoint.path, "optimizer"));
    for (const auto& [prefix, arena] : kMoments)
        if (has_moment(arena)) HK_TRY(load_arena(checkpoint.path, optimizer, prefix, arena));
    for (const std::string& name : optimizer_states()) {
        // A float32 run that resumes in float16 starts from the initial loss scale.
        if (name == program::kLossScaleState && optimizer.find("state." + name) == nullptr) continue;
        HK_ASSIGN(const model::TensorView* tensor, optimizer.get("state." + name));
        HK_TRY(store_->upload_state(name, tensor->bytes));
    }
    for (const auto& one : optimizers_)
        for (const UpdateTensor& tensor : one->tensors())
            HK_TRY(load_update_tensor(checkpoint.path, optimizer, tensor));
    return has_islands() ? load_islands(checkpoint) : Status();
}

Status TrainingRun::load_update_tensor(const fs::path& folder, const model::Weights& weights,
                                       const UpdateTensor& tensor) {
    const model::TensorView* stored = weights.find(tensor.name);
    if (stored == nullptr || stored->dims != tensor.shape.vector())
        return failed_precondition(fmt::format(
            "{}: its optimizer's state '{}' is {}, and the optimizer of this recipe keeps {}: choose another [output] "
            "dir, or put the old keys of [optimizer] back",
            folder.string(), tensor.name, stored != nullptr ? model::format_dims(stored->dims) : "missing",
            tensor.shape.text()));
    if (const Status finite = model::check_finite(*stored); !finite.ok())
        return corrupt(fmt::format("{}: {}; remove this folder to resume from an older checkpoint", folder.string(),
                                   finite.message()));
    std::vector<float> values(static_cast<std::size_t>(tensor.shape.elements()));
    HK_TRY(model::load_float32(*stored, values));
    return store_->upload_state(tensor.state, std::as_bytes(std::span(values)));
}

model::TensorSource TrainingRun::update_tensor_source(const UpdateTensor& tensor) const {
    model::TensorSource source;
    source.name = tensor.name;
    source.dtype = model::DType::f32;
    source.dims = tensor.shape.vector();
    source.stream = [this, state = tensor.state,
                     bytes = static_cast<std::size_t>(tensor.shape.elements()) *
                             sizeof(float)](const model::Sink& sink) -> Status {
        HK_ASSIGN(const ResourceArray<std::byte> content, store_->download_state(state));
        return sink(std::span(content).first(bytes));
    };
    return model::finite_source(std::move(source));
}

bool TrainingRun::has_moment(program::StoreArena arena) const {
    return updates_.moments().count > (arena == program::StoreArena::moment2 ? 1u : 0u);
}

model::TensorSource TrainingRun::float_source(const std::string& prefix, const program::ParameterEntry& entry,
                                              std::function<Result<ResourceArray<float>>()> read) {
    model::TensorSource s;
    s.name = prefix + entry.name;
    s.dtype = model::DType::f32;
    s.dims = entry.shape.vector();
    s.stream = [read = std::move(read)](const model::Sink& sink) -> Status {
        HK_ASSIGN(const ResourceArray<float> values, read());
        return sink(std::as_bytes(std::span(values)));
    };
    return model::finite_source(std::move(s));
}

Result<ResourceArray<float>> TrainingRun::load_values(const fs::path& folder, const model::Weights& weights,
                                                      const std::string& prefix, const program::ParameterEntry& entry) {
    HK_ASSIGN(const model::TensorView* tensor, weights.get(prefix + entry.name));
    if (tensor->dims != entry.shape.vector())
        return failed_precondition(
            fmt::format("{}: {} is {}, this model has {}: that folder is of another architecture or size",
                        folder.string(), entry.name, model::format_dims(tensor->dims), entry.shape.text()));
    if (const Status finite = model::check_finite(*tensor); !finite.ok())
        return corrupt(fmt::format("{}: {}; remove this folder to resume from an older checkpoint", folder.string(),
                                   finite.message()));
    ResourceArray<float> values(static_cast<std::size_t>(entry.shape.elements()));
    HK_TRY(model::load_float32(*tensor, {values.data(), values.size()}));
    return values;
}

Result<model::CheckpointWriter> TrainingRun::write_checkpoint() {
    HK_ASSIGN(model::CheckpointWriter writer, model::CheckpointWriter::create(run_, step()));
    std::vector<model::TensorSource> moments;
    for (const program::ParameterEntry& entry : store_->table()) {
        if (!entry.trained) continue;
        for (const auto& [prefix, arena] : kMoments)
            if (has_moment(arena))
                moments.push_back(
                    float_source(prefix, entry, [this, &entry, arena = arena] { return moment(entry, arena); }));
    }
    for (const auto& optimizer : optimizers_)
        for (const UpdateTensor& tensor : optimizer->tensors()) moments.push_back(update_tensor_source(tensor));
    for (const std::string& name : optimizer_states()) {
        HK_ASSIGN(const uint64_t bytes, store_->state_bytes(name));
        model::TensorSource state;
        state.name = "state." + name;
        state.dtype = model::DType::u8;
        state.dims = {static_cast<int64_t>(bytes)};
        state.stream = [this, name](const model::Sink& sink) -> Status {
            HK_ASSIGN(const ResourceArray<std::byte> content, store_->download_state(name));
            return sink(content);
        };
        moments.push_back(std::move(state));
    }
    HK_ASSIGN(const std::string config, config_text(model::checkpoint_path(run_, step())));
    json state;
    state["step"] = step();
    state["architecture"] = composition_->architecture().id;
    state["tokenizer"] = to_hex(tokenizer_->hash());
    state["data"] = data_.identity();
    state[kHeldOut] = data_.held_out();
    if (!teacher_.empty()) state["teacher"] = teacher_;
    if (composition_->value() != nullptr) state["value"] = true;
    if (!base_.empty()) state["base"] = base_.at("weights");
    if (mask_) state["mask"] = to_hex(mask_->hash());
    state["best_evaluation"] = std::isnan(progress_.best_evaluation) ? json() : json(progress_.best_evaluation);
    state["best_step"] = progress_.best_step;
    state["seconds"] = progress_.seconds;
    state["loss_window"] = progress_.losses.losses();
    if (const json set = scalars_.state(); !set.empty()) state["scalars"] = set;
    state["kernels_of"] = runtime_->tuning().identity();
    state["kernel_choices"] = kernel_choices();
    state["evaluations_since_best"] = progress_.evaluations_since_best;
    if (rollouts_ != nullptr) state["rollouts"] = rollouts_->state(step());
    HK_TRY(writer.add_text("config.json", config));
    HK_ASSIGN(const plugin::Record record, make_record(HK_MODE_TRAIN));
    for (const model::NamedText& file : plugin::record_files(record)) HK_TRY(writer.add_text(file.name, file.content));
    HK_TRY(writer.add_text("recipe.toml", write_recipe(recipe_)));
    HK_TRY(writer.add_text("trainer_state.json", state.dump(1) + "\n"));
    for (const fs::path& file : model::auxiliary_files_in(run_)) HK_TRY(writer.add_copy(file));
    // Buffers may hold infinities by design (masks); trained parameters must be finite.
    std::vector<model::TensorSource> tensors = own_tensors();
    for (model::TensorSource& tensor : tensors)
        if (store_->find(tensor.name) != nullptr) tensor = model::finite_source(std::move(tensor));
    HK_TRY(writer.add_sharded("model", tensors));
    if (composition_->value() != nullptr) {
        std::vector<model::TensorSource> values = infer::value_tensor_sources(*store_, described_);
        for (model::TensorSource& tensor : values)
            if (store_->find(plugin::kValueFunction + tensor.name) != nullptr)
                tensor = model::finite_source(std::move(tensor));
        HK_TRY(writer.add_sharded(kValueWeights, values));
    }
    HK_TRY(writer.add_sharded("optimizer", moments));
    if (has_islands()) HK_TRY(add_islands(writer));
    if (rollouts_ != nullptr)
        if (const std::vector<model::TensorView> tensors = rollouts_->tensors(step()); !tensors.empty())
            HK_TRY(writer.add_sharded("rollouts", model::sources_of(tensors)));
    if (average_ != nullptr) {
        std::vector<model::TensorSource> averages = average_->tensors();
        for (model::TensorSource& tensor : averages) tensor = model::finite_source(std::move(tensor));
        HK_TRY(writer.add_sharded(kAverages, averages));
    }
    return writer;
}

// Returns the config.json of a folder, which names an adapter's body.
Result<std::string> TrainingRun::config_text(const fs::path& folder) const {
    HK_ASSIGN(std::string text, composition_->write_config());
    if (base_.empty()) return text;
    HK_ASSIGN(nlohmann::ordered_json config, parse_ordered_json_object(text, "config.json"));
    config["hekla"]["base"] = infer::base_from(base_, folder);
    return config.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

// Returns the tensors of the model's folder: with an adapter the trained ones only; the body stays in its own folder.
std::vector<model::TensorSource> TrainingRun::own_tensors() const {
    std::vector<model::TensorSource> tensors = infer::tensor_sources(*store_, described_);
    if (!base_.empty())
        std::erase_if(tensors, [&](const model::TensorSource& tensor) { return of_base_.contains(tensor.name); });
    return tensors;
}

Status TrainingRun::load_arena(const fs::path& folder, const model::Weights& weights, const std::string& prefix,
                               program::StoreArena arena) {
    for (const program::ParameterEntry& entry : store_->table()) {
        if (arena != program::StoreArena::parameters && !entry.trained) continue;
        const bool elsewhere = entry.name.starts_with(plugin::kTeacher) ||
                               (arena == program::StoreArena::parameters && plugin::is_of_other_network(entry.name));
        if (elsewhere || (!base_.empty() && of_base_.contains(entry.name))) continue;
        HK_ASSIGN(const ResourceArray<float> values, load_values(folder, weights, prefix, entry));
        HK_TRY(arena == program::StoreArena::parameters ? store_->upload(entry.name, values, arena)
                                                        : set_moment(entry, arena, values));
    }
    return {};
}

Status TrainingRun::load_weights(const fs::path& folder) {
    HK_ASSIGN(const model::Weights weights, model::Weights::open(folder));
    HK_TRY(load_arena(folder, weights, "", program::StoreArena::parameters));
    for (const plugin::ModelTensor& tensor : plugin::model_tensors(described_))
        if (const model::TensorView* stored = tensor.buffer ? weights.find(tensor.name) : nullptr)
            HK_TRY(infer::upload(*store_, {tensor, stored}));
    return composition_->value() != nullptr ? load_value(folder, described_, *store_) : Status();
}

Status TrainingRun::load_parameters(const model::Checkpoint& checkpoint) {
    HK_TRY(load_weights(checkpoint.path));
    if (average_ == nullptr) return {};
    HK_ASSIGN(const model::Weights averages, model::Weights::open(checkpoint.path, kAverages));
    return average_->load(averages);
}

Status TrainingRun::restart() {
    for (const auto& [prefix, arena] : kMoments)
        if (store_->has(arena)) HK_TRY(store_->zero(arena));
    for (const auto& optimizer : optimizers_) HK_TRY(optimizer->reset_tensors());
    for (const std::string& name : optimizer_states()) HK_TRY(store_->zero_state(name));
    scalars_.restore(json::object());
    if (rollouts_ != nullptr) rollouts_->restart();
    progress_ = RunProgress();
    return initialize_parameters();
}

Status TrainingRun::swap_average() { return average_ != nullptr ? average_->swap() : Status(); }

Status TrainingRun::load_best() {
    HK_ASSIGN(const std::optional<int64_t> best, model::read_best(run_));
    if (!best || *best == step()) return {};
    HK_ASSIGN(const model::Checkpoint checkpoint, model::verify_checkpoint(model::checkpoint_path(run_, *best)));
    HK_TRY(load_parameters(checkpoint));
    message(fmt::format("using the weights of the best checkpoint, {}", checkpoint.path.string()));
    return {};
}

// Records the model alone (mode evaluate), or with the objective; described once.
Result<plugin::Record> TrainingRun::make_record(int32_t mode) const {
    auto& known = records_[mode];
    if (!known) {
        HK_ASSIGN(const std::vector<plugin::BatchField> fields,
                  composition_->batch_fields(recipe_.train.per_device_train_batch_size, recipe_.train.context_length));
        HK_ASSIGN(known, plugin::make_record(*composition_, mode, fields, mode == HK_MODE_TRAIN));
    }
    return *known;
}

// Saves one of several adapters or tasks (adapter.names) as the folder of a run that has it alone. all: what has all of
// them.
Status TrainingRun::save_slot(const fs::path& folder, std::size_t slot, const model::ModelContents& all) const {
    const fs::path target = folder / "adapters" / recipe_.adapter.names[slot];
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
            tensor.stream = [store = store_.get(), name = tensor.name, first = slot * elements,
                             elements](const model::Sink& sink) -> Status {
                HK_ASSIGN(const ResourceArray<float> values, store->download(name));
                return sink(std::as_bytes(std::span(values).subspan(first, elements)));
            };
        }
        one.tensors.push_back(std::move(tensor));
    }
    return model::save_folder(target, one, model::OnExisting::replace);
}

Status TrainingRun::save_model(const fs::path& folder) const {
    model::ModelContents contents;
    HK_ASSIGN(contents.config_json, config_text(folder));
    contents.tensors = own_tensors();
    HK_ASSIGN(const plugin::Record record, make_record(HK_MODE_EVALUATE));
    contents.texts = plugin::record_files(record);
    HK_TRY(model::save_into_folder(folder, contents));
    if (policy_.value != nullptr)
        HK_TRY(save_value(folder / kValueWeights, *policy_.value, registry_, *tokenizer_, described_, *store_));
    for (std::size_t i = 0; i < recipe_.adapter.names.size(); ++i) HK_TRY(save_slot(folder, i, contents));
    return mask_ ? mask_->write(folder / kMaskFile) : Status();
}

} // namespace hekla::train
