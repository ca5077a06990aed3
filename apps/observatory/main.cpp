// The program observatory: displays models and trainings. See README.md.
#include "arguments.hpp"
#include "base/interrupts.hpp"
#include "failure.hpp"
#include "shell.hpp"
#include "vulkan/image_target.hpp"
#include "vulkan/png.hpp"
#include "vulkan/window_target.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <thread>

#define GLFW_INCLUDE_NONE
#include <GLFW/glfw3.h>

namespace observatory {
namespace {

using Clock = std::chrono::steady_clock;

// Runs frames until nothing more changes, then writes the screenshot.
void run_headless(Device& device, Engine& engine, const Arguments& arguments) {
    constexpr int kStill = 6;
    constexpr uint64_t kDrawnEvery = 16; // until the screenshot, only every n-th frame is drawn
    ImageTarget target(device, {static_cast<uint32_t>(arguments.width), static_cast<uint32_t>(arguments.height)});
    Gui gui(device, target, nullptr, arguments.font, static_cast<float>(arguments.scale));
    Shell shell(device, target, engine, gui, arguments);
    const auto begin = Clock::now();
    bool late = false;
    for (uint64_t frame = 0, still = 0; still < kStill; ++frame) {
        shell.frame(still > 0 || frame % kDrawnEvery < 3);
        late = late || hekla::interrupted() ||
               std::chrono::duration<double>(Clock::now() - begin).count() > arguments.seconds;
        still = shell.is_settled() || late ? still + 1 : 0;
    }
    write_png(arguments.screenshot, target.extent(), target.pixels());
    if (const std::string problem = shell.problem(); !problem.empty()) throw Failure(problem);
}

void run_window(Device& device, Engine& engine, const Window& window, const Arguments& arguments) {
    constexpr auto kShortest = std::chrono::microseconds(1'000'000 / 61);
    WindowTarget target(device, window);
    Gui gui(device, target, &window, arguments.font, static_cast<float>(arguments.scale));
    Shell shell(device, target, engine, gui, arguments);
    constexpr double kIdleSeconds = 0.2; // without an event, the interval between frames that check for changes
    constexpr int kAwake = 3;            // frames drawn after an event
    for (int awake = kAwake; !window.is_closing() && !hekla::interrupted();) {
        auto begin = Clock::now();
        if (awake > 0) {
            glfwPollEvents();
        } else {
            glfwWaitEventsTimeout(kIdleSeconds);
            if (std::chrono::duration<double>(Clock::now() - begin).count() < kIdleSeconds * 0.95) awake = kAwake;
            begin = Clock::now();
        }
        shell.frame();
        awake = shell.is_idle() ? std::max(awake - 1, 0) : kAwake;
        std::this_thread::sleep_until(begin + kShortest); // if presenting does not wait
    }
    shell.finish();
}

int run(const Arguments& arguments) {
    hekla::watch_interrupts(nullptr); // a signal has the same effect as closing the window
    hekla::leave_interrupts_to_another();
    std::optional<Window> window;
    if (!arguments.headless) window.emplace(arguments.width, arguments.height, "Hekla Observatory");
    uint64_t messages = 0;
    {
        Device device({arguments.device, arguments.validate, window ? &*window : nullptr});
        {
            Engine engine(device, {arguments.plugin_path, arguments.cache});
            if (window)
                run_window(device, engine, *window, arguments);
            else
                run_headless(device, engine, arguments);
        }
        messages = device.validation_messages();
    }
    if (messages > 0)
        std::fprintf(stderr, "observatory: %llu validation messages\n", static_cast<unsigned long long>(messages));
    return messages > 0 ? 1 : 0;
}

} // namespace
} // namespace observatory

int main(int argc, char** argv) {
    observatory::Arguments arguments;
    int exit_code = 0;
    if (!observatory::read_arguments(argc, argv, arguments, exit_code)) return exit_code;
    try {
        return observatory::run(arguments);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "observatory: %s\n", error.what());
        return 1;
    }
}
