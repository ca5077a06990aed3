// observatory: looks into models and trainings. See README.md.
#include "arguments.hpp"
#include "failure.hpp"
#include "image_target.hpp"
#include "png.hpp"
#include "shell.hpp"
#include "window_target.hpp"

#include <chrono>
#include <cstdio>
#include <optional>
#include <thread>

#define GLFW_INCLUDE_NONE
#include <GLFW/glfw3.h>

namespace observatory {
namespace {

using Clock = std::chrono::steady_clock;

// Frames until nothing more changes by itself, and some for what they show of it.
void run_headless(Device& device, Engine& engine, const Arguments& arguments) {
    constexpr int kStill = 12;
    ImageTarget target(device, {static_cast<uint32_t>(arguments.width), static_cast<uint32_t>(arguments.height)});
    Gui gui(device, target, nullptr, arguments.font, static_cast<float>(arguments.scale));
    Shell shell(device, target, engine, gui, arguments);
    const auto begin = Clock::now();
    for (int still = 0; still < kStill;) {
        shell.frame();
        still = shell.is_settled() ? still + 1 : 0;
        if (std::chrono::duration<double>(Clock::now() - begin).count() > arguments.seconds) break;
    }
    write_png(arguments.screenshot, target.extent(), target.pixels());
}

void run_window(Device& device, Engine& engine, const Window& window, const Arguments& arguments) {
    constexpr auto kShortest = std::chrono::microseconds(1'000'000 / 61);
    WindowTarget target(device, window);
    Gui gui(device, target, &window, arguments.font, static_cast<float>(arguments.scale));
    Shell shell(device, target, engine, gui, arguments);
    while (!window.is_closing()) {
        const auto begin = Clock::now();
        glfwPollEvents();
        shell.frame();
        std::this_thread::sleep_until(begin + kShortest); // where presenting does not wait
    }
}

int run(const Arguments& arguments) {
    std::optional<Window> window;
    if (!arguments.headless) window.emplace(arguments.width, arguments.height, "Hekla Observatory");
    uint64_t said = 0;
    {
        Device device({arguments.device, arguments.validate, window ? &*window : nullptr});
        {
            Engine engine(device, {arguments.plugin_path, arguments.cache});
            if (window)
                run_window(device, engine, *window, arguments);
            else
                run_headless(device, engine, arguments);
        }
        said = device.validation_messages();
    }
    if (said > 0)
        std::fprintf(stderr, "observatory: the validation layer said %llu things\n",
                     static_cast<unsigned long long>(said));
    return said > 0 ? 1 : 0;
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
