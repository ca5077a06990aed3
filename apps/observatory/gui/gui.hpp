// Dear ImGui on the app's device: its context, its fonts on the device, and its drawing.
#pragma once

#include "gui/canvas.hpp"
#include "gui/style.hpp"
#include "vulkan/target.hpp"

namespace observatory {

class Gui {
public:
    // `window` null: without a mouse or keyboard, of the target's size.
    Gui(Device& device, const Target& target, const Window* window, const std::string& font, float scale);
    ~Gui();
    Gui(const Gui&) = delete;
    Gui& operator=(const Gui&) = delete;

    const Fonts& fonts() const { return fonts_; }
    Canvas& canvas() { return canvas_; }
    void begin_frame();
    // What was laid out since, into the target's pass, which has begun.
    void draw(VkCommandBuffer commands);
    void drop_frame(); // what was laid out is not drawn

private:
    Device& device_;
    const Target& target_;
    const Window* window_;
    Fonts fonts_;
    Canvas canvas_;
    VkDescriptorPool pool_ = VK_NULL_HANDLE;
};

} // namespace observatory
