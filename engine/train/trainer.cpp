#include "train/trainer.hpp"

#include "base/file.hpp"
#include "graph/reference.hpp"
#include "infer/model_tensors.hpp"
#include "model/folder.hpp"
#include "program/lower_optimizer.hpp"
#include "text/trainer.hpp"
#include "train/fit.hpp"
#include "train/initialize.hpp"
#include "train/peak.hpp"
#include "train/schedule.hpp"
#include "train/training_graph.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <set>
#include <string_view>

namespace hekla::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kKernelsFile = "kernels.json"; // in the run's folder
constexpr double kLongStep = 5.0;          // seconds at the device's peak: a plan does not wait for such steps
constexpr uint64_t kDataSalt = 0x64617461; // the data's random numbers are not the parameters'

// A line of Program::kernel_choices() to key -> kernel.
void add_choice(const std::string& line, std::map<std::string, std::string>& choices) {
    if (const std::size_t end = line.rfind(": "); end != std::string::npos)
        choices[line.substr(0, end)] = line.substr(end + 2);
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

graph::Tensor tensor_of(const data::Field& field) {
    graph::Tensor tensor;
    tensor.kind = field.kind == data::FieldKind::int32 ? graph::Kind::int32 : graph::Kind::float32;
    tensor.shape = graph::Shape(field.shape);
    tensor.data.resize(field.bytes.size() / 4);
    for (std::size_t i = 0; i < tensor.data.size(); ++i) {
        if (field.kind == data::FieldKind::int32) {
            int32_t value;
            std::memcpy(&value, field.bytes.data() + i * 4, 4);
            tensor.data[i] = value;
        } else {
            float value;
            std::memcpy(&value, field.bytes.data() + i * 4, 4);
            tensor.data[i] = static_cast<double>(value);
        }
    }
    return tensor;
}

// A moment of the store, read back when it is written.
model::TensorSource source(program::ParameterStore& store, const program::ParameterEntry& entry,
                           program::StoreArena arena, const std::string& name) {
    model::TensorSource s;
    s.name = name;
    s.dtype = model::DType::f32;
    s.dims = entry.shape.vector();
    s.stream = [&store, parameter = entry.name, arena](const model::Sink& sink) -> Status {
        HK_ASSIGN(const std::vector<float> values, store.download(parameter, arena));
        return sink(std::as_bytes(std::span(values)));
    };
    return s;
}

Status fields_from(const std::vector<plugin::BatchField>& described, std::vector<data::Field>& out) {
    out.clear();
    for (const plugin::BatchField& field : described) {
        data::Field made;
        made.name = field.name;
        made.kind = field.kind == graph::Kind::int32 ? data::FieldKind::int32 : data::FieldKind::float32;
        made.shape = field.shape.vector();
        made.bytes.resize(static_cast<std::size_t>(field.shape.elements()) * 4);
        out.push_back(std::move(made));
    }
    return {};
}

} // namespace

Trainer::~Trainer() {
    std::error_code ignored;
    dataset_.reset(); // its file lies in there
    if (!temporary_.empty()) fs::remove_all(temporary_, ignored);
}

Result<std::unique_ptr<Trainer>> Trainer::create(const Recipe& recipe, const plugin::Registry& registry,
                                                 program::Runtime& runtime, const Log& log, const TrainerEvents& events,
                                                 Purpose purpose) {
    std::unique_ptr<Trainer> t(new Trainer(registry, runtime));
    t->recipe_ = recipe;
    t->log_ = log;
    t->events_ = events;
    t->run_ = recipe.output.dir;
    t->best_evaluation_ = std::numeric_limits<double>::quiet_NaN();
    if (purpose == Purpose::train) { HK_ASSIGN(t->folder_, RunFolder::own(t->run_)); }
    HK_TRY(t->find_checkpoint());
    HK_TRY(t->open_tokenizer());
    HK_TRY(t->describe());
    HK_TRY(check_fits(*t->composition_, runtime, recipe.train.per_device_train_batch_size, recipe.train.context_length,
                      storage_of(recipe.train)));
    HK_TRY(t->open_data());
    if (const Status compiled = t->compile(); compiled.code() == Code::out_of_memory)
        return out_of_memory(fmt::format("the device has no memory for this training: {}; make "
                                         "train.per_device_train_batch_size smaller, or make the model smaller",
                                         compiled.message()));
    else if (!compiled.ok())
        return compiled;
    HK_TRY(t->begin_or_resume());
    return t;
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
        if (!is_path && (key.starts_with("model.") || key.starts_with("head.") || key.starts_with("objective.") ||
                         key.starts_with("tokenizer.") || key == "train.optim"))
            return failed_precondition(fmt::format(
                "{}: was made with {} = {}, this recipe has {}: choose another [output] dir, or put the old "
                "value back",
                where, key, shown(old), shown(value)));
        static const std::set<std::string_view> harmless{"model.from",
                                                         "tokenizer.from",
                                                         "data.train",
                                                         "data.valid",
                                                         "data.cache",
                                                         "data.format",
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
        if (!harmless.contains(key)) other.push_back(fmt::format("{} {} -> {}", key, shown(old), shown(value)));
    }
    if (!other.empty())
        log_.warning(fmt::format("{}: the run goes on with other settings: {}", where, fmt::join(other, ", ")));
    return {};
}

