// Opens a run: its checkpoint, tokenizer, data, description and programs.
#include "train/recipe_file.hpp"
#include "train/training_run.hpp"

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/name_pattern.hpp"
#include "data/text_files.hpp"
#include "graph/buffer_update.hpp"
#include "graph/taps.hpp"
#include "infer/base_model.hpp"
#include "infer/combined_parameters.hpp"
#include "infer/model_tensors.hpp"
#include "infer/weights_folder.hpp"
#include "model/parameter_names.hpp"
#include "plugin/text_record.hpp"
#include "program/lowering/half.hpp"
#include "program/program_bench.hpp"
#include "text/tokenizer_trainer.hpp"
#include "train/dropout.hpp"
#include "train/fit.hpp"
#include "train/held_out.hpp"
#include "train/initial_weights.hpp"
#include "train/model_spec.hpp"
#include "train/prune_weights.hpp"
#include "train/recipe_adapters.hpp"
#include "train/recipe_rollouts.hpp"
#include "train/report.hpp"
#include "train/resume_check.hpp"
#include "train/schedule.hpp"
#include "train/text_rules_report.hpp"
#include "train/tokenizer_choice.hpp"
#include "train/training_graph.hpp"
#include "train/value_function.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <set>

namespace hekla::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kKernelsFile = "kernels.json";  // in the run's folder
constexpr uint64_t kMostFeatures = uint64_t{2} << 30; // bytes on the host; above this they are computed in every step
constexpr double kLeastShare = 0.05; // of a forward pass that features must save, or they are computed in every step

// Adds a line of Program::kernel_choices() to a map from key to kernel.
void add_choice(const std::string& line, std::map<std::string, std::string>& choices) {
    if (const std::size_t end = line.rfind(": "); end != std::string::npos)
        choices[line.substr(0, end)] = line.substr(end + 2);
}

// Returns the hash of the mask that a checkpoint's run has; empty without one.
std::string mask_of(const model::Checkpoint& checkpoint) {
    const Result<std::string> text = read_file(checkpoint.file("trainer_state.json"));
    const json state = text.ok() ? json_or_null(text.value()) : json();
    return state.is_object() && state.contains("mask") && state["mask"].is_string() ? state["mask"].get<std::string>()
                                                                                    : std::string();
}

// Checks that data.pretrain is given where the objective reads it, and nowhere else. needs: all that it reads.
Status check_pretrain(const Recipe& recipe, const plugin::Registry& registry,
                      const std::vector<plugin::ColumnNeed>& needs) {
    const bool reads = std::ranges::find(needs, kPretrainColumn, &plugin::ColumnNeed::name) != needs.end();
    if (reads && recipe.data.pretrain.empty())
        return invalid_argument("objective.ptx_coef adds the loss on plain text: set data.pretrain to its files, or "
                                "ptx_coef to 0");
    if (reads || recipe.data.pretrain.empty()) return {};
    HK_ASSIGN(const plugin::Registry::Entry entry, registry.find(HK_OBJECTIVE_INTERFACE, recipe.objective.id));
    if (std::ranges::find(entry.provided->parameters, "ptx_coef") != entry.provided->parameters.end())
        return {}; // a weight of 0
    return invalid_argument(fmt::format("data.pretrain is text that ppo adds to its loss, and objective '{}' reads "
                                        "none: remove the key",
                                        recipe.objective.id));
}

// Leaves the columns that are read from the data, and adds those that rewards read.
Status add_reward_columns(const Recipe& recipe, const plugin::Registry& registry,
                          std::vector<plugin::ColumnNeed>& needs) {
    std::erase_if(needs, [](const plugin::ColumnNeed& need) { return need.optional; }); // made of rollouts
    const std::vector<reward::RewardSpec> specs = reward_specs(recipe);
    HK_ASSIGN(const std::vector<std::string> columns, reward::columns_of_rewards(specs, registry));
    for (const std::string& name : columns)
        if (std::ranges::find(needs, name, &plugin::ColumnNeed::name) == needs.end())
            needs.push_back({name, HK_COLUMN_TOKENS, false, true});
    return {};
}

// Returns the parameters whose gradients a differentiated graph has.
std::vector<std::string> gradients_in(const graph::Graph& graph) {
    constexpr std::string_view kGradient = "grad.";
    std::vector<std::string> names;
    for (const auto& [name, value] : graph.outputs)
        if (name.starts_with(kGradient)) names.push_back(name.substr(kGradient.size()));
    return names;
}

// Adds train.context_length to an error of a description that a shorter row does not have.
Status with_length(const Status& failed, const plugin::Composition& composition, const TrainSection& s) {
    for (int64_t length = s.context_length / 2; length > 0; length /= 2) {
        const Result<std::vector<plugin::BatchField>> fields =
            composition.batch_fields(s.per_device_train_batch_size, length);
        if (fields.ok() && composition.check(HK_MODE_TRAIN, fields.value()).ok())
            return {failed.code(),
                    fmt::format("{}; train.context_length = {} is too long for the model: set it to that "
                                "limit or less, as {}, or take a model with more",
                                failed.message(), s.context_length, length)};
    }
    return failed;
}

} // namespace

