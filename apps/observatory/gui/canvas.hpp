// Rectangles among ImGui's own that pipelines of the app draw into, in the order in which they were added.
#pragma once

#include <deque>
#include <functional>
#include <imgui.h>
#include <vulkan/vulkan.h>

namespace observatory {

class Canvas {
public:
    using Draw = std::function<void(VkCommandBuffer)>;
    // In the window that ImGui is at. The viewport is the rectangle [low, high), cut to the window's own clipping.
    void add(ImVec2 low, ImVec2 high, Draw draw);
    // Around ImGui's own drawing of what was added since the last frame.
    void begin(VkCommandBuffer commands) { commands_ = commands; }
    void end() { rectangles_.clear(); }

private:
    struct Rectangle {
        Canvas* canvas;
        ImVec2 low, high;
        Draw draw;
    };
    static void run(const ImDrawList* list, const ImDrawCmd* command);
    std::deque<Rectangle> rectangles_;
    VkCommandBuffer commands_ = VK_NULL_HANDLE;
};

} // namespace observatory
