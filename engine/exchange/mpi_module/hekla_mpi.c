/* Exchanges bytes between the ranks of an MPI job, of which each process has one or several. All calls of MPI are made
   by one thread of this module, which also sends a sign of life each second to two neighbors in the ring of processes,
   while programs compile and devices compute: a slow rank is not a lost one. The process that finds a neighbor silent
   tells all others. */
#include "mpi_module.h"

#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    kTagSign = 1,              /* a sign of life: no bytes */
    kTagFailed = 2,            /* a rank ends: the rank that is to blame, then text */
    kTagData = 3,              /* exchanges, in order: kMostHere * the sender's index in its process + the receiver's */
    kMostHere = 64,            /* ranks of a process; tags up to 32,767 are possible everywhere */
    kMostText = 1024,          /* bytes of a reason */
    kAnswer = kMostText + 128, /* bytes of a message to the engine */
    kMostPending = 64 * kMostHere, /* exchanges at a time: one for each bucket of a rank's gradients */
};
static const uint64_t kMostBytes = (uint64_t)1 << 30; /* of one message: counts are int */
static const double kGrace = 3.0;                     /* seconds that the begin or the end of a job may take */
static const double kListen = 1.0;                    /* seconds of listening before a rank counts as silent */
enum { kNotOpened, kOpen, kOpeningFailed, kOpeningGivenUp };
enum { kNotConnected, kToConnect, kConnecting, kConnected };

typedef struct Exchange {
    uint64_t number;
    int index;               /* in this process, of the rank whose exchange it is */
    int state;               /* 0: free, 1: begun, 2: its messages are on their way, 3: done */
    hk_exchange_part* parts; /* one per rank */
    MPI_Request* requests;
    int count;
} Exchange;

/* A rank of this process, which one thread uses. */
typedef struct Rank {
    int index;
    char answer[kAnswer]; /* the message of its last call */
} Rank;

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t called; /* by the engine: the module's thread has something to do */
    pthread_t thread;
    int opened;
    int closing;
    int leaving;  /* all ranks are done, or one is lost */
    int ended;    /* the thread has left MPI for good */
    int aborting; /* with this status + 1 */
    int process, processes;
    int connected; /* kNotConnected ... */
    int here;      /* ranks of this process */
    int size;      /* ranks of all */
    int* counts;   /* by process: its ranks */
    int* first;    /* by process: its first rank */
    int* home;     /* by rank: its process */
    Rank ranks[kMostHere];
    HeklaMpiPlace place;
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    double timeout;
    Exchange pending[kMostPending];
    int slots; /* of `pending` that were used so far */
    int lost;  /* a rank, or -1 */
    char reason[kMostText];
    int telling;          /* the reason is to be sent to all */
    char answer[kAnswer]; /* of open_module() and connect_module() */
    MPI_Comm comm;
} g = {.mutex = PTHREAD_MUTEX_INITIALIZER, .called = PTHREAD_COND_INITIALIZER, .lost = -1};

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void rest(long milliseconds) {
    const struct timespec pause = {0, 1000000 * milliseconds};
    nanosleep(&pause, NULL);
}

static struct timespec in(double wait) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    const double nanoseconds = (double)until.tv_nsec + 1e9 * wait;
    until.tv_sec += (time_t)(nanoseconds / 1e9);
    until.tv_nsec = (long)(nanoseconds - 1e9 * (double)(time_t)(nanoseconds / 1e9));
    return until;
}

/* Returns 0 if the module's thread does not leave MPI for longer than a rank may be silent: a rank that was stopped in
   the middle of a message can keep the others inside a call of MPI. */
static int lock(void) {
    const struct timespec until = in(g.timeout + kGrace);
    return pthread_mutex_timedlock(&g.mutex, &until) == 0;
}

/* Waits a moment without the mutex. Returns 0 as lock() does. */
static int wait_a_moment(void) {
    pthread_mutex_unlock(&g.mutex);
    rest(1);
    return lock();
}

