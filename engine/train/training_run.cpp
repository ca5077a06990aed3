#include "train/training_run.hpp"

#include "base/file.hpp"
#include "base/json.hpp"
#include "batch/collate.hpp"
#include "generate/settings.hpp"
#include "infer/model.hpp"
#include "model/finite.hpp"
#include "text/files/tokenizer_settings.hpp"
#include "train/batch_wait.hpp"
#include "train/fit.hpp"
#include "train/loss_counts.hpp"
#include "train/recipe_file.hpp"
#include "train/report.hpp"
#include "train/token_loss.hpp"
#include "train/tokenizer_choice.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <set>

namespace hekla::train {
namespace {

using nlohmann::json;

} // namespace

TrainingRun::~TrainingRun() = default;

Result<std::unique_ptr<TrainingRun>> TrainingRun::create(const Recipe& recipe, const plugin::Registry& registry,
                                                         const program::RuntimeSource& device, const Log& log,
                                                         const TrainerEvents& events, Purpose purpose,
                                                         exchange::Communicator* ranks) {
    constexpr int kTries = 20;
    for (int tries = 1;; ++tries) {
        std::unique_ptr<TrainingRun> t(new TrainingRun(recipe, registry, device.host_memory(), log, events));
        if (ranks != nullptr) t->ranks_ = ranks;
        Status opened = t->open(device, purpose);
        if (opened.ok()) return t;
        // The training of this run may have replaced the checkpoint since it was found: then the newest one is read.
        std::error_code ignored;
        if (purpose != Purpose::read || tries == kTries || !t->found_ || fs::exists(t->found_->path, ignored))
            return opened;
    }
}

Status TrainingRun::open(const program::RuntimeSource& device, Purpose purpose) {
    const bool several = ranks_->size() > 1;
    if (several) HK_TRY(greet());
    if (purpose == Purpose::join) HK_TRY(receive_start());
    if (purpose == Purpose::train) { HK_ASSIGN(folder_, RunFolder::own(run_)); }
    resumes_ = purpose != Purpose::initial && purpose != Purpose::join;
    HK_TRY(read());
    HK_ASSIGN(runtime_, device.get());
    if (recipe_.train.fit) HK_TRY(fit());
    HK_TRY(check_fits(*composition_, *runtime_, recipe_.train.per_device_train_batch_size, recipe_.train.context_length,
                      fit_options()));
    HK_TRY(open_data());
    if (purpose == Purpose::train) HK_TRY(check_validation());
    if (purpose == Purpose::train) HK_TRY(check_labels());
    HK_TRY(tell_text_rules());
    if (several && purpose == Purpose::train) HK_TRY(send_start());
    if (several) HK_TRY(compare_runs());
    HK_TRY(events_.stop.check_now("preparing the training"));
    if (const Status compiled = compile(); compiled.code() == Code::out_of_memory)
        return out_of_memory(fmt::format("the device has no memory for this training: {}; make "
                                         "train.per_device_train_batch_size smaller, or make the model smaller",
                                         compiled.message()));
    else if (!compiled.ok())
        return compiled;
    HK_TRY(begin_or_resume());
    // Report anything that would stop an evaluation before the first step, and allocate its memory then.
    exchange::Communicator* const divided = divides_evaluations() ? ranks_ : nullptr;
    if ((purpose == Purpose::train || (purpose == Purpose::join && divided != nullptr)) &&
        recipe_.generate.examples_while_training > 0 && data_.valid() != nullptr && rollouts_ == nullptr) {
        Evaluation tried;
        HK_TRY(add_texts(*data_.valid(), 1, false, tried, divided));
    }
    return {};
}

TrainingRun::TrainingRun(const Recipe& recipe, const plugin::Registry& registry, std::pmr::memory_resource* host_memory,
                         const Log& log, const TrainerEvents& events)
    : registry_(registry), host_memory_(host_memory), log_(log), events_(events), recipe_(recipe),
      run_(recipe.output.dir) {}

std::optional<int64_t> TrainingRun::rewind_step() const {
    const PruneSection& p = recipe_.prune;
    return p.rewind_step > 0 && p.weights_from.empty() ? std::optional(p.rewind_step) : std::nullopt;
}

Status TrainingRun::start() {
    if (!folder_.owned()) return failed_precondition("this run was opened for reading: open it with Purpose::train");
    folder_.keep();
    HK_TRY(tokenizer_->save(run_));
    if (const std::string from = tokenizer_folder(recipe_); !from.empty())
        HK_TRY(text::keep_tokenizer_settings(FilePlace(from), run_));
    HK_ASSIGN(const std::vector<plugin::BatchField> fields, composition_->batch_fields(1, row_lengths().front()));
    if (std::ranges::find(fields, "token_type_ids", &plugin::BatchField::name) != fields.end())
        HK_TRY(text::write_token_types(run_));
    HK_TRY(save_chat_template());
    HK_TRY(save_generation_settings());
    HK_TRY(write_file_atomically(run_ / "recipe.toml", write_recipe(recipe_)));
    if (mask_) HK_TRY(mask_->write(run_ / kMaskFile));
    return record_choices();
}

Result<bool> TrainingRun::has_token_loss() const {
    HK_ASSIGN(const std::vector<plugin::BatchField> fields, composition_->batch_fields(1, row_lengths().front()));
    HK_ASSIGN(const graph::Graph graph, composition_->build(HK_MODE_EVALUATE, fields));
    return is_token_loss(graph, tokenizer_->vocabulary_size());
}

// The folder with the settings of generation that a run starts with: of the model that is trained on, whose token ids
// are right where its tokenizer is kept. Empty: there are none.
fs::path TrainingRun::first_generation_settings() const {
    const std::string& from = recipe_.model.from;
    std::error_code error;
    const bool has = !from.empty() && tokenizer_folder(recipe_) == from &&
                     fs::is_regular_file(fs::path(from) / generate::kSettingsFile, error);
    return has ? fs::path(from) : fs::path();
}

Status TrainingRun::save_generation_settings() const {
    const fs::path from = first_generation_settings();
    std::string text;
    if (!from.empty()) {
        HK_ASSIGN(text, read_file(from / generate::kSettingsFile));
    } else if (recipe_.model.from.empty() && infer::has_head(composition_->head(), "lm")) {
        HK_ASSIGN(const std::string written, composition_->write_config());
        HK_ASSIGN(const json config, parse_json_object(written, "config.json"));
        text = generate::settings_file(config);
    }
    return text.empty() ? Status() : write_file_atomically(run_ / generate::kSettingsFile, text);
}

Status TrainingRun::save_chat_template() const {
    std::string text;
    if (data_.chat() != nullptr) {
        text = data_.chat()->text();
    } else if (const std::string folder = tokenizer_folder(recipe_); !folder.empty()) {
        HK_ASSIGN(const std::optional<text::ChatTemplateSource> own, text::find_chat_template(FilePlace(folder)));
        if (own) text = own->text;
    }
    return text.empty() ? Status() : write_file_atomically(run_ / "chat_template.jinja", text);
}

Status TrainingRun::roll_out() {
    if (!rollouts_due()) return {};
    if (step() == 0 && folder_.owned()) HK_TRY(write_samples());
    if (ranks_->size() > 1) HK_TRY(command_rollouts());
    return rollouts_->begin(step(), folder_.owned(), *ranks_);
}

Status TrainingRun::draw(int64_t steps, const std::function<Status(const std::vector<data::Batch>&)>& take) {
    HK_TRY(roll_out());
    HK_ASSIGN(const std::unique_ptr<data::Batcher> batcher, batches(step()));
    int64_t end = std::min(recipe_.train.max_steps, step() + steps);
    if (rollouts_ != nullptr) end = std::min(end, rollouts_->end_of_iteration(step()));
    for (int64_t step = this->step(); step < end; ++step) {
        HK_ASSIGN(const std::optional<std::vector<data::Batch>> micro, next_micro_batches(*batcher));
        if (!micro) return {Code::cancelled, "stopped while waiting for a batch"};
        HK_TRY(take(*micro));
    }
    return {};
}

Result<std::unique_ptr<data::Batcher>> TrainingRun::batches(int64_t from_step) const {
    return batches(from_step, recipe_.train.per_device_train_batch_size);
}

Result<std::unique_ptr<data::Batcher>> TrainingRun::batches(int64_t from_step, int64_t rows) const {
    const TrainSection& s = recipe_.train;
    data::BatcherOptions options;
    options.threads = events_.own_threads ? 1 : 0;
    options.micro_steps = micro_steps();
    if (sharded_ != nullptr) options.first_micro_step = sharded_->micro().first;
    options.first_step = static_cast<uint64_t>(from_step);
    // A finished run has no next step, but measure() and rehearse() need a batch.
    options.end_step = static_cast<uint64_t>(std::max(s.max_steps, from_step + 1));
    if (rollouts_ != nullptr)
        options.end_step = std::min(options.end_step, static_cast<uint64_t>(rollouts_->end_of_iteration(from_step)));
    return data::Batcher::start(options, [this, rows](data::Batch& batch) -> Status {
        const TrainSection& t = recipe_.train;
        const auto step = static_cast<uint64_t>(data_step(static_cast<int64_t>(batch.step)));
        const uint64_t first = data::WindowOrder::first_number(
            step, batch.micro_step, static_cast<uint64_t>(t.gradient_accumulation_steps), static_cast<uint64_t>(rows));
        std::vector<batch::DrawnExample> examples;
        int64_t needed = shorter_.empty() ? t.context_length : 1;
        for (int64_t row = 0; row < rows; ++row) {
            const uint64_t number = first + static_cast<uint64_t>(row);
            examples.push_back(rollouts_ != nullptr ? rollouts_->draw(number) : data_.train().draw(number));
            batch.examples.push_back(examples.back().example.index);
            if (!shorter_.empty())
                needed = std::max(needed, batch::example_length(*composition_, examples.back().example));
        }
        const auto fits = shorter_.lower_bound(needed);
        batch.length = fits != shorter_.end() ? fits->first : t.context_length;
        const auto seed = static_cast<uint64_t>(t.seed);
        HK_TRY(rollouts_ == nullptr ? data_.train().make_fields(*composition_, examples, seed, rows, batch.length,
                                                                batch.fields, host_memory(), batch.step)
                                    : batch::make_fields(*composition_, examples, nullptr, seed, rows, batch.length,
                                                         batch.fields, host_memory(), batch.step));
        if (rows == t.per_device_train_batch_size) { // otherwise it is measured, not trained with
            HK_ASSIGN(batch.loss_counts, loss_counts(described(batch.length), batch.fields));
        }
        return {};
    });
}

// Most data has a label in its first batch; data without any is read to its end.
Status TrainingRun::check_labels() const {
    if (learns_from_rollouts_ || step() >= recipe_.train.max_steps) return {};
    const Split& split = data_.train();
    const int64_t batch = recipe_.train.per_device_train_batch_size, length = recipe_.train.context_length;
    for (uint64_t first = 0; first < split.size(); first += static_cast<uint64_t>(batch)) {
        HK_TRY(events_.stop.check("reading data"));
        std::vector<batch::DrawnExample> examples;
        for (uint64_t i = first; i < std::min(split.size(), first + static_cast<uint64_t>(batch)); ++i)
            examples.push_back(split.at(i));
        std::vector<data::Field> fields;
        HK_TRY(split.make_fields(*composition_, examples, static_cast<uint64_t>(recipe_.train.seed), batch, length,
                                 fields, host_memory(), 0));
        HK_ASSIGN(const std::vector<double> counts, loss_counts(described_, fields));
        if (any_label(counts)) return {};
    }
    return invalid_argument(fmt::format(
        "none of the {} examples of data.train has a label for objective '{}' within train.context_length = {}, so "
        "there is nothing to learn: raise train.context_length if the labels begin after it, or check the data",
        grouped(static_cast<double>(split.size())), recipe_.objective.id, length));
}

std::vector<int64_t> TrainingRun::row_lengths() const {
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

const graph::Graph& TrainingRun::described(int64_t length) const {
    const auto found = shorter_.find(length);
    return found != shorter_.end() ? found->second.described : described_;
}

program::Program& TrainingRun::train_program(int64_t length) const {
    if (turn_ > 0) return *turn_programs_[turn_ - 1].at(length);
    const auto found = shorter_.find(length);
    return found != shorter_.end() ? *found->second.program : *train_program_;
}

Result<std::optional<std::vector<data::Batch>>> TrainingRun::next_micro_batches(data::Batcher& batcher,
                                                                                std::vector<data::Batch> ready) const {
    std::vector<data::Batch> micro = std::move(ready);
    const std::size_t count = micro_steps();
    const BatchMaker maker = micro.size() < count ? batch_maker() : BatchMaker();
    TrainerEvents events = events_;
    if (!may_stop()) events.stop = {}; // the other islands are in the middle of their steps
    while (micro.size() < count) {
        if (!wait_for_batch(batcher, events, maker)) return std::optional<std::vector<data::Batch>>();
        HK_ASSIGN(std::optional<data::Batch> batch, batcher.next());
        if (!batch) return internal_error("the batches ended before the steps");
        micro.push_back(std::move(*batch));
    }
    return std::optional(std::move(micro));
}

void TrainingRun::take_ready_batches(data::Batcher& batcher, std::vector<data::Batch>& micro) const {
    while (micro.size() < micro_steps() && batcher.wait(std::chrono::milliseconds(0))) {
        Result<std::optional<data::Batch>> batch = batcher.next();
        if (!batch.ok() || !batch.value()) return; // the last step, or an error, which every later call returns
        micro.push_back(std::move(*batch.value()));
    }
}

BatchMaker TrainingRun::batch_maker() const {
    const Result<plugin::Registry::Entry> entry = registry_.find(HK_OBJECTIVE_INTERFACE, recipe_.objective.id);
    const std::string library =
        entry.ok() && entry->manifest != nullptr ? fmt::format(" ({})", entry->manifest->library) : "";
    return {fmt::format("objective '{}'{}", recipe_.objective.id, library), composition_->isolated()};
}

void TrainingRun::end_batches(data::Batcher& batcher) {
    train::end_batches(batcher, events_, batch_maker());
    if (evaluator_ != nullptr) evaluator_->end_batches();
}

Status TrainingRun::prepare_step(int64_t step) {
    turn_ = alternation_.turn_of(step);
    if (alternation_.on()) runner_->use(optimizers_of(turn_));
    HK_TRY(scalars_.begin_step(step, recipe_.train.max_steps,
                               events_.scalars ? events_.scalars() : StepScalars::Values()));
    if (!cut_ || features_) return {};
    message(fmt::format("computing the frozen layers, {:.0f}% of a forward pass, once for {} examples",
                        100.0 * cut_->share, grouped(static_cast<double>(data_.train().size()))));
    HK_ASSIGN(features_, Features::compute(*runtime_, *store_, *composition_, *cut_, data_.train(),
                                           recipe_.train.per_device_train_batch_size, recipe_.train.context_length,
                                           static_cast<uint64_t>(recipe_.train.seed), *ranks_));
    return {};
}

Result<StepLoss> TrainingRun::gradients(const std::vector<data::Batch>& micro, int64_t step) {
    HK_TRY(prepare_step(step));
    taps_.skip_step();
    HK_TRY(runner_->begin_gradients(micro, data_step(step)));
    return runner_->end_gradients();
}

Status TrainingRun::begin_step(const std::vector<data::Batch>& micro, int64_t step, double learning_rate) {
    if (sharded_ != nullptr) {
        HK_TRY(command_step(step, learning_rate));
        HK_TRY(prepare_step(step));
        return sharded_->begin(micro, step, learning_rate);
    }
    if (has_islands() && !joined_ && (step % recipe_.distributed.inner_steps == 0 || step == first_step_))
        HK_TRY(command_inner_steps(step));
    HK_TRY(prepare_step(step));
    taps_.begin_step(step + 1);
    return runner_->begin_update(micro, data_step(step), learning_rate);
}

Result<TakenStep> TrainingRun::end_step() {
    HK_ASSIGN(TakenStep result, sharded_ != nullptr ? sharded_->end() : runner_->end_update());
    if (sharded_ != nullptr) HK_TRY(check_ranks(step()));
    if (is_average_due(step() + 1)) {
        HK_TRY(islands_->step());
        result.exchange = islands_->last_traffic();
    }
    if (average_ != nullptr && !result.outcome.skipped) {
        // Optimizers of turns count their own updates.
        const auto updates = alternation_.on() ? static_cast<uint32_t>(step() + 1) : result.outcome.applied;
        HK_TRY(average_->update(updates));
    }
    if (rollouts_ != nullptr) { // before those of the step
        const auto& of_iteration = rollouts_->metrics();
        result.loss.metrics.insert(result.loss.metrics.begin(), of_iteration.begin(), of_iteration.end());
    }
    return result;
}

double TrainingRun::flops(const std::vector<data::Batch>& micro) const {
    double flops = 0.0;
    for (const data::Batch& batch : micro) flops += train_program(batch.length).flops();
    return flops;
}

Result<std::string> TrainingRun::describe_non_finite(bool gradients) {
    const auto search = [&](program::StoreArena arena, const auto& names) -> Result<std::string> {
        for (const std::string& name : names) {
            HK_ASSIGN(const ResourceArray<float> values, store_->download(name, arena));
            model::TensorView tensor;
            tensor.name = name;
            tensor.dims = store_->find(name)->shape.vector();
            tensor.bytes = std::as_bytes(std::span(values));
            if (const Status finite = model::check_finite(tensor); !finite.ok()) return finite.message();
        }
        return std::string();
    };
    std::vector<std::string> parameters;
    for (const program::ParameterEntry& entry : store_->table()) parameters.push_back(entry.name);
    HK_ASSIGN(std::string found, search(program::StoreArena::parameters, parameters));
    if (!found.empty()) return "parameter " + found;
    if (!gradients) return std::string();
    HK_ASSIGN(found, search(program::StoreArena::gradients, train_program_->gradient_names()));
    return found.empty() ? found : "gradient of " + found;
}

int64_t TrainingRun::evaluation_batch() const {
    const TrainSection& s = recipe_.train;
    return s.per_device_eval_batch_size > 0 ? s.per_device_eval_batch_size : s.per_device_train_batch_size;
}

Result<nlohmann::json> TrainingRun::generation_settings() const {
    HK_ASSIGN(const std::string written, composition_->write_config());
    HK_ASSIGN(const json config, parse_json_object(written, "config.json"));
    std::error_code error;
    const fs::path first = fs::exists(run_ / generate::kSettingsFile, error) ? fs::path() : first_generation_settings();
    return generate::settings_of(first.empty() ? run_ : first, config);
}

Status TrainingRun::add_texts(const Split& split, uint64_t limit, bool predictions, Evaluation& result,
                              exchange::Communicator* ranks) {
    if (texts_ == nullptr) {
        HK_ASSIGN(const json settings, ranks != nullptr ? shared_generation_settings() : generation_settings());
        HK_ASSIGN(texts_, TextEvaluator::create(*runtime_, *store_, *composition_, *tokenizer_, settings,
                                                recipe_.generate.options, evaluation_batch(), row_lengths(),
                                                static_cast<uint64_t>(recipe_.train.seed)));
        if (const std::optional<int32_t> end = data_.turn_end()) texts_->end_at(*end);
    }
    texts_->set_step(static_cast<uint64_t>(last_step()));
    HK_ASSIGN(WrittenTexts written, texts_->run(split, limit, ranks));
    if (joined_) return {};
    result.scores.insert(result.scores.end(), written.scores.begin(), written.scores.end());
    result.table += written.summary;
    if (!predictions) return {};
    for (WrittenText& one : written.texts) {
        json prediction{{"text", std::move(one.output)}};
        if (split.place(one.example).empty()) { // only a table has the input
            prediction["source"] = std::move(one.source);
            prediction["reference"] = std::move(one.reference);
        }
        result.predictions.push_back({one.example, std::move(prediction)});
    }
    return {};
}

Result<std::optional<uint64_t>> TrainingRun::texts_to_write() const {
    const int64_t wanted = recipe_.generate.examples;
    if (wanted > 0) return std::optional(static_cast<uint64_t>(wanted));
    if (wanted == 0 || !data_.is_table()) return std::optional<uint64_t>();
    HK_ASSIGN(const TextEvaluator::Kind kind, TextEvaluator::kind_of(*composition_));
    return kind == TextEvaluator::Kind::nothing ? std::optional<uint64_t>() : std::optional<uint64_t>(0);
}

// An evaluation uses the values of the last step.
Status TrainingRun::set_evaluation_scalars() {
    HK_TRY(scalars_.begin_step(last_step(), recipe_.train.max_steps));
    evaluator_->set_step(static_cast<uint64_t>(last_step()));
    return evaluator_->set_scalars(scalars_);
}

Result<Evaluation> TrainingRun::validate(bool whole) {
    if (whole || !divides_evaluations()) return validate(whole, nullptr);
    if (!joined_) HK_TRY(command_evaluation());
    if (recipe_.train.ema_decay == 0.0) return validate(false, ranks_);
    // Only rank 0 has the average, which is in place of its weights now.
    Evaluation result;
    HK_TRY(sharded_->with_parameters_of_rank_0([&]() -> Status {
        HK_ASSIGN(result, validate(false, ranks_));
        return {};
    }));
    return result;
}

Result<Evaluation> TrainingRun::validate(bool whole, exchange::Communicator* ranks) {
    const TrainSection& s = recipe_.train;
    if (rollouts_ == nullptr) HK_TRY(set_evaluation_scalars());
    const int64_t batch = evaluation_batch();
    constexpr int64_t kBatchesOfText = 50;
    const int64_t batches = s.eval_batches >= 0 ? s.eval_batches : data_.is_table() ? 0 : kBatchesOfText;
    const auto limit = static_cast<uint64_t>(batches * batch);
    if (rollouts_ != nullptr) {
        exchange::Communicator alone;
        return rollouts_->evaluate(*data_.valid(), limit, whole || recipe_.generate.examples_while_training > 0,
                                   ranks != nullptr ? *ranks : alone);
    }
    HK_ASSIGN(Evaluation result, evaluator_->run(*data_.valid(), limit, whole, data_.classes(), ranks));
    if (!whole && recipe_.generate.examples_while_training > 0)
        HK_TRY(add_texts(*data_.valid(), static_cast<uint64_t>(recipe_.generate.examples_while_training), true, result,
                         ranks));
    return result;
}

Result<Evaluation> TrainingRun::evaluate(On split) {
    const Split* of = split == On::test ? data_.test() : data_.valid();
    if (of == nullptr)
        return failed_precondition(split == On::test ? std::string("no test data: set data.test")
                                                     : "no validation data: " + data_.without_valid());
    HK_ASSIGN(const std::optional<uint64_t> texts, texts_to_write());
    if (!start_random_.empty() && !resumes_)
        return failed_precondition(
            fmt::format("{} would be random: the body {} does not have it{}", start_random_.front(), recipe_.model.from,
                        recipe_.adapters.size() > 1 ? ", and of several adapters none brings a head"
                                                    : ", and neither does the adapter"));
    if (!start_random_.empty())
        return failed_precondition(fmt::format(
            "{}: there is no checkpoint, and {} would be random{}: train first, or set [output] dir to a trained run",
            run_.string(), start_random_.front(),
            start_random_.size() > 1 ? fmt::format(", like {} more", start_random_.size() - 1) : ""));
    if (recipe_.train.load_best_model_at_end) HK_TRY(load_best());
    HK_TRY(swap_average()); // this run is not trained further
    if (rollouts_ != nullptr) {
        exchange::Communicator alone;
        const auto limit = static_cast<uint64_t>(std::max<int64_t>(recipe_.train.eval_batches, 0) * evaluation_batch());
        // Test data is read whole.
        return rollouts_->evaluate(*of, split == On::test ? uint64_t{0} : limit, true, alone);
    }
    Evaluation result;
    HK_TRY(set_evaluation_scalars());
    if (!routing_.ports().empty())
        evaluator_->observe([this](program::Program& program, std::span<const data::Field> fields, std::size_t rows) {
            return routing_.add(program, fields, rows);
        });
    if (split == On::test) {
        HK_ASSIGN(result, evaluator_->run(*of, 0, true, data_.classes()));
    } else {
        HK_ASSIGN(result, validate(true));
    }
    if (events_.routing) events_.routing(routing_.json(*tokenizer_));
    if (texts) HK_TRY(add_texts(*of, *texts, true, result));
    return result;
}

Status TrainingRun::rehearse() {
    if (step() >= recipe_.train.max_steps) return {};
    HK_TRY(roll_out());
    HK_ASSIGN(const std::unique_ptr<data::Batcher> batcher, batches(step()));
    HK_ASSIGN(const std::optional<std::vector<data::Batch>> micro, next_micro_batches(*batcher));
    if (!micro) return {Code::cancelled, "stopped while waiting for a batch"};
    HK_TRY(gradients(*micro, step()).status());
    for (const auto& [length, shorter] : shorter_) {
        HK_ASSIGN(const std::vector<plugin::BatchField> fields,
                  composition_->batch_fields(recipe_.train.per_device_train_batch_size, length));
        HK_TRY(run_over_zeros(*shorter.program, fields));
    }
    for (const auto& programs : turn_programs_)
        for (const auto& [length, program] : programs) {
            HK_ASSIGN(const std::vector<plugin::BatchField> fields,
                      composition_->batch_fields(recipe_.train.per_device_train_batch_size, length));
            HK_TRY(run_over_zeros(*program, fields));
        }
    for (const auto& optimizer : optimizers_) HK_TRY(optimizer->rehearse());
    if (average_ != nullptr) HK_TRY(average_->rehearse());
    return evaluator_ != nullptr ? evaluator_->rehearse() : Status();
}

} // namespace hekla::train
