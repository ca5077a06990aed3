#include "pages/tasks_page.hpp"

#include "base/chart.hpp"
#include "base/markup.hpp"
#include "pages/page.hpp"
#include "pages/score_chart.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace hekla::app {
namespace {

using harness::Answer;
using harness::OutputType;
using harness::TaskResult;

constexpr std::size_t kShownAnswers = 100; // of a model and a task
constexpr std::size_t kShownBytes = 2000;  // of a text

// Returns the end of a long text.
std::string shown(const std::string& text) {
    if (text.size() <= kShownBytes) return escape_markup(text);
    std::size_t begin = text.size() - kShownBytes;
    while (begin < text.size() && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) ++begin;
    return "… " + escape_markup(text.substr(begin));
}

std::string score_table(std::span<const EvaluatedModel> models) {
    std::string out = "<table><tr><th>task</th><th>version</th><th>documents</th><th>shots</th><th>filter</th>"
                      "<th>metric</th>";
    for (const EvaluatedModel& model : models) out += "<th>" + escape_markup(model.name) + "</th>";
    out += "</tr>";
    for (std::size_t t = 0; t < models[0].results.size(); ++t) {
        const TaskResult& first = models[0].results[t];
        for (std::size_t s = 0; s < first.scores.size(); ++s) {
            const harness::Score& score = first.scores[s];
            out += fmt::format("<tr><td>{}</td><td>{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td>"
                               "<td>{}</td><td>{} {}</td>",
                               escape_markup(first.task.name), escape_markup(first.task.version), first.answers.size(),
                               first.num_fewshot, escape_markup(score.filter), escape_markup(score.metric),
                               score.higher_is_better ? "↑" : "↓");
            for (const EvaluatedModel& model : models)
                out += "<td class=\"number\">" + score_text(model.results[t].scores[s]) + "</td>";
            out += "</tr>";
        }
    }
    return out + "</table><p>↑: higher is better, ↓: lower is better. ±: standard error over documents.</p>";
}

// Returns the place after the results of the task that begins at `first`: one for each number of demonstrations.
std::size_t end_of_task(const EvaluatedModel& model, std::size_t first) {
    std::size_t end = first + 1;
    while (end < model.results.size() && model.results[end].task.name == model.results[first].task.name) ++end;
    return end;
}

// Each score over the number of demonstrations, where there are several; empty otherwise.
std::string scores_over_shots(std::span<const EvaluatedModel> models) {
    std::string out;
    for (std::size_t first = 0; first < models[0].results.size();) {
        const std::size_t end = end_of_task(models[0], first);
        for (std::size_t s = 0; s < models[0].results[first].scores.size() && end - first > 1; ++s) {
            const harness::Score& score = models[0].results[first].scores[s];
            std::vector<ScoreLine> lines;
            for (const EvaluatedModel& model : models) {
                ScoreLine& line = lines.emplace_back();
                line.name = model.name;
                for (std::size_t t = first; t < end; ++t) {
                    const harness::Score& one = model.results[t].scores[s];
                    line.points.push_back(
                        {static_cast<double>(model.results[t].num_fewshot), one.value, one.error.value_or(0.0)});
                }
                std::ranges::sort(line.points, {}, &ScorePoint::x);
            }
            const std::string filter = score.filter == "none" ? "" : ", " + score.filter;
            out += fmt::format("<figure><figcaption>{}{}</figcaption>{}</figure>",
                               escape_markup(models[0].results[first].task.name), escape_markup(filter),
                               score_chart(lines, {"demonstrations", score.metric}));
        }
        first = end;
    }
    return out.empty() ? out : "<div class=\"diagrams\">" + out + "</div><p>Bars: one standard error.</p>";
}

// Accuracy over confidence: a bar per bin, whose opacity shows how many predictions it has.
std::string reliability_svg(std::span<const Answer> answers) {
    const harness::Calibration calibration = harness::calibration_of(answers);
    Chart chart({.width = 340, .height = 260, .left = 56, .font_size = 11});
    for (Scale* scale : {&chart.x, &chart.y}) {
        scale->include(0.0);
        scale->include(1.0);
    }
    const std::vector<double> fifths{0.0, 0.2, 0.4, 0.6, 0.8, 1.0};
    chart.draw_axes({.name = "confidence", .marks = fifths}, {.name = "accuracy", .marks = fifths});
    uint64_t most = 1;
    for (const harness::ConfidenceBin& bin : calibration.bins()) most = std::max(most, bin.count);
    for (const harness::ConfidenceBin& bin : calibration.bins()) {
        if (bin.count == 0) continue;
        const double opacity = 0.25 + 0.75 * static_cast<double>(bin.count) / static_cast<double>(most);
        chart.bar(
            bin.low, bin.high, bin.accuracy, "#0b6e99", opacity,
            fmt::format("{} predictions, confidence {:.3f}, accuracy {:.3f}", bin.count, bin.confidence, bin.accuracy));
        chart.dot(bin.confidence, bin.accuracy, "#222", 3.0);
    }
    chart.segment(0.0, 0.0, 1.0, 1.0, {.color = "#b3402a", .width = 1.0, .dash = "4 3"});
    return chart.finish();
}

std::string reliability(std::span<const EvaluatedModel> models, std::size_t task) {
    std::string out = "<div class=\"diagrams\">";
    for (const EvaluatedModel& model : models) {
        const std::vector<Answer>& answers = model.results[task].answers;
        double brier = 0.0;
        for (const Answer& answer : answers) brier += harness::brier(answer.probabilities, answer.document.gold);
        out += fmt::format("<figure><figcaption>{}<br>ECE {:.4f}, Brier score {:.4f}</figcaption>{}</figure>",
                           escape_markup(model.name), harness::calibration_of(answers).expected_error(),
                           brier / static_cast<double>(answers.size()), reliability_svg(answers));
    }
    return out +
           "</div><p>The confidence is the probability of the predicted choice among all choices. Bars, darker with "
           "more predictions, and dots at their mean confidence: the share that is right. Dashed: perfect "
           "calibration.</p>";
}

std::string answer_text(const TaskResult& result, const Answer& answer) {
    switch (result.task.output_type) {
    case OutputType::multiple_choice:
        return fmt::format("{} <span class=\"soft\">({:.3f})</span>", shown(answer.document.choices[answer.predicted]),
                           answer.probabilities[answer.predicted]);
    case OutputType::generate_until: {
        std::string out = shown(answer.responses[0]);
        for (const auto& [filter, text] : answer.filtered)
            if (text != answer.responses[0])
                out += fmt::format("<br><span class=\"soft\">{}: </span>{}", escape_markup(filter), shown(text));
        return out;
    }
    default: return fmt::format("log likelihood {:.3f}", answer.scored[0].log_likelihood);
    }
}

// Returns the document's own text, and the whole prompt to unfold if there is more of it.
std::string prompt_text(const Answer& answer) {
    std::string own = shown(answer.document.text);
    if (answer.context == answer.document.text || answer.context.empty()) return own;
    return own + "<details><summary>whole prompt</summary>" + escape_markup(answer.context) + "</details>";
}

std::string answer_table(const TaskResult& result) {
    std::vector<const Answer*> answers;
    for (const Answer& answer : result.answers) answers.push_back(&answer);
    const bool rolling = result.task.output_type == OutputType::loglikelihood_rolling;
    if (!rolling) std::ranges::stable_sort(answers, {}, &Answer::correct);
    const auto wrong = static_cast<std::size_t>(std::ranges::count(answers, false, &Answer::correct));
    std::string out =
        fmt::format("<p>{} of {} documents{}.</p><table><tr><th>prompt</th><th>expected</th><th>answer</th>"
                    "<th>place</th></tr>",
                    std::min(kShownAnswers, answers.size()), answers.size(),
                    rolling ? std::string() : fmt::format(", the {} wrong ones first", wrong));
    for (std::size_t i = 0; i < std::min(kShownAnswers, answers.size()); ++i) {
        const Answer& answer = *answers[i];
        out += fmt::format(
            "<tr><td class=\"text\">{}</td><td class=\"text\">{}</td><td class=\"text{}\">{}</td><td>{}</td>"
            "</tr>",
            prompt_text(answer), shown(answer.document.target), rolling || answer.correct ? "" : " bad",
            answer_text(result, answer), escape_markup(answer.document.place));
    }
    return out + "</table>";
}

} // namespace

