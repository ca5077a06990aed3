#include "train/trainer.hpp"

#include "base/file.hpp"
#include "graph/reference.hpp"
#include "infer/base_model.hpp"
#include "infer/collate.hpp"
#include "infer/model_tensors.hpp"
#include "model/folder.hpp"
#include "program/lower_optimizer.hpp"
#include "text/trainer.hpp"
#include "train/fit.hpp"
#include "train/initialize.hpp"
#include "train/model_spec.hpp"
#include "train/peak.hpp"
#include "train/schedule.hpp"
#include "train/start.hpp"
#include "train/tokenizer_choice.hpp"
#include "train/training_graph.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>
#include <string_view>

namespace hekla::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kAverages = "ema";              // file of a checkpoint
constexpr const char* kKernelsFile = "kernels.json";  // in the run's folder
constexpr uint64_t kMostFeatures = uint64_t{2} << 30; // bytes on the host; more are computed in every step

// A line of Program::kernel_choices() to key -> kernel.
void add_choice(const std::string& line, std::map<std::string, std::string>& choices) {
    if (const std::size_t end = line.rfind(": "); end != std::string::npos)
        choices[line.substr(0, end)] = line.substr(end + 2);
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// A moment of the store, read back when it is written.
model::TensorSource source(program::ParameterStore& store, const program::ParameterEntry& entry,
                           program::StoreArena arena, const std::string& name) {
    model::TensorSource s;
    s.name = name;
    s.dtype = model::DType::f32;
    s.dims = entry.shape.vector();
    s.stream = [&store, parameter = entry.name, arena](const model::Sink& sink) -> Status {
        HK_ASSIGN(const ResourceVector<float> values, store.download(parameter, arena));
        return sink(std::as_bytes(std::span(values)));
    };
    return s;
}

} // namespace

Trainer::~Trainer() = default;

Result<std::unique_ptr<Trainer>> Trainer::create(const Recipe& recipe, const plugin::Registry& registry,
                                                 program::Runtime& runtime, const Log& log, const TrainerEvents& events,
                                                 Purpose purpose) {
    std::unique_ptr<Trainer> t(new Trainer(recipe, registry, &runtime, log, events));
    if (purpose == Purpose::train) { HK_ASSIGN(t->folder_, RunFolder::own(t->run_)); }
    HK_TRY(t->read());
    if (recipe.train.fit) HK_TRY(t->fit());
    HK_TRY(check_fits(*t->composition_, runtime, t->recipe_.train.per_device_train_batch_size,
                      recipe.train.context_length, t->fit_options()));
    HK_TRY(t->open_data());
    if (const Status compiled = t->compile(); compiled.code() == Code::out_of_memory)
        return out_of_memory(fmt::format("the device has no memory for this training: {}; make "
                                         "train.per_device_train_batch_size smaller, or make the model smaller",
                                         compiled.message()));
    else if (!compiled.ok())
        return compiled;
    HK_TRY(t->begin_or_resume());
    // What an evaluation would be stopped by is said before the first step, and its memory is there then.
    if (purpose == Purpose::train && recipe.generate.examples_while_training > 0 && t->data_.valid() != nullptr) {
        Evaluation tried;
        HK_TRY(t->add_texts(*t->data_.valid(), 1, false, tried));
    }
    return t;
}

Trainer::Trainer(const Recipe& recipe, const plugin::Registry& registry, program::Runtime* runtime, const Log& log,
                 const TrainerEvents& events)
    : registry_(registry), runtime_(runtime), log_(log), events_(events), recipe_(recipe), run_(recipe.output.dir),
      best_evaluation_(std::numeric_limits<double>::quiet_NaN()) {}

Status Trainer::read() {
    HK_TRY(find_checkpoint());
    HK_ASSIGN(const std::vector<plugin::ColumnNeed> needs,
              plugin::objective_columns(registry_, recipe_.objective.id, objective_before_data(recipe_)));
    HK_ASSIGN(data_, RunData::read(recipe_, needs, host_memory()));
    HK_TRY(open_tokenizer());
    return describe();
}

Status Trainer::find_checkpoint() {
    HK_ASSIGN(model::CheckpointSearch search, model::newest_complete(run_));
    for (const std::string& reason : search.rejected) log_.warning(fmt::format("checkpoint not used: {}", reason));
    found_ = std::move(search.found);
    return found_ ? same_run(*found_) : Status();
}

Status Trainer::same_run(const model::Checkpoint& checkpoint) const {
    const std::string where = checkpoint.path.string();
    HK_ASSIGN(const std::string text, read_file(checkpoint.file("recipe.toml")));
    HK_ASSIGN(const Recipe before, parse_recipe(text, checkpoint.file("recipe.toml").string()));
    const std::map<std::string, std::string> then = recipe_values(before);
    std::map<std::string, std::string> now = recipe_values(recipe_);
    for (const auto& [key, value] : then) now.try_emplace(key, "");
    std::vector<std::string> other;
    for (const auto& [key, value] : now) {
        const auto found = then.find(key);
        const std::string old = found != then.end() ? found->second : "";
        if (old == value) continue;
        const auto shown = [](const std::string& v) { return v.empty() ? std::string("nothing") : v; };
        const bool is_path = key == "model.from" || key == "tokenizer.from"; // the run has its own copy of both
        if (!is_path && (key.starts_with("model.") || key.starts_with("adapter.") || key.starts_with("head.") ||
                         key.starts_with("objective.") || key.starts_with("tokenizer.") || key == "train.optim" ||
                         key == "train.ema_decay" || key == "train.freeze"))
            return failed_precondition(fmt::format(
                "{}: was made with {} = {}, this recipe has {}: choose another [output] dir, or put the old "
                "value back",
                where, key, shown(old), shown(value)));
        static const std::set<std::string_view> harmless{"model.from",
                                                         "tokenizer.from",
                                                         "teacher.from",
                                                         "data.train",
                                                         "data.valid",
                                                         "data.cache",
                                                         "data.format",
                                                         "data.test",
                                                         "data.columns",
                                                         "data.header",
                                                         "data.on_bad",
                                                         "data.max_bytes",
                                                         "data.group",
                                                         "train.metric_for_best_model",
                                                         "train.load_best_model_at_end",
                                                         "train.num_train_epochs",
                                                         "train.early_stopping_patience",
                                                         "plugins.isolate",
                                                         "output.dir",
                                                         "train.max_steps",
                                                         "train.eval_steps",
                                                         "train.eval_batches",
                                                         "train.save_steps",
                                                         "train.save_total_limit",
                                                         "train.logging_steps",
                                                         "train.max_bad_steps",
                                                         "train.per_device_eval_batch_size",
                                                         "train.gradient_checkpointing"};
        const bool fitted = recipe_.train.fit && (key == "train.per_device_train_batch_size" ||
                                                  key == "train.gradient_accumulation_steps"); // chosen anew
        // Of what is only evaluated, the length of rows and what they hold count, not how it learnt.
        const bool of_learning = !folder_.owned() && key.starts_with("train.") && key != "train.context_length";
        if (!harmless.contains(key) && !key.starts_with("generate.") && !fitted && !of_learning)
            other.push_back(fmt::format("{} {} -> {}", key, shown(old), shown(value)));
    }
    if (!other.empty())
        log_.warning(fmt::format("{}: {} with other settings: {}", where,
                                 folder_.owned() ? "the run goes on" : "it is evaluated", fmt::join(other, ", ")));
    return {};
}

