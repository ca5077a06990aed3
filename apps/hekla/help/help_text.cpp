#include "help/help_text.hpp"

#include "base/installed_path.hpp"
#include "base/path_text.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sstream>

namespace hekla::app {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kWidth = 100; // columns
constexpr std::size_t kColumn = 30; // where descriptions begin

std::string joined(const std::vector<std::string>& parts, const char* between) {
    return fmt::format("{}", fmt::join(parts, between));
}

// Wraps text to kWidth columns; all lines but the first start at `indent`.
std::string wrapped(const std::string& text, std::size_t indent, std::size_t begin) {
    std::string out;
    std::size_t column = begin;
    std::istringstream words(text);
    bool first = true;
    for (std::string word; words >> word; first = false) {
        if (!first && column + 1 + word.size() > kWidth) {
            out += "\n" + std::string(indent, ' ');
            column = indent;
        } else if (!first) {
            out += ' ';
            ++column;
        }
        out += word;
        column += word.size();
    }
    return out;
}

std::string row(const std::string& name, const std::string& about) {
    std::string line = "  " + name;
    if (line.size() + 2 > kColumn)
        line += "\n" + std::string(kColumn, ' ');
    else
        line.resize(kColumn, ' ');
    return line + wrapped(about, kColumn, kColumn) + "\n";
}

std::string option_row(const OptionInfo& option) {
    std::string name;
    if (!option.names.empty()) name = (option.names[0].starts_with("--") ? "    " : "") + joined(option.names, ", ");
    if (option.names.empty())
        name = option.value + (option.repeated ? "..." : "");
    else if (!option.value.empty())
        name += " " + option.value;
    std::string about = option.about + choices_text(option);
    if (option.required && !option.names.empty()) about += " (required)";
    if (!option.standard.empty()) about += fmt::format(" (default: {})", option.standard);
    return row(name, about);
}

// Returns the distinct groups, in the order of their first members.
template<class Members>
std::vector<std::string> headings_of(const Members& members) {
    std::vector<std::string> groups;
    for (const auto& one : members)
        if (std::ranges::find(groups, one.group) == groups.end()) groups.push_back(one.group);
    return groups;
}

} // namespace

std::string help_text(const CommandInfo& command) {
    std::string out = wrapped(command.about, 0, 0) + "\n\nUsage: " + usage_line(command) + "\n";
    if (!command.arguments.empty()) {
        out += "\nArguments:\n";
        for (const OptionInfo& argument : command.arguments) out += option_row(argument);
    }
    for (const std::string& group : headings_of(command.commands)) {
        out += "\n" + group + ":\n";
        for (const CommandInfo& below : command.commands)
            if (below.group == group) out += row(below.name.substr(below.name.rfind(' ') + 1), summary_of(below));
    }
    std::string helpers = row("-h, --help", "print this help and exit");
    if (command.name.empty()) helpers += row("    --version", "print the version and exit");
    std::vector<std::string> headings = headings_of(command.options);
    if (std::ranges::find(headings, "Options") == headings.end()) headings.insert(headings.begin(), "Options");
    for (const std::string& group : headings) {
        out += "\n" + group + ":\n";
        for (const OptionInfo& option : command.options)
            if (option.group == group) out += option_row(option);
        if (group == "Options") out += helpers;
    }
    if (!command.examples.empty()) {
        out += "\nExamples:\n";
        for (const std::string& example : command.examples) out += "  " + example + "\n";
    }
    if (!command.notes.empty()) out += "\n" + wrapped(joined(command.notes, " "), 0, 0) + "\n";
    if (!command.name.empty()) out += "\nOptions of every verb (device, plugins, debugging): hekla --help\n";
    return out;
}

std::string first_steps_text() {
    const std::string recipes = installed_path("apps/recipes"), documents = installed_path("docs");
    const bool installed = path_of(recipes).is_absolute(); // the quickstart's own text is that of a checkout
    return "Hekla " HEKLA_VERSION " trains and runs transformers on any Vulkan device.\n\n"
           "  hekla train RECIPE                   train a model from a recipe\n"
           "  hekla generate MODEL --prompt TEXT   write text with a model\n"
           "  hekla eval RECIPE                    compute the loss and scores of a trained model\n"
           "  hekla inspect PATH                   show a recipe, a run, a model or a weights file\n"
           "  hekla doctor                         check the driver, the device and the kernels\n\n"
           "First training: hekla train " +
           recipes + "/quickstart.toml" + (installed ? " data.train=TEXT.txt" : "") + "\n" + "Documents: " + documents +
           "\n" + "All verbs and options: hekla --help\n";
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string, CLI::AppFormatMode) const {
    return help_text(command_tree(*app));
}

} // namespace hekla::app
