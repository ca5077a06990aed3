#include "train/rollouts/rollouts.hpp"
#include "model/weights.hpp"
#include "program/estimate.hpp"
#include "program/parameter_store.hpp"

#include "base/file.hpp"
#include "base/stopwatch.hpp"
#include "batch/collate.hpp"
#include "exchange/communicator.hpp"
#include "generate/decoder.hpp"
#include "generate/decoder_program.hpp"
#include "generate/generator.hpp"
#include "infer/passes/likelihood.hpp"
#include "plugin/composition/compose.hpp"
#include "plugin/instances/rollout_use.hpp"
#include "text/text_encoder.hpp"
#include "train/evaluation/evaluate.hpp"
#include "train/rollouts/reference_model.hpp"
#include "train/rollouts/rollout_page.hpp"
#include "train/run/run_data.hpp"
#include "train/training_events.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <numeric>

namespace hekla::train {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr double kNoScore = std::numeric_limits<double>::quiet_NaN();
constexpr double kMostLogDifference =
    1e-3; // of the log probability of a token where it is drawn and where it is computed
constexpr uint64_t kDrawSalt = 0x726f6c6c; // separates draws and the order of rows from other random numbers
constexpr const char* kPromptColumn = "prompt";

// Returns the ids of a row's prompt as completions are written after it. A chat template writes what begins its own.
std::vector<int32_t> prompt_ids(const batch::DrawnExample& drawn, const TrainedModel& model) {
    const auto& columns = drawn.example.columns;
    const auto found = std::ranges::find(columns, kPromptColumn, &data::EncodedColumn::name);
    if (found == columns.end()) return {};
    std::vector<int32_t> ids = found->ids;
    const text::TextRules& rules = model.composition.text_rules();
    if (rules.framed && found->kind != HK_COLUMN_MESSAGES && !ids.empty())
        text::begin_prompt(text::TextEncoder(model.tokenizer, rules).document_frame().before, ids);
    return ids;
}

// The natural logarithm of the probability of a token by scores, in which excluded ones are -infinity.
double log_probability_of(std::span<const float> scores, int32_t token) {
    const double highest = static_cast<double>(*std::ranges::max_element(scores));
    double sum = 0.0;
    for (const float score : scores) sum += std::exp(static_cast<double>(score) - highest);
    return static_cast<double>(scores[static_cast<std::size_t>(token)]) - highest - std::log(sum);
}

// Mean and sample deviation of the numbers that are not NaN.
struct ScoreMoments {
    double mean = kNoScore, deviation = kNoScore;
    std::size_t count = 0;
};
template<class Numbers>
ScoreMoments score_moments(const Numbers& numbers) {
    ScoreMoments m;
    double sum = 0.0, squares = 0.0;
    for (const double x : numbers)
        if (!std::isnan(x)) {
            sum += x;
            ++m.count;
        }
    if (m.count == 0) return m;
    m.mean = sum / static_cast<double>(m.count);
    for (const double x : numbers)
        if (!std::isnan(x)) squares += (x - m.mean) * (x - m.mean);
    m.deviation = m.count > 1 ? std::sqrt(squares / static_cast<double>(m.count - 1)) : 0.0;
    return m;
}

// The mean over completions of a sum over their tokens.
double mean_sum(const std::vector<float>& numbers, std::size_t rows, const std::vector<float>* minus = nullptr) {
    double sum = 0.0;
    for (std::size_t i = 0; i < numbers.size(); ++i)
        sum += static_cast<double>(numbers[i]) - (minus != nullptr ? static_cast<double>((*minus)[i]) : 0.0);
    return sum / static_cast<double>(rows);
}

infer::LikelihoodOptions likelihood_options(const Recipe& recipe, const plugin::RolloutNeeds& needs, bool policy,
                                            const StopPoll& stop) {
    infer::LikelihoodOptions options;
    options.temperature = recipe.rollout.temperature;
    if (policy && needs.values) options.values = recipe.value.from.empty() ? "values" : "value.values";
    options.entropies = policy && needs.entropies;
    options.stop = stop;
    return options;
}

// Returns the rows of `count` that a rank completes: from the first up to the second, which may be equal.
std::pair<std::size_t, std::size_t> share_of(const exchange::Communicator& ranks, std::size_t count) {
    const auto begin = [&](int32_t rank) {
        return count * static_cast<std::size_t>(rank) / static_cast<std::size_t>(ranks.size());
    };
    return {begin(ranks.rank()), begin(ranks.rank() + 1)};
}

Result<std::unique_ptr<plugin::Composition>> policy_of(const RolloutContext& c) {
    return plugin::Composition::create(c.model.registry, c.model.spec, &c.model.tokenizer, c.log);
}

} // namespace