Status TrainingRun::read() {
    HK_TRY(find_checkpoint());
    HK_ASSIGN(std::vector<plugin::ColumnNeed> needs,
              plugin::objective_columns(registry_, recipe_.objective.id, objective_before_data(recipe_)));
    learns_from_rollouts_ = plugin::learns_from_rollouts(registry_, recipe_.objective.id);
    // A run keeps what it began with: those of earlier versions have no value for preferences.
    if (std::optional<bool>& off = recipe_.train.disable_dropout;
        !off && (learns_from_rollouts_ || learns_from_preferences(needs)))
        off = learns_from_rollouts_ || !found_;
    HK_TRY(check_pretrain(recipe_, registry_, needs));
    HK_TRY(check_islands());
    if (learns_from_rollouts_ && has_islands())
        return unsupported(fmt::format("objective '{}' learns from rollouts, which ranks make together, and with "
                                       "distributed.mode = \"diloco\" they train alone: remove `mode`",
                                       recipe_.objective.id));
    if (learns_from_rollouts_) {
        HK_TRY(add_reward_columns(recipe_, registry_, needs));
    } else {
        HK_TRY(check_without_rollouts(recipe_));
    }
    HK_ASSIGN(data_, RunData::read(recipe_, needs, host_memory(), events_.stop));
    if (held_out_) data_.hold_out(*held_out_);
    // Missing text files are reported before a tokenizer is trained on the others.
    if (!found_ && !data_.is_table())
        for (const std::vector<std::string>* inputs : {&recipe_.data.train, &recipe_.data.valid})
            if (!inputs->empty()) HK_TRY(data::find_text_files(*inputs).status());
    HK_TRY(open_tokenizer());
    HK_TRY(describe());
    return open_mask();
}

std::vector<program::ParameterEntry> TrainingRun::parameters() const {
    std::vector<program::ParameterEntry> table = program::parameter_table(described_);
    for (program::ParameterEntry& entry : table) entry.trained = !rules_.frozen.contains(entry.name);
    return table;
}

std::vector<program::ParameterEntry> TrainingRun::parameters_read_by(const graph::Graph& step) const {
    std::vector<program::ParameterEntry> table = parameters();
    program::keep_readable_in_16_bits(table, step);
    return table;
}

Status TrainingRun::open_mask() {
    if (recipe_.prune.from_mask.empty()) return {};
    // A run keeps its first mask, as it keeps its tokenizer.
    const fs::path file = found_ ? run_ / kMaskFile : fs::path(recipe_.prune.from_mask);
    HK_ASSIGN(WeightMask mask, WeightMask::read(file));
    HK_TRY(mask.check(parameters(), file.string()));
    message(fmt::format("mask {}: {} of {} weights are left ({:.1f}%)", file.string(),
                        grouped(static_cast<double>(mask.kept())), grouped(static_cast<double>(mask.weights())),
                        100.0 * mask.share()));
    mask_ = std::move(mask);
    return {};
}

Result<WeightMask> TrainingRun::prunable(const Recipe& recipe, const plugin::Registry& registry, const Log& log,
                                         const TrainerEvents& events) {
    TrainingRun t(recipe, registry, std::pmr::new_delete_resource(), log, events);
    if (!recipe.value.from.empty())
        return unsupported(fmt::format("value.from = {}: `hekla prune` prunes one network: remove [value], and set "
                                       "head.id = \"lm+value\"",
                                       recipe.value.from));
    HK_TRY(t.read());
    HK_ASSIGN(WeightMask mask, prunable_weights(recipe, t.parameters(), t.body_));
    if (!t.mask_) return mask;
    for (const auto& [name, tensor] : t.mask_->tensors()) {
        if (mask.find(name) == nullptr)
            return invalid_argument(fmt::format("{}: has a mask of '{}', which [prune] does not prune: it is in "
                                                "prune.exclude, or has one dimension",
                                                recipe.prune.from_mask, name));
        mask.tensors()[name] = tensor;
    }
    return mask;
}

Status TrainingRun::find_checkpoint() {
    if (!joined_) text_rules_ = {true, recipe_.data.special_tokens == "parse"};
    const auto starts = [&]() -> Status {
        HK_TRY(settle_batch(nullptr));
        return settle_parts(0);
    };
    if (!resumes_) return starts();
    if (folder_.owned()) model::remove_stale(run_);
    HK_ASSIGN(model::CheckpointSearch search, model::newest_complete(run_));
    for (const std::string& reason : search.rejected) log_.warning(fmt::format("checkpoint not used: {}", reason));
    found_ = std::move(search.found);
    return found_ ? same_run(*found_) : starts();
}

Status TrainingRun::same_run(const model::Checkpoint& checkpoint) {
    const std::string where = checkpoint.path.string();
    HK_ASSIGN(const std::string text, read_file(checkpoint.file("recipe.toml")));
    HK_ASSIGN(const Recipe before, parse_resolved_recipe(text, checkpoint.file("recipe.toml").string()));
    HK_TRY(settle_batch(&before));
    if (!recipe_.train.disable_dropout) recipe_.train.disable_dropout = before.train.disable_dropout;
    HK_TRY(settle_parts(std::max<int64_t>(before.distributed.parts, 1)));
    const std::string config_name = checkpoint.file("config.json").string();
    HK_ASSIGN(const std::string config_text, read_file(config_name));
    HK_ASSIGN(const json config, parse_json_object(config_text, config_name));
    text_rules_ = plugin::text_rules_of(config);
    const std::string state_name = checkpoint.file("trainer_state.json").string();
    HK_ASSIGN(const std::string state_text, read_file(state_name));
    HK_ASSIGN(const json state, parse_json_object(state_text, state_name));
    HK_ASSIGN(held_out_, held_out_of(before, state, recipe_, where, folder_.owned()));
    return check_resume(before, recipe_, where, folder_.owned(), log_);
}

