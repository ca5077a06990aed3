#include "harness/metrics.hpp"

#include "base/philox.hpp"
#include "base/trimmed.hpp"
#include "base/utf8.hpp"
#include "harness/calibration.hpp"
#include "harness/filter.hpp"
#include "harness/text_overlap.hpp"
#include "score/classification.hpp"
#include "score/regression.hpp"
#include "score/translation.hpp"
#include "text/unicode/characters.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <functional>
#include <numeric>

namespace hekla::harness {
namespace {

using enum OutputType;

constexpr uint64_t kResamples = 100, kResamplingSeed = 1234;

const std::vector<MetricInfo> kMetrics{
    {"acc", {multiple_choice, loglikelihood}, "mean"},
    {"acc_norm", {multiple_choice}, "mean"},
    {"acc_bytes", {multiple_choice}, "mean"},
    {"brier_score", {multiple_choice}, "brier_score", false}, // a mean
    {"ece", {multiple_choice}, "ece", false},
    {"f1", {multiple_choice, generate_until}, "f1"}, // of texts the mean
    {"mcc", {multiple_choice}, "matthews_corrcoef"},
    {"perplexity", {loglikelihood}, "perplexity", false},
    {"word_perplexity", {loglikelihood_rolling}, "weighted_perplexity", false},
    {"byte_perplexity", {loglikelihood_rolling}, "weighted_perplexity", false},
    {"bits_per_byte", {loglikelihood_rolling}, "bits_per_byte", false},
    {"exact_match", {multiple_choice, loglikelihood, generate_until}, "mean"},
    {"bleu", {generate_until}, "bleu"},
    {"chrf", {generate_until}, "chrf"},
    {"rouge1", {generate_until}, "mean"},
    {"rouge2", {generate_until}, "mean"},
    {"rougeL", {generate_until}, "mean"},
};

bool is_mean(const std::string& metric, OutputType type) {
    return find_metric(metric)->aggregation == "mean" || metric == "brier_score" ||
           (metric == "f1" && type == generate_until);
}

// Returns the first choice whose likelihood, divided by `size` of its text, is the largest.
std::size_t best_choice(const Answer& answer, const std::function<double(const std::string&)>& size) {
    std::size_t best = 0;
    double most = 0.0;
    for (std::size_t i = 0; i < answer.scored.size(); ++i) {
        const double value = answer.scored[i].log_likelihood / size(answer.document.choices[i]);
        if (i > 0 && !(value > most)) continue;
        most = value;
        best = i;
    }
    return best;
}

double characters(const std::string& text) {
    double count = 0.0;
    for (std::string_view rest = text; !rest.empty(); rest.remove_prefix(first_code_point(rest).size)) ++count;
    return count;
}

// Returns the number of words as lm-evaluation-harness counts them: the parts between runs of white space, also empty
// ones at the ends.
double words(const std::string& text) {
    double count = 1.0;
    bool blank = false;
    for (std::string_view rest = text; !rest.empty();) {
        const CodePoint character = first_code_point(rest);
        const bool now = text::is_white_space(character.value);
        if (now && !blank) ++count;
        blank = now;
        rest.remove_prefix(character.size);
    }
    return count;
}

std::string for_match(std::string_view text, const MetricUse& how) {
    std::string kept;
    for (const char c : trimmed(text, kLineBlanks)) {
        const bool mark =
            (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
        if (how.ignore_punctuation && mark) continue;
        kept += how.ignore_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
    return kept;
}

double choice_metric(const std::string& metric, const Answer& answer) {
    const std::size_t gold = answer.document.gold;
    if (metric == "acc_norm") return best_choice(answer, characters) == gold ? 1.0 : 0.0;
    if (metric == "acc_bytes")
        return best_choice(answer, [](const std::string& text) { return static_cast<double>(text.size()); }) == gold
                   ? 1.0
                   : 0.0;
    if (metric == "brier_score") return brier(answer.probabilities, gold);
    if (metric == "exact_match") return answer.scored[gold].greedy ? 1.0 : 0.0;
    return answer.predicted == gold ? 1.0 : 0.0;
}

double text_metric(const MetricUse& use, const std::string& answer, const std::string& target) {
    if (use.name == "f1") return squad_f1(answer, target);
    if (use.name == "rouge1") return rouge_n(answer, target, 1);
    if (use.name == "rouge2") return rouge_n(answer, target, 2);
    if (use.name == "rougeL") return rouge_l(answer, target);
    return for_match(answer, use) == for_match(target, use) ? 1.0 : 0.0;
}

// Returns a metric that is a mean, of one answer.
double value_of(const Task& task, const MetricUse& use, const std::string& filter, const Answer& answer) {
    if (task.output_type == multiple_choice) return choice_metric(use.name, answer);
    if (task.output_type == generate_until) return text_metric(use, answer.filtered.at(filter), answer.document.target);
    return answer.scored[0].greedy ? 1.0 : 0.0;
}

void add_to(Calibration& calibration, const Answer& answer) {
    if (!answer.probabilities.empty())
        calibration.add(answer.probabilities[answer.predicted], answer.predicted == answer.document.gold);
}

using Answers = std::vector<const Answer*>; // some of them more than once in a resample

Result<double> class_metric(const std::string& metric, const Task& task, const Answers& answers) {
    const Document& first = answers[0]->document;
    score::ConfusionMatrix matrix(first.choices);
    for (const Answer* answer : answers) {
        const Document& document = answer->document;
        if (document.choices.size() != matrix.classes().size())
            return invalid_argument(fmt::format("{}: {} needs the same choices for all documents; {} has {}, {} has {}",
                                                task.file, metric, first.place, matrix.classes().size(), document.place,
                                                document.choices.size()));
        HK_TRY(matrix.add(static_cast<int64_t>(document.gold), static_cast<int64_t>(answer->predicted)));
    }
    if (metric == "mcc") return matrix.matthews();
    if (matrix.classes().size() != 2)
        return invalid_argument(fmt::format("{}: f1 is that of choice 1 of two, and the documents have {} choices",
                                            task.file, matrix.classes().size()));
    return matrix.of_class(1).f1;
}

Result<double> of_answers(const Task& task, const std::string& metric, const Answers& answers) {
    if (metric == "f1" || metric == "mcc") return class_metric(metric, task, answers);
    if (metric == "ece") {
        Calibration calibration;
        for (const Answer* answer : answers) add_to(calibration, *answer);
        return calibration.expected_error();
    }
    double nats = 0.0, size = 0.0;
    for (const Answer* answer : answers) {
        const std::string& text = answer->document.target;
        nats -= answer->scored[0].log_likelihood;
        size += metric == "perplexity"        ? 1.0
                : metric == "word_perplexity" ? words(text)
                                              : static_cast<double>(text.size());
    }
    return metric == "bits_per_byte" ? score::bits_per_byte(nats, size) : score::perplexity(nats, size);
}

// A metric of the documents at these places, some of them more than once.
using OfPlaces = std::function<Result<double>(std::span<const std::size_t>)>;

// Counts a translation metric once for each answer; resamples only add the counts.
template<class Counts>
Result<OfPlaces> of_translations(std::span<const Answer> answers, const std::string& filter,
                                 Result<Counts> (*count)(const std::string&, std::span<const std::string>)) {
    std::vector<Counts> counts;
    for (const Answer& answer : answers) {
        Result<Counts> of_one = count(answer.filtered.at(filter), std::span(&answer.document.target, 1));
        if (!of_one.ok()) return of_one.status().with_context(answer.document.place);
        counts.push_back(of_one.take());
    }
    return OfPlaces([counts = std::move(counts)](std::span<const std::size_t> places) -> Result<double> {
        Counts sum;
        for (const std::size_t place : places) sum.add(counts[place]);
        return sum.score();
    });
}

Result<OfPlaces> of_places(const Task& task, const std::string& metric, const std::string& filter,
                           std::span<const Answer> answers) {
    if (metric == "bleu") return of_translations(answers, filter, score::bleu_counts);
    if (metric == "chrf") return of_translations(answers, filter, score::chrf_counts);
    return OfPlaces([&task, &metric, answers](std::span<const std::size_t> places) {
        Answers drawn;
        for (const std::size_t place : places) drawn.push_back(&answers[place]);
        return of_answers(task, metric, drawn);
    });
}

double mean_of(const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double sample_deviation(const std::vector<double>& values) { // of two or more
    const double mean = mean_of(values);
    double squares = 0.0;
    for (const double value : values) squares += (value - mean) * (value - mean);
    return std::sqrt(squares / (static_cast<double>(values.size()) - 1.0));
}

// Sets a metric of all documents together, and its standard error: the deviation over resamples of the documents (the
// bootstrap, Efron 1979). None of fewer than two documents.
Status set_score(Score& score, const OfPlaces& metric, std::size_t documents) {
    std::vector<std::size_t> places(documents);
    std::iota(places.begin(), places.end(), std::size_t{0});
    HK_ASSIGN(score.value, metric(places));
    if (documents < 2) return {};
    std::vector<double> values;
    for (uint64_t i = 0; i < kResamples; ++i) {
        RandomStream random(kResamplingSeed, i);
        for (std::size_t& place : places) place = random.next_below(documents);
        HK_ASSIGN(const double value, metric(places));
        if (std::isfinite(value)) values.push_back(value); // a resample may lack a class
    }
    if (values.size() > 1) score.error = sample_deviation(values);
    return {};
}

void set_choice(Answer& answer) {
    std::vector<double> logarithms;
    for (const ScoredText& one : answer.scored) logarithms.push_back(one.log_likelihood);
    answer.probabilities = softmax(logarithms);
    answer.predicted = best_choice(answer, [](const std::string&) { return 1.0; });
}

} // namespace

std::span<const MetricInfo> metric_table() { return kMetrics; }

const MetricInfo* find_metric(std::string_view name) {
    const auto found = std::ranges::find(kMetrics, name, &MetricInfo::name);
    return found == kMetrics.end() ? nullptr : &*found;
}

std::vector<std::string> default_metrics(OutputType type) {
    switch (type) {
    case multiple_choice: return {"acc", "acc_norm"};
    case loglikelihood: return {"perplexity", "acc"};
    case loglikelihood_rolling: return {"word_perplexity", "byte_perplexity", "bits_per_byte"};
    case generate_until: return {"exact_match"};
    }
    return {};
}

Calibration calibration_of(std::span<const Answer> answers) {
    Calibration calibration;
    for (const Answer& answer : answers) add_to(calibration, answer);
    return calibration;
}

Result<std::vector<Score>> score_answers(const Task& task, std::span<Answer> answers) {
    if (answers.empty()) return invalid_argument(fmt::format("{}: there is nothing to score", task.file));
    const bool writes = task.output_type == generate_until;
    std::vector<Score> scores;
    for (const FilterPipeline& pipeline : task.filters) {
        for (Answer& answer : answers) {
            if (task.output_type == multiple_choice) set_choice(answer);
            if (!writes) continue;
            Result<std::string> text = filtered(pipeline, answer.responses);
            if (!text.ok()) return text.status().with_context(task.file);
            answer.filtered[pipeline.name] = text.take();
        }
        for (const MetricUse& use : task.metrics) {
            Score& score = scores.emplace_back();
            score.metric = use.name;
            score.filter = pipeline.name;
            score.higher_is_better = find_metric(use.name)->higher_is_better;
            if (!is_mean(use.name, task.output_type)) {
                HK_ASSIGN(const OfPlaces metric, of_places(task, use.name, pipeline.name, answers));
                HK_TRY(set_score(score, metric, answers.size()));
                continue;
            }
            std::vector<double> values;
            for (Answer& answer : answers) {
                values.push_back(value_of(task, use, pipeline.name, answer));
                answer.metrics[pipeline.name][use.name] = values.back();
            }
            score.value = mean_of(values);
            if (values.size() > 1)
                score.error = sample_deviation(values) / std::sqrt(static_cast<double>(values.size()));
        }
    }
    for (Answer& answer : answers) {
        const auto of_first = answer.metrics.find(task.filters[0].name);
        if (task.output_type == multiple_choice)
            answer.correct = answer.predicted == answer.document.gold;
        else if (of_first != answer.metrics.end() && of_first->second.contains(task.metrics[0].name))
            answer.correct = of_first->second.at(task.metrics[0].name) > 0.5;
        else if (writes)
            answer.correct =
                for_match(answer.filtered.at(task.filters[0].name), {}) == for_match(answer.document.target, {});
        else
            answer.correct = task.output_type == loglikelihood && answer.scored[0].greedy;
    }
    return scores;
}

} // namespace hekla::harness