Result<std::unique_ptr<Rollouts>> Rollouts::create(const RolloutContext& context) {
    std::unique_ptr<Rollouts> r(new Rollouts(context));
    const Recipe& recipe = context.model.recipe;
    const plugin::RolloutNeeds& needs = context.use.needs();
    r->shape_ = iteration_shape(recipe, needs);
    r->kl_coef_ = needs.kl_coef;
    for (const Split* split : {&context.data.train(), context.data.valid(), context.data.test()})
        if (split != nullptr) HK_TRY(r->check_prompts(*split));
    r->sampling_.max_new_tokens = recipe.rollout.response_length;
    r->sampling_.sample = true;
    r->sampling_.temperature = recipe.rollout.temperature;
    r->sampling_.seed = static_cast<uint64_t>(recipe.train.seed) ^ kDrawSalt;
    if (recipe.rollout.stop_token == "eos") {
        const std::optional<int32_t> end = context.model.tokenizer.special(text::TokenRole::eos);
        if (!end)
            return invalid_argument("rollout.stop_token = \"eos\": the tokenizer has no end token: set "
                                    "rollout.stop_token = \"none\" for completions of response_length tokens, or use a "
                                    "tokenizer with one");
        r->sampling_.eos = {*end};
    }
    data::WindowOrderOptions order;
    order.tokens = static_cast<uint64_t>(r->shape_.completions);
    order.window = 1;
    order.seed = static_cast<uint64_t>(recipe.train.seed) ^ kDrawSalt;
    order.name = "the completions of an iteration";
    HK_ASSIGN(r->order_, data::WindowOrder::create(order));
    HK_ASSIGN(r->rewards_, reward::RewardSet::create(reward_specs(recipe), context.model.registry,
                                                     context.model.runtime, context.log));
    HK_ASSIGN(r->policy_, policy_of(context));
    const StopPoll& stop = context.events.stop;
    infer::Network network{r->policy_.get(), context.model.runtime, context.model.store, nullptr};
    HK_ASSIGN(r->likelihood_, infer::Likelihood::create(network, likelihood_options(recipe, needs, true, stop)));
    if (r->likelihood_->encoder_decoder())
        return unsupported(fmt::format("objective '{}' trains language models that continue their prompt; '{}' is an "
                                       "encoder-decoder",
                                       recipe.objective.id, r->policy_->architecture().id));
    HK_ASSIGN(r->decoder_, generate::make_program_decoder(*context.model.runtime, *context.model.store, *r->policy_,
                                                          {.equal_rows = true}));
    if (!needs.reference) return r;
    HK_ASSIGN(r->reference_, ReferenceModel::create(context.model, context.log));
    Result<std::unique_ptr<infer::Likelihood>> likelihood =
        infer::Likelihood::create(r->reference_->network(), likelihood_options(recipe, needs, false, stop));
    if (!likelihood.ok()) return likelihood.status().with_context("the reference");
    r->reference_likelihood_ = likelihood.take();
    return r;
}

