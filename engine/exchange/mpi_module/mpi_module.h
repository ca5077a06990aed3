/* What libhekla_mpi exports: one function, hekla_mpi_interface. A cluster compiles the module with its own MPI:

       mpicc -O2 -fPIC -shared -I PREFIX/include hekla_mpi.c -o libhekla_mpi.so

   and puts it next to libhekla.so or into a folder of LD_LIBRARY_PATH. */
#ifndef HEKLA_MPI_MODULE_H
#define HEKLA_MPI_MODULE_H

#include "hekla/communicator.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HEKLA_MPI_VERSION 2u
/* Exit status where another rank was lost: sysexits' EX_TEMPFAIL, the same command may work the next time. */
#define HEKLA_MPI_RETRY 75

typedef struct HeklaMpiPlace {
    int32_t process; /* among those of the job */
    int32_t processes;
    int32_t local_process; /* among those of this machine */
    int32_t local_processes;
    const char* library; /* name and version of the MPI library; static */
} HeklaMpiPlace;

typedef struct HeklaMpiInterface {
    uint32_t struct_size;
    uint32_t version;
    /* Initializes MPI on a thread of its own, which makes every call of MPI, and fills in the place of this process in
       the job. A process without a sign of life for `timeout` seconds counts as lost. Returns HK_OK, or another code
       and a message that stays valid; HK_CANCELLED: the other processes did not start within `timeout` and a little
       more, and every process finds so. After an error the thread may still be in MPI: the process ends with _exit(),
       without exit handlers that may wait for it. Once in a process. */
    int32_t (*open)(double timeout, HeklaMpiPlace* place, hk_string* why);
    /* Gives this process `count` ranks of the job, 1 to 64, and fills in their communicators, each of which one thread
       uses. Ranks are numbered by process. Returns when all processes have called it. Errors: as open(); HK_IO where
       this process is to report that another one ended, and HK_CANCELLED on the others. Once in a process. */
    int32_t (*connect)(uint32_t count, hk_communicator* communicators, hk_string* why);
    /* Ends MPI, once open() has returned HK_OK: normally if `failed` is 0, when all ranks are done, otherwise the whole
       job, with `status`. It does not return where the job has failed, and where a rank is lost before the others are
       done. */
    void (*close)(int32_t failed, int32_t status);
} HeklaMpiInterface;

/* Null where this version is not offered. Static; never freed. */
typedef const HeklaMpiInterface* (*HeklaMpiEntry)(uint32_t version);

#ifdef __cplusplus
}
#endif

#endif
