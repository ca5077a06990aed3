#include "train/report/report.hpp"

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/size_text.hpp"
#include "base/svg.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <span>
#include <unistd.h>

namespace hekla::train {

std::string grouped(double number) {
    const std::string digits = fmt::format("{:.0f}", std::abs(number));
    std::string result = number < 0.0 ? "-" : "";
    for (std::size_t i = 0; i < digits.size(); ++i) {
        if (i > 0 && (digits.size() - i) % 3 == 0) result += ',';
        result += digits[i];
    }
    return result;
}

std::string duration_text(double seconds) {
    if (!std::isfinite(seconds) || seconds < 0.0) return "?";
    if (seconds < 1.0) return fmt::format("{:.0f} ms", seconds * 1e3);
    if (seconds < 10.0) return fmt::format("{:.1f} s", seconds);
    const auto whole = static_cast<int64_t>(std::llround(seconds));
    const int64_t hours = whole / 3600, minutes = whole / 60 % 60, rest = whole % 60;
    if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, rest);
    return fmt::format("{}:{:02}", minutes, rest);
}

namespace {

std::string_view view_of(hk_string s) { return {s.data, static_cast<std::size_t>(s.size)}; }

std::span<const hk_score> scores_in(const hk_score* scores, uint64_t count) {
    return {scores, static_cast<std::size_t>(count)};
}

} // namespace

namespace {

// The metrics of rollouts in a line of progress, which is short; the log has all. They come before the loss, which is
// near 0 for a policy.
constexpr std::pair<std::string_view, std::string_view> kOfRollouts[] = {{"reward", "reward"},
                                                                         {"objective/kl", "kl"},
                                                                         {"kl", "kl"},
                                                                         {"entropy", "entropy"},
                                                                         {"completions/mean_length", "length"}};

bool has_rollouts(const hk_train_step& r) { return r.metric_count > 0 && view_of(r.metrics[0].name) == "reward"; }

// Returns " | tap hidden 0.0312 +- 1.02, -3.1 to 4.5" for the first taps; the log has all.
std::string taps_text(std::span<const hk_tap> taps) {
    constexpr std::size_t kShown = 4;
    std::string text;
    for (const hk_tap& tap : taps.first(std::min(taps.size(), kShown))) {
        text += fmt::format(" | tap {} {:.3g} +- {:.3g}, {:.3g} to {:.3g}", view_of(tap.name), tap.mean, tap.deviation,
                            tap.minimum, tap.maximum);
        if (tap.zeros > 0.0) text += fmt::format(", {:.0f}% zeros", tap.zeros * 100.0);
        if (tap.nans + tap.infinities > 0) text += fmt::format(", {} NaN, {} infinite", tap.nans, tap.infinities);
    }
    if (taps.size() > kShown) text += fmt::format(" | {} more taps", taps.size() - kShown);
    return text;
}

nlohmann::ordered_json taps_object(std::span<const hk_tap> taps) {
    auto object = nlohmann::ordered_json::object();
    for (const hk_tap& tap : taps)
        object[std::string(view_of(tap.name))] = {
            {"mean", tap.mean},   {"std", tap.deviation}, {"min", tap.minimum},    {"max", tap.maximum},
            {"zeros", tap.zeros}, {"nan", tap.nans},      {"inf", tap.infinities}, {"elements", tap.elements}};
    return object;
}

// A part of a line of progress. Where the line is too long, parts with the lowest rank are left out first.
struct Part {
    int rank;
    std::string text;
};

std::vector<Part> progress_parts(const hk_train_step& r) {
    const std::span<const hk_score> metrics = scores_in(r.metrics, r.metric_count);
    std::vector<Part> parts{{100, fmt::format("step {}/{}", r.step, r.max_steps)}};
    if (has_rollouts(r))
        for (const auto& [name, shown] : kOfRollouts)
            for (const hk_score& metric : metrics)
                if (view_of(metric.name) == name)
                    parts.push_back({80, fmt::format(" | {} {:.4f}", shown, metric.value)});
    parts.push_back({90, fmt::format(" | loss {:.4f}", r.loss)});
    std::string losses;
    for (const hk_score& loss : scores_in(r.losses, r.loss_count))
        losses += fmt::format("{}{} {:.4f}", losses.empty() ? "" : ", ", view_of(loss.name), loss.value);
    if (!losses.empty()) parts.push_back({40, fmt::format(" ({})", losses)});
    parts.push_back({20, fmt::format(" | norm {:.2f}", r.gradient_norm)});
    for (const hk_score& metric : has_rollouts(r) ? std::span<const hk_score>() : metrics)
        parts.push_back({50, fmt::format(" | {} {:.4f}", view_of(metric.name), metric.value)});
    if (r.epoch > 0.0) parts.push_back({65, fmt::format(" | epoch {:.2f}", r.epoch)});
    parts.push_back({60, fmt::format(" | lr {:.1e}", r.learning_rate)});
    parts.push_back({30, fmt::format(" | {}", duration_text(r.seconds))});
    parts.push_back({70, fmt::format(" | {} tok/s", grouped(r.tokens_per_second))});
    if (r.share_of_peak > 0.0) parts.push_back({10, fmt::format(" | {:.0f}% of peak", r.share_of_peak * 100.0)});
    if (r.device_bytes > 0) parts.push_back({15, fmt::format(" | {}", size_text(r.device_bytes))});
    parts.push_back({85, fmt::format(" | ETA {}", duration_text(r.remaining_seconds))});
    if (r.tap_count > 0) parts.push_back({5, taps_text({r.taps, static_cast<std::size_t>(r.tap_count)})});
    if (r.skipped == kNoLabel)
        parts.push_back({95, " | SKIPPED: no label"});
    else if (r.skipped != 0)
        parts.push_back({95, " | SKIPPED: loss or gradient is not finite"});
    return parts;
}

} // namespace

