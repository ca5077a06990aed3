// The verbs and options of the program as plain data, read from the CLI11 parsers. Help, manual page, docs/cli.md and
// shell completions are all generated from it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace hekla::app {

// What a shell offers as completions of a value.
enum class ValueKind {
    text,       // nothing
    choice,     // OptionInfo::choices
    file,       // files and folders
    folder,     // folders
    recipe,     // files that end in .toml
    recipe_key, // keys of a recipe
};

// An option, or a positional argument.
struct OptionInfo {
    std::vector<std::string> names; // "-o", "--output"; empty: a positional argument
    std::string value;              // the name of the value, as "FILE" or "cpu|gpu"; empty: a flag
    ValueKind kind = ValueKind::text;
    std::vector<std::string> choices;
    std::string about;
    std::string standard; // the default value; empty: none is shown
    std::string group;    // the heading in the help
    bool required = false, repeated = false;
};

struct CommandInfo {
    std::string name;  // "tokenize train"; empty: the program
    std::string about; // one or more sentences
    std::string group; // the heading in the help of the command above
    std::vector<OptionInfo> arguments, options;
    std::vector<std::string> examples; // command lines
    std::vector<std::string> notes;    // lines below the examples
    std::vector<CommandInfo> commands;
};

// Reads a parser and everything below it. Hidden options and verbs (their group is "") are omitted.
CommandInfo command_tree(const CLI::App& app);

// Returns "; one of: a, b" for the description; empty if the value's name lists the choices.
std::string choices_text(const OptionInfo& option);
// Returns "hekla tokenize train [OPTIONS] INPUT...".
std::string usage_line(const CommandInfo& command);
// Returns the first sentence of `about`, without its period.
std::string summary_of(const CommandInfo& command);

// Calls f with the command and all commands below it, parents first.
template<class F>
void for_each_command(const CommandInfo& command, const F& f) {
    f(command);
    for (const CommandInfo& below : command.commands) for_each_command(below, f);
}

} // namespace hekla::app
