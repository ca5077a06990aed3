#include "train/run/validation.hpp"

#include "generate/decoder.hpp"
#include "generate/settings.hpp"
#include "plugin/instances/rollout_use.hpp"
#include "program/program.hpp"
#include "train/evaluation/evaluate.hpp"
#include "train/evaluation/routing_report.hpp"
#include "train/evaluation/text_evaluator.hpp"
#include "train/ranks/rank_messages.hpp"
#include "train/recipe/recipe_adapters.hpp"
#include "train/run/described_training.hpp"
#include "train/run/prepared_run.hpp"

namespace hekla::train {
namespace {

using nlohmann::json;

int64_t last_step(int64_t step) { return std::max<int64_t>(step - 1, 0); } // from 0

class NoValidation final : public Validation {
public:
    Result<Evaluation> run(const Split&, bool, int64_t, exchange::Communicator*) override { return nothing(); }
    Result<Evaluation> report(const Split&, bool, int64_t, std::optional<uint64_t>) override { return nothing(); }

private:
    static Status nothing() { return internal_error("an evaluation of a run without data to evaluate on"); }
};

class ModelValidation final : public Validation {
public:
    explicit ModelValidation(const ValidationContext& context) : context_(context), run_(context.training.run) {}

    Status open() {
        const plugin::Composition& composition = *context_.training.composition;
        const TrainSection& s = run_.recipe.train;
        if (run_.context.events.routing) {
            HK_ASSIGN(const std::vector<plugin::BatchField> fields,
                      composition.batch_fields(run_.evaluation_batch(), s.context_length));
            HK_ASSIGN(routing_,
                      RoutingReport::find(composition, fields, run_.recipe.combine.how, adapter_names(run_.recipe)));
        }
        HK_ASSIGN(evaluator_, Evaluator::create(context_.runtime, context_.store, composition, run_.evaluation_batch(),
                                                run_.evaluation_lengths(), static_cast<uint64_t>(s.seed),
                                                EvaluatorOptions{storage_of(s), context_.choices, routing_.ports()},
                                                run_.context.events, context_.maker));
        return {};
    }

    Result<Evaluation> run(const Split& split, bool whole, int64_t step, exchange::Communicator* ranks) override {
        constexpr int64_t kBatchesOfText = 50;
        HK_TRY(set_step(step));
        const int64_t batches = run_.recipe.train.eval_batches >= 0 ? run_.recipe.train.eval_batches
                                : run_.data.is_table()              ? 0
                                                                    : kBatchesOfText;
        HK_ASSIGN(Evaluation result, evaluator_->run(split, static_cast<uint64_t>(batches * run_.evaluation_batch()),
                                                     whole, run_.data.classes(), ranks));
        const int64_t texts = whole ? 0 : run_.recipe.generate.examples_while_training;
        if (texts > 0) HK_TRY(add_texts(split, static_cast<uint64_t>(texts), true, step, result, ranks));
        return result;
    }

    Result<Evaluation> report(const Split& split, bool test, int64_t step, std::optional<uint64_t> texts) override {
        HK_TRY(set_step(step));
        if (!routing_.ports().empty())
            evaluator_->observe([this](program::Program& program, std::span<const data::Field> fields,
                                       std::size_t rows) { return routing_.add(program, fields, rows); });
        Evaluation result;
        if (test) {
            HK_ASSIGN(result, evaluator_->run(split, 0, true, run_.data.classes()));
        } else {
            HK_ASSIGN(result, run(split, true, step, nullptr));
        }
        if (run_.context.events.routing) run_.context.events.routing(routing_.json(*run_.tokenizer));
        if (texts) HK_TRY(add_texts(split, *texts, true, step, result, nullptr));
        return result;
    }

    Status rehearse_texts(const Split& split, int64_t step, exchange::Communicator* ranks) override {
        Evaluation tried;
        if (run_.recipe.generate.examples_while_training <= 0) return {};
        return add_texts(split, 1, false, step, tried, ranks);
    }

    Status rehearse() override { return evaluator_->rehearse(); }
    std::vector<std::string> kernel_choices() const override { return evaluator_->kernel_choices(); }
    void end_batches() override { evaluator_->end_batches(); }

private:
    // An evaluation uses the values of the last step.
    Status set_step(int64_t step) {
        HK_TRY(context_.scalars.begin_step(last_step(step), run_.recipe.train.max_steps));
        evaluator_->set_step(static_cast<uint64_t>(last_step(step)));
        return evaluator_->set_scalars(context_.scalars);
    }

    // Generates texts for up to `limit` examples (0: all) and scores them. ranks: that each write a part; may be null.
    Status add_texts(const Split& split, uint64_t limit, bool predictions, int64_t step, Evaluation& result,
                     exchange::Communicator* ranks) {
        const plugin::Composition& composition = *context_.training.composition;
        if (texts_ == nullptr) {
            HK_ASSIGN(const json given, shared(ranks, [&]() -> Result<json> {
                          HK_ASSIGN(const generate::FolderSettings read, run_.generation_settings(composition));
                          return json{{"values", read.values}, {"file", read.file}};
                      }));
            const generate::FolderSettings settings{given.at("values"), given.at("file").get<std::string>()};
            HK_ASSIGN(texts_,
                      TextEvaluator::create(context_.runtime, context_.store, composition, *run_.tokenizer, settings,
                                            run_.recipe.generate.options, run_.evaluation_batch(),
                                            run_.evaluation_lengths(), static_cast<uint64_t>(run_.recipe.train.seed)));
            if (const std::optional<int32_t> end = run_.data.turn_end()) texts_->end_at(*end);
        }
        texts_->set_step(static_cast<uint64_t>(last_step(step)));
        HK_ASSIGN(WrittenTexts written, texts_->run(split, limit, ranks));
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

    ValidationContext context_;
    const PreparedRun& run_;
    std::unique_ptr<Evaluator> evaluator_;
    RoutingReport routing_;                // with TrainerEvents::routing
    std::unique_ptr<TextEvaluator> texts_; // created when the first text is generated
};

} // namespace

Result<std::unique_ptr<Validation>> validation_of_model(const ValidationContext& context) {
    auto validation = std::make_unique<ModelValidation>(context);
    HK_TRY(validation->open());
    return std::unique_ptr<Validation>(std::move(validation));
}

std::unique_ptr<Validation> no_validation() { return std::make_unique<NoValidation>(); }

} // namespace hekla::train
