// A Vulkan device and one of its compute queues, owned or borrowed from a host. Contains the function table, the
// capabilities and the sticky "lost" state. Everything else in gpu/ holds a shared_ptr to it, so it is destroyed last.
#pragma once

#include "base/log.hpp"
#include "gpu/capabilities.hpp"
#include "gpu/device_selection.hpp"
#include "gpu/functions.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace hekla::gpu {

enum class Validation : int32_t {
    off = 0,
    // VK_LAYER_KHRONOS_validation with synchronization validation. Extensions newer than the layer are not used.
    on = 1,
    // Instruments shaders: finds addresses out of bounds. Slow, without synchronization validation, and every wait is
    // for all submitted work of the queue.
    gpu_assisted = 2,
};

struct DeviceOptions {
    Log log;
    PFN_vkGetInstanceProcAddr get_instance_proc_addr = nullptr; // null: the system's loader
    // Empty: the best device (discrete, integrated, virtual, other, CPU; more memory first among equals). Otherwise an
    // index of list(), or a part of one device's name, ignoring case.
    std::string select;
    Validation validation = Validation::off; // an error if the layer is not installed
    CapabilityOverrides overrides;
    bool use_quirks = true;
    // The context's pipelines keep what the driver's compiler reports about them (compiler_report.hpp), if the driver
    // can.
    bool compiler_reports = false;
    // Vulkan's host allocation callbacks; none: Vulkan's default.
    std::optional<VkAllocationCallbacks> callbacks = {};
    // Callbacks for tables whose allocation must not fail: never null.
    std::optional<VkAllocationCallbacks> table_callbacks = {};
    // The memory resource for large buffers on the host: inputs and contents of device memory. Thread: any. Null: the
    // default.
    std::shared_ptr<std::pmr::memory_resource> host_memory = {};
    std::string application_name = "hekla";
};

// A device of the host's. Every handle stays the host's and must outlive what is made here.
struct WrappedDevice {
    PFN_vkGetInstanceProcAddr get_instance_proc_addr = nullptr; // required
    VkInstance instance = VK_NULL_HANDLE;
    VkPhysicalDevice physical_device = VK_NULL_HANDLE;
    VkDevice device = VK_NULL_HANDLE;
    VkQueue queue = VK_NULL_HANDLE;
    uint32_t queue_family = 0;
    uint32_t api_version = 0; // that the instance was created for: the lower of this and the device's own is used
    const VkDeviceCreateInfo* created_with = nullptr; // required: what the host *enabled*; only read by wrap()
    // Called around every use of the queue, if the host uses it from other threads. May be empty.
    std::function<void()> lock_queue;
    std::function<void()> unlock_queue;
};

// Features that a host must enable on a physical device for Device::wrap, and those that are useful.
struct DeviceRequirements {
    Features required;
    Features useful;          // required, and every optional feature that the device has
    uint32_t api_version = 0; // at which the device would be used
    QueueAdvice queue;
};
// instance_version: the version that the instance was created for; 0: the device's own. unsupported names what the
// device lacks.
Result<DeviceRequirements> query_requirements(PFN_vkGetInstanceProcAddr get_instance_proc_addr, VkInstance instance,
                                              VkPhysicalDevice physical_device, uint32_t instance_version = 0);

// Messages of the validation layer.
struct ValidationCounts {
    uint64_t errors = 0;
    uint64_t warnings = 0;
    std::string first; // the first error or warning
};

