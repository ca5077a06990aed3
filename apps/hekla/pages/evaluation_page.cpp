#include "pages/evaluation_page.hpp"
#include "correctness.hpp"

#include "base/file.hpp"
#include "base/markup.hpp"
#include "score/classification.hpp"
#include "train/report.hpp"

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

constexpr const char* kStyle = R"html(<style>
:root{color-scheme:light dark;--ink:#1d2733;--soft:#66727f;--page:#fbfbf9;--card:#fff;--line:#dfe3e6;--mark:#0b6e99;--bad:#b3402a}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ec;--soft:#98a3ad;--page:#14181c;--card:#1b2127;--line:#303943;--mark:#5cc2ee;--bad:#ff9a83}}
*{box-sizing:border-box}body{margin:0;background:var(--page);color:var(--ink);font:14px/1.45 system-ui,sans-serif}
header,main{padding:16px 24px;max-width:1180px;margin:auto}h1{font-size:20px;margin:0}h2{font-size:15px;margin:0 0 10px}p{margin:2px 0;color:var(--soft)}
section{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:16px;margin-bottom:16px;overflow-x:auto}
dl{display:flex;flex-wrap:wrap;gap:10px 28px;margin:0}dt{color:var(--soft);font-size:12px}dd{margin:0;font-size:20px;font-variant-numeric:tabular-nums}
table{border-collapse:collapse}td,th{padding:5px 9px;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}
th{color:var(--soft);font-weight:600;font-size:12px}.n{text-align:right;font-variant-numeric:tabular-nums}.m td{border:1px solid var(--line);text-align:right;min-width:44px}
.bad{color:var(--bad);font-weight:600}pre{margin:0;white-space:pre-wrap}svg{max-width:100%;height:auto}
</style>)html";

