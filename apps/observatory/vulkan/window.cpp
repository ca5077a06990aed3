#include "vulkan/window.hpp"

#include "failure.hpp"

#define GLFW_INCLUDE_VULKAN
#include <GLFW/glfw3.h>

namespace observatory {

Window::Window(int width, int height, const std::string& title) {
    const auto why = [] {
        const char* text = nullptr;
        glfwGetError(&text);
        return std::string(text != nullptr ? text : "no reason is given");
    };
    if (glfwInit() == GLFW_FALSE)
        throw Failure("there is no window to open: " + why() +
                      "; set DISPLAY, or use --headless --screenshot FILE, which needs none");
    if (glfwVulkanSupported() == GLFW_FALSE) {
        const std::string reason = why();
        glfwTerminate();
        throw Failure("this window system has no surface for Vulkan: " + reason + "; use --headless --screenshot FILE");
    }
    glfwWindowHint(GLFW_CLIENT_API, GLFW_NO_API);
    window_ = glfwCreateWindow(width, height, title.c_str(), nullptr, nullptr);
    if (window_ == nullptr) {
        const std::string reason = why();
        glfwTerminate();
        throw Failure("the window was not opened: " + reason);
    }
}

Window::~Window() {
    glfwDestroyWindow(window_);
    glfwTerminate();
}

std::vector<const char*> Window::instance_extensions() const {
    uint32_t count = 0;
    const char** names = glfwGetRequiredInstanceExtensions(&count);
    return {names, names + count};
}

VkSurfaceKHR Window::make_surface(VkInstance instance) const {
    VkSurfaceKHR surface = VK_NULL_HANDLE;
    require(glfwCreateWindowSurface(instance, window_, nullptr, &surface), "glfwCreateWindowSurface");
    return surface;
}

VkExtent2D Window::pixels() const {
    int width = 0, height = 0;
    glfwGetFramebufferSize(window_, &width, &height);
    return {static_cast<uint32_t>(width), static_cast<uint32_t>(height)};
}

bool Window::is_closing() const { return glfwWindowShouldClose(window_) == GLFW_TRUE; }

} // namespace observatory