Status Trainer::open_tokenizer() {
    // A run keeps the tokenizer it began with; one without a checkpoint has not begun.
    std::error_code problem;
    if (found_) {
        HK_ASSIGN(tokenizer_, text::load_tokenizer(found_->path));
        return {};
    }
    if (recipe_.tokenizer.kind == "from") {
        const std::string from = recipe_.tokenizer.from.empty() ? recipe_.model.from : recipe_.tokenizer.from;
        if (from.empty())
            return invalid_argument("[tokenizer] kind = \"from\" needs `from`: a folder with a tokenizer");
        HK_ASSIGN(tokenizer_, text::load_tokenizer(from));
        return {};
    }
    message(fmt::format("training a {} tokenizer on the data",
                        recipe_.tokenizer.kind == "char" ? "character" : "byte-level BPE"));
    std::unique_ptr<text::TokenizerTrainer> trainer;
    if (recipe_.tokenizer.kind == "char") {
        trainer = text::make_character_trainer();
    } else {
        text::ByteBpeTraining options;
        options.vocabulary_size = static_cast<int32_t>(recipe_.tokenizer.vocab_size);
        trainer = text::make_byte_bpe_trainer(options);
    }
    std::vector<std::string> inputs = recipe_.data.train;
    inputs.insert(inputs.end(), recipe_.data.valid.begin(), recipe_.data.valid.end());
    HK_ASSIGN(tokenizer_, data::train_tokenizer(*trainer, inputs));
    return {};
}

Status Trainer::open_data() {
    data::DatasetOptions options;
    options.train.inputs = recipe_.data.train;
    options.train.cache_folder = recipe_.data.cache.empty() ? run_ / "cache" : fs::path(recipe_.data.cache);
    std::error_code problem;
    if (!folder_.owned() && !fs::exists(options.train.cache_folder, problem)) {
        std::string name = (fs::temp_directory_path(problem) / "hekla-XXXXXX").string();
        if (problem || ::mkdtemp(name.data()) == nullptr)
            return io_error(
                fmt::format("{}: no folder for tokenized text can be made there: {}", name, std::strerror(errno)));
        temporary_ = name;
        options.train.cache_folder = temporary_;
    }
    options.valid = recipe_.data.valid;
    options.valid_fraction =
        recipe_.train.eval_steps > 0 || !recipe_.data.valid.empty() ? recipe_.data.valid_fraction : 0.0;
    Result<data::Dataset> opened = data::open_dataset(*tokenizer_, options);
    if (!opened.ok())
        return found_ ? opened.status().with_context(
                            fmt::format("{} goes on with the tokenizer it began with", run_.string()))
                      : opened.status();
    dataset_ = opened.take();
    message(fmt::format("{} files, {} bytes of text, {} tokens to train on, {} to validate with, vocabulary {}",
                        dataset_->corpus.files().size(), grouped(static_cast<double>(dataset_->corpus.text_bytes())),
                        grouped(static_cast<double>(dataset_->train.size())),
                        grouped(static_cast<double>(dataset_->valid.size())), tokenizer_->vocabulary_size()));
    // Texts that are too short are found now, not at the first evaluation.
    HK_TRY(training_sampler().status());
    if (dataset_->valid.size() > 0) HK_TRY(validation_sampler().status());
    return {};
}