std::string progress_line(const hk_train_step& step, std::size_t columns) {
    std::vector<Part> parts = progress_parts(step);
    std::size_t length = 0;
    for (const Part& part : parts) length += part.text.size();
    while (length > columns && parts.size() > 1) {
        const auto last = std::ranges::min_element(parts, {}, &Part::rank);
        length -= last->text.size();
        parts.erase(last);
    }
    std::string line;
    for (const Part& part : parts) line += part.text;
    return line.substr(0, columns);
}

RunLog::RunLog(RunLog&& other) noexcept
    : file_(std::move(other.file_)), descriptor_(std::exchange(other.descriptor_, -1)),
      losses_(std::move(other.losses_)), evaluations_(std::move(other.evaluations_)),
      named_losses_(std::move(other.named_losses_)), metrics_(std::move(other.metrics_)) {}

RunLog& RunLog::operator=(RunLog&& other) noexcept {
    std::swap(file_, other.file_);
    std::swap(descriptor_, other.descriptor_);
    std::swap(losses_, other.losses_);
    std::swap(evaluations_, other.evaluations_);
    std::swap(named_losses_, other.named_losses_);
    std::swap(metrics_, other.metrics_);
    return *this;
}

RunLog::~RunLog() {
    if (descriptor_ >= 0) ::close(descriptor_);
}

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
    log.descriptor_ = ::open(file.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
    if (log.descriptor_ < 0) return io_error(fmt::format("{}: cannot open: {}", file.string(), std::strerror(errno)));
    return log;
}