Result<std::unique_ptr<text::Tokenizer>> TrainingRun::find_tokenizer() {
    if (joined_) return text::load_tokenizer(joined_->path());
    // A run keeps its first tokenizer; a run without a checkpoint has not started.
    if (found_) return text::load_tokenizer(found_->path);
    if (recipe_.tokenizer.kind == "from") {
        const std::string from = tokenizer_folder(recipe_);
        if (from.empty())
            return invalid_argument("[tokenizer] kind = \"from\" needs `from`: a folder with a tokenizer");
        HK_ASSIGN(std::unique_ptr<text::Tokenizer> stored, text::load_tokenizer(from));
        HK_ASSIGN(stored, with_added_tokens(std::move(stored), recipe_.tokenizer));
        if (!recipe_.model.from.empty() || stored->frame() != text::TextFrame()) return stored;
        HK_ASSIGN(stored, with_frame_of(recipe_.model.architecture, std::move(stored)));
        if (stored->frame() != text::TextFrame())
            message(fmt::format("{} puts no special tokens around a text: the run's tokenizer puts those of '{}'", from,
                                recipe_.model.architecture));
        return stored;
    }
    HK_ASSIGN(const plugin::Registry::Entry objective, registry_.find(HK_OBJECTIVE_INTERFACE, recipe_.objective.id));
    message(fmt::format("training a tokenizer ({}) on the data{}", recipe_.tokenizer.kind,
                        recipe_.tokenizer.kind == "unigram"
                            ? "; a request to stop takes effect when SentencePiece has optimized its pieces"
                            : ""));
    const std::unique_ptr<text::TokenizerTrainer> trainer =
        tokenizer_trainer(recipe_.tokenizer, objective.provided->roles);
    HK_ASSIGN(std::unique_ptr<text::Tokenizer> trained, data_.train_tokenizer(*trainer));
    HK_ASSIGN(trained, with_added_tokens(std::move(trained), recipe_.tokenizer));
    return with_frame_of(recipe_.model.architecture, std::move(trained));
}

Status TrainingRun::open_tokenizer() {
    HK_ASSIGN(std::unique_ptr<text::Tokenizer> found, find_tokenizer());
    HK_ASSIGN(tokenizer_, text::lying_in(host_memory(), std::move(found)));
    if (!has_adapters(recipe_) || recipe_.model.from.empty()) return {}; // a plugin check has no trained body
    // Adapters leave the body's embeddings as they are, and other ids would mean other tokens.
    HK_ASSIGN(const fs::path body, infer::weights_folder(recipe_.model.from));
    const Result<std::unique_ptr<text::Tokenizer>> own = text::load_tokenizer(body);
    if (own.ok() && own.value()->hash() != tokenizer_->hash())
        return invalid_argument(fmt::format("the tokenizer of [tokenizer] is not that of model.from = {}, and adapters "
                                            "leave the embeddings of its tokens as they are: set tokenizer.from to "
                                            "that folder, or remove [tokenizer]",
                                            recipe_.model.from));
    return {};
}

Status TrainingRun::open_data() {
    fs::path cache = recipe_.data.cache.empty() ? run_ / "cache" : fs::path(recipe_.data.cache);
    std::error_code problem;
    if (!folder_.owned() && !fs::exists(cache, problem)) {
        Result<TemporaryFolder> folder = TemporaryFolder::make();
        if (!folder.ok()) return folder.status().with_context("for tokenized text");
        temporary_.emplace(folder.take());
        cache = temporary_->path();
    }
    const Status opened = data_.open(
        *tokenizer_, *composition_, cache, [this](const std::string& m) { message(m); }, events_.own_threads);
    if (!opened.ok())
        return found_ ? opened.with_context(
                            fmt::format("{} resumes with the tokenizer that it started with", run_.string()))
                      : opened;
    const TrainSection& s = recipe_.train;
    if (rollout_use_ != nullptr && recipe_.rollout.total_episodes > 0) {
        const IterationShape shape = iteration_shape(recipe_, rollout_use_->needs());
        const int64_t iterations = (recipe_.rollout.total_episodes + shape.completions - 1) / shape.completions;
        recipe_.train.max_steps = iterations * shape.steps();
        message(fmt::format("{} completions: {} iterations of {}, {} steps each, {} steps",
                            grouped(static_cast<double>(recipe_.rollout.total_episodes)), iterations, shape.completions,
                            shape.steps(), grouped(static_cast<double>(recipe_.train.max_steps))));
    }
    if (s.num_train_epochs > 0.0) {
        const double steps =
            std::ceil(s.num_train_epochs * static_cast<double>(data_.train().size()) / examples_per_step());
        recipe_.train.max_steps = std::max<int64_t>(1, static_cast<int64_t>(steps));
        message(fmt::format("{} epochs of {} examples: {} steps", s.num_train_epochs,
                            grouped(static_cast<double>(data_.train().size())),
                            grouped(static_cast<double>(recipe_.train.max_steps))));
    }
    return {};
}

