// Rectangles inside ImGui's windows that the app's own pipelines draw into, in the order in which they were added.
#pragma once

#include <deque>
#include <functional>
#include <imgui.h>
#include <vulkan/vulkan.h>

namespace observatory {

class Canvas {
public:
    using Draw = std::function<void(VkCommandBuffer)>;
    // Adds a rectangle in ImGui's current window. The viewport is [low, high), cropped to the window's clipping
    // rectangle.
    void add(ImVec2 low, ImVec2 high, Draw draw);
    // Called before and after ImGui draws the rectangles that were added since the last frame.
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