Result<uint64_t> Rollouts::estimate(program::Estimator& estimator, const RolloutContext& context) {
    const Recipe& recipe = context.model.recipe;
    const plugin::RolloutNeeds& needs = context.use.needs();
    const int64_t length = recipe.train.context_length;
    HK_ASSIGN(const auto policy, policy_of(context));
    HK_TRY(infer::Likelihood::estimate(estimator, *policy, likelihood_options(recipe, needs, true, {}), length));
    generate::DecodeBatch session;
    const IterationShape shape = iteration_shape(recipe, needs);
    session.rows = std::min(recipe.rollout.local_rollout_forward_batch_size, shape.completions);
    session.length = length;
    HK_TRY(generate::estimate_decoder(estimator, *policy, session));
    // A token of a completion: its id, and the numbers of RolloutBuffer and its columns.
    constexpr uint64_t kBytes = 4 * 9;
    const uint64_t buffer = static_cast<uint64_t>(shape.completions * length) * kBytes;
    if (!needs.reference) return buffer;
    HK_ASSIGN(std::vector<program::ParameterEntry> own,
              ReferenceModel::own_parameters(recipe, context.model.registry, context.model.described, context.log));
    if (!own.empty()) HK_TRY(estimator.add_store(std::move(own), {}));
    HK_TRY(infer::Likelihood::estimate(estimator, *policy, likelihood_options(recipe, needs, false, {}), length));
    return buffer;
}

Status Rollouts::check_prompts(const Split& split) {
    const int64_t context = recipe().train.context_length, response = recipe().rollout.response_length;
    for (uint64_t i = 0; i < split.size(); ++i) {
        HK_TRY(context_.events.stop.check("reading prompts"));
        const std::size_t length = prompt_ids(split.at(i), context_.model).size();
        if (length == 0)
            return invalid_argument(fmt::format("{}: the prompt is empty, and a model continues a text of at least one "
                                                "token: remove the row",
                                                split.place(i)));
        if (static_cast<int64_t>(length) + response > context)
            return invalid_argument(
                fmt::format("{}: a prompt of {} tokens and rollout.response_length = {} exceed train.context_length = "
                            "{}: shorten the prompt, or change one of the two",
                            split.place(i), length, response, context));
        longest_prompt_ = std::max(longest_prompt_, length);
    }
    return {};
}

std::vector<std::string> Rollouts::reward_names() const {
    std::vector<std::string> names;
    for (const reward::RewardSpec& spec : rewards_.specs()) names.push_back(spec.name);
    return names;
}

bool Rollouts::is_due(int64_t step) const {
    return !buffer_ || static_cast<int64_t>(buffer_->iteration) != step / shape_.steps();
}

int64_t Rollouts::end(int64_t step, int64_t last) const {
    return std::min(last, (step / shape_.steps() + 1) * shape_.steps());
}

std::vector<std::pair<std::string, double>> Rollouts::metrics() const { return buffer_->metrics; }

Status Rollouts::make_fields(std::span<const batch::DrawnExample> examples, int64_t rows, int64_t length,
                             std::vector<data::Field>& fields, uint64_t step) const {
    return batch::make_fields(context_.model.composition, examples, nullptr, static_cast<uint64_t>(recipe().train.seed),
                              rows, length, fields, context_.memory, step);
}

std::vector<batch::DrawnExample> Rollouts::draw(uint64_t number) const {
    const data::Position position = order_.at(number);
    const auto row = static_cast<std::size_t>(position.begin);
    batch::DrawnExample drawn = buffer_->example(row, begins_[row], position.epoch);
    if (const Split* const texts = context_.data.pretrain()) { // another one at every position, whatever the row is
        data::EncodedColumn text = std::move(texts->draw(number).example.columns.at(0));
        text.name = kPretrainColumn;
        drawn.example.columns.push_back(std::move(text));
    }
    std::vector<batch::DrawnExample> one;
    one.push_back(std::move(drawn));
    return one;
}

