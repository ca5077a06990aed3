// A library to preload into a host: it gives the host a locale with a decimal comma, rounding upward and a timer's
// signal every millisecond, and prints at the end whether the host still has them. LOCPATH: where de_DE.UTF-8 is.
#include <fenv.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/time.h>

static volatile sig_atomic_t signals, on_threads_of_hekla;

static void count(int number) {
    (void)number;
    ++signals;
    char thread[16]; // drivers have threads, too, which may take signals
    if (prctl(PR_GET_NAME, thread) == 0 && strncmp(thread, "hekla ", 6) == 0) ++on_threads_of_hekla;
}

static void report(void) {
    char half[8];
    (void)snprintf(half, sizeof half, "%.1f", 0.5);
    (void)fprintf(stderr, "disturbed host: signals %s, %d on threads of Hekla; rounding %s; comma %s\n",
                  signals > 0 ? "came" : "did not come", (int)on_threads_of_hekla,
                  fegetround() == FE_UPWARD ? "kept" : "changed", strcmp(half, "0,5") == 0 ? "kept" : "changed");
}

__attribute__((constructor)) static void disturb(void) {
    struct sigaction action = {.sa_handler = count}; // without SA_RESTART: system calls are interrupted
    const struct itimerval every_millisecond = {{0, 1000}, {0, 1000}};
    if (setlocale(LC_ALL, "de_DE.UTF-8") == NULL || fesetround(FE_UPWARD) != 0 ||
        sigaction(SIGALRM, &action, NULL) != 0 || setitimer(ITIMER_REAL, &every_millisecond, NULL) != 0 ||
        atexit(report) != 0) {
        (void)fprintf(stderr, "disturbed host: cannot be set up\n");
        abort();
    }
}
