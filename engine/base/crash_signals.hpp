// Crashes of a program: SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT.
#pragma once

#include <cstddef>

namespace hekla {

// Calls `report` on the thread that crashed, before the signal ends the program. report: calls nothing but
// write_to_standard_error(), allocation_fails() and Channel::send_at_crash(). On the thread that calls this function a
// stack that is too deep is reported, too.
void report_crashes(void (*report)());
// Returns whether the system refuses `size` bytes of memory to this process.
bool allocation_fails(std::size_t size);

} // namespace hekla
