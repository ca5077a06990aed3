// Dear ImGui on the app's device: its context, its fonts and its rendering.
#pragma once

#include "gui/canvas.hpp"
#include "gui/style.hpp"
#include "vulkan/target.hpp"

namespace observatory {

class Gui {
public:
    // `window` null: no mouse and keyboard, and the target's size.
    Gui(Device& device, const Target& target, const Window* window, const std::string& font, float scale);
    ~Gui();
    Gui(const Gui&) = delete;
    Gui& operator=(const Gui&) = delete;

    const Fonts& fonts() const { return fonts_; }
    Canvas& canvas() { return canvas_; }
    void begin_frame();
    // Records the layout of this frame into the target's render pass, which must have begun.
    void draw(VkCommandBuffer commands);
    void drop_frame(); // discards the layout without drawing it

private:
    Device& device_;
    const Target& target_;
    const Window* window_;
    Fonts fonts_;
    Canvas canvas_;
    VkDescriptorPool pool_ = VK_NULL_HANDLE;
};

} // namespace observatory
