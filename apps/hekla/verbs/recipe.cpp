// hekla recipe: lists the keys of recipes.
#include "command.hpp"
#include "output.hpp"

#include "train/recipe/recipe_reference.hpp"

namespace hekla::app {
namespace {

struct KeysArguments {
    bool json = false;
    bool markdown = false;
};

int run_keys(const KeysArguments& a) {
    const Status written = write_output("", a.json       ? train::recipe_json().dump(1) + "\n"
                                            : a.markdown ? train::recipe_markdown()
                                                         : train::recipe_text());
    return written.ok() ? kDone : fail(written);
}

} // namespace

void add_recipe(CLI::App& app, Verbs& verbs) {
    CLI::App* recipe = app.add_subcommand("recipe", "Show which sections and keys a recipe can have.");
    recipe->require_subcommand(1);
    CLI::App* keys = recipe->add_subcommand("keys", "Print every key with its type, range, default and meaning.");
    const auto arguments = std::make_shared<KeysArguments>();
    CLI::Option* json = keys->add_flag("--json", arguments->json, "print JSON, an object per key");
    keys->add_flag("--markdown", arguments->markdown, "print docs/recipes.md")->excludes(json);
    keys->footer("Example: hekla recipe keys");
    verbs.push_back({keys, [arguments] { return run_keys(*arguments); }});
}

} // namespace hekla::app
