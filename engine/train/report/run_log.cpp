#include "train/report/run_log.hpp"

#include "base/chart.hpp"
#include "base/curves.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "base/path_text.hpp"
#include "base/system_file.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace hekla::train {
namespace {

nlohmann::ordered_json object_of(const NamedValues& values) {
    auto object = nlohmann::ordered_json::object();
    for (const auto& [name, value] : values) object[name] = value;
    return object;
}

nlohmann::ordered_json object_of(const std::vector<TapStatistics>& taps) {
    auto object = nlohmann::ordered_json::object();
    for (const TapStatistics& tap : taps)
        object[tap.name] = {{"mean", tap.mean},      {"std", tap.deviation},    {"min", tap.minimum},
                            {"max", tap.maximum},    {"zeros", tap.zeros},      {"nan", tap.nans},
                            {"inf", tap.infinities}, {"elements", tap.elements}};
    return object;
}

} // namespace

Result<RunLog> RunLog::open(const std::filesystem::path& file, int64_t step) {
    RunLog log;
    log.file_ = file;
    std::string kept;
    std::error_code problem;
    if (step > 0 && std::filesystem::exists(file, problem)) {
        HK_ASSIGN(const std::string text, read_file(file));
        for (std::size_t begin = 0; begin < text.size();) {
            const std::size_t end = text.find('\n', begin);
            if (end == std::string::npos) break; // incomplete last line
            const std::string line = text.substr(begin, end - begin);
            begin = end + 1;
            const nlohmann::ordered_json record = ordered_json_or_null(line);
            if (!record.is_object() || !record.value("step", nlohmann::ordered_json()).is_number_integer()) continue;
            const auto at = record["step"].get<int64_t>();
            if (at > step) continue;
            kept += line + "\n";
            log.note(record, at);
        }
    }
    HK_TRY(write_file_atomically(file, kept));
    log.log_ = open_to_append(file, Missing::fail, problem);
    if (problem) return io_error(fmt::format("{}: cannot open: {}", path_text(file), problem.message()));
    return log;
}

Status RunLog::line(const std::string& text) {
    const std::error_code problem = write_all(log_, text + "\n");
    return problem ? io_error(fmt::format("{}: cannot write: {}", path_text(file_), problem.message())) : Status();
}

void RunLog::note(const nlohmann::ordered_json& record, int64_t step) {
    const auto add = [&](const nlohmann::ordered_json& value, Points& points) {
        if (value.is_number() && std::isfinite(value.get<double>())) points.emplace_back(step, value.get<double>());
    };
    if (const auto loss = record.find("loss"); loss != record.end()) add(*loss, losses_);
    if (const auto loss = record.find("eval_loss"); loss != record.end()) add(*loss, evaluations_);
    for (const auto& [key, curves] : {std::pair("losses", &named_losses_), std::pair("metrics", &metrics_)}) {
        const auto values = record.find(key);
        if (values == record.end() || !values->is_object()) continue;
        for (const auto& [name, value] : values->items()) {
            auto curve = std::ranges::find(*curves, name, &std::pair<std::string, Points>::first);
            if (curve == curves->end()) curve = curves->emplace(curve, name, Points());
            add(value, curve->second);
        }
    }
}

Status RunLog::step(const StepRecord& r) {
    nlohmann::ordered_json record;
    record["step"] = r.step;
    record["loss"] = r.loss; // NaN becomes null in JSON, and "skipped" gives the reason
    if (!r.losses.empty()) record["losses"] = object_of(r.losses);
    if (!r.metrics.empty()) record["metrics"] = object_of(r.metrics);
    record["grad_norm"] = r.gradient_norm;
    record["learning_rate"] = r.learning_rate;
    if (!r.scalars.empty()) record["scalars"] = object_of(r.scalars);
    if (!r.taps.empty()) record["taps"] = object_of(r.taps);
    if (r.skipped != StepRecord::Skipped::no) record["skipped"] = true;
    if (r.skipped == StepRecord::Skipped::no_label) record["no_label"] = true;
    if (r.epoch > 0.0) record["epoch"] = r.epoch;
    record["seconds"] = r.seconds;
    record["tokens_per_second"] = r.tokens_per_second;
    if (r.label_tokens > 0.0) record["label_tokens"] = static_cast<uint64_t>(r.label_tokens);
    if (r.exchanged_bytes > 0) {
        record["exchanged_bytes"] = r.exchanged_bytes;
        record["exchange_seconds"] = r.exchange_seconds;
    }
    note(record, r.step);
    return line(record.dump());
}

Status RunLog::evaluation(const EvaluationRecord& r) {
    nlohmann::ordered_json record;
    record["step"] = r.step;
    record["eval_loss"] = r.loss;
    for (const auto& [name, score] : r.scores) record["eval_" + name] = score;
    record["best"] = r.best;
    record["seconds"] = r.seconds;
    note(record, r.step);
    return line(record.dump());
}

Status RunLog::write_curves(const std::filesystem::path& folder, const std::string& title) const {
    // Moving average of losses of single batches, which are noisy.
    const auto smooth = [](const Points& raw) {
        Points points;
        double sum = 0.0;
        for (std::size_t i = 0; i < raw.size(); ++i) {
            sum += raw[i].second;
            if (i >= 32) sum -= raw[i - 32].second;
            points.emplace_back(raw[i].first, sum / static_cast<double>(std::min<std::size_t>(i + 1, 32)));
        }
        return points;
    };
    const auto curves_of = [&](const std::vector<std::pair<std::string, Points>>& named) {
        std::vector<Curve> curves;
        for (const auto& [name, points] : named)
            curves.push_back({name + ", mean of 32", series_stroke(curves.size() + 2).color, smooth(points)});
        return curves;
    };
    const std::string first = series_stroke(0).color, second = series_stroke(1).color;
    std::vector<Curve> losses{{"training loss, each step", first, losses_, 0.25},
                              {"training loss, mean of 32", first, smooth(losses_)},
                              {"validation loss", second, evaluations_}};
    for (Curve& curve : curves_of(named_losses_)) losses.push_back(std::move(curve));
    HK_TRY(write_file_atomically(folder / "loss.svg", curve_svg(title, losses)));
    if (metrics_.empty()) return {};
    if (metrics_.front().first != "reward")
        return write_file_atomically(folder / "metrics.svg", curve_svg(title, curves_of(metrics_)));
    std::vector<Curve> panels; // their scales differ
    for (const std::string_view name : {"reward", "objective/kl", "kl", "entropy", "completions/mean_length",
                                        "policy/clipfrac_avg", "loss/value_avg"})
        for (const auto* of : {&metrics_, &named_losses_})
            for (const auto& [found, points] : *of)
                if (found == name) panels.push_back({found, series_stroke(panels.size()).color, points});
    return write_file_atomically(folder / "rl.svg", panels_svg(title, panels));
}

} // namespace hekla::train
