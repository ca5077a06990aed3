#include "gpu/device.hpp"

#include "gpu/driver_advice.hpp"
#include "gpu/enumerate.hpp"
#include "gpu/quirks.hpp"
#include "gpu/result.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <optional>

namespace hekla::gpu {

struct Device::MessageState {
    Log log;
    mutable std::mutex mutex;
    ValidationCounts counts;
};

namespace {

constexpr const char* kValidationLayer = "VK_LAYER_KHRONOS_validation";

VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                          VkDebugUtilsMessageTypeFlagsEXT,
                                          const VkDebugUtilsMessengerCallbackDataEXT* data, void* user) {
    auto* state = static_cast<Device::MessageState*>(user);
    const char* text = data && data->pMessage ? data->pMessage : "(no text)";
    const bool is_error = severity >= VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
    {
        const std::lock_guard guard(state->mutex);
        (is_error ? state->counts.errors : state->counts.warnings) += 1;
        if (state->counts.first.empty()) state->counts.first = text;
    }
    state->log.write(is_error ? Severity::error : Severity::warning, fmt::format("Vulkan validation: {}", text));
    return VK_FALSE;
}

bool has_extension(const std::vector<VkExtensionProperties>& list, std::string_view name) {
    return std::ranges::any_of(list, [&](const VkExtensionProperties& e) { return name == e.extensionName; });
}

std::vector<VkQueueFamilyProperties> queue_families(const Functions& f, VkPhysicalDevice physical) {
    uint32_t count = 0;
    f.vkGetPhysicalDeviceQueueFamilyProperties(physical, &count, nullptr);
    std::vector<VkQueueFamilyProperties> families(count);
    f.vkGetPhysicalDeviceQueueFamilyProperties(physical, &count, families.data());
    families.resize(std::min<std::size_t>(count, families.size()));
    return families;
}

// Clears features of extensions that are newer than the validation layer, which reports every use of them as an error.
void leave_unknown_to(uint32_t layer_version, Features& features) {
    if (layer_version < VK_MAKE_API_VERSION(0, 1, 3, 255)) features.cooperative_matrix = false;
    if (layer_version < VK_MAKE_API_VERSION(0, 1, 4, 311))
        features.bfloat16 = features.bfloat16_dot_product = features.bfloat16_cooperative_matrix = false;
    if (layer_version < VK_MAKE_API_VERSION(0, 1, 4, 304))
        features.matrix_reductions = features.matrix_conversions = features.matrix_element_operations =
            features.matrix_workgroup_scope = features.matrix_flexible_dimensions = features.matrix_tensor_addressing =
                false;
}

struct Candidate {
    VkPhysicalDevice physical = VK_NULL_HANDLE;
    DeviceInfo info;
    Features features;
    uint32_t queue_family = 0;
};

Result<Candidate> candidate_of(const Functions& f, VkPhysicalDevice physical, uint32_t index,
                               uint32_t instance_version) {
    Candidate candidate;
    candidate.physical = physical;
    PhysicalDevice snapshot;
    VkPhysicalDeviceProperties properties{};
    f.vkGetPhysicalDeviceProperties(physical, &properties);
    snapshot.name.assign(properties.deviceName, strnlen(properties.deviceName, sizeof properties.deviceName));
    snapshot.api_version = properties.apiVersion;
    if (properties.apiVersion >= VK_API_VERSION_1_2) { // an older driver does not support the following
        snapshot.queue_families = queue_families(f, physical);
        candidate.queue_family = compute_family(snapshot.queue_families).value_or(0);
        const uint32_t version = std::min(properties.apiVersion, instance_version);
        HK_ASSIGN(candidate.features, supported_features(f, physical, version));
        HK_ASSIGN(const Capabilities capabilities,
                  query_capabilities(f, physical, candidate.queue_family, candidate.features, version));
        snapshot.driver = capabilities.driver_name + " " + capabilities.driver_info;
        snapshot.type = capabilities.type;
        snapshot.memory_bytes = capabilities.device_memory_bytes;
        snapshot.uuid = capabilities.device_uuid;
        snapshot.missing = missing_baseline(candidate.features);
        std::ranges::move(missing_capabilities(capabilities), std::back_inserter(snapshot.missing));
    }
    candidate.info = describe_device(snapshot, index);
    return candidate;
}

Result<std::vector<Candidate>> candidates(const Functions& f, VkInstance instance, uint32_t instance_version) {
    HK_ASSIGN(const std::vector<VkPhysicalDevice> physicals,
              enumerate<VkPhysicalDevice>("vkEnumeratePhysicalDevices", [&](uint32_t* count, VkPhysicalDevice* to) {
                  return f.vkEnumeratePhysicalDevices(instance, count, to);
              }));
    std::vector<Candidate> list;
    for (VkPhysicalDevice physical : physicals) {
        HK_ASSIGN(Candidate candidate, candidate_of(f, physical, static_cast<uint32_t>(list.size()), instance_version));
        list.push_back(std::move(candidate));
    }
    return list;
}

std::vector<DeviceInfo> infos_of(const std::vector<Candidate>& candidates) {
    std::vector<DeviceInfo> infos;
    for (const Candidate& candidate : candidates) infos.push_back(candidate.info);
    return infos;
}

// Returns whether kernel_statistics() has the spilled registers of this driver's reports.
bool reports_spills(const Functions& functions, VkPhysicalDevice physical) {
    VkPhysicalDeviceDriverProperties driver{};
    driver.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES;
    VkPhysicalDeviceProperties2 properties{};
    properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    properties.pNext = &driver;
    functions.vkGetPhysicalDeviceProperties2(physical, &properties);
    constexpr VkDriverId kNvk = static_cast<VkDriverId>(24), kHoneykrisp = static_cast<VkDriverId>(26);
    return driver.driverID == VK_DRIVER_ID_MESA_RADV || driver.driverID == VK_DRIVER_ID_INTEL_OPEN_SOURCE_MESA ||
           driver.driverID == VK_DRIVER_ID_MESA_TURNIP || driver.driverID == kNvk || driver.driverID == kHoneykrisp;
}

} // namespace

