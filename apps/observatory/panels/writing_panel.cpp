#include "panels/writing_panel.hpp"

#include <algorithm>
#include <imgui_stdlib.h>

namespace observatory {

void WritingPanel::begin(Observatory& app) {
    problem_.clear();
    if (session_) app.engine.remove(session_.session().c());
    session_ = {};
    if (app.model() == nullptr) return;
    hk::GenerationOptions options;
    options.model = app.model()->path();
    options.prompts = {prompt_};
    options.max_new_tokens = tokens_;
    options.temperature = static_cast<double>(temperature_);
    options.top_k = top_k_;
    options.seed = static_cast<uint64_t>(seed_);
    hk::Error error;
    session_ = app.engine.cpp_context().generate(options, error);
    if (error) {
        problem_ = error.message();
        return;
    }
    app.engine.add(session_.session().c(), Engine::Kind::writing);
    number_ = app.model_number();
    text_.clear();
    steps_ = 0;
    rate_ = 0;
    began_ = {};
}

void WritingPanel::write(Observatory& app) {
    app.later([this, &app] { begin(app); });
}

bool WritingPanel::is_settled(Observatory&) {
    return !waits_ && (!session_ || session_.state() == hk::State::idle || session_.state() >= hk::State::done);
}

void WritingPanel::change(Observatory& app, bool) {
    if (waits_ && app.model() != nullptr) {
        waits_ = false;
        write(app);
    }
    if (!session_) return;
    text_ += session_.taken();
    const hk_session_info info = session_.session().wait(0);
    if (info.state == HK_SESSION_FAILED) {
        problem_ = std::string(hk::view(info.message));
        app.engine.remove(session_.session().c());
        session_ = {};
        return;
    }
    if (info.state == HK_SESSION_WORKING && info.step > 0) {
        const auto now = std::chrono::steady_clock::now();
        if (began_ == std::chrono::steady_clock::time_point{}) began_ = now, steps_ = info.step;
        const double seconds = std::chrono::duration<double>(now - began_).count();
        if (seconds > 0.3) rate_ = static_cast<double>(info.step - steps_) / seconds;
    }
}

void WritingPanel::draw(Observatory& app) {
    const hk_session_info info = session_ ? session_.session().wait(0) : hk_session_info{};
    const bool writes = session_ && (info.state == HK_SESSION_PREPARING || info.state == HK_SESSION_WORKING);
    ImGui::TextUnformatted("Prompt");
    ImGui::InputTextMultiline("##prompt", &prompt_, {-1, 62 * app.scale});
    app.controls.place("write/prompt");
    ImGui::BeginDisabled(app.model() == nullptr || writes);
    if (ImGui::Button("Write", {100 * app.scale, 0})) write(app);
    ImGui::EndDisabled();
    app.controls.place("write/write");
    ImGui::SameLine();
    ImGui::BeginDisabled(!writes);
    if (ImGui::Button("Stop", {100 * app.scale, 0})) session_.session().stop();
    ImGui::EndDisabled();
    app.controls.place("write/stop");
    ImGui::SameLine();
    ImGui::BeginDisabled(text_.empty() || writes);
    if (ImGui::Button("Continue", {100 * app.scale, 0})) {
        prompt_ += text_;
        write(app);
    }
    ImGui::EndDisabled();
    if (ImGui::IsItemHovered()) ImGui::SetTooltip("What was written becomes a part of the prompt");
    app.controls.place("write/continue");
    const auto slider = [&] {
        ImGui::SameLine();
        ImGui::SetNextItemWidth(140 * app.scale);
    };
    slider();
    ImGui::SliderInt("tokens", &tokens_, 1, 1000, "%d", ImGuiSliderFlags_Logarithmic);
    slider();
    ImGui::SliderFloat("temperature", &temperature_, 0.0F, 2.0F, temperature_ == 0.0F ? "likeliest" : "%.2f");
    app.controls.place("write/temperature");
    slider();
    ImGui::SliderInt("of the likeliest", &top_k_, 0, 200, top_k_ == 0 ? "all" : "%d");
    slider();
    ImGui::InputInt("seed", &seed_);
    if (app.model() == nullptr) ImGui::TextDisabled("Open a model first: the button is above.");
    app.controls.value("write/tokens", static_cast<double>(info.step));
    app.controls.value("write/state", writes ? "writing" : session_ ? "done" : "none");
    if (!problem_.empty()) {
        ImGui::PushStyleColor(ImGuiCol_Text, color::kRed);
        ImGui::TextWrapped("%s", problem_.c_str());
        ImGui::PopStyleColor();
    }
    if (session_ && info.state == HK_SESSION_PREPARING)
        ImGui::ProgressBar(static_cast<float>(info.progress), {240 * app.scale, 0}, "preparing");
    else if (session_)
        ImGui::TextDisabled("%lld tokens%s%.0f a second within the budget", static_cast<long long>(info.step), ", ",
                            rate_);
    ImGui::BeginChild("text", {0, 0}, true);
    ImGui::PushFont(app.gui.fonts().text);
    ImGui::PushTextWrapPos(0.0F);
    if (session_ || !text_.empty()) {
        ImGui::TextDisabled("%s", prompt_.c_str());
        ImGui::TextUnformatted(text_.data(), text_.data() + text_.size());
    } else {
        ImGui::TextDisabled("What the model writes appears here, as it comes.");
    }
    ImGui::PopTextWrapPos();
    ImGui::PopFont();
    if (writes && ImGui::GetScrollY() < ImGui::GetScrollMaxY()) ImGui::SetScrollHereY(1.0F);
    ImGui::EndChild();
}

} // namespace observatory
