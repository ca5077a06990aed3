#include "gui/gui.hpp"

#include "failure.hpp"
#include "vulkan/one_shot_commands.hpp"

#define GLFW_INCLUDE_NONE
#include <GLFW/glfw3.h>
#include <backends/imgui_impl_glfw.h>
#include <backends/imgui_impl_vulkan.h>

namespace observatory {

Gui::Gui(Device& device, const Target& target, const Window* window, const std::string& font, float scale)
    : device_(device), target_(target), window_(window) {
    IMGUI_CHECKVERSION();
    ImGui::CreateContext();
    ImGui::GetIO().IniFilename = nullptr; // writes no file that was not requested
    if (window != nullptr) ImGui::GetIO().ConfigFlags |= ImGuiConfigFlags_NavEnableKeyboard;
    fonts_ = set_style(font, scale);
    if (window != nullptr) ImGui_ImplGlfw_InitForVulkan(window->handle(), true);
    const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_COMBINED_IMAGE_SAMPLER, 4};
    VkDescriptorPoolCreateInfo pool{};
    pool.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO;
    pool.flags = VK_DESCRIPTOR_POOL_CREATE_FREE_DESCRIPTOR_SET_BIT;
    pool.maxSets = 4;
    pool.poolSizeCount = 1;
    pool.pPoolSizes = &size;
    require(vkCreateDescriptorPool(device.handle(), &pool, nullptr, &pool_), "vkCreateDescriptorPool");
    ImGui_ImplVulkan_InitInfo info{};
    info.Instance = device.instance();
    info.PhysicalDevice = device.physical();
    info.Device = device.handle();
    info.QueueFamily = device.family();
    info.Queue = device.queue();
    info.DescriptorPool = pool_;
    info.MinImageCount = Target::kFramesInFlight;
    info.ImageCount = Target::kFramesInFlight;
    info.MSAASamples = VK_SAMPLE_COUNT_1_BIT;
    info.CheckVkResultFn = [](VkResult result) { require(result, "Dear ImGui's Vulkan renderer"); };
    ImGui_ImplVulkan_Init(&info, target.pass());
    Once(device).run([](VkCommandBuffer commands) { ImGui_ImplVulkan_CreateFontsTexture(commands); });
    ImGui_ImplVulkan_DestroyFontUploadObjects();
}

Gui::~Gui() {
    device_.wait_idle();
    ImGui_ImplVulkan_Shutdown();
    if (window_ != nullptr) ImGui_ImplGlfw_Shutdown();
    ImGui::DestroyContext();
    vkDestroyDescriptorPool(device_.handle(), pool_, nullptr);
}

void Gui::begin_frame() {
    ImGui_ImplVulkan_NewFrame();
    if (window_ != nullptr) {
        ImGui_ImplGlfw_NewFrame();
    } else {
        ImGuiIO& io = ImGui::GetIO();
        io.DisplaySize = {static_cast<float>(target_.extent().width), static_cast<float>(target_.extent().height)};
        io.DeltaTime = 1.0F / 60.0F;
    }
    ImGui::NewFrame();
}

void Gui::draw(VkCommandBuffer commands) {
    ImGui::Render();
    canvas_.begin(commands);
    ImGui_ImplVulkan_RenderDrawData(ImGui::GetDrawData(), commands);
    canvas_.end();
}

void Gui::drop_frame() {
    ImGui::EndFrame();
    canvas_.end();
}

} // namespace observatory
