// The window and its mouse. GLFW is initialized as long as this exists.
#pragma once

#include <string>
#include <vector>
#include <vulkan/vulkan.h>

struct GLFWwindow;

namespace observatory {

class Window {
public:
    // Throws a Failure without a window system that Vulkan supports.
    Window(int width, int height, const std::string& title);
    ~Window();
    Window(const Window&) = delete;
    Window& operator=(const Window&) = delete;

    GLFWwindow* handle() const { return window_; }
    std::vector<const char*> instance_extensions() const;
    VkSurfaceKHR make_surface(VkInstance instance) const; // the caller destroys it
    VkExtent2D pixels() const;                            // 0 x 0 while it is minimized
    bool is_closing() const;

private:
    GLFWwindow* window_ = nullptr;
};

} // namespace observatory
