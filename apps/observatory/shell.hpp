// The window's layout, with the model at the top, panels as tabs and the frame strip at the bottom, and the work of
// each frame.
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

    // Lays out, lets Hekla work, draws and presents; if `draws` is false, only lets Hekla work. Throws a Failure.
    void frame(bool draws = true);
    // Called before destruction: stops a training after its current step, with a checkpoint.
    void finish();
    bool is_settled();     // the displayed panel does not change any more without input
    bool is_idle();        // neither does anything else
    std::string problem(); // why the model, or the content of the current panel, is missing; "" if neither is

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
    int wanted_ = 0; // the panel to show from the next frame on; -1: no change
    std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

} // namespace observatory
