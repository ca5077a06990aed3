#include "train/report.hpp"

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/svg.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
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

std::string progress_line(const StepReport& r) {
    std::string text = fmt::format("step {}/{} | loss {:.4f} ({:+.1f}z) | norm {:.2f} | lr {:.1e} | {} | {} tok/s",
                                   r.step, r.max_steps, r.loss, r.loss_z, r.gradient_norm, r.learning_rate,
                                   duration_text(r.seconds), grouped(r.tokens_per_second));
    if (r.share_of_peak > 0.0) text += fmt::format(" | {:.0f}% of peak", r.share_of_peak * 100.0);
    text += fmt::format(" | ETA {}", duration_text(r.remaining_seconds));
    if (r.skipped) text += " | SKIPPED: loss or gradient is not finite";
    return text;
}

double LossWindow::z(double loss) const {
    if (losses_.size() < 8 || !std::isfinite(loss)) return 0.0;
    double mean = 0.0, squares = 0.0;
    for (const double x : losses_) mean += x;
    mean /= static_cast<double>(losses_.size());
    for (const double x : losses_) squares += (x - mean) * (x - mean);
    const double deviation = std::sqrt(squares / static_cast<double>(losses_.size()));
    return deviation > 0.0 ? (loss - mean) / deviation : 0.0;
}

void LossWindow::add(double loss) {
    if (!std::isfinite(loss)) return; // one bad step must not poison the next 128
    losses_.push_back(loss);
    if (losses_.size() > 128) losses_.pop_front();
}

RunLog::RunLog(RunLog&& other) noexcept
    : file_(std::move(other.file_)), descriptor_(std::exchange(other.descriptor_, -1)),
      losses_(std::move(other.losses_)), evaluations_(std::move(other.evaluations_)) {}

