// Campaigns of faults in MPI jobs, twenty of each: a rank loses its device, the disk of rank 0 is full, the link
// between two machines breaks. Every process ends with an error, nothing is half-written, and the same command resumes
// until the run has the bits of an undisturbed one.
#include "mpi_jobs.hpp"
#include "small_disk.hpp"

#include <cstdlib>
#include <random>
#include <unistd.h>

using namespace hekla::test;

namespace mpi_faults_test {
namespace {

namespace fs = std::filesystem;

constexpr int kFaults = 20;

// Two machines with a link between them, as network namespaces.
class TwoMachines {
public:
    TwoMachines() : name_("hekla" + std::to_string(::getpid() % 10000)) {
        const std::string a = name_ + "a", b = name_ + "b";
        works_ = true;
        for (const std::string& one : {a, b})
            works_ = works_ && ip("netns add " + one) && ip("-n " + one + " link set lo up");
        works_ = works_ && ip("link add " + a + " netns " + a + " type veth peer name " + b + " netns " + b) &&
                 ip("-n " + a + " addr add 10.77.0.1/24 dev " + a) &&
                 ip("-n " + b + " addr add 10.77.0.2/24 dev " + b) && connect(true);
    }
    ~TwoMachines() {
        for (const char* machine : {"a", "b"}) {
            end_all(machine);
            ip("netns del " + name_ + machine);
        }
    }
    TwoMachines(const TwoMachines&) = delete;
    TwoMachines& operator=(const TwoMachines&) = delete;

    bool works() const { return works_; }
    bool connect(bool up) const {
        const std::string state = up ? " up" : " down", a = name_ + "a", b = name_ + "b";
        return ip("-n " + a + " link set " + a + state) && (!up || ip("-n " + b + " link set " + b + state));
    }
    // Kills the launcher's processes: they may wait for a machine that does not answer any more.
    void end_all(const std::string& machine) const {
        run_quietly("ip netns pids " + name_ + machine + " | xargs -r kill -9");
    }
    // Open MPI's launcher on the first machine, with one rank on each.
    Job job(const TestFolder& folder, const Mpi& mpi, const std::vector<std::string>& arguments) const {
        const std::string a = name_ + "a", b = name_ + "b";
        folder.write("remote", "#!/bin/sh\n# HOST COMMAND...: as ssh\nshift\nexec ip netns exec " + b +
                                   " unshare -u sh -c \"hostname " + b + "; $*\"\n");
        folder.write("launch", "hostname " + a + "\nexec \"$@\"\n");
        fs::permissions(folder / "remote", fs::perms::owner_all);
        Job job(mpi, 2, arguments);
        std::vector<std::string> words{"netns",
                                       "exec",
                                       a,
                                       "unshare",
                                       "-u",
                                       "sh",
                                       (folder / "launch").string(),
                                       mpi.mpirun,
                                       "--host",
                                       "10.77.0.1:1,10.77.0.2:1",
                                       "--bind-to",
                                       "none",
                                       "--mca",
                                       "plm_rsh_agent",
                                       (folder / "remote").string(),
                                       "--mca",
                                       "btl",
                                       "tcp,self",
                                       "--mca",
                                       "btl_tcp_if_include",
                                       "10.77.0.0/24",
                                       "--mca",
                                       "oob_tcp_if_include",
                                       "10.77.0.0/24",
                                       "-x",
                                       "LP_NUM_THREADS"};
        words.insert(words.end(), job.words.begin() + static_cast<std::ptrdiff_t>(mpi.options.size()), job.words.end());
        job.words = std::move(words);
        job.around.program = "/usr/bin/env";
        job.words.insert(job.words.begin(), "ip");
        return job;
    }

private:
    static bool run_quietly(const std::string& command) {
        return std::system(("(" + command + ") >/dev/null 2>&1").c_str()) == 0; // NOLINT(cert-env33-c)
    }
    static bool ip(const std::string& arguments) { return run_quietly("ip " + arguments); }
    std::string name_;
    bool works_ = false;
};

std::vector<std::string> saving(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"train.save_steps=2", "train.save_total_limit=1000"});
    return arguments;
}

} // namespace

