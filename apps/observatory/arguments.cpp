#include "arguments.hpp"

#include <CLI/CLI.hpp>
#include <set>

namespace observatory {

bool read_arguments(int argc, char** argv, Arguments& a, int& exit_code) {
    CLI::App app{"A window into models and trainings.", "observatory"};
    app.add_option("MODEL", a.model, "a model: a run's folder, a checkpoint, or a Hugging Face folder");
    const std::set<std::string> panels(std::begin(kPanelNames), std::end(kPanelNames));
    app.add_option("--panel", a.panel, "the panel to show first")->check(CLI::IsMember(panels));
    app.add_option("--text", a.text, "the text for the panels attention, lens and routing, and the prompt of adapters");
    app.add_option("--adapter", a.adapters,
                   "NAME=FOLDER or NAME=FOLDER:SCALE: an adapter of the model, for the panel adapters");
    app.add_option("--use", a.use,
                   "what the panel adapters writes with: base, mix, the name of an adapter, or compare (default)");
    app.add_option("--recipe", a.recipe, "a recipe for the panels training and plan");
    app.add_option("--override", a.overrides, "keys of the recipe, with spaces between: \"train.max_steps=100\"");
    app.add_flag("--train", a.train, "start the recipe's training")->needs("--recipe");
    app.add_flag("--plan", a.plan, "compute the recipe's plan")->needs("--recipe");
    app.add_flag("--write", a.write, "start generating text, in the panel adapters if it is the one that is shown");
    app.add_option("--log", a.log, "show the log of a training in any process: a run's folder, or its train_log.jsonl");
    app.add_option("--budget", a.budget, "device time for Hekla in each frame, in microseconds")
        ->check(CLI::Range(1.0, 1e7));
    app.add_option("--device", a.device, "a Vulkan device: its index, or a part of its name");
    app.add_option("--plugin-path", a.plugin_path, "folders to look for plugins in, instead of Hekla's own");
    app.add_option("--cache", a.cache, "a folder for compiled kernels; without it no file is written");
    app.add_option("--font", a.font, "a TrueType font for the window");
    app.add_option("--scale", a.scale, "scale of everything in the window")->check(CLI::Range(0.5, 4.0));
    app.add_option("--width", a.width, "size of the window, in pixels")->check(CLI::Range(640, 8192));
    app.add_option("--height", a.height, "size of the window, in pixels")->check(CLI::Range(480, 8192));
    auto* screenshot =
        app.add_option("--screenshot", a.screenshot, "write the window as PNG when nothing more changes, then exit");
    app.add_flag("--headless", a.headless, "draw to an image, without a window")->needs(screenshot);
    screenshot->needs("--headless");
    app.add_option("--seconds", a.seconds, "with --headless: take the screenshot after at most this many seconds");
    app.add_flag("--validate", a.validate,
                 "enable Vulkan's validation layer; its messages are printed on stderr, and the exit status is 1");
    app.add_option("--controls", a.controls,
                   "keep a file up to date with the position of everything in the window, for scripts");
    app.footer("\nExamples:\n  observatory out/quickstart --panel attention --text '#include <vector>'\n"
               "  observatory --recipe apps/recipes/quickstart.toml --train\n"
               "  observatory --log out/quickstart\n"
               "  observatory out/quickstart --panel adapters --adapter a=out/adapted --write\n"
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