RunLog& RunLog::operator=(RunLog&& other) noexcept {
    std::swap(file_, other.file_);
    std::swap(descriptor_, other.descriptor_);
    std::swap(losses_, other.losses_);
    std::swap(evaluations_, other.evaluations_);
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
            if (end == std::string::npos) break; // a line that was never finished
            const std::string line = text.substr(begin, end - begin);
            begin = end + 1;
            const nlohmann::json record = json_or_null(line);
            if (!record.is_object() || !record.value("step", nlohmann::json()).is_number_integer()) continue;
            const auto at = record["step"].get<int64_t>();
            if (at > step) continue;
            kept += line + "\n";
            if (const auto loss = record.find("loss"); loss != record.end() && loss->is_number())
                log.losses_.emplace_back(at, loss->get<double>());
            if (const auto loss = record.find("eval_loss"); loss != record.end() && loss->is_number())
                log.evaluations_.emplace_back(at, loss->get<double>());
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

Status RunLog::step(const StepReport& r) {
    nlohmann::ordered_json record;
    record["step"] = r.step;
    record["loss"] = r.loss; // JSON has no NaN: it becomes null, and "skipped" says why
    record["grad_norm"] = r.gradient_norm;
    record["learning_rate"] = r.learning_rate;
    for (const auto& [name, value] : r.scalars) record["scalars"][name] = value;
    if (r.skipped) record["skipped"] = true;
    record["seconds"] = r.seconds;
    record["tokens_per_second"] = r.tokens_per_second;
    if (std::isfinite(r.loss)) losses_.emplace_back(r.step, r.loss);
    return line(record.dump());
}

Status RunLog::evaluation(const EvaluationReport& r) {
    nlohmann::ordered_json record;
    record["step"] = r.step;
    record["eval_loss"] = r.loss;
    for (const auto& [name, value] : r.scores) record["eval_" + name] = value;
    record["best"] = r.best;
    record["seconds"] = r.seconds;
    if (std::isfinite(r.loss)) evaluations_.emplace_back(r.step, r.loss);
    return line(record.dump());
}

Status RunLog::write_curve(const std::filesystem::path& svg, const std::string& title) const {
    // A moving mean beside the raw loss: what a reader wants to see is the trend.
    Curve raw{"training loss, each step", "#c9d6e8", losses_}, smooth{"training loss, mean of 32", "#1f5fa8", {}},
        valid{"validation loss", "#c8501e", evaluations_};
    double sum = 0.0;
    for (std::size_t i = 0; i < losses_.size(); ++i) {
        sum += losses_[i].second;
        if (i >= 32) sum -= losses_[i - 32].second;
        smooth.points.emplace_back(losses_[i].first, sum / static_cast<double>(std::min<std::size_t>(i + 1, 32)));
    }
    return write_file_atomically(svg, curve_svg(title, {raw, smooth, valid}));
}

namespace {

// 1, 2 or 5 times a power of ten, so that about `count` steps fill `span`.
double tidy_step(double span, int count) {
    const double rough = span / count;
    const double power = std::pow(10.0, std::floor(std::log10(rough)));
    for (const double factor : {1.0, 2.0, 5.0})
        if (factor * power >= rough) return factor * power;
    return 10.0 * power;
}

} // namespace

std::string curve_svg(const std::string& title, const std::vector<Curve>& curves, const std::string& axis) {
    constexpr double width = 860, height = 460, left = 64, right = 24, top = 48, bottom = 48;
    double first = 1e300, last = -1e300, low = 1e300, high = -1e300;
    for (const Curve& curve : curves)
        for (const auto& [step, value] : curve.points) {
            first = std::min(first, static_cast<double>(step));
            last = std::max(last, static_cast<double>(step));
            low = std::min(low, value);
            high = std::max(high, value);
        }
    SvgWriter svg(width, height, "sans-serif", 12);
    svg.text(left, 24, title, "font-size=\"15\" fill=\"#222\"");
    if (first > last) {
        svg.text(64, 80, "nothing was logged yet", "fill=\"#666\"");
        return std::move(svg).finish();
    }
    if (last == first) last = first + 1;
    const double margin = std::max((high - low) * 0.05, 1e-9);
    low -= margin;
    high += margin;
    const auto x = [&](double step) { return left + (step - first) / (last - first) * (width - left - right); };
    const auto y = [&](double value) { return top + (high - value) / (high - low) * (height - top - bottom); };
    const double step_y = tidy_step(high - low, 6), step_x = std::max(1.0, tidy_step(last - first, 8));
    for (double value = std::ceil(low / step_y) * step_y; value <= high; value += step_y) {
        svg.line(left, y(value), width - right, y(value), "stroke=\"#e4e4e4\"");
        svg.text(left - 8, y(value) + 4, fmt::format("{:.6g}", std::abs(value) < step_y * 1e-6 ? 0.0 : value),
                 "text-anchor=\"end\" fill=\"#555\"");
    }
    for (double step = std::ceil(first / step_x) * step_x; step <= last; step += step_x) {
        svg.line(x(step), top, x(step), height - bottom, "stroke=\"#f0f0f0\"");
        svg.text(x(step), height - bottom + 18, fmt::format("{:.0f}", step), "text-anchor=\"middle\" fill=\"#555\"");
    }
    svg.text((left + width - right) / 2, height - 10, axis, "text-anchor=\"middle\" fill=\"#555\"");
    double legend = top + 8;
    for (const Curve& curve : curves) {
        if (curve.points.empty()) continue;
        // More points than pixels only make the file larger.
        const std::size_t every = std::max<std::size_t>(1, curve.points.size() / 2000);
        std::string path;
        for (std::size_t i = 0; i < curve.points.size(); ++i)
            if (i % every == 0 || i + 1 == curve.points.size())
                path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L",
                                    x(static_cast<double>(curve.points[i].first)), y(curve.points[i].second));
        svg.path(path, fmt::format("fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\" stroke-linejoin=\"round\"",
                                   curve.colour));
        if (curve.points.size() < 60)
            for (const auto& [step, value] : curve.points)
                svg.circle(x(static_cast<double>(step)), y(value), 2.6, fmt::format("fill=\"{}\"", curve.colour));
        svg.line(width - 270, legend, width - 246, legend,
                 fmt::format("stroke=\"{}\" stroke-width=\"3\"", curve.colour));
        svg.text(width - 240, legend + 4, fmt::format("{} ({:.4f})", curve.name, curve.points.back().second),
                 "fill=\"#333\"");
        legend += 18;
    }
    return std::move(svg).finish();
}

} // namespace hekla::train