double TrainingRun::examples_per_step() const {
    const TrainSection& s = recipe_.train;
    return static_cast<double>(s.per_device_train_batch_size * s.gradient_accumulation_steps *
                               (has_islands() ? ranks_->size() : 1));
}

Status TrainingRun::check_validation() const {
    const TrainSection& s = recipe_.train;
    const auto needs = [&](const std::string& key) {
        return failed_precondition(fmt::format("{} needs validation data, and there is none: {}; or change that key",
                                               key, data_.without_valid()));
    };
    if (s.max_steps == 0 || step() >= s.max_steps) return {};
    for (const auto& [used, key] :
         {std::pair(s.early_stopping_patience > 0,
                    fmt::format("train.early_stopping_patience = {}", s.early_stopping_patience)),
          std::pair(s.load_best_model_at_end, std::string("train.load_best_model_at_end = true"))}) {
        if (!used) continue;
        if (s.eval_steps == 0)
            return invalid_argument(fmt::format("{} needs evaluations, and train.eval_steps = 0: set it above 0, or "
                                                "remove the first key",
                                                key));
        if (data_.valid() == nullptr) return needs(key);
    }
    // Without a share to hold out, the recipe asks for no evaluation.
    if (s.eval_steps > 0 && recipe_.data.valid_fraction > 0.0 && data_.valid() == nullptr)
        return needs(fmt::format("train.eval_steps = {}", s.eval_steps));
    return {};
}

Status TrainingRun::tell_text_rules() const {
    if (found_ || joined_ || !folder_.owned()) return {};
    HK_ASSIGN(const std::vector<std::string> messages,
              report_text_rules(recipe_, registry_, policy_, *composition_, *tokenizer_, data_));
    for (const std::string& one : messages) message(one);
    return {};
}

Status TrainingRun::describe() {
    HK_ASSIGN(plugin::CompositionSpec spec, model_spec(recipe_, registry_, *tokenizer_, data_.facts(), text_rules_));
    spec.recompute = recipe_.train.gradient_checkpointing;
    spec.isolate = recipe_.plugins.isolate;
    HK_ASSIGN(composition_, plugin::Composition::create(registry_, spec, tokenizer_.get(), log_));
    if (!composition_->can_collate())
        return unsupported(
            fmt::format("objective '{}' cannot make batches from text: it only measures given ones", spec.objective));
    const TrainSection& s = recipe_.train;
    policy_ = spec;
    if (learns_from_rollouts_) HK_TRY(describe_rollouts());
    if (s.disable_dropout.value_or(false)) composition_->freeze_body();
    HK_ASSIGN(const std::vector<plugin::BatchField> fields,
              composition_->batch_fields(s.per_device_train_batch_size, s.context_length));
    Result<graph::Graph> step = build_step(fields);
    if (!step.ok()) return with_length(step.status(), *composition_, s);
    described_ = step.take();
    if (learns_from_rollouts_ && !composition_->body_frozen() && has_dropout(described_))
        log_.warning(
            "train.disable_dropout = false: completions are written without dropout and trained with it, so the "
            "ratios of probabilities are not those of the policy");
    if (spec.adapter_rows == 0 && described_.find_leaf(graph::Op::input, plugin::kAdapterRows) != graph::kNone)
        return unsupported(
            recipe_.combine.how.empty()
                ? std::string("[adapter]: each row has its own adapter or task: set `names` and `route_by`, the column "
                              "that has the name of a row's")
                : fmt::format("combine.how = {}: 'fixed' lets each row choose its adapter, which the rows of training "
                              "do not; train the adapters one by one, or join them by a router",
                              recipe_.combine.how));
    HK_ASSIGN(scalars_, StepScalars::create(recipe_.schedules, described_));
    HK_ASSIGN(taps_, Taps::create(recipe_.tap, s.logging_steps, described_));
    if (!taps_.empty() && (is_sharded() || has_islands()))
        return unsupported("tap.names: several ranks or distributed.parts above 1 do not show taps: train on one "
                           "device without [distributed], or remove the key");
    std::vector<std::string> names;
    std::vector<std::string> teacher;
    for (const auto& [name, value] : described_.parameters())
        (name.starts_with(plugin::kTeacher) ? teacher : names).push_back(name);
    HK_ASSIGN(body_, composition_->body_parameters(fields));
    HK_ASSIGN(rules_, parameter_rules(recipe_, names, body_));
    if (!spec.adapters.empty()) HK_TRY(freeze_for_adapters(spec, names, body_, fields));
    if (rules_.body_frozen) { // described in evaluation mode: a frozen body needs no dropout
        composition_->freeze_body();
        HK_ASSIGN(described_, build_step(fields));
    }
    if (!rules_.frozen.empty())
        message(fmt::format("{} of {} parameters are frozen{}", rules_.frozen.size(), names.size(),
                            rules_.body_frozen ? ": the whole body" : ""));
    rules_.frozen.insert(teacher.begin(), teacher.end());
    HK_TRY(describe_updates());
    HK_TRY(describe_alternation());
    if (rules_.frozen.empty() && frozen_storage_of(s) != program::Storage::f32)
        return invalid_argument(
            fmt::format("train.frozen_dtype = {}: no parameter is frozen: remove the key, or freeze "
                        "parameters with train.freeze or [adapter]",
                        s.frozen_dtype));
    if (!teacher.empty())
        message(fmt::format("teacher {}: {} parameters, all frozen", recipe_.teacher.from, teacher.size()));
    // Rows are the same in every epoch, so the outputs of frozen layers are too, below the first one that is trained.
    cut_.reset();
    const std::vector<graph::BufferUpdate> updates = graph::buffer_updates(described_);
    if ((is_sharded() || has_islands()) && !updates.empty())
        return unsupported(
            fmt::format("the model writes the buffer '{}'{} in every step, which a training on several "
                        "devices or with distributed.parts above 1 does not support: train on one device "
                        "with distributed.parts = 1",
                        updates[0].buffer, updates.size() > 1 ? fmt::format(" and {} more", updates.size() - 1) : ""));
    if (composition_->example_kind() == HK_EXAMPLE_ROW && row_lengths().size() == 1 && !learns_from_rollouts_ &&
        updates.empty() && taps_.empty()) {
        HK_ASSIGN(cut_, graph::cut_frozen(described_, rules_.frozen, s.per_device_train_batch_size));
        if (cut_ && (cut_->share < kLeastShare ||
                     Features::bytes(*cut_, data_.table_rows(), s.per_device_train_batch_size) > kMostFeatures))
            cut_.reset();
    }
    HK_TRY(differentiated().status()); // reports what cannot be trained before data is read
    for (const int64_t length : row_lengths()) {
        if (length == s.context_length) continue;
        HK_ASSIGN(const std::vector<plugin::BatchField> shorter,
                  composition_->batch_fields(s.per_device_train_batch_size, length));
        HK_ASSIGN(shorter_[length].described, build_step(shorter));
    }
    return {};
}