Result<DeviceRequirements> query_requirements(PFN_vkGetInstanceProcAddr get_instance_proc_addr, VkInstance instance,
                                              VkPhysicalDevice physical_device, uint32_t instance_version) {
    Functions f;
    f.vkGetInstanceProcAddr = get_instance_proc_addr;
    if (!get_instance_proc_addr) return invalid_argument("no vkGetInstanceProcAddr was given");
    HK_TRY(f.load_instance(instance));
    VkPhysicalDeviceProperties properties{};
    f.vkGetPhysicalDeviceProperties(physical_device, &properties);
    DeviceRequirements requirements;
    requirements.api_version = version_in_use(properties.apiVersion, instance_version);
    if (requirements.api_version < VK_API_VERSION_1_2)
        return unsupported(fmt::format(
            "{} with this instance has Vulkan {}.{}, expected 1.3, or 1.2 with VK_KHR_synchronization2: set "
            "VkApplicationInfo::apiVersion to VK_API_VERSION_1_3, or use another device",
            properties.deviceName, VK_API_VERSION_MAJOR(requirements.api_version),
            VK_API_VERSION_MINOR(requirements.api_version)));
    HK_ASSIGN(const Features supported, supported_features(f, physical_device, requirements.api_version));
    if (const auto missing = missing_baseline(supported); !missing.empty())
        return unsupported(fmt::format("{} lacks {}", properties.deviceName, fmt::join(missing, ", ")));
    for (const Requirement& r : all_requirements()) requirements.required.*r.feature = r.required;
    requirements.useful = supported;
    requirements.queue = advise_queue(queue_families(f, physical_device));
    return requirements;
}