Status Trainer::describe() {
    plugin::CompositionSpec spec;
    spec.architecture = recipe_.model.architecture;
    spec.config = recipe_.model.config;
    if (!recipe_.model.from.empty()) {
        HK_ASSIGN(const model::ModelFolder folder, model::ModelFolder::open(recipe_.model.from));
        json config = json::parse(folder.config_json(), nullptr, false);
        for (const auto& [key, value] : recipe_.model.config.items()) config[key] = value;
        spec.config = std::move(config);
        spec.refuse_unknown_keys = false;
        if (spec.architecture.empty()) {
            HK_ASSIGN(const plugin::Registry::Entry entry, registry_.find_model_type(folder.model_type()));
            spec.architecture = entry.provided->id;
        }
    }
    if (!spec.config.contains("vocab_size")) spec.config["vocab_size"] = tokenizer_->vocabulary_size();
    if (const json& size = spec.config["vocab_size"];
        size.is_number_integer() && size.get<int64_t>() < tokenizer_->vocabulary_size())
        return invalid_argument(
            fmt::format("model.vocab_size = {} is less than the tokenizer's {} ids: leave it out, or make it larger",
                        size.get<int64_t>(), tokenizer_->vocabulary_size()));
    spec.head = recipe_.head.id;
    spec.head_config = recipe_.head.config;
    spec.objective = recipe_.objective.id;
    spec.objective_config = recipe_.objective.config;
    spec.recompute = recipe_.train.gradient_checkpointing;
    HK_ASSIGN(composition_, plugin::Composition::create(registry_, spec, tokenizer_.get(), log_));
    if (!composition_->can_collate())
        return unsupported(
            fmt::format("objective '{}' cannot make batches from text: it only measures given ones", spec.objective));

    const TrainSection& s = recipe_.train;
    HK_ASSIGN(window_, composition_->tokens_per_example(s.context_length));
    HK_ASSIGN(fields_, composition_->batch_fields(s.per_device_train_batch_size, s.context_length));
    HK_ASSIGN(described_, composition_->build(HK_MODE_TRAIN, fields_));
    HK_ASSIGN(differentiated_, training_graph(described_));
    const int64_t eval_batch =
        s.per_device_eval_batch_size > 0 ? s.per_device_eval_batch_size : s.per_device_train_batch_size;
    HK_ASSIGN(const std::vector<plugin::BatchField> eval_fields,
              composition_->batch_fields(eval_batch, s.context_length));
    HK_ASSIGN(const graph::Graph evaluated, composition_->build(HK_MODE_EVALUATE, eval_fields));
    HK_ASSIGN(evaluated_, evaluation_graph(evaluated));
    return {};
}

// The kernels that the run began with, where it began on this device with this version: from the checkpoint, or the
// run's folder.
std::map<std::string, std::string> Trainer::recorded_choices() const {
    const fs::path file = found_ ? found_->file("trainer_state.json") : run_ / kKernelsFile;
    const Result<std::string> text = read_file(file);
    const json record = text.ok() ? json::parse(text.value(), nullptr, false) : json();
    std::map<std::string, std::string> choices;
    if (!record.is_object() || record.value("kernels_of", json()) != json(runtime_.tuning().identity())) return choices;
    for (const json& line : record.value("kernel_choices", json::array()))
        if (line.is_string()) add_choice(line.get<std::string>(), choices);
    return choices;
}

// Of training and evaluation.
std::vector<std::string> Trainer::kernel_choices() const {
    std::vector<std::string> choices = train_program_->kernel_choices();
    if (eval_program_ != nullptr)
        for (std::string& choice : eval_program_->kernel_choices()) choices.push_back(std::move(choice));
    std::ranges::sort(choices);
    choices.erase(std::unique(choices.begin(), choices.end()), choices.end());
    return choices;
}