// Lets the model complete the prompts of rows whose episodes follow each other. drawn: gets, of the rows that are
// written first, the log probability of each token as it was drawn; may be null.
Status Rollouts::write(std::vector<Rollout>& rows, const generate::Options& given, std::size_t at_once,
                       LogProbabilities* drawn) {
    if (drawn != nullptr) drawn->assign(std::min(at_once, rows.size()), {});
    for (std::size_t begin = 0; begin < rows.size(); begin += at_once) {
        const std::size_t count = std::min(at_once, rows.size() - begin);
        generate::Request request;
        // Of the same shape in every batch, so that the same programs compute them.
        for (std::size_t i = 0; i < at_once; ++i)
            request.prompts.push_back(rows[std::min(begin + i, rows.size() - 1)].prompt);
        request.prompt_length = static_cast<int64_t>(longest_prompt_);
        request.length = request.prompt_length + given.max_new_tokens - 1;
        generate::Options options = given;
        options.first_row = rows[begin].episode;
        if (drawn != nullptr && begin == 0)
            request.chosen_by = [&](std::size_t row, std::span<const float> scores, int32_t token) {
                if (row < drawn->size()) (*drawn)[row].push_back(log_probability_of(scores, token));
            };
        HK_ASSIGN(const generate::Output output,
                  generate::generate(*decoder_, request, options, {}, context_.events.stop));
        if (output.stopped) return Status(Code::cancelled, "stopped while the model wrote completions");
        for (std::size_t i = 0; i < count; ++i) {
            Rollout& row = rows[begin + i];
            const std::vector<int32_t>& ids = output.rows[i].ids;
            row.completion.assign(ids.end() - static_cast<std::ptrdiff_t>(output.rows[i].made), ids.end());
            row.ended =
                !row.completion.empty() && std::ranges::find(options.eos, row.completion.back()) != options.eos.end();
        }
    }
    return {};
}

// Compares the log probabilities of draws, of the first rows, with those that were computed. Returns the largest
// difference.
Result<double> Rollouts::check_draws(const LogProbabilities& drawn, const RolloutBuffer& buffer) const {
    double largest = 0.0;
    const std::vector<uint64_t> begins = buffer.begins();
    for (std::size_t i = 0; i < drawn.size(); ++i)
        for (std::size_t t = 0; t < drawn[i].size(); ++t) {
            const float computed = buffer.logps[static_cast<std::size_t>(begins[i]) + t];
            const double apart = std::abs(drawn[i][t] - static_cast<double>(computed));
            largest = std::max(largest, apart);
            if (!(apart > kMostLogDifference)) continue;
            return internal_error(fmt::format(
                "the model drew token {} of a completion with log probability {:.6f}, and a pass over the whole text "
                "gives {:.6f}: they differ by more than {:g}, so the policy's ratios would be wrong; the body "
                "computes a token differently when it is generated",
                t + 1, drawn[i][t], computed, kMostLogDifference));
        }
    return largest;
}

Status Rollouts::compute(RolloutBuffer& buffer) {
    std::vector<infer::LikelihoodRow> rows;
    for (const Rollout& row : buffer.rows) {
        std::vector<int32_t> ids = row.prompt;
        ids.insert(ids.end(), row.completion.begin(), row.completion.end());
        rows.push_back({std::move(ids), row.prompt.size()});
    }
    const auto append = [](std::vector<float>& to, const std::vector<float>& from) {
        to.insert(to.end(), from.begin(), from.end());
    };
    HK_ASSIGN(const std::vector<infer::RowLikelihood> own, likelihood_->run(rows));
    for (const infer::RowLikelihood& row : own) {
        append(buffer.logps, row.log_probabilities);
        append(buffer.values, row.values);
        append(buffer.entropies, row.entropies);
    }
    if (reference_likelihood_ == nullptr) return {};
    HK_ASSIGN(const std::vector<infer::RowLikelihood> theirs, reference_likelihood_->run(rows));
    for (const infer::RowLikelihood& row : theirs) append(buffer.ref_logps, row.log_probabilities);
    return {};
}

Status Rollouts::score(std::vector<Rollout>& rows, const Split& split) const {
    const std::vector<std::string> columns = rewards_.columns();
    std::vector<reward::TextToScore> texts;
    for (const Rollout& row : rows) {
        reward::TextToScore& text = texts.emplace_back();
        text.prompt = split.text(row.example, kPromptColumn);
        text.completion = context_.model.tokenizer.decode(row.completion, true);
        for (const std::string& name : columns) text.columns[name] = split.text(row.example, name);
    }
    HK_ASSIGN(const reward::Scores scores, rewards_.score(texts));
    for (std::size_t i = 0; i < rows.size(); ++i) {
        rows[i].score = scores.total[i] - (rows[i].ended ? 0.0 : recipe().rollout.missing_eos_penalty);
        rows[i].rewards.clear();
        for (const std::vector<double>& of_reward : scores.of_rewards) rows[i].rewards.push_back(of_reward[i]);
    }
    return {};
}