std::string shown(const ordered_json& value) {
    return value.is_string() ? value.get<std::string>()
                             : value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string section(const std::string& title, const std::string& content) {
    return content.empty() ? "" : "<section><h2>" + escape_markup(title) + "</h2>" + content + "</section>\n";
}

std::string class_tables(const ClassPairs& pairs) {
    std::set<std::string> found;
    for (const auto& [truth, said] : pairs) {
        found.insert(truth);
        found.insert(said);
    }
    if (found.empty() || found.size() > kMostClasses) return {};
    const std::vector<std::string> classes(found.begin(), found.end());
    score::ConfusionMatrix matrix(classes);
    std::map<std::string, int64_t> number;
    for (std::size_t i = 0; i < classes.size(); ++i) number[classes[i]] = static_cast<int64_t>(i);
    for (const auto& [truth, said] : pairs)
        if (!matrix.add(number[truth], number[said]).ok()) return {};
    std::string out =
        "<p>A row for each true class, a column for each that was said.</p><table class=\"m\"><tr><th></th>";
    for (const std::string& name : classes) out += "<th>" + escape_markup(name) + "</th>";
    out += "</tr>";
    for (std::size_t t = 0; t < classes.size(); ++t) {
        out += "<tr><th>" + escape_markup(classes[t]) + "</th>";
        const auto support = static_cast<double>(std::max<uint64_t>(matrix.of_class(t).support, 1));
        for (std::size_t s = 0; s < classes.size(); ++s) {
            const double share = static_cast<double>(matrix.count(t, s)) / support;
            out += fmt::format("<td style=\"background:color-mix(in srgb,{} {:.0f}%,transparent)\">{}</td>",
                               t == s ? "var(--mark)" : "var(--bad)", 60.0 * std::sqrt(share), matrix.count(t, s));
        }
        out += "</tr>";
    }
    out += "</table><br><table><tr><th>class</th><th>precision</th><th>recall</th><th>F1</th><th>examples</th></tr>";
    for (std::size_t c = 0; c < classes.size(); ++c) {
        const score::ConfusionMatrix::ClassScore one = matrix.of_class(c);
        out += fmt::format("<tr><td>{}</td><td class=\"n\">{:.4f}</td><td class=\"n\">{:.4f}</td><td "
                           "class=\"n\">{:.4f}</td><td class=\"n\">{}</td></tr>",
                           escape_markup(classes[c]), one.precision, one.recall, one.f1, one.support);
    }
    return out + "</table>";
}

// Loss and scores over the steps of the run.
std::string curves(const std::string& log_file) {
    const Result<std::string> text = read_file(log_file);
    if (!text.ok()) return {};
    train::Curve loss{"training loss", "#9fb6c6", {}}, valid{"validation loss", "#b3402a", {}};
    std::map<std::string, train::Curve> scores, losses, metrics; // of evaluations; of training steps, by name
    std::istringstream lines(text.value());
    for (std::string line; std::getline(lines, line);) {
        const ordered_json record = ordered_json::parse(line, nullptr, false);
        if (!record.is_object() || !record.contains("step") || !record["step"].is_number_integer()) continue;
        const auto step = record["step"].get<int64_t>();
        if (record.contains("loss") && record["loss"].is_number())
            loss.points.emplace_back(step, record["loss"].get<double>());
        for (const auto& [key, value] : record.items()) {
            if (!key.starts_with("eval_") || key == "eval_seconds" || !value.is_number()) continue;
            train::Curve& curve = key == "eval_loss" ? valid : scores[key.substr(5)];
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
    std::vector<train::Curve> all{loss, valid};
    constexpr const char* kColors[] = {"#3d8f5f", "#8a56a8", "#b08a1e", "#4a4a4a"};
    for (auto& [name, curve] : losses) {
        curve.name = "training loss " + name;
        curve.color = kColors[all.size() % std::size(kColors)];
        all.push_back(curve);
    }
    if (!loss.points.empty() || !valid.points.empty()) out += train::curve_svg("Loss", all);
    for (auto& [name, curve] : metrics) {
        curve.name = "training " + name;
        curve.color = "#3d8f5f";
        out += train::curve_svg(curve.name, {curve});
    }
    for (auto& [name, curve] : scores) {
        curve.name = name;
        curve.color = "#0b6e99";
        if (curve.points.size() > 1) out += train::curve_svg(name, {curve});
    }
    return out;
}

// How many of each group's examples are right, as a curve where the groups are numbers.
std::string group_section(const EvaluationPage& page) {
    const std::vector<Group> groups = groups_of(page.predictions);
    if (page.group.empty() || groups.empty()) return {};
    std::string out;
    if (const auto numbers = group_numbers(groups); numbers && groups.size() > 1) {
        train::Curve curve{"share of examples that are right", "#0b6e99", {}};
        for (std::size_t i = 0; i < groups.size(); ++i) curve.points.emplace_back((*numbers)[i], groups[i].right);
        out += train::curve_svg("Right, by " + page.group, {curve}, page.group);
    }
    out += "<table><tr><th>" + escape_markup(page.group) + "</th><th>examples</th><th>right</th></tr>";
    for (const Group& group : groups)
        out += fmt::format("<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{:.4f}</td></tr>",
                           escape_markup(group.name), group.examples, group.right);
    return out + "</table>";
}

// What is worth reading of what was said.
std::string said_text(const ordered_json& said) {
    for (const char* key : {"label_name", "label_names", "text", "value", "choice", "next"})
        if (said.contains(key)) return shown(said[key]);
    return shown(said);
}

std::string examples(const std::vector<ordered_json>& all) {
    if (all.empty()) return {};
    std::vector<const ordered_json*> rows;
    for (const ordered_json& row : all) rows.push_back(&row);
    std::ranges::stable_sort(rows, {}, [](const ordered_json* row) { return is_right(*row).value_or(true); });
    std::vector<std::string> columns;
    for (const auto& [key, value] : rows.front()->items())
        if (key != "place" && key != "group" && key != "said") columns.push_back(key);
    std::string out = fmt::format("<p>{} of {} examples, the wrong ones first.</p><table><tr>",
                                  std::min(kExamples, rows.size()), rows.size());
    for (const std::string& column : columns) out += "<th>" + escape_markup(column) + "</th>";
    out += "<th>said</th><th>place</th></tr>";
    for (std::size_t i = 0; i < std::min(kExamples, rows.size()); ++i) {
        const ordered_json& row = *rows[i];
        out += "<tr>";
        for (const std::string& column : columns)
            out += "<td>" + (row.contains(column) ? escape_markup(shown(row[column])) : "") + "</td>";
        out += fmt::format("<td{}>{}</td><td>{}</td></tr>", is_right(row).value_or(true) ? "" : " class=\"bad\"",
                           escape_markup(said_text(row.value("said", ordered_json::object()))),
                           escape_markup(row.contains("place") ? shown(row["place"]) : ""));
    }
    return out + "</table>";
}

std::string alignment_section(const std::vector<Alignment>& all) {
    if (all.empty()) return {};
    std::string out =
        "<p>What was read is above, what was written at the left: the darker, the more it looked there (by the "
        "square root; the mean of all heads).</p>";
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
    return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
           "content=\"width=device-width, initial-scale=1\"><title>" +
           escape_markup(page.title) + "</title>\n" + kStyle + "</head><body>\n<header><h1>" +
           escape_markup(page.title) + "</h1><p>" + escape_markup(page.data) + "</p></header>\n<main>" +
           section("Scores", scores) + section("Curves", curves(page.log_file)) +
           section("By " + page.group, group_section(page)) + section("Classes", class_tables(pairs)) +
           section("What was looked at", alignment_section(page.alignments)) +
           section("Notes", page.notes.empty() ? "" : "<pre>" + escape_markup(page.notes) + "</pre>") +
           section("Examples", examples(page.predictions)) + "</main></body></html>\n";
}

} // namespace hekla::app
