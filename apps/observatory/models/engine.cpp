#include "models/engine.hpp"

#include "failure.hpp"

#include <algorithm>
#include <hekla/plugin/log.h>

namespace observatory {
namespace {

constexpr uint64_t kDay = uint64_t{86'400} * 1'000'000'000;
constexpr std::size_t kMessages = 200;

} // namespace

Engine::Engine(Device& device, const EngineOptions& options) : device_(device), program_(options.plugin_folders) {
    hk::ContextOptions c;
    c.plugin_folders = options.plugin_folders;
    c.cache_folder = options.cache_folder;
    c.vulkan = &device.wrapped();
    c.log = [this](int32_t severity, std::string_view message) {
        if (severity < HK_LOG_WARNING) return;
        const std::lock_guard guard(mutex_);
        messages_.emplace_back(message);
        if (messages_.size() > kMessages) messages_.pop_front();
    };
    hk::Error error;
    context_ = hk::Context::create(std::move(c), error);
    if (error) throw Failure(error.message());
}

Engine::~Engine() {
    hk::Error error;
    context_.release_device(kDay, error); // asks calls on the jobs thread to stop
}

void Engine::add(hk_session session, Kind kind) { guests_.push_back({session, kind, {}}); }

void Engine::remove(hk_session session) {
    std::erase_if(guests_, [&](const Guest& guest) { return guest.session.id == session.id; });
}

void Engine::advance(VkCommandBuffer commands, hk_timeline lease) {
    now_ = Cost{};
    now_.budget = budget;
    working_ = !jobs_.is_idle();
    double left = budget;
    ++first_;
    for (std::size_t i = 0; i < guests_.size(); ++i) {
        Guest& guest = guests_[(first_ + i) % guests_.size()];
        hk_session_info info{};
        info.struct_size = sizeof info;
        if (hk_session_wait(guest.session, 0, &info, nullptr) != HK_OK) continue;
        working_ = working_ || info.state == HK_SESSION_PREPARING || info.state == HK_SESSION_WORKING;
        const bool works = info.state == HK_SESSION_WORKING;
        // The last frame in this slot has completed, so its time is the newest measurement.
        bool& given_before = guest.given[lease.value % guest.given.size()];
        if (!works && !given_before) continue;
        hk_advance given{};
        given.struct_size = sizeof given;
        given.microseconds = works ? std::max(left, 0.0) : 0.0; // 0: only reads the measured time
        given.command_buffer = commands;
        if (commands != VK_NULL_HANDLE) given.lease = lease;
        hk_advanced out{};
        out.struct_size = sizeof out;
        hk::Error error;
        if (!error.take(hk_session_advance(guest.session, &given, &out, error.c()))) {
            if (error.code() == HK_DEVICE_LOST) throw Failure(error.message());
            continue; // it failed; its owner displays the reason
        }
        if (given_before) now_.engine[static_cast<std::size_t>(guest.kind)] += out.measured;
        given_before = out.pieces > 0;
        left -= out.expected;
    }
}

void Engine::note(double drawing, double frame) {
    now_.drawing = drawing;
    now_.frame = frame;
    costs_.push_back(now_);
    if (costs_.size() > kKept) costs_.pop_front();
}

std::vector<std::string> Engine::messages() const {
    const std::lock_guard guard(mutex_);
    return {messages_.begin(), messages_.end()};
}

} // namespace observatory