Status Rollouts::weigh(RolloutBuffer& buffer) {
    const std::vector<uint64_t> begins = buffer.begins();
    std::vector<double> scores;
    std::vector<uint8_t> ended;
    for (const Rollout& row : buffer.rows) {
        scores.push_back(row.score);
        ended.push_back(row.ended ? 1 : 0);
    }
    const auto given = [](const std::vector<float>& numbers) { return numbers.empty() ? nullptr : numbers.data(); };
    hk_rollouts view{};
    view.struct_size = sizeof view;
    view.generations = buffer.generations;
    view.rows = buffer.rows.size();
    view.iteration = buffer.iteration;
    view.begins = begins.data();
    view.logps = buffer.logps.data();
    view.ref_logps = given(buffer.ref_logps);
    view.values = given(buffer.values);
    view.entropies = given(buffer.entropies);
    view.scores = scores.data();
    view.ended = ended.data();
    view.kl_coef = buffer.kl_coef;
    HK_ASSIGN(plugin::RolloutUse::Weighed weighed, context_.use.weigh(view));
    buffer.columns = std::move(weighed.columns);
    buffer.metrics = std::move(weighed.metrics);
    kl_coef_ = weighed.kl_coef;
    return {};
}

Rollouts::Summary Rollouts::summary_of(const std::vector<Rollout>& rows) const {
    Summary s;
    for (const Rollout& row : rows) {
        s.scores.push_back(row.score);
        s.ended += row.ended ? 1.0 : 0.0;
        s.tokens += static_cast<double>(row.completion.size());
    }
    for (std::size_t r = 0; r < rewards_.specs().size(); ++r) {
        std::vector<double> own;
        for (const Rollout& row : rows) own.push_back(row.rewards[r]);
        s.means.emplace_back(rewards_.specs()[r].name, score_moments(own).mean);
    }
    return s;
}

// Puts the numbers of the iteration before those of the objective, with TRL's names.
void Rollouts::add_metrics(RolloutBuffer& buffer) const {
    const Summary s = summary_of(buffer.rows);
    const auto rows = static_cast<double>(buffer.rows.size());
    const ScoreMoments all = score_moments(s.scores);
    std::vector<std::pair<std::string, double>> m;
    m.emplace_back("reward", all.mean);
    m.emplace_back("reward_std", all.deviation);
    for (const auto& [name, mean] : s.means) m.emplace_back(fmt::format("rewards/{}/mean", name), mean);
    if (!buffer.ref_logps.empty())
        m.emplace_back("objective/kl", mean_sum(buffer.logps, buffer.rows.size(), &buffer.ref_logps));
    m.emplace_back("objective/entropy", -mean_sum(buffer.logps, buffer.rows.size()));
    if (!buffer.entropies.empty()) m.emplace_back("entropy", score_moments(buffer.entropies).mean);
    if (!buffer.values.empty()) m.emplace_back("values/mean", score_moments(buffer.values).mean);
    m.emplace_back("completions/mean_length", s.tokens / rows);
    m.emplace_back("completions/clipped_ratio", 1.0 - s.ended / rows);
    m.emplace_back("val/num_eos_tokens", s.ended);
    m.emplace_back("frac_reward_none", 1.0 - static_cast<double>(all.count) / rows);
    if (buffer.generations > 1) {
        double equal = 0.0;
        for (std::size_t first = 0; first < s.scores.size(); first += buffer.generations)
            equal += score_moments(std::span(s.scores).subspan(first, buffer.generations)).deviation > 0.0 ? 0.0 : 1.0;
        m.emplace_back("frac_reward_zero_std", equal * buffer.generations / rows);
    }
    m.emplace_back("episode", rows * static_cast<double>(buffer.iteration + 1));
    m.insert(m.end(), buffer.metrics.begin(), buffer.metrics.end());
    buffer.metrics = std::move(m);
}

