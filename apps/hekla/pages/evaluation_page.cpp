#include "pages/evaluation_page.hpp"
#include "base/json.hpp"
#include "correctness.hpp"
#include "pages/page.hpp"
#include "pages/routing.hpp"

#include "base/chart.hpp"
#include "base/curves.hpp"
#include "base/file.hpp"
#include "base/markup.hpp"
#include "score/classification.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <set>
#include <sstream>

namespace hekla::app {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kExamples = 200; // shown
constexpr std::size_t kMostClasses = 60;
constexpr const char* kNotPredicted = "not predicted"; // the column of items without a prediction

std::string shown(const ordered_json& value) {
    return value.is_string() ? value.get<std::string>()
                             : value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string class_tables(const ClassPairs& pairs) {
    std::set<std::string> found;
    std::size_t without = 0; // items without a prediction
    for (const auto& [truth, predicted] : pairs) {
        found.insert(truth);
        if (predicted) found.insert(*predicted);
        without += predicted ? 0 : 1;
    }
    if (found.empty() || found.size() > kMostClasses) return {};
    const std::vector<std::string> classes(found.begin(), found.end());
    std::vector<std::string> columns = classes;
    if (without > 0) columns.emplace_back(kNotPredicted);
    score::ConfusionMatrix matrix(columns);
    std::map<std::string, int64_t> number;
    for (std::size_t i = 0; i < classes.size(); ++i) number[classes[i]] = static_cast<int64_t>(i);
    for (const auto& [truth, predicted] : pairs)
        if (!matrix.add(number[truth], predicted ? number[*predicted] : static_cast<int64_t>(classes.size())).ok())
            return {};
    std::string out = "<p>Rows are true classes, columns are predicted classes.";
    if (without > 0)
        out += fmt::format(" Not predicted: {} of {}, the words after the place where train.context_length cuts their "
                           "row. They count as wrong.",
                           without, pairs.size());
    out += "</p><table class=\"matrix\"><tr><th></th>";
    for (const std::string& name : columns) out += "<th>" + escape_markup(name) + "</th>";
    out += "</tr>";
    for (std::size_t t = 0; t < classes.size(); ++t) {
        out += "<tr><th>" + escape_markup(classes[t]) + "</th>";
        const auto support = static_cast<double>(std::max<uint64_t>(matrix.of_class(t).support, 1));
        for (std::size_t s = 0; s < columns.size(); ++s) {
            const double share = static_cast<double>(matrix.count(t, s)) / support;
            out += fmt::format("<td style=\"background:color-mix(in srgb,{} {:.0f}%,transparent)\">{}</td>",
                               t == s ? "var(--mark)" : "var(--bad)", 60.0 * std::sqrt(share), matrix.count(t, s));
        }
        out += "</tr>";
    }
    out += "</table><br><table><tr><th>class</th><th>precision</th><th>recall</th><th>F1</th><th>examples</th></tr>";
    for (std::size_t c = 0; c < classes.size(); ++c) {
        const score::ConfusionMatrix::ClassScore one = matrix.of_class(c);
        out += fmt::format("<tr><td>{}</td><td class=\"number\">{:.4f}</td><td class=\"number\">{:.4f}</td><td "
                           "class=\"number\">{:.4f}</td><td class=\"number\">{}</td></tr>",
                           escape_markup(classes[c]), one.precision, one.recall, one.f1, one.support);
    }
    return out + "</table>";
}

// Loss and scores over the steps of the run.
std::string curves(const std::string& log_file) {
    const Result<std::string> text = read_file(log_file);
    if (!text.ok()) return {};
    Curve loss{"training loss", series_stroke(0).color, {}, 0.5}, valid{"validation loss", series_stroke(1).color};
    std::map<std::string, Curve> scores, losses, metrics; // of evaluations; of training steps, by name
    std::istringstream lines(text.value());
    for (std::string line; std::getline(lines, line);) {
        const ordered_json record = ordered_json_or_null(line);
        if (!record.is_object() || !record.contains("step") || !record["step"].is_number_integer()) continue;
        const auto step = record["step"].get<int64_t>();
        if (record.contains("loss") && record["loss"].is_number())
            loss.points.emplace_back(step, record["loss"].get<double>());
        for (const auto& [key, value] : record.items()) {
            if (!key.starts_with("eval_") || key == "eval_seconds" || !value.is_number()) continue;
            Curve& curve = key == "eval_loss" ? valid : scores[key.substr(5)];
            curve.points.emplace_back(step, value.get<double>());
        }
        for (const auto& [key, named] : {std::pair("losses", &losses), std::pair("metrics", &metrics)}) {
            const auto values = record.find(key);
            if (values == record.end() || !values->is_object()) continue;
            for (const auto& [name, value] : values->items())
                if (value.is_number()) (*named)[name].points.emplace_back(step, value.get<double>());
        }
    }
    std::string out;
    std::vector<Curve> all{loss, valid};
    for (auto& [name, curve] : losses) {
        curve.name = "training loss " + name;
        curve.color = series_stroke(all.size()).color;
        all.push_back(curve);
    }
    if (!loss.points.empty() || !valid.points.empty()) out += curve_svg("Loss", all);
    for (auto& [name, curve] : metrics) {
        curve.name = "training " + name;
        curve.color = series_stroke(2).color;
        out += curve_svg(curve.name, {curve});
    }
    for (auto& [name, curve] : scores) {
        curve.name = name;
        curve.color = series_stroke(0).color;
        if (curve.points.size() > 1) out += curve_svg(name, {curve});
    }
    return out;
}

// Draws the share of correct examples in each group, as a curve if the groups are numbers.
std::string group_section(const EvaluationPage& page) {
    const std::vector<Group> groups = groups_of(page.predictions);
    if (page.group.empty() || groups.empty()) return {};
    std::string out;
    if (const auto numbers = group_numbers(groups); numbers && groups.size() > 1) {
        Curve curve{"share of correct examples", series_stroke(0).color};
        for (std::size_t i = 0; i < groups.size(); ++i) curve.points.emplace_back((*numbers)[i], groups[i].correct);
        out += curve_svg("Correct, by " + page.group, {curve}, page.group);
    }
    out += "<table><tr><th>" + escape_markup(page.group) + "</th><th>examples</th><th>correct</th></tr>";
    for (const Group& group : groups)
        out += fmt::format("<tr><td>{}</td><td class=\"number\">{}</td><td class=\"number\">{:.4f}</td></tr>",
                           escape_markup(group.name), group.examples, group.correct);
    return out + "</table>";
}

// Returns the readable part of a prediction.
std::string prediction_text(const ordered_json& prediction) {
    for (const char* key : {"label_name", "label_names", "text", "value", "choice", "next"})
        if (prediction.contains(key)) return shown(prediction[key]);
    return shown(prediction);
}

std::string examples(const std::vector<ordered_json>& all) {
    if (all.empty()) return {};
    std::vector<const ordered_json*> rows;
    for (const ordered_json& row : all) rows.push_back(&row);
    std::ranges::stable_sort(rows, {}, [](const ordered_json* row) { return is_correct(*row).value_or(true); });
    std::vector<std::string> columns;
    for (const auto& [key, value] : rows.front()->items())
        if (key != "place" && key != "group" && key != "said") columns.push_back(key);
    std::string out = fmt::format("<p>{} of {} examples, wrong predictions first.</p><table><tr>",
                                  std::min(kExamples, rows.size()), rows.size());
    for (const std::string& column : columns) out += "<th>" + escape_markup(column) + "</th>";
    out += "<th>prediction</th><th>place</th></tr>";
    for (std::size_t i = 0; i < std::min(kExamples, rows.size()); ++i) {
        const ordered_json& row = *rows[i];
        out += "<tr>";
        for (const std::string& column : columns)
            out += "<td>" + (row.contains(column) ? escape_markup(shown(row[column])) : "") + "</td>";
        out += fmt::format("<td{}>{}</td><td>{}</td></tr>", is_correct(row).value_or(true) ? "" : " class=\"bad\"",
                           escape_markup(prediction_text(row.value("said", ordered_json::object()))),
                           escape_markup(row.contains("place") ? shown(row["place"]) : ""));
    }
    return out + "</table>";
}

std::string alignment_section(const std::vector<Alignment>& all) {
    if (all.empty()) return {};
    std::string out =
        "<p>The source is above, the generated text at the left. Darker cells have more attention (by the square root; "
        "mean of all heads).</p>";
    for (const Alignment& one : all) out += alignment_svg(one);
    return out;
}

} // namespace

std::string evaluation_page(const EvaluationPage& page) {
    std::string scores = "<dl>";
    for (const auto& [name, value] : page.scores)
        scores += fmt::format("<div><dt>{}</dt><dd>{:.4f}</dd></div>", escape_markup(name), value);
    scores += "</dl>";
    ClassPairs pairs;
    for (const ordered_json& row : page.predictions) add_class_pairs(row, pairs);
    const std::string sections =
        section("Scores", scores) + section("Curves", curves(page.log_file)) +
        section("By " + page.group, group_section(page)) + section("Classes", class_tables(pairs)) +
        section("Attention", alignment_section(page.alignments)) +
        section("Weights of adapters", routing_section(page.routing)) +
        section("Notes", page.notes.empty() ? "" : "<pre>" + escape_markup(page.notes) + "</pre>") +
        section("Examples", examples(page.predictions));
    return fill_page("evaluation.html", {{"TITLE", escape_markup(page.title)},
                                         {"PAGE_CSS", page_file("page.css")},
                                         {"CSS", page_file("evaluation.css")},
                                         {"DATA", escape_markup(page.data)},
                                         {"SECTIONS", sections}});
}

} // namespace hekla::app