Result<graph::Graph> TrainingRun::build_step(const std::vector<plugin::BatchField>& fields) const {
    HK_ASSIGN(graph::Graph graph, composition_->build(HK_MODE_TRAIN, fields));
    if (!recipe_.train.disable_dropout.value_or(false) || !has_dropout(graph)) return graph;
    return without_dropout(graph);
}

Status TrainingRun::describe_updates() {
    HK_ASSIGN(updates_, UpdateRules::create(recipe_, registry_, described_, rules_, log_));
    if (!updates_.by_kernel() && (is_sharded() || has_islands()))
        return unsupported(
            fmt::format("{}: several ranks or distributed.parts divide the update of adamw or sgd alone, "
                        "which is one kernel: train on one device without [distributed], or with one of "
                        "these for all parameters",
                        updates_.summary()));
    if (!updates_.summary().empty()) message(updates_.summary());
    return {};
}

Status TrainingRun::describe_rollouts() {
    policy_.objective.clear();
    policy_.objective_config = json::object();
    policy_.teacher.reset();
    if (!recipe_.teacher.from.empty())
        return invalid_argument(
            fmt::format("teacher.from = {}: objective '{}' has its frozen model in [reference]: move "
                        "the folder there",
                        recipe_.teacher.from, recipe_.objective.id));
    HK_ASSIGN(rollout_use_,
              plugin::RolloutUse::create(registry_, recipe_.objective.id, composition_->objective_config()));
    return check_rollouts(recipe_, rollout_use_->needs());
}

RolloutContext TrainingRun::rollout_context() const {
    return {{recipe_, registry_, *composition_, described_, policy_, *tokenizer_, runtime_, store_.get()},
            data_,
            *rollout_use_,
            events_,
            log_,
            run_};
}

