#include "vulkan/device.hpp"

#include "failure.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <hekla/hekla.hpp>

namespace observatory {
namespace {

constexpr const char* kValidation = "VK_LAYER_KHRONOS_validation";
constexpr uint32_t kVersion = VK_API_VERSION_1_3;

VKAPI_ATTR VkBool32 VKAPI_CALL heard(VkDebugUtilsMessageSeverityFlagBitsEXT, VkDebugUtilsMessageTypeFlagsEXT,
                                     const VkDebugUtilsMessengerCallbackDataEXT* data, void* user) {
    static_cast<std::atomic<uint64_t>*>(user)->fetch_add(1);
    std::fprintf(stderr, "validation: %s\n", data->pMessage);
    return VK_FALSE;
}

hk_get_instance_proc_addr loader() { return reinterpret_cast<hk_get_instance_proc_addr>(vkGetInstanceProcAddr); }

} // namespace

Device::Device(const DeviceOptions& options) {
    make_instance(options);
    if (options.window != nullptr) {
        surface_ = options.window->make_surface(instance_);
        extensions_.push_back(VK_KHR_SWAPCHAIN_EXTENSION_NAME);
    }
    choose(options.select);
    choose_queue();
    make_device();
}

void Device::make_instance(const DeviceOptions& options) {
    VkApplicationInfo about{};
    about.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
    about.pApplicationName = "Hekla Observatory";
    about.apiVersion = kVersion;
    std::vector<const char*> extensions;
    if (options.window != nullptr) extensions = options.window->instance_extensions();
    VkDebugUtilsMessengerCreateInfoEXT messenger{};
    messenger.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT;
    messenger.messageSeverity =
        VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT;
    messenger.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
    messenger.pfnUserCallback = heard;
    messenger.pUserData = &messages_;
    VkInstanceCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
    create.pApplicationInfo = &about;
    if (options.validate) {
        extensions.push_back(VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
        create.enabledLayerCount = 1;
        create.ppEnabledLayerNames = &kValidation;
        create.pNext = &messenger;
    }
    create.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
    create.ppEnabledExtensionNames = extensions.data();
    const VkResult made = vkCreateInstance(&create, nullptr, &instance_);
    if (made == VK_ERROR_LAYER_NOT_PRESENT)
        throw Failure(std::string("--validate needs ") + kValidation + ": install vulkan-validationlayers");
    require(made, "vkCreateInstance");
    if (!options.validate) return;
    const auto make = reinterpret_cast<PFN_vkCreateDebugUtilsMessengerEXT>(
        vkGetInstanceProcAddr(instance_, "vkCreateDebugUtilsMessengerEXT"));
    require(make(instance_, &messenger, nullptr, &messenger_), "vkCreateDebugUtilsMessengerEXT");
}

void Device::choose(const std::string& select) {
    uint32_t count = 0;
    require(vkEnumeratePhysicalDevices(instance_, &count, nullptr), "vkEnumeratePhysicalDevices");
    std::vector<VkPhysicalDevice> all(count);
    require(vkEnumeratePhysicalDevices(instance_, &count, all.data()), "vkEnumeratePhysicalDevices");
    int best = -1;
    std::string names;
    for (uint32_t i = 0; i < count; ++i) {
        VkPhysicalDeviceProperties about{};
        vkGetPhysicalDeviceProperties(all[i], &about);
        names += (names.empty() ? "" : ", ") + std::to_string(i) + " " + about.deviceName;
        if (!select.empty() && select != std::to_string(i) && std::strstr(about.deviceName, select.c_str()) == nullptr)
            continue;
        const int worth = about.deviceType == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU     ? 3
                          : about.deviceType == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU ? 2
                          : about.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU            ? 0
                                                                                       : 1;
        if (worth <= best) continue;
        best = worth;
        physical_ = all[i];
        name_ = about.deviceName;
        tick_ = static_cast<double>(about.limits.timestampPeriod);
    }
    if (count == 0) throw Failure("there is no Vulkan device: install a driver (on a CPU mesa-vulkan-drivers)");
    if (best < 0) throw Failure("no device is called '" + select + "'; there are: " + names);
    vkGetPhysicalDeviceMemoryProperties(physical_, &memory_);
}

void Device::choose_queue() {
    uint32_t count = 0;
    vkGetPhysicalDeviceQueueFamilyProperties(physical_, &count, nullptr);
    std::vector<VkQueueFamilyProperties> families(count);
    vkGetPhysicalDeviceQueueFamilyProperties(physical_, &count, families.data());
    constexpr VkQueueFlags kBoth = VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT;
    for (family_ = 0; family_ < count; ++family_) {
        if ((families[family_].queueFlags & kBoth) != kBoth) continue;
        VkBool32 presents = VK_TRUE;
        if (surface_ != VK_NULL_HANDLE)
            require(vkGetPhysicalDeviceSurfaceSupportKHR(physical_, family_, surface_, &presents),
                    "vkGetPhysicalDeviceSurfaceSupportKHR");
        if (presents == VK_FALSE) continue;
        if (families[family_].timestampValidBits == 0) tick_ = 0;
        return;
    }
    throw Failure(name_ + " has no queue that draws, computes" +
                  (surface_ != VK_NULL_HANDLE ? " and presents to this window" : "") +
                  ": choose another with --device, or use --headless");
}

void Device::make_device() {
    hk::Error error;
    hk_physical_device where{};
    where.struct_size = sizeof where;
    where.api_version = kVersion;
    where.get_instance_proc_addr = loader();
    where.instance = instance_;
    where.physical_device = physical_;
    if (!error.take(hk_device_requirements_create(&where, &needs_, error.c())))
        throw Failure(name_ + ": " + error.message());
    queue_info_.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
    queue_info_.queueFamilyIndex = family_;
    queue_info_.queueCount = 1;
    queue_info_.pQueuePriorities = &priority_;
    features12_.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
    features12_.timelineSemaphore = VK_TRUE;   // for frames
    features12_.bufferDeviceAddress = VK_TRUE; // shaders read Hekla's buffers by address
    info_.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
    info_.pNext = &features12_;
    info_.queueCreateInfoCount = 1;
    info_.pQueueCreateInfos = &queue_info_;
    info_.enabledExtensionCount = static_cast<uint32_t>(extensions_.size());
    info_.ppEnabledExtensionNames = extensions_.data();
    if (!error.take(hk_device_requirements_merge(needs_, 1, &info_, error.c())))
        throw Failure(name_ + ": " + error.message());
    require(vkCreateDevice(physical_, &info_, nullptr, &device_), "vkCreateDevice");
    vkGetDeviceQueue(device_, family_, 0, &queue_);
    wrapped_.struct_size = sizeof wrapped_;
    wrapped_.api_version = kVersion;
    wrapped_.get_instance_proc_addr = loader();
    wrapped_.instance = instance_;
    wrapped_.physical_device = physical_;
    wrapped_.device = device_;
    wrapped_.queue = queue_;
    wrapped_.queue_family = family_;
    wrapped_.device_create_info = &info_;
    wrapped_.user = this;
    wrapped_.lock_queue = [](void* user) { static_cast<Device*>(user)->queue_mutex_.lock(); };
    wrapped_.unlock_queue = [](void* user) { static_cast<Device*>(user)->queue_mutex_.unlock(); };
}

Device::~Device() {
    if (device_ != VK_NULL_HANDLE) {
        wait_idle();
        vkDestroyDevice(device_, nullptr);
    }
    hk_device_requirements_destroy(needs_);
    if (surface_ != VK_NULL_HANDLE) vkDestroySurfaceKHR(instance_, surface_, nullptr);
    if (messenger_ != VK_NULL_HANDLE)
        reinterpret_cast<PFN_vkDestroyDebugUtilsMessengerEXT>(
            vkGetInstanceProcAddr(instance_, "vkDestroyDebugUtilsMessengerEXT"))(instance_, messenger_, nullptr);
    vkDestroyInstance(instance_, nullptr);
}

uint32_t Device::memory_type(uint32_t allowed, VkMemoryPropertyFlags wanted) const {
    for (uint32_t i = 0; i < memory_.memoryTypeCount; ++i)
        if ((allowed >> i & 1U) != 0 && (memory_.memoryTypes[i].propertyFlags & wanted) == wanted) return i;
    throw Failure(name_ + " has no memory with VkMemoryPropertyFlags " + std::to_string(wanted));
}

void Device::make_commands(VkCommandPool& pool, std::span<VkCommandBuffer> commands) const {
    VkCommandPoolCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
    create.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
    create.queueFamilyIndex = family_;
    require(vkCreateCommandPool(device_, &create, nullptr, &pool), "vkCreateCommandPool");
    VkCommandBufferAllocateInfo allocate{};
    allocate.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
    allocate.commandPool = pool;
    allocate.commandBufferCount = static_cast<uint32_t>(commands.size());
    require(vkAllocateCommandBuffers(device_, &allocate, commands.data()), "vkAllocateCommandBuffers");
}

void Device::wait_idle() {
    const std::lock_guard guard(queue_mutex_);
    vkDeviceWaitIdle(device_);
}

} // namespace observatory