Status Trainer::compile() {
    message("compiling kernels");
    std::map<std::string, std::string> choices = recorded_choices();
    HK_ASSIGN(store_, program::ParameterStore::create(runtime_, program::parameter_table(described_),
                                                      {.gradients = true, .moments = true}));
    program::CompileOptions options;
    options.outputs = {"loss"};
    options.precision = storage_of(recipe_.train);
    options.kernel_choices = choices;
    options.state_outputs = {{"loss", kLossState}}; // the optimizer tests it with the norm
    options.gradients =
        recipe_.train.gradient_accumulation_steps > 1 ? program::Gradients::accumulate : program::Gradients::overwrite;
    HK_ASSIGN(train_program_, program::Program::compile(runtime_, differentiated_, *store_, options));
    if (dataset_->valid.size() > 0) {
        program::CompileOptions evaluation;
        for (std::size_t i = 0; i < evaluated_.losses.size(); ++i) {
            evaluation.outputs.push_back(fmt::format("loss_sum.{}", i));
            evaluation.outputs.push_back(fmt::format("loss_count.{}", i));
        }
        evaluation.gradients = program::Gradients::ignore;
        // The same for the same product, also where only one of them was measured.
        for (const std::string& choice : train_program_->kernel_choices()) add_choice(choice, choices);
        evaluation.kernel_choices = choices;
        evaluation.precision = storage_of(recipe_.train);
        HK_ASSIGN(eval_program_, program::Program::compile(runtime_, evaluated_, *store_, evaluation));
    }
    std::vector<std::string> no_decay;
    for (const graph::Node& node : differentiated_.nodes)
        if (node.op == graph::Op::parameter && (node.integer("flags") & HK_PARAMETER_NO_DECAY) != 0)
            no_decay.push_back(node.text("name"));
    HK_ASSIGN(optimizer_,
              Optimizer::create(runtime_, *store_, recipe_.train, train_program_->gradient_names(), no_decay));
    // Without the cache the next start compiles again: no reason to end this one.
    if (const Status saved = runtime_.save_caches(); !saved.ok()) log_.warning(saved.message());
    peak_flops_ = measure_peak_flops(runtime_);
    return {};
}

Status Trainer::initialize_parameters() {
    if (!recipe_.model.from.empty()) {
        HK_ASSIGN(const model::Weights weights, model::Weights::open(recipe_.model.from));
        HK_ASSIGN(const std::vector<plugin::StoredTensor> tensors,
                  plugin::find_tensors(described_, weights, composition_->architecture().names));
        for (const plugin::StoredTensor& tensor : tensors) HK_TRY(infer::upload(*store_, tensor));
        return {};
    }
    for (const graph::Node& node : described_.nodes)
        if (node.op == graph::Op::parameter)
            HK_TRY(store_->upload(node.text("name"), initial_values(node, static_cast<uint64_t>(recipe_.train.seed))));
    return {};
}

Status Trainer::begin_or_resume() {
    HK_TRY(infer::upload_described_buffers(*store_, described_));
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
        if (state.at("data").get<std::string>() != dataset_->corpus.cache_file().filename().string())
            return failed_precondition(
                fmt::format("{}: was trained on another text than [data] train = {} holds now: choose another [output] "
                            "dir, or bring the old text back",
                            where, fmt::join(recipe_.data.train, ", ")));
        step_ = state.at("step").get<int64_t>();
        if (!state.at("best_evaluation").is_null()) best_evaluation_ = state.at("best_evaluation").get<double>();
        best_step_ = state.at("best_step").get<int64_t>();
        trained_seconds_ = state.at("seconds").get<double>();
        loss_window_ = LossWindow();
        for (const json& loss : state.at("loss_window")) loss_window_.add(loss.get<double>());
        const auto choices = state.at("kernel_choices").get<std::vector<std::string>>();
        if (choices != kernel_choices())
            log_.warning("the kernels chosen here are not those of the checkpoint (another device or version): the run "
                         "goes on, its bits will differ");
    } catch (const json::exception& e) { return corrupt(fmt::format("{}: trainer_state.json: {}", where, e.what())); }
    const auto load = [&](const char* file, const std::string& prefix, program::StoreArena arena) -> Status {
        HK_ASSIGN(const model::Weights weights, model::Weights::open(checkpoint.path, file));
        for (const program::ParameterEntry& entry : store_->table()) {
            HK_ASSIGN(const model::TensorView* tensor, weights.get(prefix + entry.name));
            if (tensor->dims != entry.shape.vector())
                return failed_precondition(
                    fmt::format("{}: {} is {}, this model has {}: the checkpoint is of another architecture or size",
                                where, entry.name, model::format_dims(tensor->dims), entry.shape.text()));
            std::vector<float> values(static_cast<std::size_t>(entry.shape.elements()));
            HK_TRY(model::load_float32(*tensor, values));
            HK_TRY(store_->upload(entry.name, values, arena));
        }
        if (std::string_view(file) != "optimizer" || arena != program::StoreArena::moment1) return {};
        for (const std::string& name : Optimizer::states(recipe_.train)) {
            // A run that goes on in float16 begins with the first loss scale.
            if (name == program::kLossScaleState && weights.find("state." + name) == nullptr) continue;
            HK_ASSIGN(const model::TensorView* tensor, weights.get("state." + name));
            HK_TRY(store_->upload_state(name, tensor->bytes));
        }
        return {};
    };
    HK_TRY(load("model", "", program::StoreArena::parameters));
    HK_ASSIGN(const model::Weights weights, model::Weights::open(checkpoint.path));
    for (const plugin::ModelTensor& tensor : plugin::model_tensors(described_))
        if (const model::TensorView* stored = tensor.buffer ? weights.find(tensor.name) : nullptr)
            HK_TRY(infer::upload(*store_, {tensor, stored}));
    HK_TRY(load("optimizer", "exp_avg.", program::StoreArena::moment1));
    HK_TRY(load("optimizer", "exp_avg_sq.", program::StoreArena::moment2));
    return {};
}

