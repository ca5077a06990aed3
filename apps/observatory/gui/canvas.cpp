#include "gui/canvas.hpp"

#include <algorithm>
#include <cmath>

namespace observatory {

void Canvas::add(ImVec2 low, ImVec2 high, Draw draw) {
    rectangles_.push_back({this, low, high, std::move(draw)});
    ImDrawList* list = ImGui::GetWindowDrawList();
    list->AddCallback(run, &rectangles_.back());
    list->AddCallback(ImDrawCallback_ResetRenderState, nullptr);
}

void Canvas::run(const ImDrawList*, const ImDrawCmd* command) {
    const Rectangle& r = *static_cast<const Rectangle*>(command->UserCallbackData);
    const ImVec2 display = ImGui::GetIO().DisplaySize, scale = ImGui::GetIO().DisplayFramebufferScale;
    const float left = std::max({r.low.x, command->ClipRect.x, 0.0F}) * scale.x,
                top = std::max({r.low.y, command->ClipRect.y, 0.0F}) * scale.y,
                right = std::min({r.high.x, command->ClipRect.z, display.x}) * scale.x,
                bottom = std::min({r.high.y, command->ClipRect.w, display.y}) * scale.y;
    if (right <= left || bottom <= top) return;
    const VkViewport viewport{r.low.x * scale.x,
                              r.low.y * scale.y,
                              (r.high.x - r.low.x) * scale.x,
                              (r.high.y - r.low.y) * scale.y,
                              0.0F,
                              1.0F};
    const VkRect2D scissor{
        {static_cast<int32_t>(left), static_cast<int32_t>(top)},
        {static_cast<uint32_t>(std::ceil(right - left)), static_cast<uint32_t>(std::ceil(bottom - top))}};
    vkCmdSetViewport(r.canvas->commands_, 0, 1, &viewport);
    vkCmdSetScissor(r.canvas->commands_, 0, 1, &scissor);
    r.draw(r.canvas->commands_);
}

} // namespace observatory