Result<std::unique_ptr<text::Tokenizer>> Trainer::find_tokenizer() {
    // A run keeps the tokenizer it began with; one without a checkpoint has not begun.
    if (found_) return text::load_tokenizer(found_->path);
    if (recipe_.tokenizer.kind == "from") {
        const std::string from = recipe_.tokenizer.from.empty()
                                     ? recipe_.model.from.empty() ? recipe_.teacher.from : recipe_.model.from
                                     : recipe_.tokenizer.from;
        if (from.empty())
            return invalid_argument("[tokenizer] kind = \"from\" needs `from`: a folder with a tokenizer");
        HK_ASSIGN(std::unique_ptr<text::Tokenizer> stored, text::load_tokenizer(from));
        return with_added_tokens(std::move(stored), recipe_.tokenizer);
    }
    HK_ASSIGN(const plugin::Registry::Entry objective, registry_.find(HK_OBJECTIVE_INTERFACE, recipe_.objective.id));
    message(fmt::format("training a tokenizer ({}) on the data", recipe_.tokenizer.kind));
    const std::unique_ptr<text::TokenizerTrainer> trainer =
        tokenizer_trainer(recipe_.tokenizer, objective.provided->roles);
    HK_ASSIGN(std::unique_ptr<text::Tokenizer> trained, data_.train_tokenizer(*trainer));
    return with_added_tokens(std::move(trained), recipe_.tokenizer);
}

Status Trainer::open_tokenizer() {
    HK_ASSIGN(std::unique_ptr<text::Tokenizer> found, find_tokenizer());
    HK_ASSIGN(tokenizer_, text::lying_in(host_memory(), std::move(found)));
    return {};
}

std::pmr::memory_resource* Trainer::host_memory() const {
    return runtime_ != nullptr ? runtime_->gpu().device->host_memory() : std::pmr::new_delete_resource();
}

Status Trainer::open_data() {
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
        return found_ ? opened.with_context(fmt::format("{} goes on with the tokenizer it began with", run_.string()))
                      : opened;
    const TrainSection& s = recipe_.train;
    if (s.num_train_epochs > 0.0) {
        const double steps =
            std::ceil(s.num_train_epochs * static_cast<double>(data_.train().size()) /
                      static_cast<double>(s.per_device_train_batch_size * s.gradient_accumulation_steps));
        recipe_.train.max_steps = std::max<int64_t>(1, static_cast<int64_t>(steps));
        message(fmt::format("{} epochs of {} examples: {} steps", s.num_train_epochs,
                            grouped(static_cast<double>(data_.train().size())),
                            grouped(static_cast<double>(recipe_.train.max_steps))));
    }
    return {};
}

Status Trainer::describe() {
    HK_ASSIGN(plugin::CompositionSpec spec, model_spec(recipe_, registry_, *tokenizer_, data_.facts()));
    spec.recompute = recipe_.train.gradient_checkpointing;
    spec.isolate = recipe_.plugins.isolate;
    HK_ASSIGN(composition_, plugin::Composition::create(registry_, spec, tokenizer_.get(), log_));
    if (!composition_->can_collate())
        return unsupported(
            fmt::format("objective '{}' cannot make batches from text: it only measures given ones", spec.objective));
    const TrainSection& s = recipe_.train;
    HK_ASSIGN(const std::vector<plugin::BatchField> fields,
              composition_->batch_fields(s.per_device_train_batch_size, s.context_length));
    HK_ASSIGN(described_, composition_->build(HK_MODE_TRAIN, fields));
    std::vector<std::string> names;
    std::vector<std::string> teacher;
    for (const auto& [name, value] : described_.parameters())
        (name.starts_with(plugin::kTeacher) ? teacher : names).push_back(name);
    HK_ASSIGN(const std::set<std::string> body, composition_->body_parameters(fields));
    HK_ASSIGN(rules_, parameter_rules(recipe_, names, body));
    if (!spec.adapter.empty()) {
        if (std::ranges::none_of(names, [](const std::string& name) { return name.starts_with(plugin::kAdapter); }))
            return invalid_argument(
                fmt::format("adapter '{}' changes none of the parameters of {}, which are {}{}: "
                            "look at its keys in `hekla plugin list`",
                            spec.adapter, recipe_.model.from,
                            fmt::join(std::span(names).first(std::min<std::size_t>(6, names.size())), ", "),
                            names.size() > 6 ? ", ..." : ""));
        for (const std::string& name : names)
            if (body.contains(name)) rules_.frozen.insert(name);
        of_base_ = body;
        if (!recipe_.model.from.empty()) { HK_ASSIGN(base_, infer::base_of(recipe_.model.from)); }
    }
    if (rules_.body_frozen) { // described as it is evaluated: what does not learn needs no dropout
        composition_->freeze_body();
        HK_ASSIGN(described_, composition_->build(HK_MODE_TRAIN, fields));
    }
    if (!rules_.frozen.empty())
        message(fmt::format("{} of {} parameters are frozen{}", rules_.frozen.size(), names.size(),
                            rules_.body_frozen ? ": the whole body" : ""));
    rules_.frozen.insert(teacher.begin(), teacher.end());
    if (!teacher.empty())
        message(fmt::format("teacher {}: {} parameters, all frozen", recipe_.teacher.from, teacher.size()));
    // Rows are the same in every epoch, so what a frozen body says of them is too.
    if (rules_.body_frozen && composition_->example_kind() == HK_EXAMPLE_ROW && row_lengths().size() == 1) {
        HK_ASSIGN(cut_, graph::cut_frozen(described_, rules_.frozen, s.per_device_train_batch_size));
        if (cut_ && Features::bytes(*cut_, data_.table_rows(), s.per_device_train_batch_size) > kMostFeatures)
            cut_.reset();
    }
    HK_TRY(differentiated().status()); // what cannot be trained is said before the data is read
    for (const int64_t length : row_lengths()) {
        if (length == s.context_length) continue;
        HK_ASSIGN(const std::vector<plugin::BatchField> shorter,
                  composition_->batch_fields(s.per_device_train_batch_size, length));
        HK_ASSIGN(shorter_[length].described, composition_->build(HK_MODE_TRAIN, shorter));
    }
    return {};
}