Status Device::create_instance(const DeviceOptions& options) {
    log_ = options.log;
    callbacks_ = options.callbacks;
    table_callbacks_ = options.table_callbacks;
    host_memory_ = options.host_memory;
    validation_ = options.validation;
    owned_ = true;
    PFN_vkGetInstanceProcAddr get = options.get_instance_proc_addr;
    if (!get) {
        HK_ASSIGN(loader_, Loader::open());
        get = loader_->get_instance_proc_addr();
    }
    HK_TRY(functions_.load_global(get));
    uint32_t version = VK_API_VERSION_1_0;
    if (functions_.vkEnumerateInstanceVersion)
        HK_TRY(to_status(functions_.vkEnumerateInstanceVersion(&version), "vkEnumerateInstanceVersion"));
    if (version < VK_API_VERSION_1_2)
        return unsupported(
            fmt::format("the Vulkan loader is version {}.{}, expected 1.2 or newer: install a newer libvulkan1",
                        VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version)));
    api_version_ = std::min<uint32_t>(VK_API_VERSION_1_3, version);

    const auto extensions_of = [&](const char* layer) {
        return enumerate<VkExtensionProperties>(
            "vkEnumerateInstanceExtensionProperties", [&](uint32_t* count, VkExtensionProperties* to) {
                return functions_.vkEnumerateInstanceExtensionProperties(layer, count, to);
            });
    };
    HK_ASSIGN(const std::vector<VkExtensionProperties> available, extensions_of(nullptr));
    std::vector<const char*> extensions;
    std::vector<const char*> layers;
    VkInstanceCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
    if (has_extension(available, VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME)) {
        extensions.push_back(VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME);
        create.flags |= VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR;
    }

    VkValidationFeaturesEXT validation{};
    validation.sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT;
    constexpr VkValidationFeatureEnableEXT kSynchronization[] = {
        VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT};
    constexpr VkValidationFeatureEnableEXT kAssisted[] = {
        VK_VALIDATION_FEATURE_ENABLE_GPU_ASSISTED_EXT,
        VK_VALIDATION_FEATURE_ENABLE_GPU_ASSISTED_RESERVE_BINDING_SLOT_EXT};
    if (options.validation != Validation::off) {
        HK_ASSIGN(const std::vector<VkLayerProperties> known,
                  enumerate<VkLayerProperties>("vkEnumerateInstanceLayerProperties",
                                               [&](uint32_t* count, VkLayerProperties* to) {
                                                   return functions_.vkEnumerateInstanceLayerProperties(count, to);
                                               }));
        if (std::ranges::none_of(
                known, [](const VkLayerProperties& l) { return std::string_view(l.layerName) == kValidationLayer; })) {
            return not_found(fmt::format("validation was asked for and {} is not installed: install "
                                         "vulkan-validationlayers, or turn validation off",
                                         kValidationLayer));
        }
        HK_ASSIGN(const std::vector<VkExtensionProperties> of_layer, extensions_of(kValidationLayer));
        for (const VkLayerProperties& layer : known)
            if (std::string_view(layer.layerName) == kValidationLayer) validation_version_ = layer.specVersion;
        layers.push_back(kValidationLayer);
        if (has_extension(available, VK_EXT_DEBUG_UTILS_EXTENSION_NAME) ||
            has_extension(of_layer, VK_EXT_DEBUG_UTILS_EXTENSION_NAME))
            extensions.push_back(VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
        if (!has_extension(of_layer, VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME))
            return unsupported(fmt::format("{} is too old: it lacks VK_EXT_validation_features", kValidationLayer));
        extensions.push_back(VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME);
        if (options.validation == Validation::gpu_assisted) {
            validation.enabledValidationFeatureCount = std::size(kAssisted);
            validation.pEnabledValidationFeatures = kAssisted;
        } else {
            validation.enabledValidationFeatureCount = std::size(kSynchronization);
            validation.pEnabledValidationFeatures = kSynchronization;
        }
        create.pNext = &validation;
    }

    VkApplicationInfo application{};
    application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
    application.pApplicationName = options.application_name.c_str();
    application.pEngineName = "hekla";
    application.apiVersion = api_version_;
    create.pApplicationInfo = &application;
    create.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
    create.ppEnabledExtensionNames = extensions.data();
    create.enabledLayerCount = static_cast<uint32_t>(layers.size());
    create.ppEnabledLayerNames = layers.data();
    const VkResult created = functions_.vkCreateInstance(&create, callbacks(), &instance_);
    if (created == VK_ERROR_INCOMPATIBLE_DRIVER) // what the loader returns where it finds no driver
        return not_found(fmt::format("there is no Vulkan driver ({}): {}", result_name(created), driver_advice()));
    HK_TRY(to_status(created, "vkCreateInstance"));
    Status loaded = functions_.load_instance(instance_);
    if (!loaded.ok()) {
        // Without vkDestroyInstance the instance leaks; with it, the destructor destroys the instance.
        if (!functions_.vkDestroyInstance) instance_ = VK_NULL_HANDLE;
        return loaded;
    }
    if (!layers.empty() && functions_.vkCreateDebugUtilsMessengerEXT && functions_.vkDestroyDebugUtilsMessengerEXT) {
        messages_ = std::make_unique<MessageState>();
        messages_->log = log_;
        VkDebugUtilsMessengerCreateInfoEXT messenger{};
        messenger.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT;
        messenger.messageSeverity =
            VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
        messenger.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_GENERAL_BIT_EXT |
                                VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT |
                                VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT;
        messenger.pfnUserCallback = on_message;
        messenger.pUserData = messages_.get();
        HK_TRY(to_status(functions_.vkCreateDebugUtilsMessengerEXT(instance_, &messenger, callbacks(), &messenger_),
                         "vkCreateDebugUtilsMessengerEXT"));
    }
    return {};
}

