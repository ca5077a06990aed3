#include "api/context.hpp"

#include "api/arguments.hpp"
#include "api/boundary.hpp"
#include "api/capture.hpp"
#include "api/handles.hpp"
#include "api/host_allocator.hpp"
#include "hekla/capture.h"
#include "program/runtime.hpp"
#include "program/runtime_source.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>

namespace hekla::api {
namespace {

// Converts what a host passes without Vulkan's types.
gpu::WrappedDevice wrapped_from(const hk_vulkan_device& v, const std::shared_ptr<HostFunctions>& functions) {
    using QueueLock = HostFunctions::QueueLock;
    gpu::WrappedDevice wrapped;
    wrapped.get_instance_proc_addr = reinterpret_cast<PFN_vkGetInstanceProcAddr>(v.get_instance_proc_addr);
    wrapped.instance = static_cast<VkInstance>(v.instance);
    wrapped.physical_device = static_cast<VkPhysicalDevice>(v.physical_device);
    wrapped.device = static_cast<VkDevice>(v.device);
    wrapped.queue = static_cast<VkQueue>(v.queue);
    wrapped.queue_family = v.queue_family;
    wrapped.api_version = v.api_version;
    wrapped.created_with = static_cast<const VkDeviceCreateInfo*>(v.device_create_info);
    functions->queue.replace({.user = v.user, .lock = v.lock_queue, .unlock = v.unlock_queue});
    if (v.lock_queue != nullptr)
        wrapped.lock_queue = [functions] { functions->queue.call([](const QueueLock& q) { q.lock(q.user); }); };
    if (v.unlock_queue != nullptr)
        wrapped.unlock_queue = [functions] { functions->queue.call([](const QueueLock& q) { q.unlock(q.user); }); };
    return wrapped;
}

class HostCache final : public Cache {
public:
    explicit HostCache(std::shared_ptr<HostFunctions> host) : host_(std::move(host)) {}
    Result<std::optional<std::string>> load(const std::string& name) override {
        struct Taken {
            std::optional<std::string> content;
            bool failed = false;
        } taken;
        const auto take = [](void* to, const void* bytes, uint64_t size) {
            auto& into = *static_cast<Taken*>(to);
            try { // nothing may be thrown through the host
                into.content.emplace(static_cast<const char*>(bytes), static_cast<std::size_t>(size));
            } catch (...) { into.failed = true; }
        };
        host_->cache.call([&](const hk_cache& host) { host.load(host.user, view(name), &taken, take); });
        if (taken.failed) return out_of_memory(fmt::format("for the cache's entry {}", name));
        return std::move(taken.content);
    }
    Status store(const std::string& name, std::string_view content) override {
        host_->cache.call(
            [&](const hk_cache& host) { host.store(host.user, view(name), content.data(), content.size()); });
        return {};
    }

private:
    std::shared_ptr<HostFunctions> host_;
};

Result<std::shared_ptr<Cache>> cache_of(const hk_context_options& o, const std::shared_ptr<HostFunctions>& functions) {
    if (o.cache == nullptr) return folder_cache(string_of(o.cache_folder));
    functions->cache.replace(*o.cache);
    return std::shared_ptr<Cache>(std::make_shared<HostCache>(functions));
}

// Returns null if the host has no allocator.
Result<std::shared_ptr<HostAllocator>> allocator_of(const hk_context_options& o,
                                                    const std::shared_ptr<HostFunctions>& functions) {
    if (o.allocator == nullptr) return std::shared_ptr<HostAllocator>();
    functions->allocator.replace(*o.allocator);
    return std::make_shared<HostAllocator>(functions);
}

plugin::Processes processes_of(const hk_context_options& o) {
    plugin::Processes processes;
    processes.describe = static_cast<plugin::Processes::Describe>(o.describe);
    processes.program = string_of(o.describe_program);
    if (o.describe_seconds > 0.0) processes.seconds = o.describe_seconds;
    if (o.describe_memory > 0)
        processes.memory_bytes = o.describe_memory == std::numeric_limits<uint64_t>::max() ? 0 : o.describe_memory;
    processes.isolate = o.isolate_plugins != 0;
    processes.disable_failing = true;
    return processes;
}

std::vector<gpu::MemoryRange> ranges_of(const hk_vulkan_device& v) {
    std::vector<gpu::MemoryRange> ranges;
    for (uint64_t i = 0; i < v.memory_range_count; ++i) {
        const hk_memory_range& given = v.memory_ranges[i];
        gpu::MemoryRange range;
        static_assert(sizeof range.memory == sizeof given.memory);
        std::memcpy(&range.memory, &given.memory, sizeof range.memory);
        range.type = given.memory_type;
        range.offset = given.offset;
        range.bytes = given.bytes;
        range.mapped = static_cast<std::byte*>(given.mapped);
        ranges.push_back(range);
    }
    return ranges;
}

Result<gpu::Context> device_of(const hk_context_options& options, std::shared_ptr<Cache> cache,
                               const std::shared_ptr<HostFunctions>& functions,
                               const std::shared_ptr<HostAllocator>& allocator, const Log& log) {
    gpu::ContextOptions gpu;
    gpu.device.log = log;
    gpu.device.select = string_of(options.device);
    gpu.device.validation = static_cast<gpu::Validation>(options.validation);
    if (allocator != nullptr) {
        gpu.device.callbacks = allocator->callbacks();
        gpu.device.table_callbacks = allocator->unfailing_callbacks();
        gpu.device.host_memory = allocator;
    }
    gpu.cache = std::move(cache);
    gpu.memory.cap_bytes = options.memory_cap;
    if (options.device_kind != HK_DEVICE_WRAPPED) return gpu::create_context(gpu);
    static_assert(sizeof gpu.pipeline_cache == sizeof options.vulkan->pipeline_cache);
    std::memcpy(&gpu.pipeline_cache, &options.vulkan->pipeline_cache, sizeof gpu.pipeline_cache);
    gpu.memory.ranges = ranges_of(*options.vulkan);
    HK_ASSIGN(std::shared_ptr<gpu::Device> device,
              gpu::Device::wrap(wrapped_from(*options.vulkan, functions), gpu.device));
    return gpu::create_context(std::move(device), gpu);
}

} // namespace

Result<std::shared_ptr<Context>> Context::create(const hk_context_options& options) {
    std::shared_ptr<Context> context(new Context);
    context->gives_jobs_ = options.job != nullptr;
    context->own_threads_ = options.no_threads == 0 && !context->gives_jobs_;
    const std::shared_ptr<HostFunctions> functions = context->functions_;
    functions->messages.replace({.user = options.user, .log = options.log, .job = options.job});
    if (options.log != nullptr)
        context->log_ = Log([functions](Severity severity, std::string_view message) {
            functions->messages.call([&](const HostFunctions::Messages& host) {
                host.log(host.user, static_cast<int32_t>(severity), view(message));
            });
        });
    HK_ASSIGN(const std::shared_ptr<HostAllocator> allocator, allocator_of(options, functions));
    context->host_memory_ = allocator;
    std::vector<std::filesystem::path> folders;
    for (const std::string& folder : texts(options.plugin_folders, options.plugin_folder_count))
        folders.emplace_back(folder);
    context->registry_ = plugin::Registry::scan(
        folders, context->log_, allocator != nullptr ? allocator.get() : std::pmr::new_delete_resource());
    for (const std::string_view warning : context->registry_.warnings()) context->log_.warning(warning);
    context->registry_.set_processes(processes_of(options));
    if (options.plugin_call != nullptr)
        context->registry_.set_call_observer(
            [call = options.plugin_call, user = options.user](const plugin::Manifest& manifest,
                                                              std::string_view function, bool entered) {
                call(user, view(manifest.plugin), view(manifest.library), view(function), entered ? 1 : 0);
            });
    if (options.device_kind == HK_DEVICE_NONE) return context;
    HK_ASSIGN(const std::shared_ptr<Cache> cache, cache_of(options, functions));
    context->create_ = [self = context.get(), options, select = string_of(options.device), cache, functions,
                        allocator]() -> Status {
        hk_context_options own = options; // other pointers in it may be invalid by then
        own.device = view(select);
        HK_ASSIGN(gpu::Context device, device_of(own, cache, functions, allocator, self->log_));
        program::RuntimeOptions runtime;
        runtime.measure_kernels = static_cast<program::Measure>(own.measure_kernels);
        runtime.cache = cache;
        return self->set_runtime(std::move(device), runtime);
    };
    if (options.device_kind != HK_DEVICE_ON_DEMAND) HK_TRY(context->create_device());
    return context;
}

Status Context::set_runtime(gpu::Context device, const program::RuntimeOptions& options) {
    const std::string name = device.capabilities().device_name;
    if (device.device->chosen_for_lack_of_another())
        log_.info(fmt::format("no GPU found; computing on the CPU ({})", name));
    HK_ASSIGN(std::unique_ptr<program::Runtime> runtime, program::Runtime::create(std::move(device), options));
    const std::lock_guard guard(mutex_);
    if (!create_) return failed_precondition("the context's device is being released");
    create_ = nullptr;
    device_name_ = name;
    runtime_ = std::move(runtime);
    has_device_ = true;
    return {};
}

Status Context::create_device() {
    const std::lock_guard creating(creating_);
    std::function<Status()> create;
    {
        const std::lock_guard guard(mutex_);
        create = create_;
    }
    return create ? create() : Status();
}

std::string_view Context::device_name() const {
    const std::lock_guard guard(mutex_);
    return device_name_;
}

Result<Context::Call> Context::begin(hk_context handle) {
    HK_ASSIGN(std::shared_ptr<Context> context, Handles<Context>::all().find(handle.id, "context"));
    const std::lock_guard guard(context->mutex_);
    HK_TRY(context->open());
    if (context->busy_)
        return failed_precondition("another call runs on this context: one at a time, and none from its callbacks");
    if (context->stopping() && context->runtime_ != nullptr)
        return failed_precondition("the context's device is being released: hk_device_release again, or destroy it");
    context->busy_ = true;
    context->busy_thread_ = std::this_thread::get_id();
    return Call(std::move(context));
}

Context::Call::~Call() {
    if (context_ == nullptr) return;
    program::Runtime* runtime = nullptr; // stays while the call lasts
    {
        const std::lock_guard guard(context_->mutex_); // a session may be creating it
        runtime = context_->runtime_.get();
    }
    if (runtime != nullptr) context_->keep_caches(*runtime);
    {
        const std::lock_guard guard(context_->mutex_);
        context_->busy_ = false;
    }
    context_->ended_.notify_all();
}

Result<program::Runtime*> Context::Call::runtime() const {
    HK_TRY(context_->create_device());
    return context_->runtime();
}

program::RuntimeSource Context::Call::device() const {
    std::pmr::memory_resource* const own = context_->host_memory_.get();
    return {[this] { return runtime(); }, own != nullptr ? own : std::pmr::new_delete_resource()};
}

Result<program::Runtime*> Context::runtime() const {
    if (runtime_ != nullptr) return runtime_.get();
    return failed_precondition(has_device_ ? "the context's device was released: make another context"
                                           : "the context was made without a device (HK_DEVICE_NONE)");
}

Status Context::open() const { return closed_ ? failed_precondition("the context is being destroyed") : Status(); }

Result<Context::Device> Context::device() {
    HK_TRY(create_device());
    const std::lock_guard guard(mutex_);
    HK_TRY(open());
    HK_ASSIGN(const program::Runtime* runtime, this->runtime());
    if (stopping()) return failed_precondition("the context's device is being released");
    return Device{runtime->gpu(), runtime->options()};
}

void Context::keep_caches(program::Runtime& runtime) const {
    if (const Status kept = runtime.save_caches(); !kept.ok() && kept.code() != Code::device_lost)
        log_.warning("compiled kernels were not cached: " + kept.message());
}

Status Context::add(const std::shared_ptr<Client>& client, const std::function<void()>& begin) {
    const std::lock_guard guard(mutex_);
    HK_TRY(open());
    HK_TRY(runtime().status());
    if (stopping()) return failed_precondition("the context's device is being released");
    std::erase_if(clients_, [](const auto& one) { return one.expired(); });
    clients_.push_back(client);
    begin();
    return {};
}

void Context::give_job(void(HK_ABI* run)(void* data), void* data) const {
    functions_->messages.call([&](const HostFunctions::Messages& host) { host.job(host.user, run, data); });
}

Status Context::begin_capture(const std::string& path) {
    std::shared_ptr<Capture> capture;
    if (!path.empty()) {
        const nlohmann::ordered_json first{
            {"hekla", HEKLA_VERSION}, {"device", device_name()}, {"threads", own_threads_}, {"jobs", gives_jobs()}};
        HK_ASSIGN(capture, Capture::begin(path, first, log_));
    }
    const std::lock_guard guard(capture_mutex_);
    captured_ = capture != nullptr;
    capture_ = std::move(capture);
    return {};
}

std::shared_ptr<Capture> Context::capture() const {
    if (!captured_) return nullptr;
    const std::lock_guard guard(capture_mutex_);
    return capture_;
}

Status Context::replace(const hk_context_callbacks& callbacks) {
    const auto as_made = [](const char* name, bool made_with, bool given) -> Status {
        if (made_with == given) return {};
        return invalid_argument(fmt::format("hk_context_callbacks.{} {}", name,
                                            made_with ? "is null, but the context was made with one"
                                                      : "is set, but the context was made without one"));
    };
    const HostFunctions::Messages messages = functions_->messages.get();
    const HostFunctions::QueueLock queue = functions_->queue.get();
    HK_TRY(as_made("log", messages.log != nullptr, callbacks.log != nullptr));
    HK_TRY(as_made("job", messages.job != nullptr, callbacks.job != nullptr));
    HK_TRY(as_made("cache", functions_->cache.get().load != nullptr, callbacks.cache != nullptr));
    HK_TRY(as_made("allocator", functions_->allocator.get().allocate != nullptr, callbacks.allocator != nullptr));
    HK_TRY(as_made("lock_queue", queue.lock != nullptr, callbacks.lock_queue != nullptr));
    HK_TRY(as_made("unlock_queue", queue.unlock != nullptr, callbacks.unlock_queue != nullptr));
    {
        const std::lock_guard guard(mutex_);
        const bool inside = (busy_ && busy_thread_ == std::this_thread::get_id()) ||
                            std::ranges::any_of(clients(), [](const auto& client) { return client->on_own_thread(); });
        if (inside) return failed_precondition("a callback cannot replace the callbacks: it would wait for itself");
    }
    functions_->messages.replace({.user = callbacks.user, .log = callbacks.log, .job = callbacks.job});
    functions_->queue.replace(
        {.user = callbacks.queue_user, .lock = callbacks.lock_queue, .unlock = callbacks.unlock_queue});
    if (callbacks.cache != nullptr) functions_->cache.replace(*callbacks.cache);
    if (callbacks.allocator != nullptr) functions_->allocator.replace(*callbacks.allocator);
    return {};
}

std::vector<std::shared_ptr<Context::Client>> Context::clients() const {
    std::vector<std::shared_ptr<Client>> clients;
    for (const auto& one : clients_)
        if (std::shared_ptr<Client> client = one.lock()) clients.push_back(std::move(client));
    return clients;
}

Result<Context::Pumped> Context::pump(std::chrono::nanoseconds time) {
    if (gives_jobs())
        return failed_precondition("the context's sessions run as jobs of the host (hk_context_options.job)");
    if (own_threads_) return failed_precondition("the context has threads: make it with no_threads");
    const auto until = std::chrono::steady_clock::now() + time;
    std::vector<std::shared_ptr<Client>> clients;
    {
        const std::lock_guard guard(mutex_);
        clients = this->clients();
    }
    for (const auto& client : clients)
        if (client->on_own_thread()) return failed_precondition("a callback of a session cannot pump its context");
    Pumped pumped;
    do {
        pumped = {};
        for (const auto& client : clients) {
            const ResumeResult result = client->resume();
            if (result != ResumeResult::ended) ++pumped.clients;
            if (result == ResumeResult::waits_for_host) ++pumped.waiting;
        }
    } while (pumped.waiting < pumped.clients && std::chrono::steady_clock::now() < until);
    return pumped;
}

Result<bool> Context::release(std::chrono::nanoseconds time) {
    const auto until = std::chrono::steady_clock::now() + time;
    std::unique_lock lock(mutex_);
    stopping_.store(true, std::memory_order_relaxed);
    if (create_) { // not created yet: nothing to release, and nothing will be created
        create_ = nullptr;
        has_device_ = true;
    }
    std::vector<std::shared_ptr<Client>> clients = this->clients();
    for (const auto& client : clients)
        if (client->on_own_thread())
            return failed_precondition("a callback of a session cannot release its context's device: the session was "
                                       "told to end; release it when it has");
    lock.unlock();
    for (const auto& client : clients)
        if (!client->shut_down(until)) return false;
    clients.clear();
    lock.lock();
    if (busy_ && busy_thread_ == std::this_thread::get_id())
        return failed_precondition(
            "a callback of a call on this context cannot release its device: the call was told to "
            "end; release it when it has");
    if (!ended_.wait_until(lock, until, [&] { return !busy_; })) return false;
    if (runtime_ != nullptr) device_ = runtime_->gpu().device->presence();
    runtime_.reset(); // waits for pending work
    stopping_.store(false, std::memory_order_relaxed);
    lock.unlock();
    // Calls on sessions that are being created, advanced or destroyed on other threads may hold it a little longer.
    while (!device_.expired()) {
        if (std::chrono::steady_clock::now() >= until) return false;
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    return true;
}

Status Context::close() {
    {
        const std::lock_guard guard(mutex_);
        closed_ = true;
    }
    HK_ASSIGN(const bool released, release(std::chrono::hours(24)));
    if (released) registry_ = plugin::Registry::scan({});
    return {};
}

} // namespace hekla::api

using hekla::Status;
using hekla::api::Context;
using hekla::api::guarded;
using hekla::api::Handles;

extern "C" {

hk_string hk_version(void) { return hekla::api::view(HEKLA_VERSION); }

hk_string hk_plugin_folder(void) {
    try {
        static const std::string& kFolder = *new std::string(hekla::plugin::built_in_folder().string());
        return hekla::api::view(kFolder);
    } catch (...) { return {"", 0}; }
}

int32_t hk_context_create(const hk_context_options* options, hk_context* out, hk_error* error) {
    return guarded(error, [&]() -> Status {
        HK_TRY(hekla::api::check(options));
        if (out == nullptr) return hekla::invalid_argument("out is null");
        HK_ASSIGN(std::shared_ptr<Context> context, Context::create(*options));
        out->id = Handles<Context>::all().add(std::move(context));
        return {};
    });
}

void hk_context_destroy(hk_context context) {
    guarded(nullptr, [&]() -> Status {
        const std::shared_ptr<Context> gone = Handles<Context>::all().remove(context.id);
        // Tells everything that runs to end; it keeps the context alive until then.
        return gone != nullptr ? gone->close() : Status();
    });
}

int32_t hk_context_replace_callbacks(hk_context context, const hk_context_callbacks* callbacks, hk_error* error) {
    return guarded(error, [&]() -> Status {
        HK_TRY(hekla::api::check(callbacks));
        HK_ASSIGN(const std::shared_ptr<Context> found, Handles<Context>::all().find(context.id, "context"));
        return found->replace(*callbacks);
    });
}

hk_string hk_context_device(hk_context context) {
    hk_string name{"", 0};
    guarded(nullptr, [&]() -> Status {
        HK_ASSIGN(const std::shared_ptr<Context> found, Handles<Context>::all().find(context.id, "context"));
        name = hekla::api::view(found->device_name());
        return {};
    });
    return name;
}

int32_t hk_capture(hk_context context, hk_string path, hk_error* error) {
    return guarded(error, [&]() -> Status {
        HK_ASSIGN(const std::shared_ptr<Context> found, Handles<Context>::all().find(context.id, "context"));
        return found->begin_capture(hekla::api::string_of(path));
    });
}

int32_t hk_device_release(hk_context context, uint64_t nanoseconds, hk_error* error) {
    return guarded(error, [&]() -> Status {
        HK_ASSIGN(const std::shared_ptr<Context> found, Handles<Context>::all().find(context.id, "context"));
        HK_ASSIGN(const bool released, found->release(hekla::api::nanoseconds_of(nanoseconds)));
        if (released) return {};
        return {hekla::Code::cancelled,
                "the device is still in use by a call on another thread, which was told to stop: call "
                "hk_device_release again"};
    });
}

} // extern "C"
