#include "arguments.hpp"

#include <CLI/CLI.hpp>
#include <set>

namespace observatory {

bool read_arguments(int argc, char** argv, Arguments& a, int& exit_code) {
    CLI::App app{"A window into models and trainings, with Hekla inside of it.", "observatory"};
    app.add_option("MODEL", a.model, "a run's folder, a checkpoint's, or a Hugging Face model's, to look at");
    const std::set<std::string> panels(std::begin(kPanelNames), std::end(kPanelNames));
    app.add_option("--panel", a.panel, "the panel that is shown first")->check(CLI::IsMember(panels));
    app.add_option("--text", a.text, "what attention and lens are of");
    app.add_option("--recipe", a.recipe, "a recipe for the panels training and plan");
    app.add_option("--override", a.overrides, "keys of the recipe, with spaces between: \"train.max_steps=100\"");
    app.add_flag("--train", a.train, "begin the recipe's training")->needs("--recipe");
    app.add_flag("--plan", a.plan, "work the recipe's plan out")->needs("--recipe");
    app.add_flag("--write", a.write, "let the model write");
    app.add_option("--log", a.log, "a run's folder, or its train_log.jsonl, of a training in any process");
    app.add_option("--budget", a.budget, "microseconds of each frame's device time for Hekla")
        ->check(CLI::Range(1.0, 1e7));
    app.add_option("--device", a.device, "a Vulkan device: its index, or a part of its name");
    app.add_option("--plugin-path", a.plugin_path, "folders to look for plugins in, instead of Hekla's own");
    app.add_option("--cache", a.cache, "a folder for compiled kernels; without it no file is written");
    app.add_option("--font", a.font, "a TrueType font for the window");
    app.add_option("--scale", a.scale, "of everything in the window")->check(CLI::Range(0.5, 4.0));
    app.add_option("--width", a.width, "of the window, in pixels")->check(CLI::Range(640, 8192));
    app.add_option("--height", a.height, "of the window, in pixels")->check(CLI::Range(480, 8192));
    auto* screenshot =
        app.add_option("--screenshot", a.screenshot,
                       "a PNG file: the window as it is when nothing more comes by itself, then the end");
    app.add_flag("--headless", a.headless, "no window: an image on the device")->needs(screenshot);
    screenshot->needs("--headless");
    app.add_option("--seconds", a.seconds, "with --headless: the screenshot is taken then at the latest");
    app.add_flag("--validate", a.validate, "Vulkan's validation layer: what it says goes to stderr, exit status 1");
    app.add_option("--controls", a.controls,
                   "a file that is kept up to date with where everything in the window is, for scripts");
    app.footer("\nExamples:\n  observatory out/quickstart --panel attention --text '#include <vector>'\n"
               "  observatory --recipe apps/recipes/quickstart.toml --train\n"
               "  observatory --log out/quickstart\n"
               "  observatory out/quickstart --panel lens --headless --screenshot lens.png");
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        exit_code = app.exit(error) == 0 ? 0 : 2;
        return false;
    }
    return true;
}

} // namespace observatory
