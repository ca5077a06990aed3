// Signals that ask a program to end: SIGINT (Ctrl+C), SIGTERM and SIGHUP. For programs, since a library leaves signals
// to its host. Thread: all functions are for the main thread, interrupted() for any.
#pragma once

namespace hekla {

// From now on the first signal makes interrupted() true, and the second ends the program. A SIGHUP that is ignored
// (nohup) stays ignored. message: a literal, written to standard error if the first signal ends the program; null:
// none.
void watch_interrupts(const char* message);
// Returns whether a signal came since watch_interrupts(). Before the first of these calls the first signal ends the
// program: the work that asks has not begun, and reading what others wrote, such as a configuration, may take long.
bool interrupted();
// Lets the first signal end nothing from now on, for a process whose work ends when another one decides, or that asks
// later.
void leave_interrupts_to_another();
// Forgets the signals that came, and lets the next one end the program until watch_interrupts(): between two pieces of
// work of which each may be stopped alone.
void forget_interrupts();
int stopped_status(); // 128 + the number of the first signal, as shells report it: 130 after Ctrl+C

} // namespace hekla