TEST_SUITE("long") {
    TEST_CASE("one of two processes loses its device, twenty times") {
        const std::vector<Mpi> all = installed_mpi();
        if (all.empty() || !all.front().module.empty()) return; // mpirun of Open MPI sets variables of single ranks
        const TestFolder folder;
        begin(folder);
        constexpr int kSteps = 120;
        succeeds(run(folder, job_arguments("undisturbed", kSteps)));
        std::mt19937 random(1);
        int lost = 0, named = 0;
        for (int tries = 0; lost < kFaults && tries < 4 * kFaults; ++tries) {
            const int victim = static_cast<int>(random() % 2);
            const std::vector<std::string> none{"UNUSED=1"},
                fault{std::string("LD_LIBRARY_PATH=") + HEKLA_FAULT_FOLDER,
                      "HEKLA_FAULTS=vkQueueSubmit2:" + std::to_string(5 + random() % 300) + ":-4"};
            const Job job = two_ranks(all.front(), job_arguments("run", kSteps), victim == 0 ? fault : none,
                                      victim == 1 ? fault : none);
            const Ran ended = run(folder, job.words, job.around);
            CHECK(wait_for_end(folder) < kLongestEnd);
            check_left_over(folder, ended, 2);
            if (ended.status == 0) {
                CHECK(outcome(folder, "run", kSteps) == outcome(folder, "undisturbed", kSteps));
                fs::remove_all(folder / "run");
                continue;
            }
            ++lost;
            CAPTURE(ended.err);
            CHECK(has(ended.err, "lost"));
            if (has(ended.err, "rank " + std::to_string(victim) + " (host ")) ++named;
        }
        CHECK(lost == kFaults);
        const Job job(all.front(), 3, job_arguments("run", kSteps));
        succeeds(run(folder, job.words, job.around));
        CHECK(outcome(folder, "run", kSteps) == outcome(folder, "undisturbed", kSteps));
        CHECK(leftovers(folder) == "");
        MESSAGE(lost, " devices lost, ", named, " with the rank's name");
    }

    TEST_CASE("the disk of rank 0 is full, twenty times") {
        const std::vector<Mpi> all = installed_mpi();
        if (all.empty()) return;
        const TestFolder folder;
        begin(folder);
        constexpr int kSteps = 240;
        const SmallDisk disk(folder / "disk", "8k");
        if (!disk.mounted()) {
            MESSAGE("skipped: this process may not mount a file system");
            return;
        }
        succeeds(run(folder, saving(job_arguments("undisturbed", kSteps))));
        std::mt19937 random(2);
        int full = 0;
        for (int tries = 0; full < kFaults && tries < 2 * kFaults; ++tries) {
            REQUIRE(disk.leave(random() % 400'000));
            const Mpi& mpi = all[random() % all.size()];
            const Job job(mpi, 2 + static_cast<int>(random() % 3), saving(job_arguments("disk/run", kSteps)));
            const Ran ended = run(folder, job.words, job.around);
            CAPTURE(ended.err);
            CHECK(wait_for_end(folder) < kLongestEnd);
            check_left_over(folder, ended, 2);
            if (ended.status == 0) break;
            ++full;
            CHECK(has(ended.err, "No space left"));
        }
        CHECK(full == kFaults);
        REQUIRE(disk.leave(64 << 20));
        const Job job(all.front(), 2, saving(job_arguments("disk/run", kSteps)));
        succeeds(run(folder, job.words, job.around));
        CHECK(outcome(folder, "disk/run", kSteps) == outcome(folder, "undisturbed", kSteps));
        MESSAGE(full, " jobs ended because the disk was full");
    }

    TEST_CASE("the link between two machines breaks, twenty times") {
        const std::vector<Mpi> all = installed_mpi();
        if (all.empty() || !all.front().module.empty()) return;
        const TwoMachines machines;
        if (!machines.works()) {
            MESSAGE("skipped: this process may not create network namespaces with `ip`");
            return;
        }
        const TestFolder folder;
        begin(folder);
        constexpr int kSteps = 2000;
        std::vector<std::string> arguments = job_arguments("run", kSteps);
        arguments.emplace_back("train.eval_steps=0");
        std::mt19937 random(3);
        int broken = 0, named = 0;
        double longest = 0.0;
        for (int tries = 0; broken < kFaults && tries < 2 * kFaults; ++tries) {
            REQUIRE(machines.connect(true));
            const Job job = machines.job(folder, all.front(), arguments);
            Process process(folder, job.words, job.around);
            wait_between(random, 0.8, 4.0);
            const bool works = ranks_in(folder).size() == 2; // it has started, and is not finished
            if (works) {
                REQUIRE(machines.connect(false));
                const double seconds = wait_for_end(folder);
                longest = std::max(longest, seconds);
                CHECK(seconds < kLongestEnd);
            }
            for (const char* machine : {"a", "b"}) machines.end_all(machine);
            const Ran ended = process.wait(20);
            if (works) {
                ++broken;
                check_left_over(folder, ended);
                CHECK(ended.status != 0);
                if (has(ended.err, "was lost")) ++named;
            }
            end_job(folder);
            if (is_finished(folder, "run", kSteps)) fs::remove_all(folder / "run");
        }
        CHECK(broken == kFaults);
        REQUIRE(machines.connect(true));
        succeeds(run(folder, arguments)); // one process, on what is left
        std::vector<std::string> undisturbed = arguments;
        undisturbed.emplace_back("output.dir=undisturbed");
        succeeds(run(folder, undisturbed));
        CHECK(outcome(folder, "run", kSteps) == outcome(folder, "undisturbed", kSteps));
        MESSAGE(broken, " links broken, ", named, " ranks named, all processes within ", longest, " s");
    }
}

} // namespace mpi_faults_test
