// hekla.h: calls on a context: train, evaluate, predict, generate, embed.
#include "api/boundary.hpp"
#include "api/capture.hpp"
#include "api/captured_call.hpp"
#include "api/context.hpp"
#include "api/generation.hpp"
#include "api/training.hpp"
#include "base/file.hpp"
#include "exchange/thread_communicator.hpp"
#include "graph/passes/simplify.hpp"
#include "hekla/hekla.h"
#include "infer/exported/exported_file.hpp"
#include "infer/open/open_model.hpp"
#include "infer/passes/embed.hpp"
#include "infer/passes/predict.hpp"
#include "infer/texts/feature_rows.hpp"
#include "infer/texts/prompt_fields.hpp"
#include "program/runtime_source.hpp"
#include "text/text_encoder.hpp"
#include "train/evaluation/evaluate.hpp"
#include "train/recipe/recipe_adapters.hpp"
#include "train/recipe/recipe_file.hpp"
#include "train/run/run_data.hpp"
#include "train/run/split.hpp"
#include "train/training_loop.hpp"
#include "train/training_run.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <limits>
#include <sstream>

using namespace hekla;
using api::complete;
using api::Context;
using api::string_of;
using api::texts;
using api::view;

namespace {

// Returns a source without a device for the interpreter. The device is created last, after files and options were
// checked.
program::RuntimeSource device_of(const Context::Call& call, int32_t reference = 0) {
    return reference != 0 ? program::RuntimeSource() : call.device();
}

api::CallEnvironment environment_of(const Context::Call& call, int32_t reference = 0) {
    const Context& context = call.context();
    return {context.registry(), context.log(), device_of(call, reference), [&context] { return context.stopping(); },
            context.own_threads()};
}

Status run_generate(const Context::Call& call, const hk_generate_options& o, hk_generate_result* result) {
    const api::CallEnvironment environment = environment_of(call, o.reference);
    HK_ASSIGN(const auto generation, api::Generation::open(environment, o));
    HK_ASSIGN(const generate::Output output, generation->write({texts(o.prompts, o.prompt_count), 0, {}, {}}));
    if (result != nullptr) {
        result->stopped = output.stopped ? 1 : 0;
        result->context = output.context;
        result->prompt_tokens = output.statistics.prompt_tokens;
        result->new_tokens = output.statistics.tokens;
        result->prompt_seconds = output.statistics.prompt_seconds;
        result->seconds = output.statistics.seconds;
    }
    return {};
}

Status run_embed(const Context::Call& call, const hk_embed_options& o) {
    const Context& context = call.context();
    std::optional<infer::Tensors> fields;
    if (o.fields_file.size > 0) { HK_ASSIGN(fields, infer::read_fields(string_of(o.fields_file))); }
    HK_ASSIGN(infer::AdapterUses adapters, infer::parse_adapter_uses(texts(o.adapters, o.adapter_count)));
    infer::EmbedOptions options;
    if (o.port.size > 0) options.port = string_of(o.port);
    std::filesystem::path folder = string_of(o.model);
    const bool as_model = o.pooling == HK_POOLING_MODEL && options.port == "hidden";
    HK_ASSIGN(const std::optional<infer::SentenceModules> modules, infer::read_sentence_modules(folder, as_model));
    if (modules) folder = modules->model;
    options.pooling = o.pooling == HK_POOLING_MODEL ? infer::Pooling::mean : static_cast<infer::Pooling>(o.pooling);
    if (as_model && modules) options.modules = &*modules;
    std::string prompt;
    if (options.modules != nullptr) {
        HK_ASSIGN(prompt, modules->prompt(string_of(o.prompt)));
    } else if (o.prompt.size > 0) {
        return invalid_argument(fmt::format(
            "hk_embed_options.prompt is '{}', and {}", string_of(o.prompt),
            modules ? "pooling and port are not those of the model's modules.json: leave them at "
                      "HK_POOLING_MODEL and \"hidden\", or put the text itself before each text"
                    : "the model has no modules.json, so none of its prompts has a name: put the text itself "
                      "before each text"));
    }
    HK_ASSIGN(infer::Model m,
              infer::open_model(context.registry(), device_of(call, o.reference), folder,
                                {.tokenizer_required = false, .adapters = std::move(adapters)}, context.log()));
    if (as_model && m.exported != nullptr && m.exported->manifest().contains("modules_left_out"))
        return unsupported(fmt::format("{}: was exported from a folder of sentence-transformers, and has none of its "
                                       "modules; set the pooling to first, last or mean, or give the folder",
                                       folder.string()));
    if (o.batch > 0) options.batch = o.batch;
    const auto give = [&](std::size_t row, const graph::Tensor& values) {
        const std::vector<float> floats(values.data.begin(), values.data.end());
        return o.row(o.user, row, floats.data(), values.shape.dims().data(),
                     static_cast<uint32_t>(values.shape.rank())) == 0 &&
               !context.stopping();
    };
    if (fields) return infer::embed_fields(m, *fields, options, give);
    const std::vector<std::string> given = texts(o.texts, o.text_count);
    infer::FeatureTexts features{given, std::move(prompt), o.plain_tokens == 0, modules && modules->lower_case, 0};
    if (options.modules != nullptr) features.longest = static_cast<std::size_t>(modules->longest);
    HK_ASSIGN(infer::FeatureRows rows, infer::feature_rows(m, features));
    if (rows.cut > 0)
        context.log().warning(
            fmt::format("{} of {} texts are longer than max_seq_length ({} tokens, sentence_bert_config.json); "
                        "the rest of them is left out, as sentence-transformers does",
                        rows.cut, given.size(), modules->longest));
    for (uint64_t i = 0; i < o.row_count; ++i) rows.ids.emplace_back(o.rows[i], o.rows[i] + o.row_lengths[i]);
    options.prompt = rows.prompt;
    return infer::embed_rows(m, rows.ids, options, give);
}

Status run_evaluate(const Context::Call& call, const hk_evaluate_options& o) {
    HK_ASSIGN(train::Recipe recipe, train::read_recipe(string_of(o.recipe), texts(o.overrides, o.override_count)));
    HK_ASSIGN(const infer::AdapterUses adapters, infer::parse_adapter_uses(texts(o.adapters, o.adapter_count)));
    if (!adapters.each.empty()) { HK_ASSIGN(recipe, train::with_adapters(recipe, adapters)); }
    train::TrainerEvents events;
    if (o.message != nullptr) events.message = [&](const std::string& m) { o.message(o.user, view(m)); };
    if (o.routing != nullptr)
        events.routing = [&](const nlohmann::ordered_json& weights) {
            if (weights.is_null()) return;
            const std::string json = weights.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
            o.routing(o.user, view(json));
        };
    events.own_threads = call.context().own_threads();
    events.stop = [&call] { return call.context().stopping(); };
    HK_ASSIGN(const std::unique_ptr<train::TrainingRun> run,
              train::TrainingRun::create(recipe, call.context().registry(), device_of(call), call.context().log(),
                                         events,
                                         adapters.each.empty() ? train::Purpose::read : train::Purpose::initial));
    const bool test = o.test != 0;
    HK_ASSIGN(const train::Evaluation result,
              run->evaluate(test ? train::TrainingRun::On::test : train::TrainingRun::On::valid));
    if (o.message != nullptr && !result.table.empty()) o.message(o.user, view(result.table));
    const auto report_score = [&](const std::string& name, double value) {
        const hk_score score{view(name), value};
        if (o.score != nullptr) o.score(o.user, &score);
    };
    report_score("loss", result.loss);
    HK_ASSIGN(const bool of_tokens, run->has_token_loss());
    if (of_tokens) report_score("perplexity", std::exp(result.loss));
    for (const auto& [name, value] : result.scores) report_score(name, value);
    const train::Split* split = test ? run->data().test() : run->data().valid();
    for (std::size_t i = 0; i < result.predictions.size() && o.prediction != nullptr; ++i) {
        nlohmann::ordered_json line;
        const uint64_t example = result.predictions[i].example;
        line["place"] = split->place(example);
        for (const data::TaskColumn& column : run->data().columns())
            if (const std::string text = split->text(example, column.name); !text.empty()) line[column.name] = text;
        if (!recipe.data.group.empty()) line["group"] = split->group(example);
        line["said"] = result.predictions[i].predicted;
        const std::string json = line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
        o.prediction(o.user, i, view(json));
    }
    return {};
}

// Reads the rows of a file by the columns of the model.
Result<std::vector<data::EncodedExample>> rows_of_file(const infer::Model& m, std::vector<data::TaskColumn> columns,
                                                       const hk_predict_options& o, const StopPoll& stop) {
    data::TaskTableOptions options;
    options.inputs = {string_of(o.file)};
    options.targets = false;
    if (o.format.size > 0) { HK_ASSIGN(options.format, data::format_of_name(string_of(o.format))); }
    const std::vector<std::string> given = texts(o.columns, o.column_count);
    for (const std::string& one : given) {
        const std::size_t equals = one.find('=');
        const std::string name = one.substr(0, equals);
        const auto found = std::ranges::find(columns, name, &data::TaskColumn::name);
        if (equals == std::string::npos || found == columns.end()) {
            std::vector<std::string> names;
            for (const data::TaskColumn& column : columns) names.push_back(column.name);
            return invalid_argument(
                fmt::format("column '{}': expected NAME=SOURCE with NAME one of {}", one, fmt::join(names, ", ")));
        }
        found->source = one.substr(equals + 1);
    }
    if (!given.empty()) // read only the named columns
        std::erase_if(columns, [](const data::TaskColumn& column) { return column.optional && column.source.empty(); });
    options.columns = std::move(columns);
    options.reading.stop = stop;
    HK_ASSIGN(const data::TaskTable table, data::TaskTable::read(options));
    HK_ASSIGN(const data::TaskTable::Encoded encoded, table.encode(infer::text_encoder(m), {}));
    std::vector<data::EncodedExample> examples;
    for (uint64_t i = 0; i < encoded.examples->size(); ++i) examples.push_back((*encoded.examples)[i]);
    return examples;
}

Status run_predict(const Context::Call& call, const hk_predict_options& o) {
    const Context& context = call.context();
    const auto stop = [&] { return context.stopping() || (o.stop != nullptr && o.stop(o.user) != 0); };
    HK_ASSIGN(infer::AdapterUses adapters, infer::parse_adapter_uses(texts(o.adapters, o.adapter_count)));
    HK_ASSIGN(infer::Model m, infer::open_model(context.registry(), device_of(call, o.reference), string_of(o.model),
                                                {.objective = true, .adapters = std::move(adapters)}, context.log()));
    HK_ASSIGN(const std::vector<data::TaskColumn> columns, infer::text_columns(m));
    std::vector<data::EncodedExample> examples;
    if (o.file.size > 0) { HK_ASSIGN(examples, rows_of_file(m, columns, o, stop)); }
    for (uint64_t i = 0; i < o.text_count; ++i) {
        std::map<std::string, std::vector<std::string>> row{{columns.front().name, {string_of(o.texts[i])}}};
        if (columns.front().kind == HK_COLUMN_WORDS) { // words are separated by white space
            std::istringstream stream(string_of(o.texts[i]));
            row.begin()->second = {std::istream_iterator<std::string>(stream), {}};
        }
        if (o.second_texts != nullptr) {
            if (columns.size() < 2)
                return invalid_argument("this model reads one text per row: remove the second texts");
            row[columns[1].name] = {string_of(o.second_texts[i])};
        }
        Result<data::EncodedExample> example = data::encode_texts(infer::text_encoder(m), columns, row);
        if (!example.ok()) return example.status().with_context(fmt::format("text {}", i + 1));
        examples.push_back(example.take());
    }
    infer::PredictOptions options;
    if (o.batch > 0) options.batch = o.batch;
    options.length = o.length;
    options.stop = stop;
    return infer::predict(m, examples, options, [&](std::size_t row, const nlohmann::json& prediction) {
        const std::string json = prediction.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
        return o.row(o.user, row, view(json)) == 0 && !context.stopping();
    });
}

} // namespace