/* to: kAnswer bytes, a rank's or g.answer. */
static int32_t answer(char* to, int32_t code, const char* text, hk_string* why) {
    snprintf(to, kAnswer, "%s", text);
    why->data = to;
    why->size = strlen(to);
    return code;
}

static int32_t stuck(char* to, hk_string* why) {
    return answer(to, HK_IO, "the MPI library does not return, as when a rank was stopped in the middle of a message",
                  why);
}

/* Below, called with the mutex held by the module's thread. */

static void lose(int rank, const char* reason) {
    if (g.lost >= 0) return; /* the first reason is the one that matters */
    g.lost = rank;
    snprintf(g.reason, sizeof g.reason, "%s", reason);
    g.telling = 1;
}

/* Numbers the ranks of all processes. Before kConnected each process has one. Returns 0 where memory is missing. */
static int number_ranks(void) {
    int size = 0;
    for (int p = 0; p < g.processes; ++p) size += g.counts[p];
    int* home = malloc(sizeof(int) * (size_t)size);
    if (home == NULL) return 0;
    for (int p = 0, rank = 0; p < g.processes; ++p) {
        g.first[p] = rank;
        for (int i = 0; i < g.counts[p]; ++i) home[rank++] = p;
    }
    free(g.home);
    g.home = home;
    g.size = size;
    return 1;
}

static int tag_of(int from, int to) {
    return kTagData + kMostHere * (from - g.first[g.home[from]]) + (to - g.first[g.home[to]]);
}

static int messages_of(uint64_t bytes) { return (int)((bytes + kMostBytes - 1) / kMostBytes); }

static int start(Exchange* e) {
    const int own = g.first[g.process] + e->index;
    int count = 0;
    for (int r = 0; r < g.size; ++r)
        if (r != own) count += messages_of(e->parts[r].receive_bytes) + messages_of(e->parts[r].send_bytes);
    e->requests = malloc(sizeof(MPI_Request) * (size_t)(count > 0 ? count : 1));
    if (e->requests == NULL) return 0;
    e->count = 0;
    for (int i = 1; i < g.size; ++i) { /* rotated, so that not all ranks send to the same one first */
        const int from = (own + g.size - i) % g.size;
        const hk_exchange_part* part = &e->parts[from];
        for (uint64_t at = 0; at < part->receive_bytes; at += kMostBytes) {
            const uint64_t left = part->receive_bytes - at;
            if (MPI_Irecv((char*)part->receive + at, (int)(left < kMostBytes ? left : kMostBytes), MPI_BYTE,
                          g.home[from], tag_of(from, own), g.comm, &e->requests[e->count++]) != MPI_SUCCESS) {
                lose(g.first[g.home[from]], "");
                return 1;
            }
        }
    }
    for (int i = 1; i < g.size; ++i) {
        const int to = (own + i) % g.size;
        const hk_exchange_part* part = &e->parts[to];
        for (uint64_t at = 0; at < part->send_bytes; at += kMostBytes) {
            const uint64_t left = part->send_bytes - at;
            if (MPI_Isend((const char*)part->send + at, (int)(left < kMostBytes ? left : kMostBytes), MPI_BYTE,
                          g.home[to], tag_of(own, to), g.comm, &e->requests[e->count++]) != MPI_SUCCESS) {
                lose(g.first[g.home[to]], "");
                return 1;
            }
        }
    }
    const hk_exchange_part* kept = &e->parts[own];
    if (kept->send_bytes > 0 && kept->send != kept->receive)
        memcpy(kept->receive, kept->send, (size_t)kept->send_bytes);
    e->state = 2;
    return 1;
}

