/* What libhekla_mpi exports: one function, hekla_mpi_interface. A cluster compiles the module with its own MPI:

       mpicc -O2 -fPIC -shared -I PREFIX/include hekla_mpi.c -o libhekla_mpi.so

   and puts it next to libhekla.so or into a folder of LD_LIBRARY_PATH. */
#ifndef HEKLA_MPI_MODULE_H
#define HEKLA_MPI_MODULE_H

#include "hekla/communicator.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HEKLA_MPI_VERSION 1u
/* Exit status where another rank was lost: sysexits' EX_TEMPFAIL, the same command may work the next time. */
#define HEKLA_MPI_RETRY 75

typedef struct HeklaMpiPlace {
    int32_t local_rank; /* among the ranks of this machine */
    int32_t local_size;
    const char* library; /* name and version of the MPI library; static */
} HeklaMpiPlace;

typedef struct HeklaMpiInterface {
    uint32_t struct_size;
    uint32_t version;
    /* Initializes MPI on a thread of its own, which makes every call of MPI, and fills in the communicator of all
       processes of the job. A rank without a sign of life for `timeout` seconds counts as lost. Returns HK_OK, or
       another code and a message that stays valid; HK_CANCELLED: the other processes did not start within `timeout`
       and a little more, and every process finds so. Once in a process. */
    int32_t (*open)(double timeout, hk_communicator* communicator, HeklaMpiPlace* place, hk_string* why);
    /* Ends MPI: normally if `failed` is 0, when all ranks are done, otherwise the whole job, with `status`. It does not
       return where the job has failed, and where a rank is lost before the others are done. */
    void (*close)(int32_t failed, int32_t status);
} HeklaMpiInterface;

/* Null where this version is not offered. Static; never freed. */
typedef const HeklaMpiInterface* (*HeklaMpiEntry)(uint32_t version);

#ifdef __cplusplus
}
#endif

#endif
