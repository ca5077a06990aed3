// An app with its own Vulkan device, as in a game: instance, device and queue are created by hand through the real
// loader, with validation. The engine calls Vulkan through the fault driver, which counts.
#pragma once

#include "fault_driver.hpp"
#include "hekla/hekla.h"
#include "hekla/session.h"
#include "validation.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hekla::test {

// Creates a context with the built-in plugins.
inline int32_t make_context(hk_context& out, hk_error* error, const std::function<void(hk_context_options&)>& with) {
    const std::string folder = HEKLA_PLUGIN_FOLDER;
    const hk_string plugins{folder.data(), folder.size()};
    hk_context_options options{};
    options.struct_size = sizeof options;
    options.plugin_folders = &plugins;
    options.plugin_folder_count = 1;
    with(options);
    return hk_context_create(&options, &out, error);
}

class Host {
public:
    // before_device: may inspect and change the create info, after the engine's requirements were merged into it.
    explicit Host(uint32_t version = VK_API_VERSION_1_3, bool optional = true,
                  const std::function<void(VkDeviceCreateInfo&)>& before_device = {}) {
        void* loader = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
        REQUIRE(loader != nullptr);
        get_ = reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(loader, "vkGetInstanceProcAddr"));
        VkApplicationInfo app{};
        app.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
        app.apiVersion = version;
        const char* layer = "VK_LAYER_KHRONOS_validation";
        const char* extension = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
        VkInstanceCreateInfo create{};
        create.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
        create.pApplicationInfo = &app;
        create.enabledLayerCount = is_validation_off() ? 0 : 1;
        create.ppEnabledLayerNames = &layer;
        create.enabledExtensionCount = 1;
        create.ppEnabledExtensionNames = &extension;
        REQUIRE(global<PFN_vkCreateInstance>("vkCreateInstance")(&create, nullptr, &instance) == VK_SUCCESS);
        VkDebugUtilsMessengerCreateInfoEXT messenger{};
        messenger.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT;
        messenger.messageSeverity =
            VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT;
        messenger.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
        messenger.pfnUserCallback = [](VkDebugUtilsMessageSeverityFlagBitsEXT, VkDebugUtilsMessageTypeFlagsEXT,
                                       const VkDebugUtilsMessengerCallbackDataEXT* data, void* user) -> VkBool32 {
            auto& host = *static_cast<Host*>(user);
            const std::lock_guard guard(host.messages_mutex_);
            host.messages_ += std::string(data->pMessage) + "\n";
            return VK_FALSE;
        };
        messenger.pUserData = this;
        REQUIRE(of<PFN_vkCreateDebugUtilsMessengerEXT>("vkCreateDebugUtilsMessengerEXT")(instance, &messenger, nullptr,
                                                                                         &messenger_) == VK_SUCCESS);
        uint32_t count = 1;
        const VkResult listed =
            of<PFN_vkEnumeratePhysicalDevices>("vkEnumeratePhysicalDevices")(instance, &count, &physical);
        REQUIRE((listed == VK_SUCCESS || listed == VK_INCOMPLETE));

        const hk_physical_device where{sizeof where, version, engine_loader(), instance, physical};
        hk_device_requirements needs{};
        REQUIRE(hk_device_requirements_create(&where, &needs, nullptr) == HK_OK);
        hk_queue_advice advice{};
        advice.struct_size = sizeof advice;
        REQUIRE(hk_device_requirements_queue(needs, &advice, nullptr) == HK_OK);
        family = advice.family;
        const std::array<float, 2> priorities{1.0F, advice.priority};
        VkDeviceQueueCreateInfo queues{};
        queues.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
        queues.queueFamilyIndex = advice.family;
        queues.queueCount = advice.index + 1;
        queues.pQueuePriorities = priorities.data();
        info = {};
        info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
        info.queueCreateInfoCount = 1;
        info.pQueueCreateInfos = &queues;
        REQUIRE(hk_device_requirements_merge(needs, optional ? 1 : 0, &info, nullptr) == HK_OK);
        if (before_device) before_device(info);
        REQUIRE(of<PFN_vkCreateDevice>("vkCreateDevice")(physical, &info, nullptr, &device) == VK_SUCCESS);
        needs_ = needs; // hk_context_create reads them again
        of<PFN_vkGetDeviceQueue>("vkGetDeviceQueue")(device, family, advice.index, &queue);
        info.pQueueCreateInfos = nullptr;
        info.queueCreateInfoCount = 0;

