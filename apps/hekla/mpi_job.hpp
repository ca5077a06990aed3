// This process as one rank of an MPI job that mpirun or srun has started.
#pragma once

#include "base/module.hpp"
#include "exchange/mpi_module/mpi_module.h"
#include "hekla/communicator.h"

#include <memory>
#include <string>

namespace hekla::app {

class MpiJob {
public:
    // Returns the number of processes that a launcher has started this one with; 0: it was not started by one.
    static int64_t launched();
    // Returns the rank that the launcher has given this process; 0 where it does not say.
    static int64_t launched_rank();
    // Opens the module (`file`, or the installed one) and joins the job. timeout: seconds. Errors: the module or MPI is
    // missing; the launcher has started several processes that do not know of each other; not all processes start
    // (cancelled: rank 0 finds so as well).
    static Result<std::unique_ptr<MpiJob>> join(double timeout, const std::string& file = {});
    ~MpiJob(); // ends MPI; the whole job, if this rank has failed

    const hk_communicator* communicator() const { return &communicator_; }
    bool leads() const { return communicator_.rank == 0; }
    // The index of this process among those of this machine.
    int32_t local_rank() const { return place_.local_rank; }
    const char* library() const { return place_.library; } // name and version
    // Returns the exit status where this rank could not join; rank 0 reports what all have found, and rank 1 warns of
    // it.
    static int not_joined(const Status& status, const Log& log);
    // Notes that the work of this rank failed, and returns the exit status: kRetry if another rank has ended.
    int fail(int status);

    static constexpr int kRetry = HEKLA_MPI_RETRY;

private:
    MpiJob() = default;
    Module<HeklaMpiInterface> module_;
    hk_communicator inner_{};
    hk_communicator communicator_{}; // passes calls on to inner_, and notes whether a rank was lost
    HeklaMpiPlace place_{};
    bool lost_ = false;
    int failed_ = 0; // exit status
};

} // namespace hekla::app