// Tells what keeps a policy from learning, once when it has lasted.
void Rollouts::warn_of(const RolloutBuffer& buffer) {
    const auto value = [&](std::string_view name) {
        const auto found = std::ranges::find(buffer.metrics, name, &std::pair<std::string, double>::first);
        return found != buffer.metrics.end() ? found->second : kNoScore;
    };
    const bool all_equal = buffer.generations > 1 ? value("frac_reward_zero_std") == 1.0 : value("reward_std") == 0.0;
    equal_ = all_equal ? equal_ + 1 : 0;
    cut_ = !sampling_.eos.empty() && value("completions/clipped_ratio") == 1.0 ? cut_ + 1 : 0;
    negative_ = value("objective/kl") < -1e-4 ? negative_ + 1 : 0;
    // A value function that diverges is farther from its returns than 0 would be from any score.
    double scores = 0.0, distance = 0.0;
    for (const Rollout& row : buffer.rows)
        if (!std::isnan(row.score)) scores = std::max(scores, std::abs(row.score));
    for (const auto& [name, returns] : buffer.columns)
        if (name == "returns" && returns.size() == buffer.values.size() && !returns.empty()) {
            for (std::size_t i = 0; i < returns.size(); ++i)
                distance += std::abs(static_cast<double>(returns[i]) - static_cast<double>(buffer.values[i]));
            distance /= static_cast<double>(returns.size());
        }
    const double pays = std::abs(value("objective/non_score_reward"));
    const double largest = std::max({scores, std::isnan(pays) ? 0.0 : pays, 1e-3});
    constexpr double kFar = 10.0;
    far_ = distance > kFar * largest ? far_ + 1 : 0;
    constexpr int kEqual = 3, kCut = 3, kNegative = 5, kDiverged = 3;
    if (far_ == kDiverged)
        context_.log.warning(fmt::format(
            "the value function diverges: for {} iterations its values have been {:.3g} from the returns on average, "
            "and no reward is larger than {:.3g}: lower its rate in train.learning_rates (\"v_head.*\", or "
            "\"value.*\" with [value]), or objective.vf_coef",
            kDiverged, distance, largest));
    if (equal_ == kEqual)
        context_.log.warning(fmt::format(
            "{} iterations in a row had the same reward for {}, so nothing is learned from it: prompts that the model "
            "solves sometimes, or a reward that tells degrees apart, would help",
            kEqual, buffer.generations > 1 ? "all completions of each prompt" : "all completions"));
    if (cut_ == kCut)
        context_.log.warning(fmt::format("no completion of {} iterations has an end token within "
                                         "rollout.response_length = {}: raise it, or train the model with end tokens "
                                         "first (objective completion)",
                                         kCut, recipe().rollout.response_length));
    if (negative_ == kNegative)
        context_.log.warning(fmt::format("the KL divergence from the reference has been negative on average for {} "
                                         "iterations, which cannot be: the completions are too few to estimate it, or "
                                         "the reference is not the model that it should be",
                                         kNegative));
}

// Completes and scores the rows of a part. Its metrics: how far drawn and computed log probabilities are apart, and
// what took how long.
Status Rollouts::make_part(RolloutBuffer& part, std::size_t at_once) {
    if (part.rows.empty()) return {}; // more ranks than completions
    const Clock::time_point start = Clock::now();
    LogProbabilities drawn;
    HK_TRY(write(part.rows, sampling_, at_once, &drawn));
    const double writing = seconds_since(start);
    HK_TRY(compute(part));
    HK_ASSIGN(const double apart, check_draws(drawn, part));
    const double computing = seconds_since(start) - writing;
    HK_TRY(score(part.rows, context_.data.train()));
    part.metrics = {{"rollout/logp_difference_max", apart},
                    {"rollout/generate_seconds", writing},
                    {"rollout/likelihood_seconds", computing},
                    {"rollout/reward_seconds", seconds_since(start) - writing - computing}};
    return {};
}