FitOptions Trainer::fit_options() const {
    return {storage_of(recipe_.train), recipe_.train.ema_decay > 0.0, rules_.frozen};
}

Status Trainer::fit() {
    TrainSection& s = recipe_.train;
    const int64_t whole = s.per_device_train_batch_size * s.gradient_accumulation_steps;
    const auto choose = [&] {
        return largest_fitting_batch(*composition_, *runtime_, whole, s.context_length, fit_options());
    };
    HK_ASSIGN(std::optional<int64_t> batch, choose());
    if (!batch && !s.gradient_checkpointing) {
        s.gradient_checkpointing = true;
        HK_TRY(describe());
        HK_ASSIGN(batch, choose());
    }
    if (!batch) return {}; // what is missing is said where the recipe's own batch is checked
    const bool other = *batch != s.per_device_train_batch_size;
    s.per_device_train_batch_size = *batch;
    s.gradient_accumulation_steps = whole / *batch;
    message(fmt::format("fits: micro-batches of {}, {} a step{}", *batch, s.gradient_accumulation_steps,
                        s.gradient_checkpointing ? ", activations of blocks computed again" : ""));
    return other ? describe() : Status();
}

// The kernels that the run began with, where it began on this device with this version: from the checkpoint, or the
// run's folder.
std::map<std::string, std::string> Trainer::recorded_choices() const {
    const fs::path file = found_ ? found_->file("trainer_state.json") : run_ / kKernelsFile;
    const Result<std::string> text = read_file(file);
    const json record = text.ok() ? json::parse(text.value(), nullptr, false) : json();
    std::map<std::string, std::string> choices;
    if (!record.is_object() || record.value("kernels_of", json()) != json(runtime_->tuning().identity()))
        return choices;
    for (const json& line : record.value("kernel_choices", json::array()))
        if (line.is_string()) add_choice(line.get<std::string>(), choices);
    return choices;
}

// Of training and evaluation.
std::vector<std::string> Trainer::kernel_choices() const {
    std::vector<std::string> all = train_program_->kernel_choices();
    const auto add = [&](std::vector<std::string> more) {
        all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
    };
    for (const auto& [length, shorter] : shorter_) add(shorter.program->kernel_choices());
    if (evaluator_ != nullptr) add(evaluator_->kernel_choices());
    std::ranges::sort(all);
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
}

program::StoreOptions Trainer::store_options() const {
    return {.gradients = true, .moments = true, .frozen = rules_.frozen};
}

program::CompileOptions Trainer::train_options(std::map<std::string, std::string> choices) const {
    program::CompileOptions options;
    options.outputs = {"loss"};
    options.precision = storage_of(recipe_.train);
    options.kernel_choices = std::move(choices);
    options.state_outputs = {{"loss", kLossState}}; // the optimizer tests it with the norm
    options.gradients =
        recipe_.train.gradient_accumulation_steps > 1 ? program::Gradients::accumulate : program::Gradients::overwrite;
    return options;
}

Result<graph::Graph> Trainer::differentiated() const {
    return training_graph(cut_ ? cut_->above : described_, rules_.frozen);
}

std::vector<std::string> Trainer::without_decay() const {
    std::vector<std::string> names;
    for (const graph::Node& node : described_.nodes)
        if (node.op == graph::Op::parameter && (node.integer("flags") & HK_PARAMETER_NO_DECAY) != 0)
            names.push_back(node.text("name"));
    return names;
}

Status Trainer::compile() {
    message("compiling kernels");
    std::map<std::string, std::string> choices = recorded_choices();
    HK_ASSIGN(store_,
              program::ParameterStore::create(*runtime_, program::parameter_table(described_), store_options()));
    program::CompileOptions options = train_options(choices);
    {
        HK_ASSIGN(const graph::Graph whole, differentiated());
        HK_ASSIGN(train_program_, program::Program::compile(*runtime_, whole, *store_, options));
    }
    // The same for the same product, also where only one of several programs was measured.
    for (const std::string& choice : train_program_->kernel_choices()) add_choice(choice, choices);
    options.kernel_choices = choices;
    for (auto& [length, shorter] : shorter_) {
        HK_ASSIGN(const graph::Graph differentiated, training_graph(shorter.described, rules_.frozen));
        HK_ASSIGN(shorter.program, program::Program::compile(*runtime_, differentiated, *store_, options));
    }
    const TrainSection& settings = recipe_.train;
    if (data_.valid() != nullptr || data_.test() != nullptr) {
        HK_ASSIGN(evaluator_, Evaluator::create(*runtime_, *store_, *composition_, evaluation_batch(), row_lengths(),
                                                static_cast<uint64_t>(settings.seed),
                                                EvaluatorOptions{options.precision, choices}));
    }
    HK_ASSIGN(optimizer_, Optimizer::create(*runtime_, *store_, recipe_.train, train_program_->gradient_names(),
                                            without_decay(), rules_.factors));
    if (recipe_.train.ema_decay > 0.0) {
        HK_ASSIGN(average_,
                  MovingAverage::create(*runtime_, *store_, train_program_->gradient_names(), recipe_.train.ema_decay));
    }
    // Without the cache the next start compiles again: no reason to end this one.
    if (const Status saved = runtime_->save_caches(); !saved.ok()) log_.warning(saved.message());
    peak_flops_ = measure_peak_flops(*runtime_);
    return {};
}

Status Trainer::initialize_parameters() {
    HK_ASSIGN(start_random_, start_parameters(recipe_, registry_, *composition_, described_, *store_,
                                              [this](const std::string& m) { message(m); }));
    return average_ != nullptr ? average_->begin() : Status();
}