        wrapped = {};
        wrapped.struct_size = sizeof wrapped;
        wrapped.api_version = version;
        wrapped.get_instance_proc_addr = engine_loader();
        wrapped.instance = instance;
        wrapped.physical_device = physical;
        wrapped.device = device;
        wrapped.queue = queue;
        wrapped.queue_family = family;
        wrapped.device_create_info = &info;
        wrapped.user = this;
        wrapped.lock_queue = [](void* user) {
            auto& host = *static_cast<Host*>(user);
            host.queue_mutex.lock();
            ++host.locks;
        };
        wrapped.unlock_queue = [](void* user) { static_cast<Host*>(user)->queue_mutex.unlock(); };
    }
    // Whether the device has no memory of its own.
    bool shares_memory() const {
        VkPhysicalDeviceProperties properties{};
        of<PFN_vkGetPhysicalDeviceProperties>("vkGetPhysicalDeviceProperties")(physical, &properties);
        return properties.deviceType != VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
    }
    // Returns the validation layer's messages since the last call.
    std::string messages() {
        const std::lock_guard guard(messages_mutex_);
        return std::exchange(messages_, {});
    }
    ~Host() {
        hk_device_requirements_destroy(needs_);
        of<PFN_vkDeviceWaitIdle>("vkDeviceWaitIdle")(device);
        of<PFN_vkDestroyDevice>("vkDestroyDevice")(device, nullptr);
        of<PFN_vkDestroyDebugUtilsMessengerEXT>("vkDestroyDebugUtilsMessengerEXT")(instance, messenger_, nullptr);
        of<PFN_vkDestroyInstance>("vkDestroyInstance")(instance, nullptr);
        CHECK_MESSAGE(messages_.empty(), messages_);
    }
    Host(const Host&) = delete;
    Host& operator=(const Host&) = delete;

    static hk_get_instance_proc_addr engine_loader() {
        return reinterpret_cast<hk_get_instance_proc_addr>(&FaultDriver::get_instance_proc_addr);
    }
    template<class F>
    F of(const char* name) const {
        return reinterpret_cast<F>(get_(instance, name));
    }
    // Creates a context on this device, with the built-in plugins.
    int32_t context(hk_context& out, hk_error* error = nullptr,
                    const std::function<void(hk_context_options&)>& with = {}) const {
        return make_context(out, error, [&](hk_context_options& options) {
            options.device_kind = HK_DEVICE_WRAPPED;
            options.vulkan = &wrapped;
            if (with) with(options);
        });
    }

    VkInstance instance = VK_NULL_HANDLE;
    VkPhysicalDevice physical = VK_NULL_HANDLE;
    VkDevice device = VK_NULL_HANDLE;
    VkQueue queue = VK_NULL_HANDLE;
    uint32_t family = 0;
    VkDeviceCreateInfo info{};
    hk_vulkan_device wrapped{};
    std::mutex queue_mutex;
    int locks = 0;

private:
    template<class F>
    F global(const char* name) const {
        return reinterpret_cast<F>(get_(nullptr, name));
    }
    PFN_vkGetInstanceProcAddr get_ = nullptr;
    VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
    hk_device_requirements needs_{};
    std::mutex messages_mutex_;
    std::string messages_;
};