Status Rollouts::refill(int64_t step, bool writes, exchange::Communicator& ranks) {
    RolloutBuffer part;
    part.iteration = static_cast<uint64_t>(step / shape_.steps());
    part.generations = static_cast<uint32_t>(recipe().rollout.num_generations);
    part.kl_coef = kl_coef_;
    const auto rows = static_cast<std::size_t>(shape_.completions);
    const auto [first, last] = share_of(ranks, rows);
    for (std::size_t i = first; i < last; ++i) {
        Rollout& row = part.rows.emplace_back();
        row.episode = part.iteration * rows + i;
        const batch::DrawnExample drawn = context_.data.train().draw(row.episode / part.generations);
        row.example = drawn.example.index;
        row.prompt = prompt_ids(drawn, context_.model);
    }
    const Status done = make_part(part, at_once(ranks));
    if (!done.ok() && done.code() != Code::cancelled) return done;
    HK_ASSIGN(std::optional<RolloutBuffer> made, RolloutBuffer::gather(ranks, std::move(part), !done.ok()));
    if (ranks.rank() == 0) HK_TRY(finish(*made)); // libraries of other ranks may round differently
    HK_TRY(RolloutBuffer::broadcast(ranks, made));
    buffer_ = std::move(made);
    begins_ = buffer_->begins();
    return writes ? write_lines() : Status();
}

Status Rollouts::synchronize(exchange::Communicator& ranks) {
    HK_TRY(RolloutBuffer::broadcast(ranks, buffer_));
    if (buffer_) begins_ = buffer_->begins();
    return {};
}

// Lets the objective weigh the tokens of completions, and adds metrics.
Status Rollouts::finish(RolloutBuffer& made) {
    if (std::ranges::all_of(made.rows, [](const Rollout& row) { return std::isnan(row.score); }))
        return failed_precondition(fmt::format(
            "none of the {} completions of iteration {} could be scored: every reward gave no finite number "
            "(the last: prompt '{}', completion '{}')",
            made.rows.size(), made.iteration + 1, context_.data.train().text(made.rows.back().example, kPromptColumn),
            context_.model.tokenizer.decode(made.rows.back().completion, true)));
    const std::vector<std::pair<std::string, double>> measured = std::exchange(made.metrics, {});
    HK_TRY(weigh(made));
    add_metrics(made);
    made.metrics.insert(made.metrics.end(), measured.begin(), measured.end());
    warn_of(made);
    return {};
}

// Writes the rollouts for people, and removes those of other iterations.
Status Rollouts::write_lines() const {
    const std::string name = fmt::format("rollouts-{}.jsonl", buffer_->iteration + 1);
    HK_TRY(write_file_atomically(context_.folder / name,
                                 buffer_->lines(context_.model.tokenizer, reward_names(), [&](uint64_t example) {
                                     return context_.data.train().place(example);
                                 })));
    std::error_code problem;
    std::vector<std::filesystem::path> old;
    for (const auto& entry : std::filesystem::directory_iterator(context_.folder, problem)) {
        const std::string other = entry.path().filename().string();
        if (other != name && other.starts_with("rollouts-") && other.ends_with(".jsonl")) old.push_back(entry.path());
    }
    for (const std::filesystem::path& file : old) std::filesystem::remove(file, problem);
    return {};
}

std::vector<Rollout> Rollouts::prompts_of(const Split& split, uint64_t limit) const {
    const uint64_t all = split.size(), wanted = limit > 0 ? std::min(limit, all) : all;
    std::vector<Rollout> rows;
    for (uint64_t i = 0; i < wanted; ++i) {
        const batch::DrawnExample drawn = split.at(i * all / wanted);
        Rollout& row = rows.emplace_back();
        row.episode = i;
        row.example = i * all / wanted;
        row.prompt = prompt_ids(drawn, context_.model);
    }
    return rows;
}

