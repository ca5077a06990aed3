// Hekla on the app's device: its context, the sessions that each frame has time for, and what they took of it.
#pragma once

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
    std::vector<std::string> plugin_folders; // none: Hekla's own
    std::string cache_folder;                // "": no file is written
};

class Engine {
public:
    enum class Kind { training, passes, writing };
    static constexpr std::size_t kKinds = 3;
    static constexpr std::size_t kKept = 600; // frames

    // What one frame took, in microseconds.
    struct Cost {
        double budget = 0;
        std::array<double, kKinds> engine{}; // by Hekla's own timestamps, of the work that ended meanwhile
        double drawing = 0;                  // by the app's
        double frame = 0;                    // from one frame to the next
    };

    // Throws a Failure that says what Hekla said.
    Engine(Device& device, const EngineOptions& options);
    ~Engine();
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    Device& device() { return device_; }
    hk_context context() const { return context_.c(); }
    hk::Context& cpp_context() { return context_; }
    Jobs& jobs() { return jobs_; }

    double budget = 4000; // microseconds of a frame, for all sessions together
    // Sessions that want time. The thread that draws, between frames.
    void add(hk_session session, Kind kind);
    void remove(hk_session session);
    bool is_working() const { return working_; } // some session prepared or worked in the last frame

    // Records what the frame has time for. `commands` null: Hekla submits by itself. Throws where the device is lost.
    void advance(VkCommandBuffer commands, hk_timeline lease);
    void note(double drawing, double frame); // of the frame that was advanced last
    const std::deque<Cost>& costs() const { return costs_; }

    // What Hekla said, warnings and more; the newest last. Thread: any.
    std::vector<std::string> messages() const;

private:
    struct Guest {
        hk_session session{};
        Kind kind{};
        std::array<bool, Target::kFramesInFlight> given{}; // whether the frame of that slot had work of it
    };
    Device& device_;
    mutable std::mutex mutex_; // of messages_
    std::deque<std::string> messages_;
    hk::Context context_;
    Jobs jobs_;
    std::vector<Guest> guests_;
    std::size_t first_ = 0; // whose turn it is to be asked first
    bool working_ = false;
    Cost now_;
    std::deque<Cost> costs_;
};

} // namespace observatory
