#include "harness/evaluate.hpp"

#include "base/hash.hpp"
#include "generate/decoder_program.hpp"
#include "generate/decoder_reference.hpp"
#include "generate/generator.hpp"
#include "infer/texts/prompt_fields.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <set>

namespace hekla::harness {
namespace {

using Ids = std::vector<int32_t>;

constexpr int64_t kLongestWindow = 4096; // tokens, for models without a limit
constexpr std::size_t kRowsAtOnce = 8;   // texts that are written together; fewer are filled up with copies

bool is_same_file(const std::string& a, const std::string& b) {
    std::error_code problem;
    return a == b || std::filesystem::equivalent(a, b, problem);
}

// Returns the documents that demonstrations are drawn from.
Result<FewShotPool> pool_of(const Task& task, const std::vector<Document>& documents, const StopPoll& stop) {
    FewShotPool pool;
    if (!task.samples.empty()) {
        pool.source = "fewshot_config.samples";
        HK_ASSIGN(pool.documents, sample_documents(task));
    } else if (task.fewshot_dataset.empty() || is_same_file(task.fewshot_dataset, task.dataset)) {
        pool.source = task.dataset;
        pool.documents = documents;
        pool.has_document = true;
    } else {
        pool.source = task.fewshot_dataset;
        HK_ASSIGN(pool.documents, read_documents(task, task.fewshot_dataset, stop));
    }
    return pool;
}

// Returns the position of the first of these texts, and npos if there is none.
std::size_t first_of(const std::string& text, const std::vector<std::string>& ends) {
    std::size_t first = std::string::npos;
    for (const std::string& end : ends) first = std::min(first, text.find(end));
    return first;
}

// Writes texts with one decoder.
class Writer {
public:
    Writer(generate::Decoder& decoder, const infer::Model& model, const infer::PromptStyle& style, const Task& task,
           const StopPoll& stop)
        : decoder_(decoder), model_(model), style_(style), task_(task), stop_(stop) {}

