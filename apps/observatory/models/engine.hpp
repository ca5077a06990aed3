// Hekla on the app's device: its context, the sessions that share each frame's budget, and the time that they used.
#pragma once

#include "models/hekla_program.hpp"
#include "models/jobs.hpp"
#include "vulkan/device.hpp"
#include "vulkan/target.hpp"

#include <array>
#include <cstddef>
#include <deque>
#include <hekla/hekla.hpp>
#include <mutex>
#include <string>
#include <vector>

namespace observatory {

struct EngineOptions {
    std::vector<std::string> plugin_folders; // empty: Hekla's own
    std::string cache_folder;                // "": no file is written
};

class Engine {
public:
    enum class Kind { training, passes, writing };
    static constexpr std::size_t kKinds = 3;
    static constexpr std::size_t kKept = 600; // frames

    // The costs of one frame, in microseconds.
    struct Cost {
        double budget = 0;
        std::array<double, kKinds> engine{}; // from Hekla's timestamps, for the work that completed in the meantime
        double drawing = 0;                  // from the app's timestamps
        double frame = 0;                    // from the start of one frame to the next
    };

    // Throws a Failure with Hekla's message.
    Engine(Device& device, const EngineOptions& options);
    ~Engine();
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    Device& device() { return device_; }
    hk_context context() const { return context_.c(); }
    hk::Context& cpp_context() { return context_; }
    Jobs& jobs() { return jobs_; }
    const HeklaProgram& program() const { return program_; }

    double budget = 4000; // microseconds per frame, for all sessions together
    // Adds or removes a session that needs frame time. Thread: the drawing thread, between frames.
    void add(hk_session session, Kind kind);
    void remove(hk_session session);
    bool is_working() const { return working_; } // a session prepared or worked in the last frame

    // Records as much work as the frame's budget allows. `commands` null: Hekla submits by itself. Throws if the device
    // is lost.
    void advance(VkCommandBuffer commands, hk_timeline lease);
    void note(double drawing, double frame); // adds the times of the frame that was advanced last
    const std::deque<Cost>& costs() const { return costs_; }

    // Hekla's messages, warnings included, newest last. Thread: any.
    std::vector<std::string> messages() const;

private:
    struct Guest {
        hk_session session{};
        Kind kind{};
        std::array<bool, Target::kFramesInFlight> given{}; // whether the frame in that slot has work of this session
    };
    Device& device_;
    mutable std::mutex mutex_; // guards messages_
    std::deque<std::string> messages_;
    hk::Context context_;
    HeklaProgram program_;
    Jobs jobs_;
    std::vector<Guest> guests_;
    std::size_t first_ = 0; // the session that is advanced first, in rotation
    bool working_ = false;
    Cost now_;
    std::deque<Cost> costs_;
};

} // namespace observatory