Status Trainer::save_checkpoint() {
    HK_ASSIGN(model::CheckpointWriter writer, model::CheckpointWriter::create(run_, step_));
    std::vector<model::TensorSource> moments;
    for (const program::ParameterEntry& entry : store_->table()) {
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
            HK_ASSIGN(const std::vector<std::byte> content, store_->download_state(name));
            return sink(content);
        };
        moments.push_back(std::move(state));
    }
    HK_ASSIGN(const std::string config, composition_->write_config());
    json state;
    state["step"] = step_;
    state["architecture"] = composition_->architecture().id;
    state["tokenizer"] = to_hex(tokenizer_->hash());
    state["data"] = dataset_->corpus.cache_file().filename().string();
    state["best_evaluation"] = std::isnan(best_evaluation_) ? json() : json(best_evaluation_);
    state["best_step"] = best_step_;
    state["seconds"] = trained_seconds_;
    state["loss_window"] = loss_window_.losses();
    state["kernels_of"] = runtime_.tuning().identity();
    state["kernel_choices"] = kernel_choices();
    HK_TRY(writer.add_text("config.json", config));
    HK_TRY(writer.add_text("recipe.toml", write_recipe(recipe_)));
    HK_TRY(writer.add_text("trainer_state.json", state.dump(1) + "\n"));
    for (const fs::path& file : model::auxiliary_files_in(run_)) HK_TRY(writer.add_copy(file));
    HK_TRY(writer.add_sharded("optimizer", moments));
    HK_TRY(writer.add_sharded("model", infer::tensor_sources(*store_, described_)));
    HK_ASSIGN(const fs::path folder, writer.commit());
    HK_ASSIGN(const std::vector<int64_t> removed,
              model::prune_checkpoints(run_, recipe_.train.save_total_limit, step_));
    (void)removed;
    message(fmt::format("saved {}", folder.string()));
    return {};
}

Status Trainer::save_final() {
    model::ModelContents contents;
    HK_ASSIGN(contents.config_json, composition_->write_config());
    contents.tensors = infer::tensor_sources(*store_, described_);
    return model::save_into_folder(run_, contents);
}

data::Collate Trainer::collate(int64_t batch) const {
    return [this, batch](const data::CollateInput& input, std::vector<data::Field>& fields) -> Status {
        HK_ASSIGN(const std::vector<plugin::BatchField> described,
                  composition_->batch_fields(batch, recipe_.train.context_length));
        HK_TRY(fields_from(described, fields));
        static constexpr std::string_view kText = "text";
        const hk_string column{kText.data(), kText.size()};
        std::vector<const int32_t*> pointers;
        std::vector<uint64_t> sizes;
        for (const data::ExampleView& example : input.examples) {
            pointers.push_back(example.tokens.data());
            sizes.push_back(example.tokens.size());
        }
        std::vector<hk_example> examples;
        for (std::size_t i = 0; i < input.examples.size(); ++i)
            examples.push_back(
                {sizeof(hk_example), 1, &column, &pointers[i], &sizes[i], input.examples[i].position.number});
        std::vector<hk_field> raw;
        for (data::Field& field : fields) {
            hk_field f{};
            f.struct_size = sizeof f;
            f.kind = field.kind == data::FieldKind::int32 ? HK_KIND_INT32 : HK_KIND_FLOAT32;
            f.name = {field.name.data(), field.name.size()};
            f.rank = static_cast<uint32_t>(field.shape.size());
            std::ranges::copy(field.shape, f.dims);
            f.data = field.bytes.data();
            raw.push_back(f);
        }
        const uint64_t epoch = input.examples.empty() ? 0 : input.examples[0].position.epoch;
        return composition_->collate(examples, input.seed, epoch, raw);
    };
}