static void advance(void) {
    /* In the order of their numbers, since messages between two ranks are matched in order. */
    for (;;) {
        Exchange* next = NULL;
        for (int i = 0; i < g.slots; ++i)
            if (g.pending[i].state == 1 && (next == NULL || g.pending[i].number < next->number)) next = &g.pending[i];
        if (next == NULL || g.lost >= 0) break;
        if (!start(next)) lose(g.first[g.process] + next->index, "no memory for an exchange");
    }
    for (int i = 0; i < g.slots && g.lost < 0; ++i) {
        Exchange* e = &g.pending[i];
        if (e->state != 2) continue;
        int open = 0; /* one by one: compilers warn of MPI_Testall where MPI_STATUSES_IGNORE is a small number */
        for (int r = 0; r < e->count && g.lost < 0; ++r) {
            int done = 0;
            if (MPI_Test(&e->requests[r], &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
                lose(g.first[(g.process + 1) % g.processes], "");
            if (!done) ++open;
        }
        if (open == 0 && g.lost < 0) e->state = 3;
    }
}

static void receive_control(double* seen) {
    for (;;) {
        int found = 0;
        MPI_Status status;
        if (MPI_Iprobe(MPI_ANY_SOURCE, kTagSign, g.comm, &found, &status) != MPI_SUCCESS || !found) break;
        MPI_Recv(NULL, 0, MPI_BYTE, status.MPI_SOURCE, kTagSign, g.comm, MPI_STATUS_IGNORE);
        seen[status.MPI_SOURCE] = seconds();
    }
    int found = 0;
    MPI_Status status;
    if (MPI_Iprobe(MPI_ANY_SOURCE, kTagFailed, g.comm, &found, &status) != MPI_SUCCESS || !found) return;
    char text[kMostText] = {0};
    MPI_Recv(text, kMostText - 1, MPI_BYTE, status.MPI_SOURCE, kTagFailed, g.comm, MPI_STATUS_IGNORE);
    int rank = g.first[status.MPI_SOURCE], used = 0;
    if (sscanf(text, "%d %n", &rank, &used) != 1) used = 0;
    if (rank < 0 || rank >= g.size) rank = g.first[status.MPI_SOURCE]; /* this process does not know its ranks yet */
    lose(rank, text + used);
    g.telling = 0; /* the sender tells all */
}

static void tell_all(void) {
    char text[kMostText];
    const int size = snprintf(text, sizeof text, "%d %s", g.lost, g.reason);
    for (int p = 0; p < g.processes; ++p) {
        if (p == g.process || p == g.home[g.lost]) continue;
        MPI_Request request; /* not waited for: the process ends soon, whether or not the others receive it */
        if (MPI_Isend(text, size < kMostText ? size + 1 : kMostText, MPI_BYTE, p, kTagFailed, g.comm, &request) ==
            MPI_SUCCESS) {
            int done = 0;
            for (int tries = 0; !done && tries < 1000; ++tries) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        }
    }
}

static int open_mpi(void) {
    int initialized = 0, provided = 0;
    MPI_Initialized(&initialized);
    if (!initialized && MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) return 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &g.comm);
    MPI_Comm_set_errhandler(g.comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(g.comm, &g.process);
    MPI_Comm_size(g.comm, &g.processes);
    g.counts = malloc(sizeof(int) * (size_t)g.processes);
    g.first = malloc(sizeof(int) * (size_t)g.processes);
    if (g.counts == NULL || g.first == NULL) return 0;
    for (int p = 0; p < g.processes; ++p) g.counts[p] = 1;
    if (!number_ranks()) return 0;
    g.place.process = g.process;
    g.place.processes = g.processes;
    int length = 0;
    MPI_Get_library_version(g.library, &length);
    for (char* c = g.library; *c != 0; ++c)
        if (*c == '\n' || *c == ',') *c = 0;
    MPI_Comm local;
    if (MPI_Comm_split_type(g.comm, MPI_COMM_TYPE_SHARED, g.process, MPI_INFO_NULL, &local) == MPI_SUCCESS) {
        int process = 0, processes = 1;
        MPI_Comm_rank(local, &process);
        MPI_Comm_size(local, &processes);
        g.place.local_process = process;
        g.place.local_processes = processes;
        MPI_Comm_free(&local);
    }
    g.place.library = g.library;
    return 1;
}

/* Exchanges the numbers of ranks of all processes, while signs of life are sent. */
static void connect_ranks(MPI_Request* counts_known) {
    if (g.connected == kToConnect) {
        g.connected = kConnecting;
        if (MPI_Iallgather(&g.here, 1, MPI_INT, g.counts, 1, MPI_INT, g.comm, counts_known) != MPI_SUCCESS)
            lose(g.first[g.process], "MPI_Iallgather failed");
        return;
    }
    if (g.connected != kConnecting) return;
    int done = 0;
    if (MPI_Test(counts_known, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
        lose(g.first[(g.process + 1) % g.processes], "");
    if (!done || g.lost >= 0) return;
    if (number_ranks())
        g.connected = kConnected;
    else
        lose(g.first[g.process], "no memory for the numbers of ranks");
}

static void* run(void* unused) {
    (void)unused;
    const int good = open_mpi();
    pthread_mutex_lock(&g.mutex);
    double* seen = good && g.opened == kNotOpened ? malloc(sizeof(double) * (size_t)g.processes) : NULL;
    if (g.opened == kNotOpened) g.opened = seen != NULL ? kOpen : kOpeningFailed;
    if (seen == NULL) {
        pthread_mutex_unlock(&g.mutex);
        return NULL;
    }
    const double begin = seconds();
    for (int p = 0; p < g.processes; ++p) seen[p] = begin;
    const int neighbors[2] = {(g.process + 1) % g.processes, (g.process + g.processes - 1) % g.processes};
    double next_sign = begin, listened = begin;
    MPI_Request counts_known = MPI_REQUEST_NULL;
    MPI_Request all_close = MPI_REQUEST_NULL; /* a barrier of the processes that are done */
    int at_barrier = 0;
    while (g.aborting == 0) {
        if (g.lost < 0) {
            connect_ranks(&counts_known);
            advance();
        }
        if (g.closing) {
            /* Signs of life continue until all ranks are done: rank 0 may still write files. */
            int done = g.lost >= 0 && g.telling == 0;
            if (!at_barrier && g.lost < 0) at_barrier = MPI_Ibarrier(g.comm, &all_close) == MPI_SUCCESS;
            if (at_barrier && g.lost < 0) MPI_Test(&all_close, &done, MPI_STATUS_IGNORE);
            if (done) break;
        }
        const double now = seconds();
        /* Signs have waited while this thread was in a call of MPI, so it listens before it calls a rank silent. */
        if (now - listened > 0.5 * g.timeout)
            for (int p = 0; p < g.processes; ++p)
                if (seen[p] < now - g.timeout + kListen) seen[p] = now - g.timeout + kListen;
        listened = now;
        if (g.processes > 1 && now >= next_sign && g.lost < 0) {
            next_sign = now + 1.0;
            for (int i = 0; i < 2; ++i) {
                if (i == 1 && neighbors[1] == neighbors[0]) break;
                MPI_Request request;
                if (MPI_Isend(NULL, 0, MPI_BYTE, neighbors[i], kTagSign, g.comm, &request) == MPI_SUCCESS)
                    MPI_Request_free(&request);
            }
        }
        if (g.lost < 0) receive_control(seen);
        if (g.processes > 1 && g.lost < 0)
            for (int i = 0; i < 2; ++i)
                if (now - seen[neighbors[i]] > g.timeout) {
                    lose(g.first[neighbors[i]], "");
                    break;
                }
        if (g.telling) {
            g.telling = 0;
            tell_all();
        }
        int busy = g.connected == kConnecting;
        for (int i = 0; i < g.slots; ++i) busy |= g.pending[i].state == 1 || g.pending[i].state == 2;
        const struct timespec until = in(busy && g.lost < 0 ? 20e-6 : 1e-3);
        const double before = seconds();
        pthread_cond_timedwait(&g.called, &g.mutex, &until);
        /* A process that was stopped itself has not seen the others' signs, and gives them the whole time again. Not so
           for time in a call of MPI, which a lost rank may keep waiting. */
        if (seconds() - before > 0.5 * g.timeout)
            for (int p = 0; p < g.processes; ++p) seen[p] = seconds();
    }
    const int status = g.aborting, lost = g.lost;
    g.leaving = 1;
    pthread_mutex_unlock(&g.mutex);
    free(seen);
    if (status != 0) {
        MPI_Abort(MPI_COMM_WORLD, status - 1);
    } else if (lost < 0) {
        MPI_Comm_free(&g.comm);
        MPI_Finalize();
    }
    pthread_mutex_lock(&g.mutex);
    g.ended = 1;
    pthread_mutex_unlock(&g.mutex);
    return NULL;
}

/* Called by the engine. */

static int32_t HK_ABI begin(void* user, uint64_t number, const hk_exchange_part* parts, hk_string* why) {
    Rank* rank = user;
    int32_t code = HK_OK;
    if (!lock()) return stuck(rank->answer, why);
    Exchange* e = NULL;
    for (int i = 0; i < kMostPending && e == NULL; ++i)
        if (g.pending[i].state == 0) {
            e = &g.pending[i];
            if (i >= g.slots) g.slots = i + 1;
        }
    hk_exchange_part* copy = malloc(sizeof *parts * (size_t)g.size);
    if (e == NULL || copy == NULL) {
        free(copy);
        code = answer(rank->answer, HK_OUT_OF_MEMORY,
                      e == NULL ? "too many exchanges at a time" : "no memory for an exchange", why);
    } else {
        memcpy(copy, parts, sizeof *parts * (size_t)g.size);
        e->number = number;
        e->index = rank->index;
        e->parts = copy;
        e->requests = NULL;
        e->state = 1;
        pthread_cond_broadcast(&g.called);
    }
    pthread_mutex_unlock(&g.mutex);
    return code;
}

static int32_t HK_ABI test(void* user, uint64_t number, int32_t* done, int32_t* lost, hk_string* why) {
    Rank* rank = user;
    int32_t code = HK_OK;
    *done = 0;
    *lost = -1;
    if (!lock()) return stuck(rank->answer, why);
    Exchange* e = NULL;
    for (int i = 0; i < g.slots && e == NULL; ++i)
        if (g.pending[i].state != 0 && g.pending[i].number == number && g.pending[i].index == rank->index)
            e = &g.pending[i];
    if (e == NULL) {
        code = answer(rank->answer, HK_INVALID_ARGUMENT, "an exchange was not begun", why);
    } else if (e->state == 3) {
        *done = 1;
        free(e->parts);
        free(e->requests);
        e->state = 0;
    } else if (g.lost >= 0) {
        *lost = g.lost;
        code = answer(rank->answer, HK_OK, g.reason, why);
    }
    pthread_mutex_unlock(&g.mutex);
    return code;
}

static void HK_ABI fail(void* user, hk_string why) {
    if (!lock()) return;
    if (g.lost < 0) {
        char text[kMostText];
        const size_t size = why.size < sizeof text - 1 ? (size_t)why.size : sizeof text - 1;
        memcpy(text, why.data != NULL ? why.data : "", why.data != NULL ? size : 0);
        text[why.data != NULL ? size : 0] = 0;
        lose(g.first[g.process] + ((const Rank*)user)->index, text);
        pthread_cond_broadcast(&g.called);
        const double until = seconds() + kGrace;
        while (g.telling && seconds() < until) /* until the others were told */
            if (!wait_a_moment()) return;
    }
    pthread_mutex_unlock(&g.mutex);
}

static int32_t open_module(double timeout, HeklaMpiPlace* place, hk_string* why) {
    if (g.opened != kNotOpened)
        return answer(g.answer, HK_FAILED_PRECONDITION, "MPI was opened before in this process", why);
    g.timeout = timeout;
    if (pthread_create(&g.thread, NULL, run, NULL) != 0)
        return answer(g.answer, HK_OUT_OF_MEMORY, "no thread for MPI", why);
    if (!lock()) return stuck(g.answer, why);
    for (const double until = seconds() + timeout + kGrace; g.opened == kNotOpened && seconds() < until;)
        if (!wait_a_moment()) return stuck(g.answer, why);
    if (g.opened == kNotOpened) g.opened = kOpeningGivenUp;
    const int opened = g.opened;
    pthread_mutex_unlock(&g.mutex);
    if (opened == kOpeningFailed) return answer(g.answer, HK_IO, "MPI_Init_thread failed", why);
    if (opened == kOpeningGivenUp) {
        char text[256];
        snprintf(text, sizeof text,
                 "the processes did not all start within %.0f seconds: one of them has ended or hangs, or "
                 "distributed.timeout is too short for this machine",
                 timeout + kGrace);
        return answer(g.answer, HK_CANCELLED, text, why);
    }
    *place = g.place;
    return HK_OK;
}

static int32_t connect_module(uint32_t count, hk_communicator* communicators, hk_string* why) {
    if (count == 0 || count > kMostHere) {
        char text[96];
        snprintf(text, sizeof text, "%u ranks of a process: expected 1 to %d", count, kMostHere);
        return answer(g.answer, HK_INVALID_ARGUMENT, text, why);
    }
    if (!lock()) return stuck(g.answer, why);
    if (g.opened != kOpen || g.connected != kNotConnected) {
        pthread_mutex_unlock(&g.mutex);
        return answer(g.answer, HK_FAILED_PRECONDITION, "MPI is not open, or its ranks are connected already", why);
    }
    g.here = (int)count;
    g.connected = kToConnect;
    pthread_cond_broadcast(&g.called);
    while (g.connected != kConnected && g.lost < 0)
        if (!wait_a_moment()) return stuck(g.answer, why);
    const int process = g.lost < 0 ? -1 : g.home[g.lost];
    const int first = g.first[g.process], size = g.size;
    char text[kMostText + 64];
    snprintf(text, sizeof text, "process %d ended before all had begun%s%s", process, g.reason[0] != 0 ? ": " : "",
             g.reason);
    pthread_mutex_unlock(&g.mutex);
    if (process >= 0) return answer(g.answer, g.process == (process == 0 ? 1 : 0) ? HK_IO : HK_CANCELLED, text, why);
    for (int i = 0; i < (int)count; ++i) {
        g.ranks[i].index = i;
        memset(&communicators[i], 0, sizeof communicators[i]);
        communicators[i].struct_size = sizeof communicators[i];
        communicators[i].rank = first + i;
        communicators[i].size = size;
        communicators[i].user = &g.ranks[i];
        communicators[i].begin = begin;
        communicators[i].test = test;
        communicators[i].fail = fail;
    }
    return HK_OK;
}

/* A rank was lost after the work was done. Does not return. */
static void end_without(int lost) {
    if (lost >= 0 && g.process == (g.home[lost] == 0 ? 1 : 0))
        fprintf(stderr, "hekla: error: rank %d was lost when the work was done: it gave no sign of life any more\n",
                lost);
    fflush(NULL);
    _exit(HEKLA_MPI_RETRY);
}

static void close_module(int32_t failed, int32_t status) {
    const int locked = lock();
    if (failed != 0) {
        /* MPI_Abort() ends this process. Where it does not return either, the process ends by itself, and the launcher
           ends the others. */
        g.aborting = status + 1;
        if (locked) {
            pthread_cond_broadcast(&g.called);
            pthread_mutex_unlock(&g.mutex);
        }
        const double until = seconds() + kGrace;
        while (seconds() < until) rest(10);
        _exit(status);
    }
    if (!locked) end_without(-1);
    g.closing = 1;
    pthread_cond_broadcast(&g.called);
    for (double left = 0.0; !g.ended;) {
        if (!wait_a_moment()) end_without(-1);
        if (g.leaving && left == 0.0) left = seconds();
        if (left > 0.0 && seconds() - left > g.timeout + kGrace) end_without(-1);
    }
    if (g.lost >= 0) end_without(g.lost);
    pthread_mutex_unlock(&g.mutex);
    pthread_join(g.thread, NULL);
}

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const HeklaMpiInterface*
hekla_mpi_interface(uint32_t version);

const HeklaMpiInterface* hekla_mpi_interface(uint32_t version) {
    static const HeklaMpiInterface interface = {sizeof interface, HEKLA_MPI_VERSION, open_module, connect_module,
                                                close_module};
    return version == HEKLA_MPI_VERSION ? &interface : NULL;
}
