// This process in an MPI job that mpirun or srun has started, with one rank or several.
#pragma once

#include "base/log.hpp"
#include "base/module.hpp"
#include "exchange/mpi_module/mpi_module.h"
#include "hekla/communicator.h"

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace hekla::app {

class MpiJob {
public:
    // Returns the number of processes that a launcher has started this one with; 0: it was not started by one.
    static int64_t launched();
    // Returns the number that the launcher has given this process; 0 where it does not say.
    static int64_t launched_process();
    // Opens the module (`file`, or the installed one) and joins the job. timeout: seconds. Errors: the module or MPI is
    // missing; the launcher has started several processes that do not know of each other; not all processes start
    // (cancelled: rank 0 finds so as well).
    static Result<std::unique_ptr<MpiJob>> join(double timeout, const std::string& file = {});
    ~MpiJob(); // ends MPI; the whole job, if this process has failed

    // Gives this process `ranks` ranks. Returns when all processes of the job have. Errors: another process ended
    // (cancelled where that one or process 0 reports it).
    Status connect(std::size_t ranks);
    // Of the ranks of this process. Each is used by one thread.
    std::span<const hk_communicator> communicators() const { return communicators_; }
    // Whether this is the process of rank 0, which reports.
    bool leads() const { return place_.process == 0; }
    // The index of this process among those of this machine, and their number.
    int32_t local_process() const { return place_.local_process; }
    int32_t local_processes() const { return place_.local_processes; }
    const char* library() const { return place_.library; } // name and version
    // Ends this process, which could not join; process 0 reports what all have found, and process 1 warns of it.
    [[noreturn]] static void not_joined(const Status& status, const Log& log);
    // Notes that the work of this process failed, and returns the exit status: kRetry if a rank of another one has
    // ended. kTold: with an error that another process reports, for which this one waits at its end.
    int fail(int status);
    // The same after an error, which is reported unless another process reports it (cancelled).
    int fail(const Status& error);
    static constexpr int kTold = -1;
    static constexpr int kRetry = HEKLA_MPI_RETRY;

private:
    MpiJob() = default;
    Module<HeklaMpiInterface> module_; // none until it is open
    // A rank of this process: passes calls on to the module, and notes whether a rank of another process was lost.
    struct Rank {
        MpiJob* job = nullptr;
        hk_communicator inner{};
    };
    std::vector<Rank> ranks_;
    std::vector<hk_communicator> communicators_;
    HeklaMpiPlace place_{};
    std::atomic<bool> lost_ = false;
    int failed_ = 0;    // exit status
    bool told_ = false; // by another process, which reports the error
};

} // namespace hekla::app