    // Returns the text for each prompt, up to the first of Task::until.
    Result<std::vector<std::string>> write(const std::vector<Ids>& prompts, uint64_t seed) {
        generate::Request request;
        request.prompts = prompts;
        request.both_sides = style_.both_sides;
        const bool encodes = decoder_.encoder_decoder();
        nlohmann::json arguments{{"max_new_tokens", task_.max_gen_toks},
                                 {"do_sample", task_.do_sample},
                                 {"num_beams", 1},
                                 {"num_return_sequences", 1}};
        if (task_.do_sample) {
            arguments["temperature"] = task_.temperature;
            arguments["top_k"] = task_.top_k;
            arguments["top_p"] = task_.top_p;
            arguments["min_p"] = 0.0; // a task draws by its own options alone
        }
        HK_ASSIGN(generate::Options options,
                  generate::options_from(model_.generation.values, arguments, static_cast<int64_t>(prompts[0].size()),
                                         model_.generation.file));
        options.seed = seed;
        generate::end_as(options, *model_.tokenizer, encodes);
        std::vector<text::StreamDecoder> streams(prompts.size(), text::StreamDecoder(*model_.tokenizer, true));
        for (std::size_t row = 0; row < prompts.size() && !encodes; ++row) // the first word follows a word
            for (const int32_t id : prompts[row]) static_cast<void>(streams[row].push(id));
        std::vector<std::string> texts(prompts.size());
        std::set<std::size_t> ended;
        const auto on_token = [&](std::size_t row, int32_t token) {
            texts[row] += streams[row].push(token);
            if (first_of(texts[row], task_.until) != std::string::npos) ended.insert(row);
            return ended.size() < prompts.size();
        };
        HK_TRY(generate::generate(decoder_, request, options, on_token, stop_).status());
        HK_TRY(stop_.check_now("writing texts"));
        for (std::size_t row = 0; row < texts.size(); ++row) {
            texts[row] += streams[row].finish();
            texts[row].resize(std::min(texts[row].size(), first_of(texts[row], task_.until)));
        }
        return texts;
    }

private:
    generate::Decoder& decoder_;
    const infer::Model& model_;
    const infer::PromptStyle& style_;
    const Task& task_;
    const StopPoll& stop_;
};

} // namespace

struct Evaluator::Rows {
    std::vector<infer::LikelihoodRow> rows;
    std::vector<std::pair<std::size_t, std::size_t>> places; // answer, and its continuation
};

Evaluator::Evaluator(infer::Model& model, RunOptions options, ContinuationEncoder encoder)
    : model_(&model), options_(std::move(options)), encoder_(std::move(encoder)) {}
Evaluator::~Evaluator() = default;

Result<std::unique_ptr<Evaluator>> Evaluator::create(const plugin::Registry& registry, infer::Model& model,
                                                     RunOptions options) {
    HK_ASSIGN(ContinuationEncoder encoder, ContinuationEncoder::create(registry, model));
    std::unique_ptr<Evaluator> e(new Evaluator(model, std::move(options), std::move(encoder)));
    e->registry_ = &registry;
    infer::LikelihoodOptions likelihood;
    likelihood.both_sides = e->encoder_.style().both_sides;
    likelihood.stop = e->options_.stop;
    likelihood.progress = [evaluator = e.get()](std::size_t done, std::size_t all) {
        if (evaluator->options_.progress && evaluator->running_ != nullptr)
            evaluator->options_.progress(*evaluator->running_, done, all);
    };
    Result<std::unique_ptr<infer::Likelihood>> made =
        infer::Likelihood::create(infer::network_of(model), std::move(likelihood));
    if (!made.ok()) return made.status().with_context(model.path.string());
    e->likelihood_ = made.take();
    return e;
}

Status Evaluator::add_rows(const Task& task, TaskResult& result, Rows& rows) {
    if (task.output_type == OutputType::loglikelihood_rolling) {
        HK_ASSIGN(const int64_t longest, likelihood_->longest(kLongestWindow));
        for (std::size_t i = 0; i < result.answers.size(); ++i) {
            Answer& answer = result.answers[i];
            answer.scored = {{answer.document.target}};
            Result<std::vector<infer::LikelihoodRow>> windows = encoder_.rolling(answer.document.target, longest);
            if (!windows.ok()) return windows.status().with_context(answer.document.place);
            for (infer::LikelihoodRow& row : windows.value()) {
                rows.rows.push_back(std::move(row));
                rows.places.emplace_back(i, 0);
            }
        }
        return {};
    }
    std::vector<TextPair> pairs;
    for (std::size_t i = 0; i < result.answers.size(); ++i) {
        Answer& answer = result.answers[i];
        const std::vector<std::string> only{answer.document.target};
        const bool chooses = task.output_type == OutputType::multiple_choice;
        const std::string delimiter = answer_delimiter(task, answer.document, options_.layout.chat != nullptr);
        for (const std::string& text : chooses ? answer.document.choices : only) {
            answer.scored.push_back({delimiter + text});
            pairs.push_back({answer.context, answer.scored.back().text});
            rows.places.emplace_back(i, answer.scored.size() - 1);
        }
    }
    Result<EncodedPairs> encoded = encoder_.pairs(pairs);
    if (!encoded.ok()) { // the document is told
        for (std::size_t i = 0; i < pairs.size(); ++i)
            if (const Result<EncodedPairs> one = encoder_.pairs(std::span(&pairs[i], 1)); !one.ok())
                return one.status().with_context(result.answers[rows.places[i].first].document.place);
        return encoded.status();
    }
    rows.rows = std::move(encoded->rows);
    result.joined = encoded->joined;
    return {};
}

Status Evaluator::score(const Task& task, TaskResult& result) {
    Rows rows;
    HK_TRY(add_rows(task, result, rows));
    HK_ASSIGN(const std::vector<infer::RowLikelihood> scored, likelihood_->run(rows.rows, [&](std::size_t row) {
        const auto& [answer, text] = rows.places[row];
        const std::string& place = result.answers[answer].document.place;
        return task.output_type == OutputType::multiple_choice ? fmt::format("{}: choice {}", place, text) : place;
    }));
    for (Answer& answer : result.answers)
        for (ScoredText& one : answer.scored) one.greedy = true;
    for (std::size_t i = 0; i < scored.size(); ++i) {
        Answer& answer = result.answers[rows.places[i].first];
        ScoredText& one = answer.scored[rows.places[i].second];
        one.log_likelihood += scored[i].sum;
        one.greedy = one.greedy && scored[i].all_greedy();
        answer.cut = std::max<uint64_t>(answer.cut, scored[i].cut);
    }
    return {};
}

Status Evaluator::write(const Task& task, TaskResult& result) {
    if (decoder_ == nullptr && model_->runtime == nullptr) {
        HK_ASSIGN(decoder_, generate::make_reference_decoder(*model_->composition, model_->parameters));
    } else if (decoder_ == nullptr) {
        HK_ASSIGN(decoder_, generate::make_program_decoder(*model_->runtime, *model_->store, *model_->composition));
    }
    // Prompts of one length are written together, so that a text does not depend on longer or shorter ones.
    std::vector<Ids> prompts(result.answers.size());
    if (encoder_.encodes()) {
        std::vector<std::string> texts;
        for (const Answer& answer : result.answers) texts.push_back(answer.context);
        HK_ASSIGN(prompts, infer::source_ids(*registry_, *model_, texts));
    }
    std::map<std::size_t, std::vector<std::size_t>> by_length;
    for (std::size_t i = 0; i < prompts.size(); ++i) {
        Answer& answer = result.answers[i];
        if (!encoder_.encodes()) {
            Result<Ids> ids = infer::prompt_ids(*model_, encoder_.style(), answer.context);
            if (!ids.ok()) return ids.status().with_context(answer.document.place);
            prompts[i] = ids.take();
            const auto wanted = static_cast<int64_t>(prompts[i].size()) + task.max_gen_toks;
            HK_ASSIGN(const int64_t longest, likelihood_->longest(wanted));
            if (longest <= task.max_gen_toks)
                return invalid_argument(fmt::format("generation_kwargs.max_gen_toks is {}, and the model has {} "
                                                    "positions; expected at most {}, which leaves one for the prompt",
                                                    task.max_gen_toks, longest, longest - 1));
            answer.cut = static_cast<uint64_t>(wanted - longest);
            prompts[i].erase(prompts[i].begin(), prompts[i].begin() + static_cast<std::ptrdiff_t>(answer.cut));
        }
        by_length[prompts[i].size()].push_back(i);
    }
    Writer writer(*decoder_, *model_, encoder_.style(), task, options_.stop);
    std::size_t done = 0;
    const auto told = [&](std::size_t more) {
        done += more;
        if (options_.progress) options_.progress(task, done, prompts.size());
    };
    for (const auto& [length, members] : by_length) {
        for (std::size_t begin = 0; begin < members.size() && !task.do_sample; begin += kRowsAtOnce) {
            const std::size_t count = std::min(kRowsAtOnce, members.size() - begin);
            std::vector<Ids> some;
            for (std::size_t row = 0; row < kRowsAtOnce; ++row)
                some.push_back(prompts[members[begin + std::min(row, count - 1)]]);
            HK_ASSIGN(std::vector<std::string> texts, writer.write(some, options_.seed));
            for (std::size_t row = 0; row < count; ++row)
                result.answers[members[begin + row]].responses = {std::move(texts[row])};
            told(count);
        }
        // Sampled texts of one document are drawn by its own seed.
        for (std::size_t i = 0; i < members.size() && task.do_sample; ++i) {
            const std::vector<Ids> copies(static_cast<std::size_t>(task.repeats), prompts[members[i]]);
            Answer& answer = result.answers[members[i]];
            const std::string key = fmt::format("{} {}", task.name, answer.document.id);
            HK_ASSIGN(answer.responses, writer.write(copies, hash64(key, options_.seed)));
            told(1);
        }
    }
    return {};
}

Result<TaskResult> Evaluator::run(const Task& task) {
    TaskResult result;
    result.task = task;
    const bool rolling = task.output_type == OutputType::loglikelihood_rolling;
    result.num_fewshot = rolling ? 0 : options_.num_fewshot.value_or(task.num_fewshot);
    HK_ASSIGN(std::vector<Document> documents, read_documents(task, task.dataset, options_.stop));
    result.documents = documents.size();
    FewShotPool pool;
    if (result.num_fewshot > 0) { HK_ASSIGN(pool, pool_of(task, documents, options_.stop)); }
    HK_ASSIGN(const Prompts prompts, Prompts::create(task, pool, result.num_fewshot, options_.seed, options_.layout));
    if (options_.limit > 0 && static_cast<std::size_t>(options_.limit) < documents.size())
        documents.resize(static_cast<std::size_t>(options_.limit));
    for (Document& document : documents) {
        Answer& answer = result.answers.emplace_back();
        if (!rolling) {
            Result<Prompt> prompt = prompts.of(document);
            if (!prompt.ok()) return prompt.status().with_context(task.file);
            answer.context = std::move(prompt.value().text);
            result.without_system += prompt.value().without_system ? 1 : 0;
        }
        answer.document = std::move(document);
    }
    running_ = &task;
    const Status status = task.output_type == OutputType::generate_until ? write(task, result) : score(task, result);
    running_ = nullptr;
    if (!status.ok()) return status.code() == Code::cancelled ? status : status.with_context(task.file);
    HK_ASSIGN(result.scores, score_answers(task, result.answers));
    for (const Answer& answer : result.answers) result.cut += answer.cut > 0 ? 1 : 0;
    return result;
}

} // namespace hekla::harness