extern "C" {

int32_t hk_communicators_create(uint32_t count, hk_communicator* communicators, hk_error* error) {
    return api::guarded(error, [&]() -> Status {
        constexpr uint32_t kMost = 1024;
        if (count == 0 || count > kMost)
            return invalid_argument(fmt::format("count is {}, expected 1 to {}", count, kMost));
        if (communicators == nullptr) return invalid_argument("communicators is null, expected an array");
        exchange::create_thread_communicators({communicators, count});
        return {};
    });
}

void hk_communicators_destroy(hk_communicator* communicators, uint32_t count) {
    for (uint32_t i = 0; communicators != nullptr && i < count; ++i)
        exchange::destroy_thread_communicator(communicators[i]);
}

int32_t hk_train(hk_context context, const hk_train_options* options, hk_train_result* result, hk_error* error) {
    return api::captured_call(context, "hk_train", options, error, [&]() -> Status {
        HK_ASSIGN(const Context::Call call, Context::begin(context));
        const api::Heard<hk_train_options> heard(options, api::capture_of(context));
        if (result != nullptr) HK_TRY(complete(result, "hk_train_result"));
        Result<train::TrainerResult> finished = api::train_by(environment_of(call), heard.options());
        const bool leads = options->communicator == nullptr || options->communicator->rank == 0;
        if (finished.code() == Code::cancelled && leads) { // by the stop callback, before the first step
            train::TrainerResult none;
            none.best_evaluation = std::numeric_limits<double>::quiet_NaN();
            none.stopped = true;
            finished = none;
        }
        HK_ASSIGN(const train::TrainerResult done, std::move(finished));
        if (result != nullptr) {
            result->stopped = done.stopped ? 1 : 0;
            result->steps = done.steps;
            result->best_step = done.best_step;
            result->best_evaluation = done.best_evaluation;
        }
        return {};
    });
}

int32_t hk_evaluate(hk_context context, const hk_evaluate_options* options, hk_error* error) {
    return api::captured_call(context, "hk_evaluate", options, error, [&]() -> Status {
        HK_ASSIGN(const Context::Call call, Context::begin(context));
        HK_TRY(complete(options, "hk_evaluate_options"));
        return run_evaluate(call, *options);
    });
}

int32_t hk_predict(hk_context context, const hk_predict_options* options, hk_error* error) {
    return api::captured_call(context, "hk_predict", options, error, [&]() -> Status {
        HK_ASSIGN(const Context::Call call, Context::begin(context));
        HK_TRY(complete(options, "hk_predict_options"));
        return run_predict(call, *options);
    });
}

int32_t hk_generate(hk_context context, const hk_generate_options* options, hk_generate_result* result,
                    hk_error* error) {
    return api::captured_call(context, "hk_generate", options, error, [&]() -> Status {
        HK_ASSIGN(const Context::Call call, Context::begin(context));
        HK_TRY(complete(options, "hk_generate_options"));
        if (result != nullptr) HK_TRY(complete(result, "hk_generate_result"));
        const api::Heard<hk_generate_options> heard(options, api::capture_of(context));
        return run_generate(call, *heard.options(), result);
    });
}

int32_t hk_embed(hk_context context, const hk_embed_options* options, hk_error* error) {
    return api::captured_call(context, "hk_embed", options, error, [&]() -> Status {
        HK_ASSIGN(const Context::Call call, Context::begin(context));
        HK_TRY(complete(options, "hk_embed_options"));
        return run_embed(call, *options);
    });
}

} // extern "C"
