// A benchmark of adapters that rows exchange inside frames:
//
//     adapter_swap_bench MODEL ADAPTER [MICROSECONDS [FRAMES [ROWS]]]
//
// Every row of a generation has a slot of its own, and one more is free. Frames come in groups of 64, by turns without
// swaps and with one every eighth frame: ADAPTER is put into the free slot, and the next row takes it, with its prompt
// and tokens computed again. Frames begin every two budgets, and end when the device has done what hk_session_advance
// submitted. Prints the times of frames and calls, how many frames were over the budget, and what was allocated and
// compiled.
#include <vulkan/vulkan.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <hekla/device.h>
#include <hekla/hekla.hpp>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

std::atomic<long> allocations{0}, pipelines{0};

VKAPI_ATTR VkResult VKAPI_CALL allocate_memory(VkDevice device, const VkMemoryAllocateInfo* info,
                                               const VkAllocationCallbacks* host, VkDeviceMemory* memory) {
    ++allocations;
    return vkAllocateMemory(device, info, host, memory);
}

VKAPI_ATTR VkResult VKAPI_CALL create_pipelines(VkDevice device, VkPipelineCache cache, uint32_t count,
                                                const VkComputePipelineCreateInfo* infos,
                                                const VkAllocationCallbacks* host, VkPipeline* created) {
    pipelines += count;
    return vkCreateComputePipelines(device, cache, count, infos, host, created);
}

