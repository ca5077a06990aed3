// hekla completion: scripts that complete verbs, options and values in a shell. hekla reference: the manual page and
// docs/cli.md.
#include "command.hpp"
#include "help/completions.hpp"
#include "help/reference.hpp"
#include "output.hpp"
#include "train/recipe/recipe_sections.hpp"

namespace hekla::app {

void add_completion(CLI::App& app, Verbs& verbs) {
    const auto add = [&](const char* name, const char* about, const char* argument, const char* argument_about,
                         const std::vector<std::string>& choices,
                         const std::function<std::string(const std::string&, const CommandInfo&)>& text) {
        CLI::App* parser = app.add_subcommand(name, about);
        const auto choice = std::make_shared<std::string>();
        parser->add_option(argument, *choice, argument_about)->required()->check(CLI::IsMember(choices));
        verbs.push_back({parser, [&app, choice, text] {
                             const Status written = write_output("", text(*choice, command_tree(app)));
                             return written.ok() ? kDone : fail(written);
                         }});
        return parser;
    };
    add("completion", "Print a script that completes verbs, options, files and recipe keys in a shell.", "shell",
        "the shell", {"bash", "zsh", "fish"},
        [](const std::string& shell, const CommandInfo& program) {
            return shell == "bash"  ? bash_completion(program, train::recipe_key_names())
                   : shell == "zsh" ? zsh_completion(program, train::recipe_key_names())
                                    : fish_completion(program, train::recipe_key_names());
        })
        ->footer("Examples:\n  hekla completion bash > ~/.local/share/bash-completion/completions/hekla\n"
                 "  hekla completion zsh > ~/.zfunc/_hekla\n"
                 "  hekla completion fish > ~/.config/fish/completions/hekla.fish\n"
                 "An installed Hekla has these scripts already, in share/ of its prefix.")
        ->group("This machine");
    add("reference", "Print the manual page, or docs/cli.md.", "format", "the format", {"man", "markdown"},
        [](const std::string& format, const CommandInfo& program) {
            return format == "man" ? manual_page(program) : markdown_reference(program);
        })
        ->group("");
}

} // namespace hekla::app
