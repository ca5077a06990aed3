// The window's layout: the model above, panels as tabs, the frames' strip below; and what a frame does.
#pragma once

#include "arguments.hpp"
#include "models/table.hpp"
#include "observatory.hpp"
#include "panels/frame_strip.hpp"
#include "panels/plan_panel.hpp"
#include "panels/training_panel.hpp"
#include "panels/writing_panel.hpp"
#include "vulkan/frames.hpp"

#include <memory>
#include <vector>

namespace observatory {

class Shell {
public:
    Shell(Device& device, Target& target, Engine& engine, Gui& gui, const Arguments& arguments);
    ~Shell();
    Shell(const Shell&) = delete;
    Shell& operator=(const Shell&) = delete;

    // Lays out, lets Hekla work, draws and presents; without `draws` Hekla works alone. Throws a Failure.
    void frame(bool draws = true);
    // Before it goes: a training ends after its step, with a checkpoint.
    void finish();
    bool is_settled();     // nothing more changes by itself in the panel that is shown
    bool is_idle();        // nor anywhere else
    std::string problem(); // why there is no model, or the panel that is shown has nothing to show; "" where it has

private:
    void layout();
    void draw(VkCommandBuffer commands, VkFramebuffer framebuffer);
    Target& target_;
    Engine& engine_;
    Gui& gui_;
    Frames frames_;
    Controls controls_;
    Observatory app_;
    Table table_;
    std::vector<std::unique_ptr<Panel>> panels_;
    FrameStrip strip_;
    std::size_t shown_ = 0;
    int wanted_ = 0; // panel to be shown from the next frame on; -1: as it is
    std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

} // namespace observatory