Status Trainer::begin_or_resume() {
    HK_TRY(infer::upload_described_buffers(*store_, described_));
    HK_ASSIGN(const Hash128 teacher, load_teacher(recipe_, *composition_, described_, *store_));
    if (composition_->teacher() != nullptr) teacher_ = to_hex(teacher);
    if (!found_) return initialize_parameters();
    HK_TRY(load_checkpoint(*found_));
    message(fmt::format("resuming after step {} from {}", step_, found_->path.string()));
    return {};
}

Status Trainer::load_checkpoint(const model::Checkpoint& checkpoint) {
    HK_ASSIGN(const std::string text, read_file(checkpoint.file("trainer_state.json")));
    const json state = json::parse(text, nullptr, false);
    const std::string where = checkpoint.path.string();
    try {
        const auto same = [&](const char* key, const std::string& ours) -> Status {
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
        if (state.value("base", json()) != (base_.empty() ? json() : json(base_.at("weights"))))
            return failed_precondition(fmt::format("{}: its adapter was trained with another body than model.from = "
                                                   "{} is now: choose another [output] dir, or bring the old body back",
                                                   where, recipe_.model.from));
        step_ = state.at("step").get<int64_t>();
        if (!state.at("best_evaluation").is_null()) best_evaluation_ = state.at("best_evaluation").get<double>();
        best_step_ = state.at("best_step").get<int64_t>();
        evaluations_since_best_ = state.value("evaluations_since_best", int64_t{0});
        trained_seconds_ = state.at("seconds").get<double>();
        loss_window_ = LossWindow();
        for (const json& loss : state.at("loss_window")) loss_window_.add(loss.get<double>());
        const auto choices = state.at("kernel_choices").get<std::vector<std::string>>();
        if (folder_.owned() && choices != kernel_choices())
            log_.warning("the kernels chosen here are not those of the checkpoint (another device or version): the run "
                         "goes on, its bits will differ");
    } catch (const json::exception& e) { return corrupt(fmt::format("{}: trainer_state.json: {}", where, e.what())); }
    // A plugin that was built anew may describe another network. Weights that all have their place are gone on with,
    // and it is said; else the difference says why they have none.
    HK_ASSIGN(const std::optional<plugin::Record> record, plugin::read_record(checkpoint.path));
    std::string difference;
    if (record) { HK_ASSIGN(difference, plugin::difference_from(*record, *composition_)); }
    if (const Status loaded = load_parameters(checkpoint); !loaded.ok() && !difference.empty())
        return Status(loaded.code(), fmt::format("{}\n  {}\n  Install the plugin that the run began with, or choose "
                                                 "another [output] dir",
                                                 loaded.message(), difference));
    else if (!loaded.ok())
        return loaded;
    if (!difference.empty())
        log_.warning(fmt::format("{}: {}\n  Every weight has its place, so it goes on, as this graph computes: its "
                                 "bits are not those of a run with the earlier plugin",
                                 where, difference));
    HK_ASSIGN(const model::Weights optimizer, model::Weights::open(checkpoint.path, "optimizer"));
    HK_TRY(load_arena(checkpoint, optimizer, "exp_avg.", program::StoreArena::moment1));
    HK_TRY(load_arena(checkpoint, optimizer, "exp_avg_sq.", program::StoreArena::moment2));
    for (const std::string& name : Optimizer::states(recipe_.train)) {
        // A run that goes on in float16 begins with the first loss scale.
        if (name == program::kLossScaleState && optimizer.find("state." + name) == nullptr) continue;
        HK_ASSIGN(const model::TensorView* tensor, optimizer.get("state." + name));
        HK_TRY(store_->upload_state(name, tensor->bytes));
    }
    return {};
}

Status Trainer::save_checkpoint() {
    HK_ASSIGN(model::CheckpointWriter writer, model::CheckpointWriter::create(run_, step_));
    std::vector<model::TensorSource> moments;
    for (const program::ParameterEntry& entry : store_->table()) {
        if (!entry.trained) continue;
        moments.push_back(source(*store_, entry, program::StoreArena::moment1, "exp_avg." + entry.name));
        moments.push_back(source(*store_, entry, program::StoreArena::moment2, "exp_avg_sq." + entry.name));
    }
    for (const std::string& name : Optimizer::states(recipe_.train)) {
        HK_ASSIGN(const uint64_t bytes, store_->state_bytes(name));
        model::TensorSource state;
        state.name = "state." + name;
        state.dtype = model::DType::u8;
        state.dims = {static_cast<int64_t>(bytes)};
        state.stream = [this, name](const model::Sink& sink) -> Status {
            HK_ASSIGN(const ResourceVector<std::byte> content, store_->download_state(name));
            return sink(content);
        };
        moments.push_back(std::move(state));
    }
    HK_ASSIGN(const std::string config, composition_->write_config());
    json state;
    state["step"] = step_;
    state["architecture"] = composition_->architecture().id;
    state["tokenizer"] = to_hex(tokenizer_->hash());
    state["data"] = data_.identity();
    if (!teacher_.empty()) state["teacher"] = teacher_;
    if (!base_.empty()) state["base"] = base_.at("weights");
    state["best_evaluation"] = std::isnan(best_evaluation_) ? json() : json(best_evaluation_);
    state["best_step"] = best_step_;
    state["seconds"] = trained_seconds_;
    state["loss_window"] = loss_window_.losses();
    state["kernels_of"] = runtime_->tuning().identity();
    state["kernel_choices"] = kernel_choices();
    state["evaluations_since_best"] = evaluations_since_best_;
    HK_TRY(writer.add_text("config.json", config));
    HK_ASSIGN(const plugin::Record record, make_record(HK_MODE_TRAIN));
    for (const model::NamedText& file : plugin::record_files(record)) HK_TRY(writer.add_text(file.name, file.content));
    HK_TRY(writer.add_text("recipe.toml", write_recipe(recipe_)));
    HK_TRY(writer.add_text("trainer_state.json", state.dump(1) + "\n"));
    for (const fs::path& file : model::auxiliary_files_in(run_)) HK_TRY(writer.add_copy(file));
    HK_TRY(writer.add_sharded("optimizer", moments));
    if (average_ != nullptr) HK_TRY(writer.add_sharded(kAverages, average_->tensors()));
    HK_TRY(writer.add_sharded("model", infer::tensor_sources(*store_, described_)));
    HK_ASSIGN(const fs::path folder, writer.commit());
    HK_ASSIGN(const std::vector<int64_t> removed,
              model::prune_checkpoints(run_, recipe_.train.save_total_limit, step_));
    (void)removed;
    message(fmt::format("saved {}", folder.string()));
    return {};
}

Status Trainer::load_arena(const model::Checkpoint& checkpoint, const model::Weights& weights,
                           const std::string& prefix, program::StoreArena arena) {
    for (const program::ParameterEntry& entry : store_->table()) {
        if (arena != program::StoreArena::parameters && !entry.trained) continue;
        if (entry.name.starts_with(plugin::kTeacher)) continue;
        HK_ASSIGN(const model::TensorView* tensor, weights.get(prefix + entry.name));
        if (tensor->dims != entry.shape.vector())
            return failed_precondition(fmt::format(
                "{}: {} is {}, this model has {}: the checkpoint is of another architecture or size",
                checkpoint.path.string(), entry.name, model::format_dims(tensor->dims), entry.shape.text()));
        std::vector<float> values(static_cast<std::size_t>(entry.shape.elements()));
        HK_TRY(model::load_float32(*tensor, values));
        HK_TRY(store_->upload(entry.name, values, arena));
    }
    return {};
}

Status Trainer::load_parameters(const model::Checkpoint& checkpoint) {
    HK_ASSIGN(const model::Weights weights, model::Weights::open(checkpoint.path));
    HK_TRY(load_arena(checkpoint, weights, "", program::StoreArena::parameters));
    for (const plugin::ModelTensor& tensor : plugin::model_tensors(described_))
        if (const model::TensorView* stored = tensor.buffer ? weights.find(tensor.name) : nullptr)
            HK_TRY(infer::upload(*store_, {tensor, stored}));
    if (average_ == nullptr) return {};
    HK_ASSIGN(const model::Weights averages, model::Weights::open(checkpoint.path, kAverages));
    return average_->load(averages);
}

Status Trainer::swap_average() { return average_ != nullptr ? average_->swap() : Status(); }

Status Trainer::load_best() {
    HK_ASSIGN(const std::optional<int64_t> best, model::read_best(run_));
    if (!best || *best == step_) return {};
    HK_ASSIGN(const model::Checkpoint checkpoint, model::verify_checkpoint(model::checkpoint_path(run_, *best)));
    HK_TRY(load_parameters(checkpoint));
    message(fmt::format("the best weights are those of {}", checkpoint.path.string()));
    return {};
}

// Of the model alone, or of what is trained; described once.
Result<plugin::Record> Trainer::make_record(int32_t mode) const {
    auto& known = records_[mode];
    if (!known) {
        HK_ASSIGN(const std::vector<plugin::BatchField> fields,
                  composition_->batch_fields(recipe_.train.per_device_train_batch_size, recipe_.train.context_length));
        HK_ASSIGN(known, plugin::make_record(*composition_, mode, fields, mode == HK_MODE_TRAIN));
    }
    return *known;
}

Status Trainer::save_model(const fs::path& folder) const {
    model::ModelContents contents;
    HK_ASSIGN(contents.config_json, composition_->write_config());
    contents.tensors = infer::tensor_sources(*store_, described_);
    if (!base_.empty()) { // what learnt; the body stays where it is
        auto config = nlohmann::ordered_json::parse(contents.config_json);
        config["hekla"]["base"] = base_;
        contents.config_json = config.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
        std::erase_if(contents.tensors,
                      [&](const model::TensorSource& tensor) { return of_base_.contains(tensor.name); });
    }
    HK_ASSIGN(const plugin::Record record, make_record(HK_MODE_EVALUATE));
    contents.texts = plugin::record_files(record);
    return model::save_into_folder(folder, contents);
}

Status Trainer::draw(int64_t steps, const std::function<Status(const std::vector<data::Batch>&)>& take) const {
    HK_ASSIGN(const std::unique_ptr<data::Batcher> batcher, batches(step_, recipe_.train.per_device_train_batch_size));
    const int64_t end = std::min(recipe_.train.max_steps, step_ + steps);
    for (int64_t step = step_; step < end; ++step) {
        HK_ASSIGN(const std::vector<data::Batch> micro, next_micro_batches(*batcher));
        HK_TRY(take(micro));
    }
    return {};
}

Result<std::unique_ptr<data::Batcher>> Trainer::batches(int64_t from_step, int64_t batch) const {
    const TrainSection& s = recipe_.train;
    data::BatcherOptions options;
    options.threads = events_.own_threads ? 1 : 0;
    options.micro_steps = static_cast<uint32_t>(s.gradient_accumulation_steps);
    options.first_step = static_cast<uint64_t>(from_step);
    options.end_step = static_cast<uint64_t>(s.max_steps);
    return data::Batcher::start(options, [this, rows = batch](data::Batch& batch) {
        const TrainSection& t = recipe_.train;
        const uint64_t first = data::Sampler::first_number(batch.step, batch.micro_step,
                                                           static_cast<uint64_t>(t.gradient_accumulation_steps),
                                                           static_cast<uint64_t>(rows));
        std::vector<infer::DrawnExample> examples;
        int64_t needed = shorter_.empty() ? t.context_length : 1;
        for (int64_t row = 0; row < rows; ++row) {
            examples.push_back(data_.train().draw(first + static_cast<uint64_t>(row)));
            batch.examples.push_back(examples.back().example.index);
            if (!shorter_.empty())
                needed = std::max(needed, infer::example_length(*composition_, examples.back().example));
        }
        const auto fits = shorter_.lower_bound(needed);
        batch.length = fits != shorter_.end() ? fits->first : t.context_length;
        return infer::make_fields(*composition_, examples, &data_.train().examples(), static_cast<uint64_t>(t.seed),
                                  rows, batch.length, batch.fields, host_memory());
    });
}

std::vector<int64_t> Trainer::row_lengths() const {
    const int64_t longest = recipe_.train.context_length;
    if (!recipe_.train.group_by_length || !data_.is_table()) return {longest};
    std::set<int64_t> lengths{longest};
    constexpr int64_t kStep = 8, kParts = 4;
    for (int64_t part = 1; part < kParts; ++part) {
        const int64_t length = (longest * part / kParts + kStep - 1) / kStep * kStep;
        if (length < longest) lengths.insert(length);
    }
    return {lengths.begin(), lengths.end()};
}

const graph::Graph& Trainer::described(int64_t length) const {
    const auto found = shorter_.find(length);
    return found != shorter_.end() ? found->second.described : described_;
}

program::Program& Trainer::train_program(int64_t length) const {
    const auto found = shorter_.find(length);
    return found != shorter_.end() ? *found->second.program : *train_program_;
}

Result<std::vector<data::Batch>> Trainer::next_micro_batches(data::Batcher& batcher) const {
    std::vector<data::Batch> micro;
    for (int64_t i = 0; i < recipe_.train.gradient_accumulation_steps; ++i) {
        HK_ASSIGN(std::optional<data::Batch> batch, batcher.next());
        if (!batch) return internal_error("the batches ended before the steps");
        micro.push_back(std::move(*batch));
    }
    return micro;
}

Result<std::vector<double>> Trainer::loss_counts(const data::Batch& batch) const {
    graph::Feeds feeds;
    for (const data::Field& field : batch.fields) feeds.fields.emplace(field.name, infer::tensor_of(field));
    std::vector<graph::ValueId> wanted;
    const graph::Graph& graph = described(batch.length);
    for (const graph::LossTerm& term : graph.losses) wanted.push_back(term.count);
    HK_ASSIGN(const std::vector<graph::Tensor> values, graph::evaluate(graph, feeds, wanted));
    std::vector<double> counts;
    for (const graph::Tensor& value : values) counts.push_back(value.data[0]);
    return counts;
}

Status Trainer::set_fields(program::Program& program, const data::Batch& batch) const {
    for (const data::Field& field : batch.fields)
        if (program.has_input(field.name)) HK_TRY(program.set_input(field.name, field.bytes)); // not all are read
    return {};
}

Result<double> Trainer::gradients(const std::vector<data::Batch>& micro, int64_t step) {
    std::vector<double> counts(described_.losses.size(), 0.0);
    for (const data::Batch& batch : micro) {
        HK_ASSIGN(const std::vector<double> one, loss_counts(batch));
        for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += one[i];
    }
    HK_ASSIGN(const double scale, optimizer_->loss_scale());
    std::set<int64_t> lengths;
    for (const data::Batch& batch : micro) lengths.insert(batch.length);
    for (const int64_t length : lengths)
        for (std::size_t i = 0; i < counts.size(); ++i)
            HK_TRY(train_program(length).set_scalar(
                fmt::format("loss_scale.{}", i),
                counts[i] > 0.0
                    ? static_cast<float>(scale) * static_cast<float>(described_.losses[i].weight / counts[i])
                    : 0.0f));
    if (cut_ && !features_) {
        message(fmt::format("the frozen body is run once over {} examples",
                            grouped(static_cast<double>(data_.train().size()))));
        HK_ASSIGN(features_, Features::compute(*runtime_, *store_, *composition_, *cut_, data_.train(),
                                               recipe_.train.per_device_train_batch_size, recipe_.train.context_length,
                                               static_cast<uint64_t>(recipe_.train.seed)));
    }
    double loss = 0.0;
    for (std::size_t i = 0; i < micro.size(); ++i) {
        program::Program& program = train_program(micro[i].length);
        HK_TRY(set_fields(program, micro[i]));
        if (features_) HK_TRY(features_->set(program, micro[i].examples));
        program::RunScalars scalars;
        scalars.seed = static_cast<uint64_t>(recipe_.train.seed);
        scalars.step = static_cast<uint32_t>(step);
        scalars.first_example =
            static_cast<uint32_t>(i) * static_cast<uint32_t>(recipe_.train.per_device_train_batch_size);
        scalars.accumulate = i > 0;
        HK_TRY(program.run(scalars));
        HK_ASSIGN(const float part, program.read_scalar_output("loss"));
        loss += static_cast<double>(part) / scale;
    }
    return loss;
}

int64_t Trainer::evaluation_batch() const {
    const TrainSection& s = recipe_.train;
    return s.per_device_eval_batch_size > 0 ? s.per_device_eval_batch_size : s.per_device_train_batch_size;
}

Status Trainer::add_texts(const Split& split, uint64_t limit, bool predictions, Evaluation& result) {
    if (texts_ == nullptr) {
        HK_ASSIGN(texts_,
                  TextEvaluator::create(*runtime_, *store_, *composition_, *tokenizer_, recipe_.generate.options,
                                        evaluation_batch(), row_lengths(), static_cast<uint64_t>(recipe_.train.seed)));
    }
    HK_ASSIGN(WrittenTexts written, texts_->run(split, limit));
    result.scores.insert(result.scores.end(), written.scores.begin(), written.scores.end());
    result.table += written.summary;
    if (!predictions) return {};
    for (WrittenText& one : written.texts) {
        json said{{"text", std::move(one.output)}};
        if (split.place(one.example).empty()) { // nobody else knows what was asked
            said["source"] = std::move(one.source);
            said["reference"] = std::move(one.reference);
        }
        result.predictions.push_back({one.example, std::move(said)});
    }
    return {};
}

Result<std::optional<uint64_t>> Trainer::texts_to_write() const {
    const int64_t wanted = recipe_.generate.examples;
    if (wanted > 0) return std::optional(static_cast<uint64_t>(wanted));
    if (wanted == 0 || !data_.is_table()) return std::optional<uint64_t>();
    HK_ASSIGN(const TextEvaluator::Kind kind, TextEvaluator::kind_of(*composition_));
    return kind == TextEvaluator::Kind::nothing ? std::optional<uint64_t>() : std::optional<uint64_t>(0);
}

Result<Evaluation> Trainer::validate(bool whole) {
    const TrainSection& s = recipe_.train;
    const int64_t batch = evaluation_batch();
    constexpr int64_t kBatchesOfText = 50;
    const int64_t batches = s.eval_batches >= 0 ? s.eval_batches : data_.is_table() ? 0 : kBatchesOfText;
    HK_ASSIGN(Evaluation result,
              evaluator_->run(*data_.valid(), static_cast<uint64_t>(batches * batch), whole, data_.classes()));
    if (!whole && recipe_.generate.examples_while_training > 0)
        HK_TRY(
            add_texts(*data_.valid(), static_cast<uint64_t>(recipe_.generate.examples_while_training), true, result));
    return result;
}

Result<Evaluation> Trainer::evaluate(On split) {
    const Split* of = split == On::test ? data_.test() : data_.valid();
    if (of == nullptr)
        return failed_precondition(split == On::test ? "there is no test data: name it in data.test"
                                                     : "there is no validation data: name it in data.valid, or set "
                                                       "data.valid_fraction and train.eval_steps above 0");
    HK_ASSIGN(const std::optional<uint64_t> texts, texts_to_write());
    if (!start_random_.empty())
        return failed_precondition(fmt::format(
            "{}: there is no checkpoint, and {} would be random{}: train first, or name the [output] dir of a run that "
            "was trained",
            run_.string(), start_random_.front(),
            start_random_.size() > 1 ? fmt::format(", like {} more", start_random_.size() - 1) : ""));
    if (recipe_.train.load_best_model_at_end) HK_TRY(load_best());
    HK_TRY(swap_average()); // this trainer is for reading: nothing goes on from here
    Evaluation result;
    if (split == On::test) {
        HK_ASSIGN(result, evaluator_->run(*of, 0, true, data_.classes()));
    } else {
        HK_ASSIGN(result, validate(true));
    }
    if (texts) HK_TRY(add_texts(*of, *texts, true, result));
    return result;
}

Status Trainer::rehearse() {
    if (step_ >= recipe_.train.max_steps) return {};
    HK_ASSIGN(const std::unique_ptr<data::Batcher> batcher, batches(step_, recipe_.train.per_device_train_batch_size));
    HK_ASSIGN(const std::vector<data::Batch> micro, next_micro_batches(*batcher));
    HK_TRY(gradients(micro, step_).status());
    for (const auto& [length, shorter] : shorter_) {
        HK_ASSIGN(const std::vector<plugin::BatchField> fields,
                  composition_->batch_fields(recipe_.train.per_device_train_batch_size, length));
        HK_TRY(run_over_zeros(*shorter.program, fields));
    }
    HK_TRY(optimizer_->rehearse());
    if (average_ != nullptr) HK_TRY(average_->rehearse());
    return evaluator_ != nullptr ? evaluator_->rehearse() : Status();
}

Result<TrainerResult> Trainer::run() {
    if (!folder_.owned()) return failed_precondition("this trainer was made for reading: use Purpose::train");
    folder_.keep();
    Result<TrainerResult> result = train();
    const Code code = result.code();
    if (code != Code::io && code != Code::device_lost && code != Code::out_of_memory) return result;
    // Not the recipe's fault: when that is mended, the same command goes on.
    const Result<std::vector<int64_t>> saved = model::list_checkpoints(run_);
    const std::string last =
        saved.ok() && !saved.value().empty()
            ? fmt::format("goes on from {}", model::checkpoint_path(run_, saved.value().back()).string())
            : "begins anew, there is no checkpoint yet";
    return Status(code, fmt::format("step {}: {}; the same command {}", step_, result.message(), last));
}

// The texts of the newest evaluation, beside the run's log.
Status Trainer::keep_texts(const Evaluation& evaluation) const {
    message(evaluation.table);
    std::string lines;
    for (const Prediction& prediction : evaluation.predictions) {
        if (!prediction.said.contains("text")) continue;
        nlohmann::ordered_json line;
        line["step"] = step_;
        line["place"] = data_.valid()->place(prediction.example);
        for (const data::TaskColumn& column : data_.columns())
            line[column.name] = data_.valid()->text(prediction.example, column.name);
        line["said"] = prediction.said;
        lines += line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
    }
    return write_file_atomically(run_ / "texts.jsonl", lines);
}

Result<TrainerResult> Trainer::train() {
    const TrainSection& s = recipe_.train;
    HK_TRY(tokenizer_->save(run_));
    HK_TRY(write_file_atomically(run_ / "recipe.toml", write_recipe(recipe_)));
    const json kernels{{"kernels_of", runtime_->tuning().identity()}, {"kernel_choices", kernel_choices()}};
    HK_TRY(write_file_atomically(run_ / kKernelsFile, kernels.dump(1) + "\n"));
    HK_ASSIGN(RunLog log, RunLog::open(run_ / "train_log.jsonl", step_));
    TrainerResult result;
    result.run = run_;
    int64_t saved = step_ > 0 ? step_ : -1;
    // Killed between a checkpoint and its mark as the best one?
    if (saved == step_ && best_step_ == step_) HK_TRY(model::set_best(run_, step_));

    const auto evaluation = [&]() -> Status {
        const auto begin = std::chrono::steady_clock::now();
        HK_TRY(swap_average());
        HK_ASSIGN(const Evaluation result, validate(false));
        HK_TRY(swap_average());
        const double value = result.score(s.metric_for_best_model);
        if (s.metric_for_best_model != "loss" && std::isnan(value)) {
            std::vector<std::string> names{"loss"};
            for (const auto& [name, score] : result.scores) names.push_back(name);
            return invalid_argument(
                fmt::format("train.metric_for_best_model = \"{}\": there is no such score here; there are {}",
                            s.metric_for_best_model, fmt::join(names, ", ")));
        }
        const bool better =
            s.metric_for_best_model == "loss" ? !(value >= best_evaluation_) : !(value <= best_evaluation_);
        EvaluationReport report{step_, result.loss, result.scores, std::isfinite(value) && better,
                                seconds_since(begin)};
        ++evaluations_since_best_;
        if (report.best) {
            best_evaluation_ = value;
            best_step_ = step_;
            evaluations_since_best_ = 0;
        }
        HK_TRY(log.evaluation(report));
        if (recipe_.generate.examples_while_training > 0) HK_TRY(keep_texts(result));
        HK_TRY(log.write_curve(run_ / "loss.svg", run_.filename().string()));
        if (events_.evaluation) events_.evaluation(report);
        return {};
    };
    const auto save = [&]() -> Status {
        if (saved == step_) return {};
        HK_TRY(save_checkpoint());
        saved = step_;
        if (best_step_ == step_) HK_TRY(model::set_best(run_, step_));
        return {};
    };

    HK_ASSIGN(const std::unique_ptr<data::Batcher> batcher, batches(step_, s.per_device_train_batch_size));
    double average = 0.0; // seconds a step, recent ones count more
    const auto ends_early = [&] {
        return s.early_stopping_patience > 0 && evaluations_since_best_ >= s.early_stopping_patience;
    };
    while (step_ < s.max_steps && !ends_early()) {
        const auto begin = std::chrono::steady_clock::now();
        HK_ASSIGN(const std::vector<data::Batch> micro, next_micro_batches(*batcher));
        HK_ASSIGN(const double loss, gradients(micro, step_));
        const double rate = learning_rate(s, step_);
        HK_ASSIGN(const StepOutcome outcome, optimizer_->step(rate));
        if (average_ != nullptr && !outcome.skipped) HK_TRY(average_->update(outcome.applied));
        ++step_;
        double tokens_per_step = 0.0, flops_per_step = 0.0;
        for (const data::Batch& batch : micro) {
            tokens_per_step += static_cast<double>(s.per_device_train_batch_size * batch.length);
            flops_per_step += train_program(batch.length).flops();
        }
        const double seconds = seconds_since(begin);
        trained_seconds_ += seconds;
        average = average == 0.0 ? seconds : 0.9 * average + 0.1 * seconds;
        StepReport report;
        report.step = step_;
        report.max_steps = s.max_steps;
        report.loss = loss;
        report.loss_z = loss_window_.z(loss);
        report.gradient_norm = outcome.gradient_norm;
        report.learning_rate = rate;
        report.seconds = seconds;
        report.tokens_per_second = tokens_per_step / seconds;
        // More than all of it means that the peak was measured while something else ran: then it says nothing.
        const double share = peak_flops_ > 0.0 ? flops_per_step / seconds / peak_flops_ : 0.0;
        if (share > 1.0) peak_flops_ = 0.0;
        report.share_of_peak = share > 1.0 ? 0.0 : share;
        report.remaining_seconds = average * static_cast<double>(s.max_steps - step_);
        report.skipped = outcome.skipped;
        loss_window_.add(loss);
        HK_TRY(log.step(report));
        if (events_.step) events_.step(report);

        if (outcome.scale_too_large) {
            log_.warning(fmt::format("step {}: a gradient is too large for float16; the update was skipped, and the "
                                     "loss scale is halved",
                                     step_));
        } else if (outcome.skipped) {
            const fs::path file = run_ / fmt::format("bad_step_{}.json", step_);
            json batch = json::array();
            for (const data::Batch& one : micro)
                for (const data::Field& field : one.fields)
                    batch.push_back(
                        {{"field", field.name}, {"shape", field.shape}, {"values", infer::tensor_of(field).data}});
            HK_TRY(write_file_atomically(file, batch.dump() + "\n"));
            log_.warning(fmt::format(
                "step {}: loss {} or gradient norm {} is not finite; the update was skipped, the batch is in {}", step_,
                loss, outcome.gradient_norm, file.string()));
            if (outcome.skipped_in_row >= static_cast<uint32_t>(s.max_bad_steps))
                return Status(
                    Code::failed_precondition,
                    fmt::format("{} updates in a row were not finite: stopped after step {}. {}; the batch is "
                                "in {}. Try a smaller learning_rate or max_grad_norm",
                                outcome.skipped_in_row, step_,
                                saved > 0 ? fmt::format("The last checkpoint, {}, is good",
                                                        model::checkpoint_path(run_, saved).string())
                                          : "There is no checkpoint yet",
                                file.string()));
        }
        if (data_.valid() != nullptr && s.eval_steps > 0 && (step_ % s.eval_steps == 0 || step_ == s.max_steps))
            HK_TRY(evaluation());
        const bool best_to_keep = s.load_best_model_at_end && best_step_ == step_;
        if (ends_early())
            message(fmt::format("ends early: no better evaluation in {}, the best was after step {}",
                                evaluations_since_best_, best_step_));
        if ((s.save_steps > 0 && step_ % s.save_steps == 0) || step_ == s.max_steps || best_to_keep || ends_early())
            HK_TRY(save());
        if (events_.stop && events_.stop() && step_ < s.max_steps) {
            HK_TRY(save());
            result.stopped = true;
            break;
        }
    }
    HK_TRY(log.write_curve(run_ / "loss.svg", run_.filename().string()));
    if (!result.stopped) {
        if (s.load_best_model_at_end) HK_TRY(load_best());
        HK_TRY(swap_average());
        HK_TRY(save_model(run_));
    }
    result.steps = step_;
    result.best_evaluation = best_evaluation_;
    result.best_step = best_step_;
    return result;
}

Result<Trainer::Replay> Trainer::replay(int64_t step) {
    if (step < 1 || step > recipe_.train.max_steps)
        return invalid_argument(fmt::format("step {} is outside 1 to {}", step, recipe_.train.max_steps));
    HK_ASSIGN(const std::vector<int64_t> all, model::list_checkpoints(run_));
    Replay result;
    bool found = false;
    for (auto it = all.rbegin(); it != all.rend() && !found; ++it) {
        if (*it >= step) continue;
        const Result<model::Checkpoint> checkpoint = model::verify_checkpoint(model::checkpoint_path(run_, *it));
        if (!checkpoint.ok()) continue;
        HK_TRY(load_checkpoint(checkpoint.value()));
        result.from_checkpoint = *it;
        found = true;
    }
    if (!found) {
        HK_TRY(store_->zero(program::StoreArena::moment1));
        HK_TRY(store_->zero(program::StoreArena::moment2));
        for (const std::string& name : Optimizer::states(recipe_.train)) HK_TRY(store_->zero_state(name));
        HK_TRY(initialize_parameters());
        step_ = 0;
    }
    HK_ASSIGN(const std::unique_ptr<data::Batcher> batcher, batches(step_, recipe_.train.per_device_train_batch_size));
    while (true) {
        HK_ASSIGN(std::vector<data::Batch> micro, next_micro_batches(*batcher));
        HK_ASSIGN(const double loss, gradients(micro, step_));
        if (step_ + 1 == step) {
            result.loss = loss;
            result.batches = std::move(micro);
            break;
        }
        HK_ASSIGN(const StepOutcome outcome, optimizer_->step(learning_rate(recipe_.train, step_)));
        (void)outcome; // averages play no part in gradients
        ++step_;
    }
    HK_ASSIGN(const double scale, optimizer_->loss_scale());
    for (const std::string& name : train_program_->gradient_names()) {
        HK_ASSIGN(ResourceVector<float> values, store_->download(name, program::StoreArena::gradients));
        for (float& value : values) value /= static_cast<float>(scale);
        result.gradients.emplace_back(name, std::move(values));
    }
    return result;
}

} // namespace hekla::train