// What a run with adapters trains: the adapters, what they select of the body, a new head, and modules_to_save. All
// else is frozen; what is of the body is not saved.
Status TrainingRun::freeze_for_adapters(const plugin::CompositionSpec& spec, const std::vector<std::string>& names,
                                        const std::set<std::string>& body,
                                        const std::vector<plugin::BatchField>& fields) {
    plugin::BuildRequest request;
    request.mode = HK_MODE_EVALUATE;
    request.fields = fields;
    HK_ASSIGN(const plugin::Described described, composition_->describe(request));
    if (std::ranges::none_of(described.sites, [](const plugin::Site& s) { return s.wanted || s.trained != 0; })) {
        std::vector<std::string> sites;
        for (const plugin::Site& site : described.sites)
            if (std::ranges::find(sites, site.name) == sites.end()) sites.push_back(site.name);
        return invalid_argument(fmt::format(
            "{} acts at none of the modules of {}, which are {}{}: change the keys of [adapter] that select modules",
            spec.adapters.size() == 1 ? plugin::what_of(spec.adapters[0]) : "every adapter", recipe_.model.from,
            fmt::join(std::span(sites).first(std::min<std::size_t>(8, sites.size())), ", "),
            sites.size() > 8 ? fmt::format(" and {} more", sites.size() - 8) : ""));
    }
    std::set<std::string> loaded = body;
    if (!recipe_.model.from.empty()) {
        HK_ASSIGN(base_, infer::base_of(recipe_.model.from));
        HK_ASSIGN(const std::set<std::string> stored, loaded_parameters(recipe_, registry_, *composition_, described_));
        loaded.insert(stored.begin(), stored.end());
    }
    for (const plugin::Site& site : described.sites)
        for (const std::string& name : site.trained_parameters()) loaded.erase(name);
    json saved_modules = json::array();
    for (const plugin::AdapterSpec& adapter : spec.adapters) {
        if (!adapter.trained) {
            const std::string prefix = fmt::format("{}{}.", plugin::kAdapter, adapter.name);
            for (const std::string& name : names)
                if (name.starts_with(prefix)) rules_.frozen.insert(name);
            continue;
        }
        for (const json& one : adapter.part.config.value("modules_to_save", json::array()))
            saved_modules.push_back(one);
    }
    for (const json& one : saved_modules) {
        const std::string module = one.is_string() ? one.get<std::string>() : std::string();
        std::size_t saved = 0;
        for (const std::string& name : names) {
            // The module's own parameters, and those of modules inside it.
            const std::string dotted = "." + name;
            const bool inside = hekla::matches(module + ".*", name) || hekla::matches(module, name) ||
                                dotted.find("." + module + ".") != std::string::npos;
            if (!inside || module.empty() || name.starts_with(plugin::kAdapter)) continue;
            ++saved;
            loaded.erase(name);
        }
        if (saved == 0)
            return invalid_argument(fmt::format("adapter.modules_to_save: {} matches no module of {}: `hekla inspect` "
                                                "lists the names of parameters",
                                                one.dump(), recipe_.model.from));
    }
    for (const std::string& name : names)
        if (loaded.contains(name)) rules_.frozen.insert(name);
    for (const graph::Node& node : described_.nodes)
        if (node.op == graph::Op::parameter && (node.integer("flags") & HK_INITIAL_FIXED) != 0)
            rules_.frozen.insert(node.text("name"));
    // A run without steps writes the folder of adapters that are combined as they are.
    if (rules_.frozen.size() == names.size() && recipe_.train.max_steps != 0)
        return invalid_argument(
            "nothing is trained: the adapters stay as their folders have them, and what combines them "
            "has no parameters to train; set adapters.NAME.train = true for one, or "
            "train.max_steps = 0 to combine them without training");
    of_base_ = std::move(loaded);
    return {};
}

FitOptions TrainingRun::fit_options() const {
    return {storage_of(recipe_.train),     updates_.moments(),
            recipe_.train.ema_decay > 0.0, rules_.frozen,
            recompute_of(recipe_.train),   frozen_storage_of(recipe_.train),
            updates_.state_bytes()};
}

Status TrainingRun::fit() {
    TrainSection& s = recipe_.train;
    const int64_t parts = recipe_.distributed.parts;
    const int64_t whole = s.per_device_train_batch_size * s.gradient_accumulation_steps / parts; // rows of a part
    const auto choose = [&] {
        return largest_fitting_batch(*composition_, *runtime_, whole, s.context_length, fit_options());
    };
    HK_ASSIGN(std::optional<int64_t> batch, choose());
    if (!batch && !s.gradient_checkpointing) {
        s.gradient_checkpointing = true;
        HK_TRY(describe());
        HK_ASSIGN(batch, choose());
    }
    if (!batch) return {}; // check_fits() reports what is missing
    const bool other = *batch != s.per_device_train_batch_size;
    s.per_device_train_batch_size = *batch;
    s.gradient_accumulation_steps = whole / *batch * parts;
    message(fmt::format("fits: micro-batches of {}, {} per step{}", *batch, s.gradient_accumulation_steps,
                        s.gradient_checkpointing ? ", activations of blocks are recomputed" : ""));
    return other ? describe() : Status();
}

// Returns the kernels that the run started with, from the checkpoint, the run's folder or rank 0, if device and version
// are the same.
std::map<std::string, std::string> TrainingRun::recorded_choices() const {
    json record = choices_of_rank_0_;
    if (!joined_) {
        const fs::path file = found_ ? found_->file("trainer_state.json") : run_ / kKernelsFile;
        if (const Result<std::string> text = read_file(file); text.ok()) record = json_or_null(text.value());
    }
    std::map<std::string, std::string> choices;
    if (!record.is_object() || record.value("kernels_of", json()) != json(runtime_->tuning().identity()))
        return choices;
    for (const json& line : record.value("kernel_choices", json::array()))
        if (line.is_string()) add_choice(line.get<std::string>(), choices);
    return choices;
}

double TrainingRun::recorded_peak() const {
    const Result<std::string> text = read_file(run_ / kKernelsFile);
    const json record = text.ok() ? json_or_null(text.value()) : json();
    if (!record.is_object() || record.value("kernels_of", json()) != json(runtime_->tuning().identity())) return 0.0;
    const json peak = record.value("peak_flops", json());
    return peak.is_number() ? peak.get<double>() : 0.0;
}

Status TrainingRun::record_choices() const {
    const json kernels{{"kernels_of", runtime_->tuning().identity()},
                       {"kernel_choices", kernel_choices()},
                       {"peak_flops", peak_flops_}};
    return write_file_atomically(run_ / kKernelsFile, kernels.dump(1) + "\n");
}

// Returns the kernels of training and evaluation.
std::vector<std::string> TrainingRun::kernel_choices() const {
    std::vector<std::string> all = train_program_->kernel_choices();
    const auto add = [&](std::vector<std::string> more) {
        all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
    };
    for (const auto& [length, shorter] : shorter_) add(shorter.program->kernel_choices());
    for (const auto& programs : turn_programs_)
        for (const auto& [length, program] : programs) add(program->kernel_choices());
    if (evaluator_ != nullptr) add(evaluator_->kernel_choices());
    std::ranges::sort(all);
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
}