// A mapped buffer of the host.
class HostBuffer {
public:
    HostBuffer(Host& host, uint64_t bytes, VkBufferUsageFlags usage, bool address = true) : host_(host) {
        VkBufferCreateInfo create{};
        create.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
        create.size = bytes;
        create.usage = usage;
        REQUIRE(host.of<PFN_vkCreateBuffer>("vkCreateBuffer")(host.device, &create, nullptr, &buffer_) == VK_SUCCESS);
        VkMemoryRequirements needs{};
        host.of<PFN_vkGetBufferMemoryRequirements>("vkGetBufferMemoryRequirements")(host.device, buffer_, &needs);
        VkPhysicalDeviceMemoryProperties memory{};
        host.of<PFN_vkGetPhysicalDeviceMemoryProperties>("vkGetPhysicalDeviceMemoryProperties")(host.physical, &memory);
        uint32_t type = 0;
        const VkMemoryPropertyFlags wanted = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
        while ((needs.memoryTypeBits >> type & 1) == 0 || (memory.memoryTypes[type].propertyFlags & wanted) != wanted)
            REQUIRE(++type < memory.memoryTypeCount);
        VkMemoryAllocateFlagsInfo flags{};
        flags.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO;
        flags.flags = address ? VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT : 0;
        VkMemoryAllocateInfo allocate{};
        allocate.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
        allocate.pNext = &flags;
        allocate.allocationSize = needs.size;
        allocate.memoryTypeIndex = type;
        REQUIRE(host.of<PFN_vkAllocateMemory>("vkAllocateMemory")(host.device, &allocate, nullptr, &memory_) ==
                VK_SUCCESS);
        REQUIRE(host.of<PFN_vkBindBufferMemory>("vkBindBufferMemory")(host.device, buffer_, memory_, 0) == VK_SUCCESS);
        REQUIRE(host.of<PFN_vkMapMemory>("vkMapMemory")(host.device, memory_, 0, VK_WHOLE_SIZE, 0, &mapped_) ==
                VK_SUCCESS);
        described.struct_size = sizeof described;
        described.usage = usage;
        described.buffer = reinterpret_cast<uint64_t>(buffer_);
        described.bytes = bytes;
        described.queue_family = host.family;
        described.memory_has_address = address ? 1 : 0;
    }
    ~HostBuffer() {
        host_.of<PFN_vkDestroyBuffer>("vkDestroyBuffer")(host_.device, buffer_, nullptr);
        host_.of<PFN_vkFreeMemory>("vkFreeMemory")(host_.device, memory_, nullptr);
    }
    HostBuffer(const HostBuffer&) = delete;
    HostBuffer& operator=(const HostBuffer&) = delete;
    template<class T>
    T* as(uint64_t offset = 0) const {
        return reinterpret_cast<T*>(static_cast<std::byte*>(mapped_) + offset);
    }
    hk_buffer described{};

private:
    Host& host_;
    VkBuffer buffer_ = VK_NULL_HANDLE;
    VkDeviceMemory memory_ = VK_NULL_HANDLE;
    void* mapped_ = nullptr;
};

// Command buffers for the host's own frames, and the timeline of their completion.
class Frames {
public:
    static constexpr int kCount = 4;
    explicit Frames(Host& host) : host_(host) {
        VkCommandPoolCreateInfo pool{};
        pool.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
        pool.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
        pool.queueFamilyIndex = host.family;
        REQUIRE(host.of<PFN_vkCreateCommandPool>("vkCreateCommandPool")(host.device, &pool, nullptr, &pool_) ==
                VK_SUCCESS);
        VkCommandBufferAllocateInfo allocate{};
        allocate.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
        allocate.commandPool = pool_;
        allocate.commandBufferCount = kCount;
        REQUIRE(host.of<PFN_vkAllocateCommandBuffers>("vkAllocateCommandBuffers")(host.device, &allocate,
                                                                                  commands_.data()) == VK_SUCCESS);
        VkSemaphoreTypeCreateInfo type{};
        type.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
        type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
        VkSemaphoreCreateInfo create{};
        create.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
        create.pNext = &type;
        REQUIRE(host.of<PFN_vkCreateSemaphore>("vkCreateSemaphore")(host.device, &create, nullptr, &semaphore_) ==
                VK_SUCCESS);
    }
    ~Frames() {
        host_.of<PFN_vkDeviceWaitIdle>("vkDeviceWaitIdle")(host_.device);
        host_.of<PFN_vkDestroySemaphore>("vkDestroySemaphore")(host_.device, semaphore_, nullptr);
        host_.of<PFN_vkDestroyCommandPool>("vkDestroyCommandPool")(host_.device, pool_, nullptr);
    }
    Frames(const Frames&) = delete;
    Frames& operator=(const Frames&) = delete;

