#include "panels/frame_strip.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace observatory {
namespace {

struct KindLook {
    const char* name;
    ImU32 color;
};
constexpr std::array<KindLook, Engine::kKinds> kLooks{
    {{"training", color::kBlue}, {"passes", color::kGreen}, {"writing", color::kViolet}}};

double taken(const Engine::Cost& cost) { return std::accumulate(cost.engine.begin(), cost.engine.end(), 0.0); }

std::string time_text(double microseconds) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), microseconds < 1000 ? "%.0f us" : "%.2f ms",
                  microseconds < 1000 ? microseconds : microseconds / 1000.0);
    return text.data();
}

double share_of(std::vector<double>& values, double share) {
    if (values.empty()) return 0.0;
    const auto at = values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
    std::nth_element(values.begin(), at, values.end());
    return *at;
}

} // namespace

void FrameStrip::draw(Observatory& app, ImVec2 size) {
    ImGui::BeginChild("frames", size, true, ImGuiWindowFlags_NoScrollbar);
    const std::deque<Engine::Cost>& costs = app.engine.costs();
    const float left = 340.0F * app.scale;
    ImGui::BeginGroup();
    ImGui::TextUnformatted("Budget of each frame");
    float budget = static_cast<float>(app.engine.budget);
    ImGui::SetNextItemWidth(left - 20.0F * app.scale);
    ImGui::SliderFloat("##budget", &budget, 100.0F, 500000.0F, "%.0f microseconds", ImGuiSliderFlags_Logarithmic);
    app.controls.place("budget");
    if (ImGui::IsItemHovered())
        ImGui::SetTooltip("The device time that Hekla may use in each frame. Less makes the window smoother;\n"
                          "more makes trainings and texts faster. A single piece of work may take longer.");
    app.engine.budget = static_cast<double>(budget);
    app.controls.value("budget", app.engine.budget);
    std::vector<double> used, frames;
    std::size_t beyond = 0;
    for (const Engine::Cost& cost : costs) {
        frames.push_back(cost.frame);
        if (taken(cost) <= 0) continue;
        used.push_back(taken(cost));
        if (taken(cost) > cost.budget) ++beyond;
    }
    const double median = share_of(used, 0.5), high = share_of(used, 0.95), frame = share_of(frames, 0.5);
    app.controls.value("frames/engine median", median);
    ImGui::PushFont(app.gui.fonts().small);
    if (used.empty())
        ImGui::TextDisabled("Hekla: idle");
    else
        ImGui::TextDisabled("Hekla: %s median, %s at 95 %%, %zu of %zu over", time_text(median).c_str(),
                            time_text(high).c_str(), beyond, used.size());
    ImGui::TextDisabled("frame: %s median (%.0f a second)", time_text(frame).c_str(), frame > 0 ? 1e6 / frame : 0.0);
    for (const KindLook& look : kLooks) {
        if (&look != kLooks.data()) ImGui::SameLine();
        ImGui::TextColored(ImGui::ColorConvertU32ToFloat4(look.color), "%s", look.name);
    }
    ImGui::SameLine();
    ImGui::TextColored(ImGui::ColorConvertU32ToFloat4(color::kGrey), "drawing");
    ImGui::PopFont();
    ImGui::EndGroup();
    ImGui::SameLine(left + 20.0F * app.scale);

    const ImVec2 low = ImGui::GetCursorScreenPos(), room = ImGui::GetContentRegionAvail();
    const ImVec2 end{low.x + room.x, low.y + room.y};
    ImGui::InvisibleButton("strip", room);
    app.controls.place("frames");
    const bool hovered = ImGui::IsItemHovered();
    ImDrawList& list = *ImGui::GetWindowDrawList();
    double most = app.engine.budget * 1.25;
    for (const Engine::Cost& cost : costs) most = std::max(most, std::min(taken(cost), cost.budget * 4.0) * 1.1);
    ceiling_ += (static_cast<float>(most) - ceiling_) * 0.2F;
    const auto y = [&](double microseconds) {
        return end.y - std::min(static_cast<float>(microseconds) / ceiling_, 1.0F) * room.y;
    };
    const float wide = std::max(2.0F, std::floor(3.0F * app.scale));
    const auto shown = std::min(costs.size(), static_cast<std::size_t>(room.x / wide));
    for (std::size_t i = 0; i < shown; ++i) {
        const Engine::Cost& cost = costs[costs.size() - shown + i];
        const float x = end.x - static_cast<float>(shown - i) * wide;
        double sum = 0;
        for (std::size_t kind = 0; kind < Engine::kKinds; ++kind) {
            if (cost.engine[kind] <= 0) continue;
            list.AddRectFilled({x, y(sum + cost.engine[kind])}, {x + wide - 1, y(sum)}, kLooks[kind].color);
            sum += cost.engine[kind];
        }
        list.AddRectFilled({x, y(cost.drawing) - 1}, {x + wide, y(cost.drawing) + 1}, with_alpha(color::kGrey, 0.8F));
        list.AddRectFilled({x, y(cost.budget) - 1}, {x + wide, y(cost.budget)}, color::kOrange);
        if (hovered && ImGui::GetIO().MousePos.x >= x && ImGui::GetIO().MousePos.x < x + wide) {
            ImGui::BeginTooltip();
            ImGui::Text("%s from frame to frame", time_text(cost.frame).c_str());
            for (std::size_t kind = 0; kind < Engine::kKinds; ++kind)
                if (cost.engine[kind] > 0)
                    ImGui::TextColored(ImGui::ColorConvertU32ToFloat4(kLooks[kind].color), "%s of %s",
                                       time_text(cost.engine[kind]).c_str(), kLooks[kind].name);
            ImGui::TextDisabled("%s of drawing, budget %s", time_text(cost.drawing).c_str(),
                                time_text(cost.budget).c_str());
            ImGui::EndTooltip();
        }
    }
    const std::string label = "budget " + time_text(app.engine.budget);
    list.AddText(app.gui.fonts().small, app.gui.fonts().small->FontSize, {low.x + 2, y(app.engine.budget) - 17},
                 color::kOrange, label.c_str());
    list.AddLine({low.x, y(app.engine.budget)}, {end.x, y(app.engine.budget)}, with_alpha(color::kOrange, 0.3F));
    ImGui::EndChild();
}

} // namespace observatory