Result<Evaluation> Rollouts::evaluate(const Split& split, uint64_t limit, bool predictions,
                                      exchange::Communicator& ranks) {
    RolloutBuffer part;
    const std::vector<Rollout> prompts = prompts_of(split, limit);
    const auto [first, last] = share_of(ranks, prompts.size());
    part.rows.assign(prompts.begin() + static_cast<std::ptrdiff_t>(first),
                     prompts.begin() + static_cast<std::ptrdiff_t>(last));
    generate::Options greedy = sampling_;
    greedy.sample = false;
    greedy.temperature = 1.0;
    Status done = write(part.rows, greedy, at_once(ranks), nullptr);
    if (done.ok() && !part.rows.empty()) done = score(part.rows, split);
    if (!done.ok() && done.code() != Code::cancelled) return done;
    HK_ASSIGN(const RolloutBuffer whole, RolloutBuffer::gather(ranks, std::move(part), !done.ok()));
    const std::vector<Rollout>& rows = whole.rows;
    const Summary s = summary_of(rows);
    Evaluation result;
    const double mean = score_moments(s.scores).mean;
    result.loss = -mean;
    result.examples = rows.size();
    result.scores.emplace_back("reward", mean);
    for (const auto& [name, of_reward] : s.means)
        result.scores.emplace_back(fmt::format("rewards/{}", name), of_reward);
    const auto count = static_cast<double>(rows.size());
    result.scores.emplace_back("completions/mean_length", s.tokens / count);
    result.scores.emplace_back("completions/clipped_ratio", 1.0 - s.ended / count);
    if (!predictions) return result;
    for (const Rollout& row : rows) {
        json prediction{{"text", context_.model.tokenizer.decode(row.completion, true)}};
        if (!std::isnan(row.score)) prediction["reward"] = row.score;
        result.predictions.push_back({row.example, std::move(prediction)});
    }
    return result;
}

Status Rollouts::write_samples(int64_t step) {
    const auto wanted = static_cast<uint64_t>(recipe().rollout.num_sample_generations);
    const Split& split = context_.data.valid() != nullptr ? *context_.data.valid() : context_.data.train();
    if (wanted == 0) return {};
    exchange::Communicator alone; // rank 0 writes them
    HK_ASSIGN(const Evaluation evaluation, evaluate(split, wanted, true, alone));
    std::vector<SampleText> samples;
    for (const Prediction& one : evaluation.predictions)
        samples.push_back({split.text(one.example, kPromptColumn), one.predicted.at("text").get<std::string>(),
                           one.predicted.value("reward", kNoScore)});
    return add_samples(context_.folder, step, samples);
}

json Rollouts::state(int64_t step) const {
    json state{{"steps", shape_.steps()}, {"kl_coef", kl_coef_}};
    if (reference_ != nullptr && !reference_->hash().empty()) state["reference"] = reference_->hash();
    if (buffer_ && step % shape_.steps() != 0) state["buffer"] = buffer_->state();
    return state;
}

std::vector<model::TensorView> Rollouts::tensors(int64_t step) {
    return buffer_ && step % shape_.steps() != 0 ? buffer_->tensors() : std::vector<model::TensorView>();
}

Status Rollouts::restore(const json& state, const std::filesystem::path& checkpoint, int64_t step) {
    const std::string where = checkpoint.string();
    buffer_.reset();
    if (!state.is_object())
        return failed_precondition(
            fmt::format("{}: was made by a run without rollouts: choose another [output] dir", where));
    if (const auto steps = state.value("steps", int64_t{0}); steps != shape_.steps())
        return failed_precondition(
            fmt::format("{}: an iteration had {} steps, and has {} now: put back the old rollout.batch, "
                        "train.per_device_train_batch_size and train.gradient_accumulation_steps, or choose another "
                        "[output] dir",
                        where, steps, shape_.steps()));
    const std::string reference = reference_ != nullptr ? reference_->hash() : std::string();
    if (state.value("reference", std::string()) != reference)
        return failed_precondition(
            fmt::format("{}: was made with another reference than this run has now: bring back the "
                        "old folder of reference.from or model.from, or choose another [output] "
                        "dir",
                        where));
    kl_coef_ = state.value("kl_coef", 0.0);
    const auto saved = state.find("buffer");
    if (step % shape_.steps() == 0) return {};
    if (saved == state.end()) return corrupt(fmt::format("{}: has no rollouts, inside an iteration", where));
    HK_ASSIGN(const model::Weights weights, model::Weights::open(checkpoint, "rollouts"));
    HK_ASSIGN(RolloutBuffer buffer, RolloutBuffer::restore(weights.tensors(), *saved, where));
    if (std::ssize(buffer.rows) != shape_.completions)
        return failed_precondition(fmt::format("{}: has {} completions, and rollout.batch is {}", where,
                                               buffer.rows.size(), shape_.completions));
    buffer_ = std::move(buffer);
    begins_ = buffer_->begins();
    return {};
}

void Rollouts::restart() {
    buffer_.reset();
    kl_coef_ = context_.use.needs().kl_coef;
}

} // namespace hekla::train
