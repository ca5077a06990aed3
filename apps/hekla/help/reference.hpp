// The manual page and docs/cli.md.
#pragma once

#include "help/command_tree.hpp"

#include <string>

namespace hekla::app {

std::string manual_page(const CommandInfo& program); // hekla.1, in man's macros
std::string markdown_reference(const CommandInfo& program);

} // namespace hekla::app
