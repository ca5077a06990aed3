#include "training_progress.hpp"

#include "base/host.hpp"
#include "base/interrupts.hpp"
#include "base/number_text.hpp"
#include "progress_line.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <string_view>

namespace hekla::app {

void StepMeans::add(const hk_train_step& s) {
    if (s.skipped != 0) return;
    ++count_;
    loss_ += s.loss;
    seconds_ += s.seconds;
    tokens_ += s.seconds * s.tokens_per_second;
    add(losses_, s.losses, s.loss_count);
    add(metrics_, s.metrics, s.metric_count);
}

std::string StepMeans::line(const hk_train_step& last) {
    hk_train_step s = last;
    const std::vector<hk_score> losses = means(losses_, s.losses), metrics = means(metrics_, s.metrics);
    if (count_ > 0) {
        s.loss = loss_ / static_cast<double>(count_);
        s.seconds = seconds_ / static_cast<double>(count_);
        if (seconds_ > 0.0) s.tokens_per_second = tokens_ / seconds_;
        s.losses = losses.data();
        s.metrics = metrics.data();
    }
    *this = {};
    return progress_line(s);
}

void StepMeans::add(std::vector<double>& sums, const hk_score* scores, uint64_t count) {
    sums.resize(count, 0.0);
    for (uint64_t i = 0; i < count; ++i) sums[i] += scores[i].value;
}

std::vector<hk_score> StepMeans::means(const std::vector<double>& sums, const hk_score* scores) const {
    std::vector<hk_score> all;
    for (std::size_t i = 0; i < sums.size(); ++i)
        all.push_back({scores[i].name, sums[i] / static_cast<double>(count_)});
    return all;
}

bool Progress::is_terminal() {
    const char* kind = std::getenv("TERM");
    return hekla::is_terminal(stderr) && (kind == nullptr || std::string_view(kind) != "dumb");
}

namespace {

// Returns how many characters a line of the terminal has.
std::size_t line_length() {
    const std::size_t columns = terminal_columns(stderr);
    return columns > 0 ? columns : 80;
}

// Returns the bar and the line of a step, in one character less than the columns: some terminals begin a new line after
// the last one.
std::string bar_and_line(const hk_train_step& s, std::size_t columns) {
    const int width = columns >= 110 ? 20 : columns >= 60 ? 10 : 0;
    std::string bar;
    if (width > 0) {
        bar.assign(static_cast<std::size_t>(s.max_steps > 0 ? s.step * width / s.max_steps : width), '#');
        bar.resize(static_cast<std::size_t>(width), '.');
        bar = fmt::format("[{}] ", bar);
    }
    return bar + progress_line(s, std::max<std::size_t>(columns, bar.size() + 2) - 1 - bar.size());
}

} // namespace

void Progress::step(const hk_train_step& s) {
    means.add(s);
    if (terminal) {
        const auto now = std::chrono::steady_clock::now();
        if (now - drawn < std::chrono::milliseconds(50) && s.skipped == 0 && s.step != s.max_steps) return;
        drawn = now;
        std::fprintf(stderr, "\r\x1b[K%s", bar_and_line(s, line_length()).c_str());
        open = true;
    } else if (s.skipped != 0) {
        std::fprintf(stderr, "%s\n", progress_line(s).c_str());
    } else if (s.step % logging_steps == 0 || s.step == s.max_steps) {
        std::fprintf(stderr, "%s\n", means.line(s).c_str());
    }
    std::fflush(stderr);
}

void Progress::line(const std::string& text) {
    if (open) std::fprintf(stderr, "\n");
    open = false;
    std::fprintf(stderr, "%s\n", text.c_str());
}

hk_train_options training_options(const std::string& recipe, const std::vector<hk_string>& overrides,
                                  Progress& progress) {
    hk_train_options options{};
    options.struct_size = sizeof options;
    options.recipe = text(recipe);
    options.overrides = overrides.data();
    options.override_count = overrides.size();
    options.user = &progress;
    options.step = [](void* user, const hk_train_step* s) { static_cast<Progress*>(user)->step(*s); };
    options.evaluation = [](void* user, const hk_train_evaluation* e) {
        std::string scores;
        for (uint64_t i = 0; i < e->score_count; ++i)
            scores += fmt::format(" | {} {:.4f}", view(e->scores[i].name), e->scores[i].value);
        static_cast<Progress*>(user)->line(fmt::format("step {} | validation loss {:.4f}{}{} | {}", e->step, e->loss,
                                                       scores, e->best != 0 ? " (best)" : "",
                                                       duration_text(e->seconds)));
    };
    options.message = [](void* user, hk_string m) { static_cast<Progress*>(user)->line(std::string(view(m))); };
    options.stop = [](void*) -> int32_t { return interrupted() ? 1 : 0; };
    options.abandoned = [](void* user, hk_string plugin) {
        static_cast<Progress*>(user)->line(
            fmt::format("stopped and saved; {} still runs and is not waited for. The same command resumes, and "
                        "plugins.isolate = true gives plugins a time limit",
                        view(plugin)));
        std::fflush(nullptr);
        std::_Exit(stopped_status());
    };
    return options;
}

int train_once(hk_context context, const HostError& error, const hk_train_options& options, Progress& progress,
               hk_train_result& result) {
    result = {};
    result.struct_size = sizeof result;
    const int32_t code = hk_train(context, &options, &result, error.error);
    if (code == HK_OK) return kDone;
    if (progress.open) std::fprintf(stderr, "\n");
    return error.report();
}

} // namespace hekla::app