PFN_vkVoidFunction counted(const char* name) {
    if (std::strcmp(name, "vkAllocateMemory") == 0) return reinterpret_cast<PFN_vkVoidFunction>(allocate_memory);
    if (std::strcmp(name, "vkCreateComputePipelines") == 0)
        return reinterpret_cast<PFN_vkVoidFunction>(create_pipelines);
    return nullptr;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_proc(VkDevice device, const char* name) {
    const PFN_vkVoidFunction own = counted(name);
    return own != nullptr ? own : vkGetDeviceProcAddr(device, name);
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL instance_proc(VkInstance instance, const char* name) {
    if (std::strcmp(name, "vkGetDeviceProcAddr") == 0) return reinterpret_cast<PFN_vkVoidFunction>(device_proc);
    const PFN_vkVoidFunction own = counted(name);
    return own != nullptr ? own : vkGetInstanceProcAddr(instance, name);
}

void need(bool holds, const char* what, const std::string& why = "") {
    if (holds) return;
    std::fprintf(stderr, "adapter_swap_bench: %s %s\n", what, why.c_str());
    std::exit(1);
}

// A device of the host, and a semaphore that counts its frames.
class Device {
public:
    Device() {
        hk::Error error;
        VkApplicationInfo app{};
        app.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
        app.apiVersion = VK_API_VERSION_1_3;
        VkInstanceCreateInfo of_instance{};
        of_instance.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
        of_instance.pApplicationInfo = &app;
        need(vkCreateInstance(&of_instance, nullptr, &instance_) == VK_SUCCESS, "vkCreateInstance");
        uint32_t one = 1;
        const VkResult listed = vkEnumeratePhysicalDevices(instance_, &one, &physical_);
        need((listed == VK_SUCCESS || listed == VK_INCOMPLETE) && one == 1, "no Vulkan device");
        const auto get = reinterpret_cast<hk_get_instance_proc_addr>(instance_proc);
        const hk_physical_device where{sizeof where, app.apiVersion, get, instance_, physical_};
        hk_device_requirements needs{};
        need(error.take(hk_device_requirements_create(&where, &needs, error.c())), "device", error.message());
        hk_queue_advice advice{};
        advice.struct_size = sizeof advice;
        need(error.take(hk_device_requirements_queue(needs, &advice, error.c())), "queue", error.message());
        const float priorities[] = {1.0F, advice.priority};
        VkDeviceQueueCreateInfo queues{};
        queues.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
        queues.queueFamilyIndex = advice.family;
        queues.queueCount = advice.index + 1;
        queues.pQueuePriorities = priorities;
        VkDeviceCreateInfo info{};
        info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
        info.queueCreateInfoCount = 1;
        info.pQueueCreateInfos = &queues;
        need(error.take(hk_device_requirements_merge(needs, 1, &info, error.c())), "requirements", error.message());
        need(vkCreateDevice(physical_, &info, nullptr, &device_) == VK_SUCCESS, "vkCreateDevice");
        VkQueue queue = VK_NULL_HANDLE;
        vkGetDeviceQueue(device_, advice.family, advice.index, &queue);
        VkSemaphoreTypeCreateInfo type{};
        type.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
        type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
        VkSemaphoreCreateInfo of_semaphore{};
        of_semaphore.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
        of_semaphore.pNext = &type;
        need(vkCreateSemaphore(device_, &of_semaphore, nullptr, &frames_) == VK_SUCCESS, "vkCreateSemaphore");
        hk_vulkan_device wrapped{};
        wrapped.struct_size = sizeof wrapped;
        wrapped.api_version = app.apiVersion;
        wrapped.get_instance_proc_addr = get;
        wrapped.instance = instance_;
        wrapped.physical_device = physical_;
        wrapped.device = device_;
        wrapped.queue = queue;
        wrapped.queue_family = advice.family;
        wrapped.device_create_info = &info;
        hk::ContextOptions options;
        options.vulkan = &wrapped;
        context = hk::Context::create(std::move(options), error);
        need(static_cast<bool>(context), "context", error.message());
        hk_device_requirements_destroy(needs);
        VkPhysicalDeviceProperties properties{};
        vkGetPhysicalDeviceProperties(physical_, &properties);
        name = static_cast<const char*>(properties.deviceName);
    }
    ~Device() {
        { const hk::Context ended = std::move(context); }
        vkDestroySemaphore(device_, frames_, nullptr);
        vkDestroyDevice(device_, nullptr);
        vkDestroyInstance(instance_, nullptr);
    }
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    // Advances the session, and waits until the device has done that. Returns the call's duration in microseconds.
    double frame(const hk::Generation& generation, double budget) {
        hk::Error error;
        const hk_timeline done{reinterpret_cast<uint64_t>(frames_), ++frame_};
        hk_advance how{};
        how.microseconds = budget;
        how.signals = &done;
        how.signal_count = 1;
        const Clock::time_point begin = Clock::now();
        generation.session().advance(how, error);
        const double call = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
        need(!error, "advance", error.message());
        VkSemaphoreWaitInfo wait{};
        wait.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
        wait.semaphoreCount = 1;
        wait.pSemaphores = &frames_;
        wait.pValues = &frame_;
        need(vkWaitSemaphores(device_, &wait, UINT64_MAX) == VK_SUCCESS, "vkWaitSemaphores");
        return call;
    }

    hk::Context context;
    std::string name;

private:
    VkInstance instance_ = VK_NULL_HANDLE;
    VkPhysicalDevice physical_ = VK_NULL_HANDLE;
    VkDevice device_ = VK_NULL_HANDLE;
    VkSemaphore frames_ = VK_NULL_HANDLE;
    uint64_t frame_ = 0;
};

// Prints the distribution of durations in microseconds.
void print(const char* what, std::vector<double> values, double budget) {
    if (values.empty()) return;
    std::sort(values.begin(), values.end());
    const auto at = [&](double share) {
        return values[std::min(values.size() - 1,
                               static_cast<std::size_t>(share * static_cast<double>(values.size())))];
    };
    const auto over = values.end() - std::upper_bound(values.begin(), values.end(), budget);
    std::printf("%-32s %8zu %9.0f %9.0f %9.0f %9.0f %9zu\n", what, values.size(), at(0.5), at(0.95), at(0.99),
                values.back(), static_cast<std::size_t>(over));
}

struct Measured {
    std::vector<double> frames, calls;
    long allocations = 0, pipelines = 0;
};

} // namespace

int main(int argc, char** argv) {
    if (argc < 3 || argc > 6)
        return std::fprintf(stderr, "usage: adapter_swap_bench MODEL ADAPTER [MICROSECONDS [FRAMES [ROWS]]]\n"), 2;
    const std::string model = argv[1], folder = argv[2];
    const double budget = argc > 3 ? std::atof(argv[3]) : 2000.0;
    const long most = argc > 4 ? std::atol(argv[4]) : 2048;
    const std::size_t rows = argc > 5 ? static_cast<std::size_t>(std::atol(argv[5])) : 4;
    hk::Error error;
    Device device;
    const hk::Adapter adapter = device.context.open_adapter(folder, model, error);
    need(static_cast<bool>(adapter), "the adapter:", error.message());
    hk::GenerationOptions options;
    options.model = model;
    options.prompts.assign(rows, "line ");
    options.max_new_tokens = 24;
    options.adapter_slots = static_cast<int32_t>(rows) + 1;
    const hk::Generation generation = device.context.generate(options, error);
    need(static_cast<bool>(generation), "the generation:", error.message());
    const auto usable = [&] {
        need(generation.state() != hk::State::failed,
             "the generation:", std::string(hk::view(generation.session().wait(0).message)));
    };
    for (; generation.state() < hk::State::idle; usable())
        generation.advance(budget, error); // everything was used once

    std::vector<int32_t> slots(rows);
    for (std::size_t row = 0; row < rows; ++row) {
        slots[row] = static_cast<int32_t>(row);
        need(generation.put_adapter(slots[row], adapter, error) && generation.use_slot(row, slots[row], error),
             "a slot:", error.message());
    }
    auto free = static_cast<int32_t>(rows);
    std::size_t next = 0;
    Measured measured[2]; // without and with swaps
    std::vector<double> swaps;
    constexpr long kGroup = 64, kFramesOfASwap = 8;
    const auto period =
        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double, std::micro>(2 * budget));
    Clock::time_point starts = Clock::now();
    for (long frame = 0; frame < most; ++frame) {
        std::this_thread::sleep_until(starts = std::max(starts + period, Clock::now()));
        const bool swapping = frame / kGroup % 2 == 1;
        Measured& of = measured[swapping ? 1 : 0];
        if (generation.state() == hk::State::idle) {
            for (std::size_t row = 0; row < rows; ++row) static_cast<void>(generation.taken(row));
            need(generation.prompt(options.prompts, error), "a prompt:", error.message());
        }
        usable();
        const long allocated = allocations, compiled = pipelines;
        const Clock::time_point begin = Clock::now();
        if (swapping && frame % kFramesOfASwap == 0) {
            need(generation.put_adapter(free, adapter, error) && generation.use_slot(next, free, error),
                 "a swap:", error.message());
            std::swap(slots[next], free);
            next = (next + 1) % rows;
            swaps.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
        }
        of.calls.push_back(device.frame(generation, budget));
        of.frames.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
        of.allocations += allocations - allocated;
        of.pipelines += pipelines - compiled;
    }
    std::printf("%s: %zu rows, %zu slots, a budget of %.0f us\n", device.name.c_str(), rows, rows + 1, budget);
    std::printf("%-32s %8s %9s %9s %9s %9s %9s\n", "microseconds", "count", "p50", "p95", "p99", "most", "over");
    print("a frame without swaps", measured[0].frames, budget);
    print("a frame with swaps", measured[1].frames, budget);
    print("hk_session_advance without swaps", measured[0].calls, budget);
    print("hk_session_advance with swaps", measured[1].calls, budget);
    print("the calls of a swap", swaps, budget);
    std::printf("allocations and pipelines: %ld and %ld without swaps, %ld and %ld with %zu swaps\n",
                measured[0].allocations, measured[0].pipelines, measured[1].allocations, measured[1].pipelines,
                swaps.size());
    return 0;
}