Result<data::Sampler> Trainer::training_sampler() const {
    data::SamplerOptions sampling;
    sampling.order = recipe_.data.order == "random" ? data::Order::random : data::Order::shuffle;
    sampling.tokens = dataset_->train.size();
    sampling.window = static_cast<uint64_t>(window_);
    sampling.seed = static_cast<uint64_t>(recipe_.train.seed) ^ kDataSalt;
    sampling.name = "the training data";
    return data::Sampler::create(sampling);
}

Result<data::Sampler> Trainer::validation_sampler() const {
    data::SamplerOptions sampling;
    sampling.order = data::Order::sequential;
    sampling.tokens = dataset_->valid.size();
    sampling.window = static_cast<uint64_t>(window_);
    sampling.name = recipe_.data.valid.empty() ? "the validation data (the end of the text, data.valid_fraction of it)"
                                               : "the validation data";
    return data::Sampler::create(sampling);
}

Result<std::unique_ptr<data::Batcher>> Trainer::batches(int64_t from_step, int64_t batch) const {
    const TrainSection& s = recipe_.train;
    Result<data::Sampler> sampler = training_sampler();
    if (!sampler.ok()) return sampler.status();
    data::BatcherOptions options{.sampler = sampler.take(), .tokens = dataset_->train};
    options.batch_size = static_cast<uint32_t>(batch);
    options.micro_steps = static_cast<uint32_t>(s.gradient_accumulation_steps);
    options.first_step = static_cast<uint64_t>(from_step);
    options.end_step = static_cast<uint64_t>(s.max_steps);
    options.seed = static_cast<uint64_t>(s.seed);
    return data::Batcher::start(std::move(options), collate(batch));
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
    for (const data::Field& field : batch.fields) feeds.fields.emplace(field.name, tensor_of(field));
    std::vector<graph::ValueId> wanted;
    for (const graph::LossTerm& term : described_.losses) wanted.push_back(term.count);
    HK_ASSIGN(const std::vector<graph::Tensor> values, graph::evaluate(described_, feeds, wanted));
    std::vector<double> counts;
    for (const graph::Tensor& value : values) counts.push_back(value.data[0]);
    return counts;
}

Status Trainer::set_fields(program::Program& program, const data::Batch& batch) const {
    for (const data::Field& field : batch.fields) HK_TRY(program.set_input(field.name, field.bytes));
    return {};
}

Result<double> Trainer::gradients(const std::vector<data::Batch>& micro, int64_t step) {
    std::vector<double> counts(described_.losses.size(), 0.0);
    for (const data::Batch& batch : micro) {
        HK_ASSIGN(const std::vector<double> one, loss_counts(batch));
        for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += one[i];
    }
    HK_ASSIGN(const double scale, optimizer_->loss_scale());
    for (std::size_t i = 0; i < counts.size(); ++i)
        HK_TRY(train_program_->set_scalar(
            fmt::format("loss_scale.{}", i),
            counts[i] > 0.0 ? static_cast<float>(scale) * static_cast<float>(described_.losses[i].weight / counts[i])
                            : 0.0f));
    double loss = 0.0;
    for (std::size_t i = 0; i < micro.size(); ++i) {
        HK_TRY(set_fields(*train_program_, micro[i]));
        program::RunScalars scalars;
        scalars.seed = static_cast<uint64_t>(recipe_.train.seed);
        scalars.step = static_cast<uint32_t>(step);
        scalars.first_example =
            static_cast<uint32_t>(i) * static_cast<uint32_t>(recipe_.train.per_device_train_batch_size);
        scalars.accumulate = i > 0;
        HK_TRY(train_program_->run(scalars));
        HK_ASSIGN(const float part, train_program_->read_scalar_output("loss"));
        loss += static_cast<double>(part) / scale;
    }
    return loss;
}