Status RunLog::line(const std::string& text) {
    const std::string whole = text + "\n";
    std::string_view left = whole;
    while (!left.empty()) {
        const ssize_t put = ::write(descriptor_, left.data(), left.size());
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return io_error(fmt::format("{}: cannot write: {}", file_.string(), std::strerror(errno)));
        left.remove_prefix(static_cast<std::size_t>(put));
    }
    return {};
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

Status RunLog::step(const hk_train_step& r) {
    const auto object_of = [](std::span<const hk_score> scores) {
        auto object = nlohmann::ordered_json::object();
        for (const hk_score& score : scores) object[std::string(view_of(score.name))] = score.value;
        return object;
    };
    nlohmann::ordered_json record;
    record["step"] = r.step;
    record["loss"] = r.loss; // NaN becomes null in JSON, and "skipped" gives the reason
    if (r.loss_count > 0) record["losses"] = object_of(scores_in(r.losses, r.loss_count));
    if (r.metric_count > 0) record["metrics"] = object_of(scores_in(r.metrics, r.metric_count));
    record["grad_norm"] = r.gradient_norm;
    record["learning_rate"] = r.learning_rate;
    if (r.scalar_count > 0) record["scalars"] = object_of(scores_in(r.scalars, r.scalar_count));
    if (r.tap_count > 0) record["taps"] = taps_object({r.taps, static_cast<std::size_t>(r.tap_count)});
    if (r.skipped != 0) record["skipped"] = true;
    if (r.skipped == kNoLabel) record["no_label"] = true;
    if (r.epoch > 0.0) record["epoch"] = r.epoch;
    record["seconds"] = r.seconds;
    record["tokens_per_second"] = r.tokens_per_second;
    if (r.exchanged_bytes > 0) {
        record["exchanged_bytes"] = r.exchanged_bytes;
        record["exchange_seconds"] = r.exchange_seconds;
    }
    note(record, r.step);
    return line(record.dump());
}

Status RunLog::evaluation(const hk_train_evaluation& r) {
    nlohmann::ordered_json record;
    record["step"] = r.step;
    record["eval_loss"] = r.loss;
    for (const hk_score& score : scores_in(r.scores, r.score_count))
        record[fmt::format("eval_{}", view_of(score.name))] = score.value;
    record["best"] = r.best != 0;
    record["seconds"] = r.seconds;
    note(record, r.step);
    return line(record.dump());
}

Status RunLog::write_curves(const std::filesystem::path& folder, const std::string& title) const {
    constexpr const char* kColors[] = {"#3d8f5f", "#8a56a8", "#b08a1e", "#4a4a4a", "#2a9d9d", "#a8385a"};
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
            curves.push_back({name + ", mean of 32", kColors[curves.size() % std::size(kColors)], smooth(points)});
        return curves;
    };
    std::vector<Curve> losses{{"training loss, each step", "#c9d6e8", losses_},
                              {"training loss, mean of 32", "#1f5fa8", smooth(losses_)},
                              {"validation loss", "#c8501e", evaluations_}};
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
                if (found == name) panels.push_back({found, kColors[panels.size() % std::size(kColors)], points});
    return write_file_atomically(folder / "rl.svg", panels_svg(title, panels));
}

namespace {

// Draws the line of a curve, where x and y give the place of a step and of a value.
template<class X, class Y>
void draw_curve(SvgWriter& svg, const Curve& curve, const X& x, const Y& y) {
    // More points than pixels only make the file larger.
    const std::size_t every = std::max<std::size_t>(1, curve.points.size() / 2000);
    std::string path;
    for (std::size_t i = 0; i < curve.points.size(); ++i)
        if (i % every == 0 || i + 1 == curve.points.size())
            path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L",
                                x(static_cast<double>(curve.points[i].first)), y(curve.points[i].second));
    svg.path(path,
             fmt::format("fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\" stroke-linejoin=\"round\"", curve.color));
}

} // namespace

std::string curve_svg(const std::string& title, const std::vector<Curve>& curves, const std::string& axis) {
    constexpr double kWidth = 860, kHeight = 460, kLeft = 64, kRight = 24, kTop = 48, kBottom = 48;
    double first = 1e300, last = -1e300, low = 1e300, high = -1e300;
    for (const Curve& curve : curves)
        for (const auto& [step, value] : curve.points) {
            first = std::min(first, static_cast<double>(step));
            last = std::max(last, static_cast<double>(step));
            low = std::min(low, value);
            high = std::max(high, value);
        }
    SvgWriter svg(kWidth, kHeight, "sans-serif", 12);
    svg.text(kLeft, 24, title, "font-size=\"15\" fill=\"#222\"");
    if (first > last) {
        svg.text(64, 80, "nothing was logged yet", "fill=\"#666\"");
        return std::move(svg).finish();
    }
    if (last == first) last = first + 1;
    const double margin = std::max((high - low) * 0.05, 1e-9);
    low -= margin;
    high += margin;
    const auto x = [&](double step) { return kLeft + (step - first) / (last - first) * (kWidth - kLeft - kRight); };
    const auto y = [&](double value) { return kTop + (high - value) / (high - low) * (kHeight - kTop - kBottom); };
    const double step_y = tidy_step(high - low, 6), step_x = std::max(1.0, tidy_step(last - first, 8));
    for (double value = std::ceil(low / step_y) * step_y; value <= high; value += step_y) {
        svg.line(kLeft, y(value), kWidth - kRight, y(value), "stroke=\"#e4e4e4\"");
        svg.text(kLeft - 8, y(value) + 4, fmt::format("{:.6g}", std::abs(value) < step_y * 1e-6 ? 0.0 : value),
                 "text-anchor=\"end\" fill=\"#555\"");
    }
    for (double step = std::ceil(first / step_x) * step_x; step <= last; step += step_x) {
        svg.line(x(step), kTop, x(step), kHeight - kBottom, "stroke=\"#f0f0f0\"");
        svg.text(x(step), kHeight - kBottom + 18, fmt::format("{:.0f}", step), "text-anchor=\"middle\" fill=\"#555\"");
    }
    svg.text((kLeft + kWidth - kRight) / 2, kHeight - 10, axis, "text-anchor=\"middle\" fill=\"#555\"");
    double legend = kTop + 8;
    for (const Curve& curve : curves) {
        if (curve.points.empty()) continue;
        draw_curve(svg, curve, x, y);
        if (curve.points.size() < 60)
            for (const auto& [step, value] : curve.points)
                svg.circle(x(static_cast<double>(step)), y(value), 2.6, fmt::format("fill=\"{}\"", curve.color));
        svg.line(kWidth - 270, legend, kWidth - 246, legend,
                 fmt::format("stroke=\"{}\" stroke-width=\"3\"", curve.color));
        svg.text(kWidth - 240, legend + 4, fmt::format("{} ({:.4f})", curve.name, curve.points.back().second),
                 "fill=\"#333\"");
        legend += 18;
    }
    return std::move(svg).finish();
}