std::string score_text(const harness::Score& score) {
    return score.error ? fmt::format("{:.4f} ± {:.4f}", score.value, *score.error) : fmt::format("{:.4f}", score.value);
}

std::string tasks_page(std::span<const EvaluatedModel> models) {
    std::string scores = score_table(models);
    for (const EvaluatedModel& model : models)
        if (!model.prompts.empty())
            scores += fmt::format("<p>{}: prompts {}.</p>", escape_markup(model.name), escape_markup(model.prompts));
    std::string sections = section("Scores", scores);
    if (const std::string shots = scores_over_shots(models); !shots.empty())
        sections += section("Score over demonstrations", shots);
    std::string names;
    for (const EvaluatedModel& model : models) names += (names.empty() ? "" : ", ") + model.name;
    for (std::size_t t = 0; t < models[0].results.size(); ++t) {
        const TaskResult& first = models[0].results[t];
        std::string content = fmt::format("<p>{}, {} documents of {}.</p>", output_type_name(first.task.output_type),
                                          first.documents, escape_markup(first.task.dataset));
        for (const EvaluatedModel& model : models) {
            const TaskResult& result = model.results[t];
            if (result.cut > 0)
                content += fmt::format("<p>{}: {} prompts lost tokens on the left, for want of positions.</p>",
                                       escape_markup(model.name), result.cut);
            if (result.joined > 0)
                content += fmt::format("<p>{}: the tokens of {} continuations may begin within the prompt.</p>",
                                       escape_markup(model.name), result.joined);
        }
        if (first.task.output_type == OutputType::multiple_choice) content += reliability(models, t);
        for (const EvaluatedModel& model : models) {
            if (models.size() > 1) content += "<h3>" + escape_markup(model.name) + "</h3>";
            content += answer_table(model.results[t]);
        }
        const bool one_of_several = std::ranges::count_if(models[0].results, [&](const TaskResult& other) {
                                        return other.task.name == first.task.name;
                                    }) > 1;
        sections += section(one_of_several ? fmt::format("{}, {} demonstrations", first.task.name, first.num_fewshot)
                                           : first.task.name,
                            content);
    }
    return fill_page("evaluation.html", {{"TITLE", escape_markup("Tasks: " + names)},
                                         {"PAGE_CSS", page_file("page.css")},
                                         {"CSS", page_file("evaluation.css")},
                                         {"DATA", "scores of language models"},
                                         {"SECTIONS", sections}});
}

} // namespace hekla::app