    uint64_t semaphore_bits() const { return reinterpret_cast<uint64_t>(semaphore_); }
    // Waits for the frame's command buffer, and begins it again.
    VkCommandBuffer begin(int frame) const {
        const auto i = static_cast<std::size_t>(frame % kCount);
        if (last_[i] > 0) wait(last_[i]);
        VkCommandBufferBeginInfo begin{};
        begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
        begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
        REQUIRE(host_.of<PFN_vkBeginCommandBuffer>("vkBeginCommandBuffer")(commands_[i], &begin) == VK_SUCCESS);
        return commands_[i];
    }
    // Ends and submits it; it signals the value `signals`, and first waits for `waits` unless that is 0.
    void submit(int frame, uint64_t signals, uint64_t waits = 0) const {
        const auto i = static_cast<std::size_t>(frame % kCount);
        REQUIRE(host_.of<PFN_vkEndCommandBuffer>("vkEndCommandBuffer")(commands_[i]) == VK_SUCCESS);
        VkTimelineSemaphoreSubmitInfo values{};
        values.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
        values.signalSemaphoreValueCount = 1;
        values.pSignalSemaphoreValues = &signals;
        VkSubmitInfo submit{};
        submit.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
        submit.pNext = &values;
        const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
        if (waits > 0) {
            values.waitSemaphoreValueCount = 1;
            values.pWaitSemaphoreValues = &waits;
            submit.waitSemaphoreCount = 1;
            submit.pWaitSemaphores = &semaphore_;
            submit.pWaitDstStageMask = &stage;
        }
        submit.commandBufferCount = 1;
        submit.pCommandBuffers = &commands_[i];
        submit.signalSemaphoreCount = 1;
        submit.pSignalSemaphores = &semaphore_;
        const std::lock_guard guard(host_.queue_mutex);
        REQUIRE(host_.of<PFN_vkQueueSubmit>("vkQueueSubmit")(host_.queue, 1, &submit, VK_NULL_HANDLE) == VK_SUCCESS);
        last_[i] = signals;
    }
    void wait(uint64_t value) const {
        VkSemaphoreWaitInfo info{};
        info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
        info.semaphoreCount = 1;
        info.pSemaphores = &semaphore_;
        info.pValues = &value;
        REQUIRE(host_.of<PFN_vkWaitSemaphores>("vkWaitSemaphores")(host_.device, &info, UINT64_MAX) == VK_SUCCESS);
    }

private:
    Host& host_;
    VkCommandPool pool_ = VK_NULL_HANDLE;
    std::array<VkCommandBuffer, kCount> commands_{};
    mutable std::array<uint64_t, kCount> last_{};
    VkSemaphore semaphore_ = VK_NULL_HANDLE;
};

// An error object for one call.
class Error {
public:
    Error() : error_(hk_error_create()) {}
    ~Error() { hk_error_destroy(error_); }
    Error(const Error&) = delete;
    Error& operator=(const Error&) = delete;
    operator hk_error*() const { return error_; }
    std::string message() const { return text_of(error_); }
    static std::string text_of(const hk_error* error) {
        const hk_string text = hk_error_message(error);
        return {text.data, static_cast<std::size_t>(text.size)};
    }
    bool says(const char* part) const { return message().find(part) != std::string::npos; }

private:
    hk_error* error_;
};

// The hidden states of one row of ids, computed with a fixture's model.
struct Embedding {
    std::vector<float> values;
    std::function<void()> during; // called once during the call
};
inline int32_t embed(hk_context context, const char* model, Embedding& result, hk_error* error = nullptr,
                     bool reference = false) {
    const std::string folder = std::string(HEKLA_SOURCE_DIR) + "/tests/fixtures/models/" + model;
    const std::array<int32_t, 7> ids{3, 1, 4, 1, 5, 9, 2};
    const int32_t* row = ids.data();
    const uint64_t length = ids.size();
    hk_embed_options options;
    hk_embed_defaults(&options);
    options.model = {folder.data(), folder.size()};
    options.pooling = HK_POOLING_NONE;
    options.rows = &row;
    options.row_lengths = &length;
    options.row_count = 1;
    options.reference = reference ? 1 : 0;
    options.user = &result;
    options.row = [](void* user, uint64_t, const float* values, const int64_t* dims, uint32_t rank) -> int32_t {
        auto& to = *static_cast<Embedding*>(user);
        int64_t count = 1;
        for (uint32_t i = 0; i < rank; ++i) count *= dims[i];
        to.values.assign(values, values + count);
        if (to.during) to.during();
        return 0;
    };
    return hk_embed(context, &options, error);
}

} // namespace hekla::test
