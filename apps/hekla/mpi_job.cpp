#include "mpi_job.hpp"

#include "command.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <thread>

namespace hekla::app {
namespace {

constexpr ModuleName kMpi{
    "libhekla_mpi.so", "hekla_mpi_interface", HEKLA_MPI_VERSION, "an MPI module",
    "a launcher has started several processes, and the module that connects them "
    "(libhekla_mpi.so) cannot be opened: in a checkout, run third_party/install --distributed and build again; of an "
    "installed Hekla, compile share/hekla/mpi/hekla_mpi.c with the mpicc of this system"};

std::string message_of(hk_string why) {
    return fmt::format("MPI: {}", std::string_view(why.data, static_cast<std::size_t>(why.size)));
}

} // namespace

int64_t MpiJob::launched() {
    // Open MPI, MPICH and its relatives, and steps of Slurm (srun), whatever the MPI library.
    int64_t most = 0;
    for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"})
        if (const char* value = std::getenv(name); value != nullptr)
            most = std::max<int64_t>(most, std::strtoll(value, nullptr, 10));
    return most;
}

int64_t MpiJob::launched_process() {
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"})
        if (const char* value = std::getenv(name); value != nullptr) return std::strtoll(value, nullptr, 10);
    return 0;
}

Result<std::unique_ptr<MpiJob>> MpiJob::join(double timeout, const std::string& file) {
    HK_ASSIGN(Module<HeklaMpiInterface> module, Module<HeklaMpiInterface>::open(kMpi, file));
    std::unique_ptr<MpiJob> job(new MpiJob());
    hk_string why{};
    if (const int32_t code = module->open(timeout, &job->place_, &why); code != HK_OK)
        return Status(code == HK_CANCELLED && launched_process() == 0 ? Code::io : static_cast<Code>(code),
                      message_of(why));
    job->module_ = std::move(module);
    if (job->place_.processes == 1 && launched() > 1)
        return failed_precondition(
            fmt::format("a launcher has started {} processes, and {} sees one, so each would train alone: start them "
                        "with the launcher of that MPI library (srun needs --mpi=pmix; `srun --mpi=list`)",
                        launched(), job->place_.library));
    return job;
}

Status MpiJob::connect(std::size_t ranks) {
    std::vector<hk_communicator> inner(ranks);
    hk_string why{};
    if (const int32_t code = module_->connect(static_cast<uint32_t>(ranks), inner.data(), &why); code != HK_OK) {
        lost_ = true;
        return Status(static_cast<Code>(code), message_of(why));
    }
    ranks_.resize(ranks);
    communicators_ = inner;
    for (std::size_t r = 0; r < ranks; ++r) {
        ranks_[r] = {this, inner[r]};
        communicators_[r].user = &ranks_[r];
        communicators_[r].begin = [](void* user, uint64_t number, const hk_exchange_part* parts, hk_string* text) {
            const hk_communicator& to = static_cast<Rank*>(user)->inner;
            return to.begin(to.user, number, parts, text);
        };
        communicators_[r].test = [](void* user, uint64_t number, int32_t* done, int32_t* lost, hk_string* text) {
            const Rank& self = *static_cast<Rank*>(user);
            const int32_t code = self.inner.test(self.inner.user, number, done, lost, text);
            const int32_t first = self.job->communicators_.front().rank;
            const bool own = *lost >= first && *lost < first + static_cast<int32_t>(self.job->ranks_.size());
            if (code == HK_OK && *lost >= 0 && !own) self.job->lost_ = true;
            return code;
        };
        communicators_[r].fail = [](void* user, hk_string text) {
            const hk_communicator& to = static_cast<Rank*>(user)->inner;
            to.fail(to.user, text);
        };
    }
    return {};
}

void MpiJob::not_joined(const Status& status, const Log& log) {
    int code = kRetry;
    if (status.code() != Code::cancelled)
        code = app::fail(status);
    else if (launched_process() == 1)
        log.warning(status.message()); // process 0 may be the one that has ended
    std::fflush(nullptr);
    std::_Exit(code); // exit handlers of the MPI library may wait for its thread
}

int MpiJob::fail(int status) {
    told_ = status == kTold;
    failed_ = lost_ ? kRetry : told_ ? kFailed : status;
    return failed_;
}

int MpiJob::fail(const Status& error) { return fail(error.code() == Code::cancelled ? kTold : app::fail(error)); }

MpiJob::~MpiJob() {
    if (!module_) return;
    // This one ends the others, and the one that reports the error must have done so; and the launcher must have passed
    // the report on, which it does not once a process has ended the job.
    using std::chrono::milliseconds;
    if (failed_ != 0) std::this_thread::sleep_for(milliseconds(told_ ? 3000 : 300));
    module_->close(failed_ != 0 ? 1 : 0, failed_);
}

} // namespace hekla::app