Result<double> Trainer::evaluate() {
    if (eval_program_ == nullptr)
        return failed_precondition(
            "there is no validation text: name one in data.valid, or set data.valid_fraction and "
            "train.eval_steps above 0");
    const TrainSection& s = recipe_.train;
    const int64_t batch =
        s.per_device_eval_batch_size > 0 ? s.per_device_eval_batch_size : s.per_device_train_batch_size;
    HK_ASSIGN(const data::Sampler sampler, validation_sampler());
    const uint64_t windows = sampler.examples_per_epoch();
    const uint64_t wanted =
        s.eval_batches > 0 ? std::min<uint64_t>(windows, static_cast<uint64_t>(s.eval_batches * batch)) : windows;
    const data::Collate make = collate(batch);
    std::vector<double> sums(evaluated_.losses.size(), 0.0), counts(evaluated_.losses.size(), 0.0);
    std::vector<std::vector<int32_t>> tokens(static_cast<std::size_t>(batch),
                                             std::vector<int32_t>(static_cast<std::size_t>(window_)));
    for (uint64_t done = 0; done < wanted;) {
        std::vector<data::ExampleView> examples;
        for (int64_t row = 0; row < batch && done < wanted; ++row, ++done) {
            // Spread evenly over the validation text, the same ones every time.
            const data::Position position = sampler.at(done * windows / wanted);
            std::vector<int32_t>& place = tokens[static_cast<std::size_t>(row)];
            dataset_->valid.copy(position.begin, place);
            examples.push_back({position, place});
        }
        data::Batch made;
        HK_TRY(make({0, 0, static_cast<uint64_t>(s.seed), examples}, made.fields));
        HK_TRY(set_fields(*eval_program_, made));
        HK_TRY(eval_program_->run({.seed = static_cast<uint64_t>(s.seed)}));
        for (std::size_t i = 0; i < sums.size(); ++i) {
            HK_ASSIGN(const program::HostTensor sum, eval_program_->read_output(fmt::format("loss_sum.{}", i)));
            HK_ASSIGN(const program::HostTensor count, eval_program_->read_output(fmt::format("loss_count.{}", i)));
            sums[i] += static_cast<double>(sum.floats()[0]);
            counts[i] += count.kind == graph::Kind::int32 ? static_cast<double>(count.ints()[0])
                                                          : static_cast<double>(count.floats()[0]);
        }
    }
    double loss = 0.0;
    for (std::size_t i = 0; i < sums.size(); ++i)
        if (counts[i] > 0.0) loss += evaluated_.losses[i].weight * sums[i] / counts[i];
    return loss;
}