class Device {
public:
    // Returns every physical device that the loader reports, in its order. An empty list is not an error.
    static Result<std::vector<DeviceInfo>> list(const DeviceOptions& options = {});
    static Result<std::shared_ptr<Device>> create_own(const DeviceOptions& options = {});
    static Result<std::shared_ptr<Device>> wrap(const WrappedDevice& wrapped, const DeviceOptions& options = {});
    // Waits for the device, then destroys owned objects. Never called while commands are being recorded.
    ~Device();
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    const Functions& functions() const { return functions_; }
    const Capabilities& capabilities() const { return capabilities_; }
    const Features& features() const { return features_; }
    const Log& log() const { return log_; }
    VkInstance instance() const { return instance_; }
    VkPhysicalDevice physical() const { return physical_; }
    VkDevice handle() const { return device_; }
    uint32_t api_version() const { return api_version_; }
    uint32_t queue_family() const { return queue_family_; }
    bool owned() const { return owned_; }
    // For every function that creates or destroys an object; null without DeviceOptions::callbacks.
    const VkAllocationCallbacks* callbacks() const { return callbacks_ ? &*callbacks_ : nullptr; }
    const VkAllocationCallbacks* table_callbacks() const { return table_callbacks_ ? &*table_callbacks_ : nullptr; }
    // Returns DeviceOptions::host_memory, valid as long as the device.
    std::pmr::memory_resource* host_memory() const {
        return host_memory_ ? host_memory_.get() : std::pmr::new_delete_resource();
    }
    // Returns whether this is a CPU that was chosen because there is no GPU.
    bool chosen_for_lack_of_another() const { return lack_of_another_; }

    // Returns ok, or the sticky error of a lost device with its report. Thread: any.
    Status alive() const;
    bool lost() const { return lost_.load(std::memory_order_acquire); }
    // Like to_status, and remembers a lost device: after VK_ERROR_DEVICE_LOST every alive() fails. Thread: any.
    Status check(VkResult result, std::string_view what) const;

    // Returns whether VK_KHR_pipeline_executable_properties is enabled: on an own device that has it, if
    // DeviceOptions::compiler_reports, or if its driver is known to report spilled registers.
    bool compiler_reports() const { return compiler_reports_; }

    // Calls f with the queue locked (by our lock, and the host's if it has one).
    template<class F>
    auto with_queue(F&& use) const {
        const std::lock_guard guard(queue_mutex_);
        const HostLock host(*this);
        return use(queue_);
    }
    // Calls vkDeviceWaitIdle on an own device (on a wrapped one only the host may, so does nothing).
    Status wait_idle() const;

    ValidationCounts validation_counts() const;
    Validation validation() const { return validation_; }
    // Returns whether names and labels are used: VK_EXT_debug_utils is enabled, by the host or for our validation
    // layer.
    bool labels() const { return labels_; }
    // Sets a name for validation messages and captures. Does nothing without labels().
    void set_name(VkObjectType type, uint64_t object, std::string_view name) const;

    // Expires when the device is destroyed.
    std::weak_ptr<const void> presence() const { return presence_; }

    struct MessageState; // written by the validation layer's callback

private:
    struct HostLock {
        explicit HostLock(const Device& d) : device(d) {
            if (device.lock_queue_) device.lock_queue_();
        }
        ~HostLock() {
            if (device.unlock_queue_) device.unlock_queue_();
        }
        HostLock(const HostLock&) = delete;
        HostLock& operator=(const HostLock&) = delete;
        const Device& device;
    };

    Device() = default;
    Status create_instance(const DeviceOptions& options);
    Status create_device(const DeviceOptions& options);
    Status finish(const DeviceOptions& options);

    // Destroyed last.
    std::shared_ptr<const std::monostate> presence_ = std::make_shared<const std::monostate>();
    Log log_;
    std::optional<VkAllocationCallbacks> callbacks_, table_callbacks_;
    std::shared_ptr<std::pmr::memory_resource> host_memory_;
    std::shared_ptr<Loader> loader_;
    Functions functions_;
    Features features_;
    Capabilities capabilities_;
    std::unique_ptr<MessageState> messages_;
    VkInstance instance_ = VK_NULL_HANDLE;
    VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
    VkPhysicalDevice physical_ = VK_NULL_HANDLE;
    VkDevice device_ = VK_NULL_HANDLE;
    VkQueue queue_ = VK_NULL_HANDLE;
    uint32_t queue_family_ = 0;
    uint32_t api_version_ = 0;
    Validation validation_ = Validation::off;
    uint32_t validation_version_ = 0; // of Vulkan, that the layer knows
    bool owned_ = false;
    bool labels_ = false;
    bool lack_of_another_ = false;
    bool compiler_reports_ = false;
    std::function<void()> lock_queue_;
    std::function<void()> unlock_queue_;
    mutable std::mutex queue_mutex_;
    mutable std::atomic<bool> lost_{false};
    mutable std::mutex lost_mutex_;
    mutable std::string lost_report_;
};

} // namespace hekla::gpu