program::StoreOptions TrainingRun::store_options() const {
    return {.gradients = true,
            .moments = updates_.moments(),
            .weights = frozen_storage_of(recipe_.train),
            .frozen = rules_.frozen,
            .shard = is_sharded() ? std::optional(program::ShardOptions{
                                        static_cast<uint32_t>(ranks_->rank()), static_cast<uint32_t>(rank_count()),
                                        static_cast<uint64_t>(recipe_.distributed.bucket) << 20})
                                  : std::nullopt};
}

program::CompileOptions TrainingRun::train_options(std::map<std::string, std::string> choices) const {
    program::CompileOptions options;
    options.outputs = {"loss"};
    if (named_losses())
        for (std::size_t i = 0; i < described_.losses.size(); ++i)
            options.outputs.push_back(fmt::format("loss_sum.{}", i));
    for (const graph::Metric& metric : described_.metrics) {
        options.outputs.push_back("metric_sum." + metric.name);
        options.outputs.push_back("metric_count." + metric.name);
    }
    for (const std::string& name : taps_.names()) options.outputs.push_back(std::string(graph::kTap) + name);
    options.precision = storage_of(recipe_.train);
    options.kernel_choices = std::move(choices);
    options.state_outputs = {{"loss", kLossState}}; // the optimizer checks it with the norm
    for (const graph::BufferUpdate& update : graph::buffer_updates(described_))
        options.state_sums[update.output] = program::buffer_sum_state(update.buffer);
    options.gradients =
        recipe_.train.gradient_accumulation_steps > 1 ? program::Gradients::accumulate : program::Gradients::overwrite;
    return options;
}

OptimizerRules TrainingRun::optimizer_rules() const {
    OptimizerRules rules = updates_.rules(without_decay(described_));
    rules.mask = mask_ ? &*mask_ : nullptr;
    for (const graph::BufferUpdate& update : graph::buffer_updates(described_))
        rules.buffers.push_back({update.buffer, update.shape});
    return rules;
}

Result<graph::Graph> TrainingRun::differentiated(const Alternation::Turn& turn) const {
    return differentiated(cut_ ? cut_->above : described_, turn);
}

Result<graph::Graph> TrainingRun::differentiated(const graph::Graph& described, const Alternation::Turn& turn) const {
    const auto differentiate = [&](const graph::Graph& graph) {
        return training_graph(graph, rules_.frozen, recompute_of(recipe_.train), turn.losses);
    };
    if (taps_.empty()) return differentiate(described);
    graph::Graph tapped = described;
    graph::add_tap_outputs(tapped, taps_.names());
    return differentiate(tapped);
}

Status TrainingRun::compile() {
    message("compiling kernels");
    if (joined_) { HK_ASSIGN(choices_of_rank_0_, receive_choices()); }
    std::map<std::string, std::string> choices = recorded_choices();
    program::CompileOptions options = train_options(choices);
    std::vector<std::string> reached; // by any loss
    {
        HK_ASSIGN(graph::Graph graph, differentiated());
        reached = gradients_in(graph);
        HK_ASSIGN(store_, program::ParameterStore::create(*runtime_, parameters_read_by(graph), store_options()));
        if (alternation_.on()) { HK_ASSIGN(graph, differentiated(alternation_.turns().front())); }
        HK_ASSIGN(train_program_, program::Program::compile(*runtime_, graph, *store_, options));
    }
    // Equal products use equal kernels, even if only one of several programs was measured.
    for (const std::string& choice : train_program_->kernel_choices()) add_choice(choice, choices);
    options.kernel_choices = choices;
    for (auto& [length, shorter] : shorter_) {
        HK_ASSIGN(const graph::Graph graph, differentiated(shorter.described, alternation_.turns().front()));
        HK_ASSIGN(shorter.program, program::Program::compile(*runtime_, graph, *store_, options));
    }
    HK_TRY(compile_turns(options));
    const TrainSection& settings = recipe_.train;
    if (learns_from_rollouts_) { HK_ASSIGN(rollouts_, Rollouts::create(rollout_context())); }
    const bool evaluates = !joined_ || (divides_evaluations() && data_.valid() != nullptr);
    if (!learns_from_rollouts_ && evaluates && (data_.valid() != nullptr || data_.test() != nullptr)) {
        if (events_.routing) {
            HK_ASSIGN(const std::vector<plugin::BatchField> fields,
                      composition_->batch_fields(evaluation_batch(), settings.context_length));
            HK_ASSIGN(routing_,
                      RoutingReport::find(*composition_, fields, recipe_.combine.how, adapter_names(recipe_)));
        }
        HK_ASSIGN(evaluator_, Evaluator::create(*runtime_, *store_, *composition_, evaluation_batch(), row_lengths(),
                                                static_cast<uint64_t>(settings.seed),
                                                EvaluatorOptions{options.precision, choices, routing_.ports()}, events_,
                                                batch_maker()));
    }
    HK_TRY(create_optimizers(reached));
    if (recipe_.train.ema_decay > 0.0 && !joined_) {
        HK_ASSIGN(average_, MovingAverage::create(*runtime_, *store_, reached, recipe_.train.ema_decay));
    }
    StepRunnerOptions steps;
    steps.seed = static_cast<uint64_t>(settings.seed);
    steps.rows = settings.per_device_train_batch_size;
    steps.program_of = [this](int64_t length) -> program::Program& { return train_program(length); };
    steps.set_inputs = [this](program::Program& program, const data::Batch& batch) -> Status {
        HK_TRY(scalars_.apply(program));
        return features_ ? features_->set(program, batch.examples) : Status();
    };
    if (!taps_.empty()) steps.observe = [this](program::Program& program) { return taps_.read(program); };
    if (is_sharded()) {
        HK_ASSIGN(sharded_, ShardedStep::create(described_, *runtime_, *store_, *optimizers_.front(), *ranks_, steps,
                                                sharded_options()));
    }
    if (has_islands()) {
        const DistributedSection& d = recipe_.distributed;
        islands_ = std::make_unique<Islands>(*store_, *ranks_,
                                             Islands::Options{d.outer_learning_rate, d.outer_momentum,
                                                              d.outer_exchange == "f16",
                                                              static_cast<uint64_t>(d.bucket) << 20});
    }
    runner_.emplace(described_, *optimizers_.front(), std::move(steps));
    if (ranks_->size() > 1 && !joined_) HK_TRY(send_choices());
    // Without the cache the next start compiles again, so this is not an error.
    if (const Status saved = runtime_->save_caches(); !saved.ok()) log_.warning(saved.message());
    return measure_peak();
}

