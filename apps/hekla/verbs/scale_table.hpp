// hekla scale table: scores of tasks over the models of a ladder.
#pragma once

#include "command.hpp"

namespace hekla::app {

void add_scale_table(CLI::App& scale, const Globals& globals, Verbs& verbs);

} // namespace hekla::app