Status Device::create_device(const DeviceOptions& options) {
    HK_ASSIGN(const std::vector<Candidate> list, candidates(functions_, instance_, api_version_));
    HK_ASSIGN(const std::size_t index, choose_device(infos_of(list), options.select));
    const Candidate* chosen = &list[index];
    physical_ = chosen->physical;
    queue_family_ = chosen->queue_family;
    api_version_ = std::min(api_version_, chosen->info.api_version);
    features_ = chosen->features;
    if (validation_ != Validation::off) leave_unknown_to(validation_version_, features_);
    lack_of_another_ = options.select.empty() && chosen->info.type == DeviceType::cpu;

    std::vector<const char*> extensions = required_extensions(features_, api_version_);
    HK_ASSIGN(const std::vector<VkExtensionProperties> available, device_extensions(functions_, physical_));
    // Must be enabled if a device has it (MoltenVK).
    if (has_extension(available, "VK_KHR_portability_subset")) extensions.push_back("VK_KHR_portability_subset");

    FeatureChain chain(features_);
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR reports{};
    if ((options.compiler_reports || reports_spills(functions_, physical_)) &&
        has_extension(available, VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME)) {
        extensions.push_back(VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME);
        reports.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR;
        reports.pNext = chain.first()->pNext;
        reports.pipelineExecutableInfo = VK_TRUE;
        chain.first()->pNext = &reports;
        compiler_reports_ = true;
    }
    const float priority = 1.0F;
    VkDeviceQueueCreateInfo queue{};
    queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
    queue.queueFamilyIndex = queue_family_;
    queue.queueCount = 1;
    queue.pQueuePriorities = &priority;
    VkDeviceCreateInfo create{};
    create.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
    create.pNext = chain.first();
    create.queueCreateInfoCount = 1;
    create.pQueueCreateInfos = &queue;
    create.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
    create.ppEnabledExtensionNames = extensions.data();
    HK_TRY(to_status(functions_.vkCreateDevice(physical_, &create, callbacks(), &device_),
                     fmt::format("vkCreateDevice ({})", chosen->info.name)));
    // Load vkDestroyDevice first, so that the device can be destroyed even if something is missing afterwards.
    functions_.vkDestroyDevice =
        reinterpret_cast<PFN_vkDestroyDevice>(functions_.vkGetDeviceProcAddr(device_, "vkDestroyDevice"));
    HK_TRY(functions_.load_device(device_, api_version_));
    functions_.vkGetDeviceQueue(device_, queue_family_, 0, &queue_);
    return {};
}