Status TrainingRun::measure_peak() {
    if (joined_) return {}; // rank 0 reports
    const program::Storage precision = storage_of(recipe_.train);
    HK_ASSIGN(const program::Peak peak, program::peak_of(*runtime_, precision));
    // A device that others use at the same time measures slower: shares of a run are of the fastest that was measured
    // for it.
    peak_flops_ = std::max(peak.flops, recorded_peak());
    if (peak.matrix_units && peak_flops_ > 0.0)
        message(fmt::format("100% of peak is {:.0f} TFLOP/s, that of the matrix units in {}", peak_flops_ / 1e12,
                            program::storage_name(precision)));
    return {};
}

Status TrainingRun::initialize_parameters() {
    HK_ASSIGN(start_random_, start_parameters(recipe_, registry_, *composition_, described_, *store_,
                                              [this](const std::string& m) { message(m); }));
    HK_TRY(start_value(recipe_, *composition_, described_, *store_, [this](const std::string& m) { message(m); }));
    if (mask_) HK_TRY(start_masked());
    return average_ != nullptr ? average_->begin() : Status();
}

// Replaces the initial weights by those that [prune] names, and sets the pruned ones to zero.
Status TrainingRun::start_masked() {
    const PruneSection& p = recipe_.prune;
    const fs::path from = p.weights_from;
    if (p.reinitialize == "random") {
        HK_TRY(draw_again(recipe_, described_, rules_.frozen, *store_));
    } else if (!from.empty() && p.reinitialize == "none") {
        HK_TRY(load_weights(from));
        message(fmt::format("starting from the trained weights of {}", from.string()));
    } else if (!from.empty() && p.rewind_step > 0) {
        HK_ASSIGN(const model::Checkpoint checkpoint,
                  model::verify_checkpoint(model::checkpoint_path(from, p.rewind_step)));
        HK_TRY(load_checkpoint(checkpoint));
        progress_ = RunProgress();
        progress_.step = p.rewind_step;
        message(fmt::format("rewound to step {}: {}", p.rewind_step, checkpoint.path.string()));
    }
    return apply_mask();
}

Status TrainingRun::apply_mask() {
    for (const program::StoreArena arena :
         {program::StoreArena::parameters, program::StoreArena::moment1, program::StoreArena::moment2})
        if (store_->has(arena)) HK_TRY(mask_->apply(*store_, arena));
    return {};
}

Status TrainingRun::begin_or_resume() {
    HK_TRY(infer::upload_described_buffers(*store_, described_));
    HK_ASSIGN(const Hash128 teacher, load_teacher(recipe_, *composition_, described_, *store_));
    if (composition_->teacher() != nullptr) teacher_ = to_hex(teacher);
    if (!resumes_ && !joined_) {
        HK_TRY(infer::check_combined(described_, recipe_.combine.how));
        progress_.step = recipe_.train.max_steps; // step scalars have their last values
    }
    if (!found_) return initialize_parameters();
    if (!base_.empty()) HK_TRY(initialize_parameters()); // checkpoints do not contain the body
    HK_TRY(load_checkpoint(*found_));
    start_random_.clear();
    if (mask_) {
        if (mask_of(*found_) != to_hex(mask_->hash()))
            return failed_precondition(fmt::format("{}: was made with another mask than {} is now: choose another "
                                                   "[output] dir, or bring the old mask back",
                                                   found_->path.string(), (run_ / kMaskFile).string()));
        HK_TRY(apply_mask());
    }
    message(fmt::format("resuming after step {} from {}", step(), found_->path.string()));
    if (!folder_.owned()) return {};
    HK_ASSIGN(const std::string text, read_file(found_->file("recipe.toml")));
    HK_ASSIGN(const Recipe before, parse_resolved_recipe(text, found_->file("recipe.toml").string()));
    if (const std::string change = schedule_change(before.train, recipe_.train, step()); !change.empty())
        log_.warning(change);
    return {};
}

} // namespace hekla::train
