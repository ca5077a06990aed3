#include "help/command_tree.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sstream>

namespace hekla::app {
namespace {

constexpr std::size_t kListed = 24; // a longer list of choices is printed with the description

// An option's name determines the kind of its value, so that it means the same in every verb.
struct NamedValue {
    std::string_view name, value;
    ValueKind kind;
};
constexpr std::array kValues{
    NamedValue{"recipe", "RECIPE", ValueKind::recipe},
    NamedValue{"overrides", "SECTION.KEY=VALUE", ValueKind::recipe_key},
    NamedValue{"model", "MODEL", ValueKind::file},
    NamedValue{"path", "PATH", ValueKind::file},
    NamedValue{"from", "MODEL", ValueKind::file},
    NamedValue{"to", "PATH", ValueKind::file},
    NamedValue{"input", "PATH", ValueKind::file},
    NamedValue{"plugin", "LIBRARY", ValueKind::file},
    NamedValue{"tokenizer", "TOKENIZER", ValueKind::file},
    NamedValue{"body", "FOLDER", ValueKind::folder},
    NamedValue{"run", "RUN", ValueKind::folder},
    NamedValue{"run-a", "RUN", ValueKind::folder},
    NamedValue{"run-b", "RUN", ValueKind::folder},
    NamedValue{"folder", "FOLDER", ValueKind::folder},
    NamedValue{"folders", "FOLDER", ValueKind::folder},
    NamedValue{"plugin-path", "FOLDER", ValueKind::folder},
    NamedValue{"fixture", "FOLDER", ValueKind::folder},
    NamedValue{"isa", "FOLDER", ValueKind::folder},
    NamedValue{"file", "FILE", ValueKind::file},
    NamedValue{"output", "PATH", ValueKind::file},
    NamedValue{"prompt-file", "FILE", ValueKind::file},
    NamedValue{"report", "FILE", ValueKind::file},
    NamedValue{"tasks", "PATH", ValueKind::file},
    NamedValue{"pairs", "FILE", ValueKind::file},
    NamedValue{"fields", "FILE", ValueKind::file},
    NamedValue{"capture", "FILE", ValueKind::file},
    NamedValue{"describe-program", "FILE", ValueKind::file},
    NamedValue{"config", "JSON", ValueKind::file},
    NamedValue{"adapter-config", "JSON", ValueKind::file},
    NamedValue{"head-config", "JSON", ValueKind::file},
    NamedValue{"objective-config", "JSON", ValueKind::file},
    NamedValue{"device", "DEVICE", ValueKind::text},
    NamedValue{"format", "FORMAT", ValueKind::text},
    NamedValue{"class", "CLASS", ValueKind::text},
    NamedValue{"port", "PORT", ValueKind::text},
    NamedValue{"tap", "NAME", ValueKind::text},
    NamedValue{"tap-values", "FOLDER", ValueKind::folder},
    NamedValue{"set", "KEY=VALUE", ValueKind::text},
    NamedValue{"column", "NAME=SOURCE", ValueKind::text},
    NamedValue{"field", "NAME:KIND:SIZES", ValueKind::text},
    NamedValue{"seconds", "SECONDS", ValueKind::text},
    NamedValue{"plugin-seconds", "SECONDS", ValueKind::text},
    NamedValue{"plugin-memory", "MIB", ValueKind::text},
    NamedValue{"shard-size", "SIZE", ValueKind::text},
};

std::string upper(std::string text) {
    std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    return text;
}

// "TEXT:{f32,f16}" -> f32, f16
std::vector<std::string> choices_of(const std::string& type) {
    const std::size_t open = type.find('{'), close = type.find('}', open);
    std::vector<std::string> choices;
    if (open == std::string::npos || close == std::string::npos) return choices;
    std::istringstream list(type.substr(open + 1, close - open - 1));
    for (std::string one; std::getline(list, one, ',');) choices.push_back(one);
    return choices;
}

OptionInfo read_option(const CLI::Option& option) {
    OptionInfo info;
    for (const std::string& name : option.get_snames()) info.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) info.names.push_back("--" + name);
    const std::string name = option.get_positional()       ? option.get_name(true)
                             : option.get_lnames().empty() ? std::string()
                                                           : option.get_lnames().front();
    info.about = option.get_description();
    info.group = option.get_group();
    info.required = option.get_required();
    info.repeated = option.get_expected_max() > 1;
    info.standard = option.get_default_str();
    if (option.get_items_expected_max() == 0) { // a flag
        info.standard.clear();
        return info;
    }
    const std::string type = option.get_type_name();
    info.choices = choices_of(type);
    if (!info.choices.empty()) info.kind = ValueKind::choice;
    const std::string listed = fmt::format("{}", fmt::join(info.choices, "|"));
    if (const auto known = std::ranges::find(kValues, name, &NamedValue::name); known != kValues.end()) {
        info.value = known->value;
        if (info.choices.empty()) info.kind = known->kind;
    } else if (!listed.empty() && listed.size() <= kListed) {
        info.value = listed;
    } else if (option.get_positional() || !listed.empty()) {
        info.value = upper(name);
    } else {
        info.value = type.starts_with("TEXT") ? "TEXT" : "N";
    }
    if (info.standard == "[]" || info.standard == "\"\"") info.standard.clear();
    if (info.standard.starts_with('[') && info.standard.ends_with(']')) // a list
        info.standard = info.standard.substr(1, info.standard.size() - 2);
    return info;
}

// Reads "Examples: hekla train r.toml" and the lines below it.
void read_footer(const std::string& footer, CommandInfo& info) {
    std::istringstream lines(footer);
    for (std::string line; std::getline(lines, line);) {
        for (const std::string_view word : {"Examples:", "Example:"})
            if (line.starts_with(word)) line.erase(0, word.size());
        const std::size_t first = line.find_first_not_of(' ');
        if (first == std::string::npos) continue;
        line.erase(0, first);
        (line.starts_with("hekla ") ? info.examples : info.notes).push_back(line);
    }
}

CommandInfo read_command(const CLI::App& app, const std::string& name) {
    CommandInfo info;
    info.name = name;
    info.about = app.get_description();
    info.group = app.get_group();
    read_footer(app.get_footer(), info);
    for (const CLI::Option* option : app.get_options()) {
        if (option->get_group().empty() || option == app.get_help_ptr() || option == app.get_version_ptr()) continue;
        OptionInfo one = read_option(*option);
        (option->get_positional() ? info.arguments : info.options).push_back(std::move(one));
    }
    std::vector<std::string> groups; // in the order of their first verbs
    for (const CLI::App* below : app.get_subcommands([](const CLI::App*) { return true; })) {
        if (below->get_group().empty()) continue;
        info.commands.push_back(
            read_command(*below, name.empty() ? below->get_name() : name + " " + below->get_name()));
        if (std::ranges::find(groups, below->get_group()) == groups.end()) groups.push_back(below->get_group());
    }
    std::ranges::stable_sort(info.commands, {}, [&](const CommandInfo& command) {
        return std::ranges::find(groups, command.group) - groups.begin();
    });
    return info;
}

} // namespace

CommandInfo command_tree(const CLI::App& app) {
    std::string name;
    for (const CLI::App* at = &app; at->get_parent() != nullptr; at = at->get_parent())
        name = fmt::format("{}{}{}", at->get_name(), name.empty() ? "" : " ", name);
    return read_command(app, name);
}

std::string choices_text(const OptionInfo& option) {
    const std::string listed = fmt::format("{}", fmt::join(option.choices, "|"));
    if (option.choices.empty() || option.value == listed) return {};
    return fmt::format("; one of: {}", fmt::join(option.choices, ", "));
}

std::string usage_line(const CommandInfo& command) {
    std::string line = "hekla";
    if (!command.name.empty()) line += " " + command.name;
    if (!command.options.empty()) line += " [OPTIONS]";
    if (!command.commands.empty()) line += " VERB ...";
    for (const OptionInfo& argument : command.arguments) {
        const std::string value = argument.value + (argument.repeated ? "..." : "");
        line += argument.required ? " " + value : " [" + value + "]";
    }
    return line;
}

std::string summary_of(const CommandInfo& command) {
    const std::size_t end = command.about.find(". ");
    std::string first = command.about.substr(0, end);
    if (first.ends_with('.')) first.pop_back();
    return first;
}

} // namespace hekla::app
