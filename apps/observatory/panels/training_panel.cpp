#include "panels/training_panel.hpp"

#include "failure.hpp"
#include "gui/text_field.hpp"

#include <array>
#include <iterator>
#include <sstream>

namespace observatory {
namespace {

constexpr auto kBetweenReads = std::chrono::milliseconds(250);

std::vector<std::string> words_of(const std::string& text) {
    std::istringstream stream(text);
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    return words;
}

std::string duration(double seconds) {
    std::array<char, 32> text{};
    const int whole = static_cast<int>(seconds);
    if (seconds < 90)
        std::snprintf(text.data(), text.size(), "%d s", whole);
    else if (seconds < 5400)
        std::snprintf(text.data(), text.size(), "%d min", whole / 60);
    else
        std::snprintf(text.data(), text.size(), "%d h %02d", whole / 3600, whole / 60 % 60);
    return text.data();
}

const char* name_of(int32_t state) {
    switch (state) {
    case HK_SESSION_PREPARING: return "preparing";
    case HK_SESSION_WORKING: return "training";
    case HK_SESSION_DONE: return "done";
    case HK_SESSION_FAILED: return "failed";
    default: return "idle";
    }
}

} // namespace

TrainingPanel::TrainingPanel(std::string recipe, std::string overrides, const std::string& log)
    : recipe_(std::move(recipe)), overrides_(std::move(overrides)) {
    if (!log.empty()) follow(log);
}

void TrainingPanel::follow(const std::string& path) {
    shows_log_ = true;
    log_path_ = path;
    log_problem_.clear();
    try {
        log_.emplace(path);
    } catch (const Failure& failure) {
        log_.reset();
        log_problem_ = failure.what();
    }
}

void TrainingPanel::start(Observatory& app) {
    shows_log_ = false;
    app.later([this, &app] { app.train(recipe_, words_of(overrides_)); });
}

bool TrainingPanel::is_settled(Observatory& app) {
    return app.training == nullptr || app.training->info().state >= HK_SESSION_DONE;
}

std::string TrainingPanel::problem(Observatory& app) {
    if (shows_log_) return log_problem_;
    if (app.training == nullptr) return app.training_problem;
    const hk_session_info info = app.training->info();
    return info.state == HK_SESSION_FAILED ? std::string(hk::view(info.message)) : std::string();
}

void TrainingPanel::draw_own(Observatory& app, Curves& curves) {
    Controls& controls = app.controls;
    const bool exists = app.training != nullptr;
    const hk_session_info info = exists ? app.training->info() : hk_session_info{};
    const bool runs = exists && info.state < HK_SESSION_DONE;
    ImGui::AlignTextToFramePadding();
    ImGui::TextUnformatted("Recipe");
    ImGui::SameLine();
    ImGui::SetNextItemWidth(420 * app.scale);
    text_field("##recipe", recipe_, "path of a .toml file");
    ImGui::SameLine();
    if (ImGui::Button("Choose...")) {
        app.browse(FileBrowser::Wanted::recipe, recipe_, [this](const std::string& path) { recipe_ = path; });
    }
    controls.place("training/choose");
    ImGui::SameLine();
    ImGui::TextUnformatted("Overrides");
    if (ImGui::IsItemHovered())
        ImGui::SetTooltip("Any keys of the recipe, with spaces between:\ntrain.max_steps=200 output.dir=out/other");
    ImGui::SameLine();
    ImGui::SetNextItemWidth(300 * app.scale);
    text_field("##overrides", overrides_, "train.max_steps=200");
    ImGui::SameLine();
    if (!runs) {
        ImGui::BeginDisabled(recipe_.empty());
        if (ImGui::Button("Start", {90 * app.scale, 0})) start(app);
        ImGui::EndDisabled();
        controls.place("training/start");
    } else {
        if (ImGui::Button("Stop", {90 * app.scale, 0})) app.training->stop();
        controls.place("training/stop");
        if (ImGui::IsItemHovered()) ImGui::SetTooltip("Ends after this step, with a checkpoint to resume from");
    }
    if (!app.training_problem.empty()) ImGui::TextWrapped("%s", app.training_problem.c_str());
    controls.value("training/state", exists ? name_of(info.state) : "none");
    if (!exists) return;
    curves = app.training->curves();
    controls.value("training/step", static_cast<double>(curves.step));
    if (info.state == HK_SESSION_FAILED) {
        ImGui::PushStyleColor(ImGuiCol_Text, color::kRed);
        ImGui::TextWrapped("%.*s", static_cast<int>(info.message.size), info.message.data);
        ImGui::PopStyleColor();
    } else if (info.state == HK_SESSION_PREPARING) {
        const std::vector<std::string> messages = app.training->messages();
        ImGui::ProgressBar(static_cast<float>(info.progress), {240 * app.scale, 0}, "preparing");
        ImGui::SameLine();
        ImGui::TextDisabled("%s", messages.empty() ? "reading the recipe" : messages.back().c_str());
    } else if (curves.max_steps > 0) {
        std::array<char, 64> text{};
        std::snprintf(text.data(), text.size(), "%lld of %lld", static_cast<long long>(curves.step),
                      static_cast<long long>(curves.max_steps));
        ImGui::ProgressBar(static_cast<float>(curves.step) / static_cast<float>(curves.max_steps), {240 * app.scale, 0},
                           text.data());
        ImGui::SameLine();
        if (info.state == HK_SESSION_WORKING)
            ImGui::TextDisabled("%s to go at this budget", duration(curves.remaining_seconds).c_str());
        else
            ImGui::TextDisabled("%s", info.stopped != 0 ? "stopped; Start resumes from the checkpoint" : "done");
    }
}

void TrainingPanel::draw_log(Observatory& app) {
    ImGui::AlignTextToFramePadding();
    ImGui::TextUnformatted("Log");
    ImGui::SameLine();
    ImGui::SetNextItemWidth(560 * app.scale);
    if (text_field("##log", log_path_, "a run's folder, or its train_log.jsonl", ImGuiInputTextFlags_EnterReturnsTrue))
        follow(log_path_);
    ImGui::SameLine();
    if (ImGui::Button("Choose..."))
        app.browse(FileBrowser::Wanted::log, log_path_, [this](const std::string& path) { follow(path); });
    app.controls.place("training/choose log");
    ImGui::SameLine();
    ImGui::TextDisabled("of any process; it is read as it grows");
    const auto now = std::chrono::steady_clock::now();
    if (log_ && now - read_ > kBetweenReads) {
        read_ = now;
        try {
            log_->read();
            log_problem_.clear();
        } catch (const Failure& failure) { log_problem_ = failure.what(); }
    }
    if (!log_problem_.empty()) {
        ImGui::PushStyleColor(ImGuiCol_Text, color::kRed);
        ImGui::TextWrapped("%s", log_problem_.c_str());
        ImGui::PopStyleColor();
    }
    if (log_) {
        app.controls.value("training/log step", static_cast<double>(log_->curves().step));
        if (log_->bad_lines() > 0)
            ImGui::TextDisabled("%llu lines are not steps and were skipped",
                                static_cast<unsigned long long>(log_->bad_lines()));
    }
}

void TrainingPanel::draw_numbers(Observatory& app, const Curves& c) const {
    const Fonts& fonts = app.gui.fonts();
    const auto tile = [&](const char* label, const std::string& value, const char* tip) {
        ImGui::BeginGroup();
        ImGui::PushFont(fonts.small);
        ImGui::TextDisabled("%s", label);
        ImGui::PopFont();
        ImGui::PushFont(fonts.large);
        ImGui::TextUnformatted(value.c_str());
        ImGui::PopFont();
        ImGui::EndGroup();
        if (ImGui::IsItemHovered()) ImGui::SetTooltip("%s", tip);
    };
    const auto text = [](const char* format, double value) {
        std::array<char, 48> result{};
        std::snprintf(result.data(), result.size(), format, value);
        return std::string(result.data());
    };
    const auto last = [&](const Curve& curve, const char* format) {
        return curve.values.empty() ? std::string("-") : text(format, curve.values.back());
    };
    const float column = std::max(ImGui::GetContentRegionAvail().x / 7.0F, 110.0F);
    const float left = ImGui::GetCursorPosX();
    int index = 0;
    const auto place = [&] {
        if (index > 0) ImGui::SameLine(left + column * static_cast<float>(index));
        ++index;
    };
    place(), tile("step", text("%.0f", static_cast<double>(c.step)), "Updates that were made");
    place(), tile("training loss", last(c.loss, "%.4f"), "Of the last step's batch, as the recipe's objective has it");
    place(), tile("validation loss", last(c.evaluation, "%.4f"), "On data that is never trained on");
    place(),
        tile("best", c.evaluation.values.empty() ? "-" : text("%.4f", c.best), "The lowest validation loss so far");
    place(), tile("gradient norm", last(c.gradient_norm, "%.3f"), "Of all gradients together, before they are clipped");
    place(), tile("learning rate", last(c.learning_rate, "%.2e"), "Of the last step");
    place(), tile("tokens a second", short_number(c.tokens_per_second), "With what the budget leaves of each frame");
    if (c.skipped > 0)
        ImGui::TextColored(ImGui::ColorConvertU32ToFloat4(color::kOrange), "%llu steps were skipped: not finite",
                           static_cast<unsigned long long>(c.skipped));
}

void TrainingPanel::draw_curves(Observatory& app, const Curves& c) {
    const Fonts& fonts = app.gui.fonts();
    const ImVec2 room = ImGui::GetContentRegionAvail();
    const float gap = ImGui::GetStyle().ItemSpacing.x;
    const Curve smooth = smoothed(c.loss, static_cast<double>(smooth_));
    const bool raw = smooth_ >= 1.0F;
    std::vector<PlotCurve> losses{
        {raw ? "each step" : "training", &c.loss, raw ? with_alpha(color::kBlue, 0.35F) : color::kBlue, 1.0F}};
    if (raw) losses.push_back({"smoothed", &smooth, color::kBlue, 2.2F});
    losses.push_back({"validation", &c.evaluation, color::kOrange, 2.0F, true});
    const ImVec2 large{room.x * 0.62F, room.y};
    plot({"Loss", "by step", logarithmic_, false, "no steps yet: choose a recipe and press Start"}, losses, large,
         fonts);
    app.controls.place("training/loss");
    ImGui::SameLine();
    ImGui::BeginGroup();
    constexpr ImU32 kColors[] = {color::kOrange, color::kGreen, color::kBlue, color::kViolet, color::kRed};
    std::vector<PlotCurve> scores;
    for (const auto& [name, curve] : c.scores)
        scores.push_back({name, &curve, kColors[scores.size() % std::size(kColors)], 1.8F, true});
    const float plots = scores.empty() ? 2.0F : 3.0F;
    const ImVec2 part{room.x - large.x - gap, (room.y - (plots - 1.0F) * ImGui::GetStyle().ItemSpacing.y) / plots};
    const PlotCurve norm{"gradient norm", &c.gradient_norm, color::kGreen, 1.4F},
        rate{"learning rate", &c.learning_rate, color::kViolet, 2.0F};
    plot({"Gradient norm", "before clipping", logarithmic_}, {&norm, 1}, part, fonts);
    plot({"Learning rate", "of the schedule", false, true}, {&rate, 1}, part, fonts);
    if (!scores.empty()) plot({"Scores", "on validation data"}, scores, part, fonts);
    ImGui::EndGroup();
}

void TrainingPanel::draw(Observatory& app) {
    int source = shows_log_ ? 1 : 0;
    ImGui::RadioButton("in this window", &source, 0);
    app.controls.place("training/own");
    ImGui::SameLine();
    ImGui::RadioButton("from a log", &source, 1);
    app.controls.place("training/from log");
    shows_log_ = source == 1;
    ImGui::SameLine(ImGui::GetContentRegionMax().x - 420 * app.scale);
    ImGui::Checkbox("logarithmic", &logarithmic_);
    app.controls.place("training/logarithmic");
    ImGui::SameLine();
    ImGui::SetNextItemWidth(150 * app.scale);
    ImGui::SliderFloat("smoothing", &smooth_, 0.0F, 200.0F, smooth_ < 1.0F ? "none" : "%.0f steps",
                       ImGuiSliderFlags_Logarithmic);
    Curves own;
    if (shows_log_)
        draw_log(app);
    else
        draw_own(app, own);
    const Curves& curves = shows_log_ && log_ ? log_->curves() : own;
    ImGui::Spacing();
    draw_numbers(app, curves);
    ImGui::Spacing();
    draw_curves(app, curves);
}

} // namespace observatory