Status Device::finish(const DeviceOptions& options) {
    // The loader has these functions only for an instance with the extension. Names in our own instance are used only
    // with validation.
    const Functions& f = functions_;
    const bool enabled =
        owned_ ? messages_ != nullptr : f.vkGetInstanceProcAddr(instance_, "vkCmdBeginDebugUtilsLabelEXT") != nullptr;
    labels_ = enabled && f.vkSetDebugUtilsObjectNameEXT != nullptr && f.vkCmdBeginDebugUtilsLabelEXT != nullptr &&
              f.vkCmdEndDebugUtilsLabelEXT != nullptr;
    HK_ASSIGN(capabilities_, query_capabilities(functions_, physical_, queue_family_, features_, api_version_));
    if (options.use_quirks) {
        HK_ASSIGN(const std::vector<Quirk> quirks, built_in_quirks());
        HK_TRY(apply_quirks(capabilities_, quirks));
    }
    return apply_overrides(capabilities_, options.overrides);
}

Result<std::shared_ptr<Device>> Device::create_own(const DeviceOptions& options) {
    auto device = std::shared_ptr<Device>(new Device);
    HK_TRY(device->create_instance(options));
    HK_TRY(device->create_device(options));
    HK_TRY(device->finish(options));
    return device;
}

Result<std::shared_ptr<Device>> Device::wrap(const WrappedDevice& wrapped, const DeviceOptions& options) {
    if (!wrapped.get_instance_proc_addr || !wrapped.instance || !wrapped.physical_device || !wrapped.device ||
        !wrapped.queue || !wrapped.created_with)
        return invalid_argument("a wrapped device needs vkGetInstanceProcAddr, instance, physical device, device, "
                                "queue and the VkDeviceCreateInfo that it was created with");
    if (wrapped.created_with->sType != VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO)
        return invalid_argument(fmt::format("the VkDeviceCreateInfo of a wrapped device has sType {}, expected {}",
                                            static_cast<int32_t>(wrapped.created_with->sType),
                                            static_cast<int32_t>(VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO)));
    if (static_cast<bool>(wrapped.lock_queue) != static_cast<bool>(wrapped.unlock_queue))
        return invalid_argument("lock_queue and unlock_queue: both or neither");
    auto device = std::shared_ptr<Device>(new Device);
    device->log_ = options.log;
    device->callbacks_ = options.callbacks;
    device->table_callbacks_ = options.table_callbacks;
    device->host_memory_ = options.host_memory;
    device->functions_.vkGetInstanceProcAddr = wrapped.get_instance_proc_addr;
    HK_TRY(device->functions_.load_instance(wrapped.instance));
    VkPhysicalDeviceProperties properties{};
    device->functions_.vkGetPhysicalDeviceProperties(wrapped.physical_device, &properties);
    device->api_version_ = version_in_use(properties.apiVersion, wrapped.api_version);
    if (device->api_version_ < VK_API_VERSION_1_2)
        return unsupported(fmt::format("a wrapped device needs Vulkan 1.2 or newer, this one has {}.{}: set "
                                       "VkApplicationInfo::apiVersion to VK_API_VERSION_1_3",
                                       VK_API_VERSION_MAJOR(device->api_version_),
                                       VK_API_VERSION_MINOR(device->api_version_)));
    device->features_ = enabled_features(*wrapped.created_with, device->api_version_);
    std::string missing;
    for (const Requirement& r : all_requirements())
        if (r.required && !(device->features_.*r.feature))
            missing += fmt::format("\n  {} ({})", how_to_enable(r, device->api_version_), r.why);
    if (!missing.empty())
        return failed_precondition("the host's device was created without required features:" + missing);
    const std::vector<VkQueueFamilyProperties> families = queue_families(device->functions_, wrapped.physical_device);
    if (wrapped.queue_family >= families.size() || !(families[wrapped.queue_family].queueFlags & VK_QUEUE_COMPUTE_BIT))
        return invalid_argument(
            fmt::format("queue family {} of {} has no VK_QUEUE_COMPUTE_BIT: give a queue of a family "
                        "that has it",
                        wrapped.queue_family, properties.deviceName));
    device->instance_ = wrapped.instance;
    device->physical_ = wrapped.physical_device;
    device->device_ = wrapped.device;
    device->queue_ = wrapped.queue;
    device->queue_family_ = wrapped.queue_family;
    device->lock_queue_ = wrapped.lock_queue;
    device->unlock_queue_ = wrapped.unlock_queue;
    HK_TRY(device->functions_.load_device(wrapped.device, device->api_version_));
    HK_TRY(device->finish(options));
    return device;
}

