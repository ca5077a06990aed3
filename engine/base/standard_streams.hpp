// Standard input, output and errors of a program.
#pragma once

#include <cstdio>
#include <system_error>

namespace hekla {

// Opens the standard streams that the parent process closed, so that no file gets their numbers. Writing to a standard
// output that was closed fails.
void open_standard_streams();
// Makes writing to a closed pipe, or beyond the limit of a file's size, fail instead of ending the program.
void outlive_failed_writes();
// Flushes a stream. After an error, whose reason is returned, what was not written is discarded.
std::error_code flush_or_discard(std::FILE* stream);
// Returns whether a stream is a pipe whose reader has ended, as in `hekla --help | head`.
bool reader_has_ended(std::FILE* stream);

} // namespace hekla
