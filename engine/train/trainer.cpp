// A run of training: its steps, evaluations and ends.
#include "train/trainer.hpp"

#include "base/file.hpp"
#include "graph/reference.hpp"
#include "infer/collate.hpp"
#include "train/fit.hpp"
#include "train/schedule.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

namespace hekla::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

double seconds_since(std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

} // namespace

Trainer::~Trainer() = default;

Result<std::unique_ptr<Trainer>> Trainer::create(const Recipe& recipe, const plugin::Registry& registry,
                                                 const program::RuntimeSource& device, const Log& log,
                                                 const TrainerEvents& events, Purpose purpose) {
    std::unique_ptr<Trainer> t(new Trainer(recipe, registry, device.host_memory(), log, events));
    if (purpose == Purpose::train) { HK_ASSIGN(t->folder_, RunFolder::own(t->run_)); }
    HK_TRY(t->read());
    HK_ASSIGN(t->runtime_, device.get());
    program::Runtime& runtime = *t->runtime_;
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

Trainer::Trainer(const Recipe& recipe, const plugin::Registry& registry, std::pmr::memory_resource* host_memory,
                 const Log& log, const TrainerEvents& events)
    : registry_(registry), host_memory_(host_memory), log_(log), events_(events), recipe_(recipe),
      run_(recipe.output.dir), best_evaluation_(std::numeric_limits<double>::quiet_NaN()) {}

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
        const uint64_t first = data::WindowOrder::first_number(batch.step, batch.micro_step,
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
    feeds.step_scalars = scalars_.values();
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
    HK_TRY(scalars_.begin_step(step, recipe_.train.max_steps,
                               events_.scalars ? events_.scalars() : StepScalars::Values()));
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
        HK_TRY(scalars_.apply(program));
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

// An evaluation has the values of the last step.
Status Trainer::set_evaluation_scalars() {
    HK_TRY(scalars_.begin_step(std::max<int64_t>(step_ - 1, 0), recipe_.train.max_steps));
    return evaluator_->set_scalars(scalars_);
}

Result<Evaluation> Trainer::validate(bool whole) {
    const TrainSection& s = recipe_.train;
    const int64_t batch = evaluation_batch();
    constexpr int64_t kBatchesOfText = 50;
    HK_TRY(set_evaluation_scalars());
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
    HK_TRY(set_evaluation_scalars());
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
    HK_TRY(record_choices());
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
        report.scalars.assign(scalars_.values().begin(), scalars_.values().end());
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
        scalars_.restore(json::object());
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