Device::~Device() {
    if (!owned_) return;
    if (device_) {
        if (functions_.vkDeviceWaitIdle) functions_.vkDeviceWaitIdle(device_);
        if (functions_.vkDestroyDevice) functions_.vkDestroyDevice(device_, callbacks());
    }
    if (messenger_) functions_.vkDestroyDebugUtilsMessengerEXT(instance_, messenger_, callbacks());
    if (instance_) functions_.vkDestroyInstance(instance_, callbacks());
}

Status Device::alive() const {
    if (!lost()) return {};
    const std::lock_guard guard(lost_mutex_);
    return {Code::device_lost, lost_report_};
}

Status Device::check(VkResult result, std::string_view what) const {
    if (result >= 0) return {};
    if (result != VK_ERROR_DEVICE_LOST) return to_status(result, what);
    {
        const std::lock_guard guard(lost_mutex_);
        if (lost_report_.empty()) {
            lost_report_ = fmt::format(
                "the Vulkan device {} ({} {}) was lost in {}: its driver stopped it (work that took too long, a fault "
                "in a shader, a reset, or the card was removed). Destroy this context and create a new one",
                capabilities_.device_name, capabilities_.driver_name, capabilities_.driver_info, what);
            log_.debug(lost_report_); // every call returns it from now on, so the caller reports it
        }
    }
    lost_.store(true, std::memory_order_release);
    return alive();
}

Status Device::wait_idle() const {
    if (!owned_) return {};
    HK_TRY(alive());
    return with_queue([&](VkQueue) { return check(functions_.vkDeviceWaitIdle(device_), "vkDeviceWaitIdle"); });
}

ValidationCounts Device::validation_counts() const {
    if (!messages_) return {};
    const std::lock_guard guard(messages_->mutex);
    return messages_->counts;
}

void Device::set_name(VkObjectType type, uint64_t object, std::string_view name) const {
    if (!labels_) return;
    const std::string text(name);
    VkDebugUtilsObjectNameInfoEXT info{};
    info.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT;
    info.objectType = type;
    info.objectHandle = object;
    info.pObjectName = text.c_str();
    functions_.vkSetDebugUtilsObjectNameEXT(device_, &info); // only a label, so errors are ignored
}

Result<std::vector<DeviceInfo>> Device::list(const DeviceOptions& options) {
    auto device = std::shared_ptr<Device>(new Device);
    HK_TRY(device->create_instance(options));
    HK_ASSIGN(const std::vector<Candidate> found,
              candidates(device->functions_, device->instance_, device->api_version_));
    return infos_of(found);
}

} // namespace hekla::gpu
