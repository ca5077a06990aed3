#include "progress_line.hpp"

#include "base/number_text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace hekla::app {
namespace {

constexpr int32_t kNoLabel = 2; // hk_train_step::skipped

std::string_view view_of(hk_string s) { return {s.data, static_cast<std::size_t>(s.size)}; }

std::span<const hk_score> scores_in(const hk_score* scores, uint64_t count) {
    return {scores, static_cast<std::size_t>(count)};
}

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

} // namespace hekla::app