Result<std::string> Trainer::plan() {
    const TrainSection& s = recipe_.train;
    std::string text = train_program_->memory_plan().text();
    program::CompileOptions options;
    options.outputs = {"loss"};
    options.precision = storage_of(recipe_.train);
    options.kernel_choices = recorded_choices();
    options.timings = true;
    // Where a step would take long, one example stands for all.
    const double flops = train_program_->flops() * static_cast<double>(s.gradient_accumulation_steps);
    const bool slow = peak_flops_ > 0.0 && flops / peak_flops_ > kLongStep;
    const int64_t batch = slow ? 1 : s.per_device_train_batch_size;
    graph::Graph measured = differentiated_;
    if (slow) {
        HK_ASSIGN(const std::vector<plugin::BatchField> fields, composition_->batch_fields(1, s.context_length));
        HK_ASSIGN(const graph::Graph described, composition_->build(HK_MODE_TRAIN, fields));
        HK_ASSIGN(measured, training_graph(described));
    }
    HK_ASSIGN(const auto timed, program::Program::compile(runtime_, measured, *store_, options));
    HK_ASSIGN(const std::unique_ptr<data::Batcher> batcher, batches(step_, batch));
    HK_ASSIGN(const std::vector<data::Batch> micro, next_micro_batches(*batcher));
    HK_TRY(set_fields(*timed, micro[0]));
    double seconds = 1e30;
    for (int i = 0; i < (slow ? 1 : 4); ++i) { // the first of several replays warms up
        const auto begin = std::chrono::steady_clock::now();
        if (slow) {
            HK_TRY(timed->run());
            seconds = seconds_since(begin) * static_cast<double>(s.per_device_train_batch_size) *
                      static_cast<double>(s.gradient_accumulation_steps);
        } else {
            HK_ASSIGN(const double loss, gradients(micro, step_));
            (void)loss;
            if (i > 0) seconds = std::min(seconds, seconds_since(begin));
        }
    }
    if (!slow) {
        HK_TRY(timed->run());
        HK_TRY(timed->run());
    }
    std::map<std::string, double> by_node;
    double all = 0.0;
    for (const program::DispatchTiming& timing : timed->timings()) {
        by_node[timing.name] += timing.seconds;
        all += timing.seconds;
    }
    std::vector<std::pair<double, std::string>> dearest;
    for (const auto& [name, time] : by_node) dearest.emplace_back(time, name);
    std::ranges::sort(dearest, std::greater<>());
    const double steps = static_cast<double>(s.max_steps - step_);
    const double tokens =
        static_cast<double>(s.per_device_train_batch_size * s.gradient_accumulation_steps * s.context_length);
    text += fmt::format(
        "\nforward and backward of one step: {} ({} tokens/s{}), {} steps left: about {}, without evaluations\n",
        duration_text(seconds), grouped(tokens / seconds), slow ? ", measured with one example" : "",
        static_cast<int64_t>(steps), duration_text(steps * seconds));
    text += "dearest nodes:\n";
    for (std::size_t i = 0; i < std::min<std::size_t>(3, dearest.size()); ++i)
        text += fmt::format("  {:>8}  {:4.1f}%  {}\n", duration_text(dearest[i].first),
                            all > 0.0 ? 100.0 * dearest[i].first / all : 0.0, dearest[i].second);
    return text;
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

Result<TrainerResult> Trainer::train() {
    const TrainSection& s = recipe_.train;
    HK_TRY(tokenizer_->save(run_));
    HK_TRY(write_file_atomically(run_ / "recipe.toml", write_recipe(recipe_)));
    const json kernels{{"kernels_of", runtime_.tuning().identity()}, {"kernel_choices", kernel_choices()}};
    HK_TRY(write_file_atomically(run_ / kKernelsFile, kernels.dump(1) + "\n"));
    HK_ASSIGN(RunLog log, RunLog::open(run_ / "train_log.jsonl", step_));
    TrainerResult result;
    result.run = run_;
    const double tokens_per_step =
        static_cast<double>(s.per_device_train_batch_size * s.gradient_accumulation_steps * s.context_length);
    const double flops_per_step = train_program_->flops() * static_cast<double>(s.gradient_accumulation_steps);
    int64_t saved = step_ > 0 ? step_ : -1;
    // Killed between a checkpoint and its mark as the best one?
    if (saved == step_ && best_step_ == step_) HK_TRY(model::set_best(run_, step_));

    const auto evaluation = [&]() -> Status {
        const auto begin = std::chrono::steady_clock::now();
        HK_ASSIGN(const double loss, evaluate());
        EvaluationReport report{step_, loss, std::isfinite(loss) && !(loss >= best_evaluation_), seconds_since(begin)};
        if (report.best) {
            best_evaluation_ = loss;
            best_step_ = step_;
        }
        HK_TRY(log.evaluation(report));
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
    while (step_ < s.max_steps) {
        const auto begin = std::chrono::steady_clock::now();
        HK_ASSIGN(const std::vector<data::Batch> micro, next_micro_batches(*batcher));
        HK_ASSIGN(const double loss, gradients(micro, step_));
        const double rate = learning_rate(s, step_);
        HK_ASSIGN(const StepOutcome outcome, optimizer_->step(rate));
        ++step_;
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
                    batch.push_back({{"field", field.name}, {"shape", field.shape}, {"values", tensor_of(field).data}});
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
        if (eval_program_ != nullptr && s.eval_steps > 0 && (step_ % s.eval_steps == 0 || step_ == s.max_steps))
            HK_TRY(evaluation());
        if ((s.save_steps > 0 && step_ % s.save_steps == 0) || step_ == s.max_steps) HK_TRY(save());
        if (events_.stop && events_.stop() && step_ < s.max_steps) {
            HK_TRY(save());
            result.stopped = true;
            break;
        }
    }
    HK_TRY(log.write_curve(run_ / "loss.svg", run_.filename().string()));
    if (!result.stopped) HK_TRY(save_final());
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
        (void)outcome;
        ++step_;
    }
    HK_ASSIGN(const double scale, optimizer_->loss_scale());
    for (const std::string& name : train_program_->gradient_names()) {
        HK_ASSIGN(std::vector<float> values, store_->download(name, program::StoreArena::gradients));
        for (float& value : values) value /= static_cast<float>(scale);
        result.gradients.emplace_back(name, std::move(values));
    }
    return result;
}

} // namespace hekla::train
