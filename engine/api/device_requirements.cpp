// Implementation of hekla/device.h: what a host must enable for Hekla.
#include "api/arguments.hpp"
#include "api/boundary.hpp"
#include "api/handles.hpp"
#include "gpu/device.hpp"

namespace hekla::api {
namespace {

class DeviceNeeds {
public:
    static constexpr uint64_t kHandleKind = 2;
    explicit DeviceNeeds(gpu::DeviceRequirements found) : requirements(found) {}
    gpu::DeviceRequirements requirements;
    gpu::FeatureMerge merge;
};

const char* costs(gpu::QueueAdvice::Kind kind) {
    switch (kind) {
    case gpu::QueueAdvice::Kind::async:
        return "runs in parallel with the app's drawing, and shares bandwidth and compute units with it";
    case gpu::QueueAdvice::Kind::second:
        return "the driver may run it in parallel with the app's queue, or alternate between them";
    case gpu::QueueAdvice::Kind::shared: break;
    }
    return "a frame waits for work that was submitted before it: set lock callbacks and use small budgets";
}

} // namespace
} // namespace hekla::api

using namespace hekla;
using api::DeviceNeeds;
using api::guarded;
using api::Handles;

extern "C" {

int32_t hk_device_requirements_create(const hk_physical_device* physical, hk_device_requirements* out,
                                      hk_error* error) {
    return guarded(error, [&]() -> Status {
        HK_TRY(api::check(physical));
        if (out == nullptr) return invalid_argument("out is null");
        HK_ASSIGN(gpu::DeviceRequirements found,
                  gpu::query_requirements(reinterpret_cast<PFN_vkGetInstanceProcAddr>(physical->get_instance_proc_addr),
                                          static_cast<VkInstance>(physical->instance),
                                          static_cast<VkPhysicalDevice>(physical->physical_device),
                                          physical->api_version));
        out->id = Handles<DeviceNeeds>::all().add(std::make_shared<DeviceNeeds>(found));
        return {};
    });
}

void hk_device_requirements_destroy(hk_device_requirements requirements) {
    Handles<DeviceNeeds>::all().remove(requirements.id);
}

uint64_t hk_device_requirements_count(hk_device_requirements requirements) {
    return Handles<DeviceNeeds>::all().find(requirements.id, "").ok() ? gpu::all_requirements().size() : 0;
}

int32_t hk_device_requirements_get(hk_device_requirements requirements, uint64_t index, hk_device_requirement* out,
                                   hk_error* error) {
    return guarded(error, [&]() -> Status {
        HK_ASSIGN(const std::shared_ptr<DeviceNeeds> needs,
                  Handles<DeviceNeeds>::all().find(requirements.id, "requirements"));
        HK_TRY(api::complete(out, "hk_device_requirement"));
        const std::span<const gpu::Requirement> all = gpu::all_requirements();
        if (index >= all.size())
            return invalid_argument(fmt::format("index is {}, expected 0 to {}", index, all.size() - 1));
        const gpu::Requirement& r = all[static_cast<std::size_t>(index)];
        const bool extension = gpu::needs_extension(r, needs->requirements.api_version);
        *out = {out->struct_size,
                r.required ? 1 : 0,
                needs->requirements.useful.*r.feature ? 1 : 0,
                0,
                r.field,
                r.structure,
                r.wide_structure,
                extension ? r.extension : "",
                r.why};
        return {};
    });
}

int32_t hk_device_requirements_queue(hk_device_requirements requirements, hk_queue_advice* out, hk_error* error) {
    return guarded(error, [&]() -> Status {
        HK_ASSIGN(const std::shared_ptr<DeviceNeeds> needs,
                  Handles<DeviceNeeds>::all().find(requirements.id, "requirements"));
        HK_TRY(api::complete(out, "hk_queue_advice"));
        const gpu::QueueAdvice& q = needs->requirements.queue;
        *out = {out->struct_size, static_cast<int32_t>(q.kind), q.family, q.index, q.priority, 0, api::costs(q.kind)};
        return {};
    });
}

int32_t hk_device_requirements_merge(hk_device_requirements requirements, int32_t optional, void* device_create_info,
                                     hk_error* error) {
    return guarded(error, [&]() -> Status {
        HK_ASSIGN(const std::shared_ptr<DeviceNeeds> needs,
                  Handles<DeviceNeeds>::all().find(requirements.id, "requirements"));
        auto* info = static_cast<VkDeviceCreateInfo*>(device_create_info);
        if (info == nullptr || info->sType != VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO)
            return invalid_argument("device_create_info is null or has another sType, expected a VkDeviceCreateInfo");
        const gpu::DeviceRequirements& r = needs->requirements;
        needs->merge.apply(optional != 0 ? r.useful : r.required, r.api_version, *info);
        return {};
    });
}

} // extern "C"
