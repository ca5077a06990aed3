// The program of this process: a copy of it, and another one in its place.
#pragma once

#include <functional>
#include <string>
#include <system_error>
#include <vector>

namespace hekla {

// Returns what `question` returns in a copy of this process, which ends then, so that what the call loads and changes
// is not in this one. Returns false if the copy fails. Call it before the process starts other threads.
bool answer_of_copy(const std::function<bool()>& question);
// Runs a program in place of this one, with its streams. command: the program's path and its arguments. Returns only if
// it cannot be started, with the reason.
std::error_code become_program(std::vector<std::string> command);

} // namespace hekla