std::string panels_svg(const std::string& title, const std::vector<Curve>& curves) {
    constexpr double kWidth = 860, kPanel = 150, kLeft = 74, kRight = 24, kTop = 44, kGap = 44;
    double first = 1e300, last = -1e300;
    for (const Curve& curve : curves)
        for (const auto& [step, value] : curve.points) {
            first = std::min(first, static_cast<double>(step));
            last = std::max(last, static_cast<double>(step));
        }
    SvgWriter svg(kWidth, kTop + (kPanel + kGap) * static_cast<double>(curves.size()), "sans-serif", 12);
    svg.text(kLeft, 24, title, "font-size=\"15\" fill=\"#222\"");
    if (first > last) {
        svg.text(kLeft, 80, "nothing was logged yet", "fill=\"#666\"");
        return std::move(svg).finish();
    }
    if (last == first) last = first + 1;
    double top = kTop;
    for (const Curve& curve : curves) {
        double low = 1e300, high = -1e300;
        for (const auto& [step, value] : curve.points) {
            low = std::min(low, value);
            high = std::max(high, value);
        }
        if (low > high) low = high = 0.0;
        const double margin = std::max((high - low) * 0.05, 1e-9);
        low -= margin;
        high += margin;
        const auto x = [&](double step) { return kLeft + (step - first) / (last - first) * (kWidth - kLeft - kRight); };
        const auto y = [&](double value) { return top + 20 + (high - value) / (high - low) * (kPanel - 20); };
        const double last_value = curve.points.empty() ? 0.0 : curve.points.back().second;
        svg.text(kLeft, top + 12, fmt::format("{} ({:.4g})", curve.name, last_value),
                 fmt::format("fill=\"{}\"", curve.color));
        const double step_y = tidy_step(high - low, 4), step_x = std::max(1.0, tidy_step(last - first, 8));
        for (double value = std::ceil(low / step_y) * step_y; value <= high; value += step_y) {
            svg.line(kLeft, y(value), kWidth - kRight, y(value), "stroke=\"#e4e4e4\"");
            svg.text(kLeft - 8, y(value) + 4, fmt::format("{:.4g}", std::abs(value) < step_y * 1e-6 ? 0.0 : value),
                     "text-anchor=\"end\" fill=\"#555\"");
        }
        for (double step = std::ceil(first / step_x) * step_x; step <= last; step += step_x)
            svg.text(x(step), top + kPanel + 16, fmt::format("{:.0f}", step), "text-anchor=\"middle\" fill=\"#555\"");
        draw_curve(svg, curve, x, y);
        top += kPanel + kGap;
    }
    svg.text((kLeft + kWidth - kRight) / 2, top - 8, "step", "text-anchor=\"middle\" fill=\"#555\"");
    return std::move(svg).finish();
}

} // namespace hekla::train
