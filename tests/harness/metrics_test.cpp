// Filters and metrics against numbers that were computed by hand.
#include "harness/filter.hpp"
#include "harness/metrics.hpp"

#include <cmath>
#include <doctest/doctest.h>

using namespace hekla;
using namespace hekla::harness;

namespace {

Task task_of(OutputType type, const std::vector<std::string>& metrics) {
    Task task;
    task.file = "t.toml";
    task.name = "t";
    task.output_type = type;
    task.filters = {{"none", {Filter()}}};
    for (const std::string& name : metrics) task.metrics.push_back({name});
    return task;
}

Answer chosen(std::vector<std::string> choices, const std::vector<double>& logarithms, std::size_t gold) {
    Answer answer;
    answer.document.choices = std::move(choices);
    answer.document.gold = gold;
    for (const double one : logarithms) answer.scored.push_back({"", one, false});
    return answer;
}

Answer written(const std::string& text, const std::string& target) {
    Answer answer;
    answer.responses = {text};
    answer.document.target = target;
    return answer;
}

std::vector<Score> scored(const Task& task, std::vector<Answer>& answers) {
    Result<std::vector<Score>> scores = score_answers(task, answers);
    REQUIRE_MESSAGE(scores.ok(), scores.message());
    return scores.take();
}

TEST_CASE("multiple choice: by likelihood, per character, per byte; Brier score, F1, correlation") {
    const Task task =
        task_of(OutputType::multiple_choice, {"acc", "acc_norm", "acc_bytes", "brier_score", "f1", "mcc", "ece"});
    // -4 of "né" (2 characters, 3 bytes) and -5 of "oui" (3 characters, 3 bytes); probabilities e / (1 + e), 1 / (1 +
    // e).
    const double p = std::exp(1.0) / (1.0 + std::exp(1.0));
    std::vector<Answer> answers{chosen({"né", "oui"}, {-4.0, -5.0}, 0), chosen({"né", "oui"}, {-4.0, -5.0}, 1),
                                chosen({"né", "oui"}, {-9.0, -5.0}, 1), chosen({"né", "oui"}, {-3.0, -4.0}, 0)};
    const std::vector<Score> scores = scored(task, answers);
    // By likelihood: 0, 0, 1, 0 for 0, 1, 1, 0.
    CHECK(scores[0].value == doctest::Approx(0.75));
    CHECK(scores[0].error.value() == doctest::Approx(0.25)); // deviation 0.5 / root of 4
    // Per character: -2 and -1.67, so 1; 1; -4.5 and -1.67, so 1; -1.5 and -1.33, so 1.
    CHECK(scores[1].value == doctest::Approx(0.5));
    CHECK(scores[1].error.value() == doctest::Approx(std::sqrt(1.0 / 3.0) / 2.0));
    // Per byte: -1.33 and -1.67, so 0; 0; 1; 0.
    CHECK(scores[2].value == doctest::Approx(0.75));
    const double q = 1.0 / (1.0 + std::exp(4.0));
    const double right = 2.0 * (1.0 - p) * (1.0 - p), wrong = 2.0 * p * p;
    CHECK(scores[3].value == doctest::Approx((2.0 * right + wrong + 2.0 * q * q) / 4.0));
    CHECK(!scores[3].higher_is_better);
    CHECK(scores[4].value == doctest::Approx(2.0 / 3.0)); // of choice 1: precision 1, recall 1/2
    CHECK(scores[4].error.value() > 0.0);
    CHECK(scores[5].value == doctest::Approx(1.0 / std::sqrt(3.0))); // (1 * 2 - 0 * 1) / sqrt(1 * 3 * 2 * 2)
    // Confidence p three times, right twice; 1 - q once, right.
    CHECK(scores[6].value == doctest::Approx((3.0 * std::abs(2.0 / 3.0 - p) + q) / 4.0));
    CHECK(answers[1].predicted == 0);
    CHECK(!answers[1].correct);
    CHECK(answers[0].probabilities[0] == doctest::Approx(p));
    CHECK(answers[2].metrics.at("none").at("acc") == 1.0);

    std::vector<Answer> three{chosen({"a", "b", "c"}, {-1, -2, -3}, 0)};
    const Result<std::vector<Score>> refused = score_answers(task_of(OutputType::multiple_choice, {"f1"}), three);
    CHECK(refused.message().find("f1 is that of choice 1 of two") != std::string::npos);
    const std::vector<Score> one = scored(task_of(OutputType::multiple_choice, {"acc"}), three);
    CHECK(!one[0].error.has_value()); // one document has no deviation
    std::vector<Answer> equal{chosen({"a", "b"}, {-1, -1}, 0)};
    CHECK(scored(task_of(OutputType::multiple_choice, {"acc"}), equal)[0].value == 1.0); // the first of equal ones
}

TEST_CASE("likelihoods: perplexity per document, word and byte, bits per byte, greedy agreement") {
    std::vector<Answer> answers(2);
    answers[0].scored = {{"", -2.0, true}};
    answers[0].document.target = "two words";
    answers[1].scored = {{"", -4.0, false}};
    answers[1].document.target = " é\n";
    const std::vector<Score> single =
        scored(task_of(OutputType::loglikelihood, {"perplexity", "acc", "exact_match"}), answers);
    CHECK(single[0].value == doctest::Approx(std::exp(3.0)));
    // Resamples of the two: exp 2, exp 3 and exp 4, once, twice and once in four.
    const double mean = (std::exp(2.0) + 2.0 * std::exp(3.0) + std::exp(4.0)) / 4.0;
    const double squares = (std::exp(4.0) + 2.0 * std::exp(6.0) + std::exp(8.0)) / 4.0;
    CHECK(single[0].error.value() == doctest::Approx(std::sqrt(squares - mean * mean)).epsilon(0.2));
    std::vector<Answer> alone(answers.begin(), answers.begin() + 1);
    CHECK(!scored(task_of(OutputType::loglikelihood, {"perplexity"}), alone)[0].error.has_value());
    CHECK(single[1].value == 0.5);
    CHECK(single[2].value == 0.5);
    const std::vector<Score> rolling = scored(
        task_of(OutputType::loglikelihood_rolling, {"word_perplexity", "byte_perplexity", "bits_per_byte"}), answers);
    CHECK(rolling[0].value == doctest::Approx(std::exp(6.0 / 5.0))); // 2 words, and 3 parts: "", "é", ""
    CHECK(rolling[1].value == doctest::Approx(std::exp(6.0 / 13.0)));
    CHECK(rolling[2].value == doctest::Approx(6.0 / 13.0 / std::log(2.0)));
}

TEST_CASE("texts: exact match, F1, ROUGE, BLEU and chrF") {
    Task task =
        task_of(OutputType::generate_until, {"exact_match", "f1", "rouge1", "rouge2", "rougeL", "bleu", "chrf"});
    std::vector<Answer> answers{written(" the cat sat on the mat ", "the cat sat on the mat"),
                                written("The dog!", "a dog ran")};
    std::vector<Score> scores = scored(task, answers);
    CHECK(scores[0].value == 0.5);
    CHECK(scores[1].value == doctest::Approx((1.0 + 2.0 / 3.0) / 2.0)); // dog: precision 1, recall 1/2
    CHECK(scores[2].value == doctest::Approx((1.0 + 0.4) / 2.0));       // dog: precision 1/2, recall 1/3
    CHECK(scores[3].value == doctest::Approx(0.5));
    CHECK(scores[4].value == doctest::Approx(0.7));
    CHECK(scores[5].value > 50.0);
    CHECK(scores[5].value < 100.0);
    CHECK(scores[6].error.value() > 0.0);
    task = task_of(OutputType::generate_until, {"exact_match"});
    std::vector<Answer> other{written("Paris.", "paris")};
    CHECK(scored(task, other)[0].value == 0.0);
    task.metrics[0].ignore_case = task.metrics[0].ignore_punctuation = true;
    CHECK(scored(task, other)[0].value == 1.0);
    CHECK(other[0].correct);
}

TEST_CASE("filters choose one answer of the responses") {
    const auto answer = [](std::vector<Filter> steps, const std::vector<std::string>& responses) {
        Result<std::string> text = filtered({"f", std::move(steps)}, responses);
        return text.ok() ? text.take() : "error: " + text.message();
    };
    Filter number;
    number.function = Filter::Function::regex;
    number.pattern = "-?[0-9]+";
    Filter last = number;
    last.group_select = -1;
    Filter third = number;
    third.group_select = 2;
    Filter grouped = number;
    grouped.pattern = "(?:answer is ([0-9]+))|(?:= ([0-9]+))";
    Filter first, vote;
    vote.function = Filter::Function::majority_vote;
    CHECK(answer({number, first}, {"12 and -7"}) == "12");
    CHECK(answer({last, first}, {"12 and -7"}) == "-7");
    CHECK(answer({third, first}, {"12 and -7"}) == "[invalid]");
    CHECK(answer({number, first}, {"none"}) == "[invalid]");
    CHECK(answer({grouped, first}, {"it = 5"}) == "5");
    CHECK(answer({last, vote}, {"3 so 4", "5", "or 4"}) == "4");
    CHECK(answer({vote}, {"b", "a", "a", "b"}) == "b"); // the first of equally frequent ones
    CHECK(answer({first}, {" x ", "y"}) == " x ");
    CHECK(answer({number}, {"1", "2"}).find("leaves 2 responses") != std::string::npos);
}

} // namespace
