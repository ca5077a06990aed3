// What --help prints.
#pragma once

#include "help/command_tree.hpp"

#include <string>

namespace hekla::app {

std::string help_text(const CommandInfo& command);
// Returns what the program prints when it is called without arguments: the most important verbs.
std::string first_steps_text();

// Makes CLI11 print help_text().
class HelpFormatter final : public CLI::FormatterBase {
public:
    std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
};

} // namespace hekla::app
