// Ranks that are processes of an MPI job: the bits of one process, and what is left when one of them dies.
#include "mpi_jobs.hpp"

#include <nlohmann/json.hpp>
#include <random>
#include <sys/stat.h>
#include <thread>

using namespace hekla::test;
using nlohmann::json;

namespace mpi_test {
namespace {

namespace fs = std::filesystem;

// Returns the option with which mpirun does not end the other processes.
std::string recovery_of(const Mpi& mpi) { return mpi.module.empty() ? "--enable-recovery" : "-disable-auto-cleanup"; }

// Ends a random rank at a random moment, `deaths` times, and resumes with another number of ranks each time. launcher:
// whether mpirun ends the other processes; if it does not, they must find out by themselves.
void survives(const Mpi& mpi, int deaths, int signal, bool launcher) {
    CAPTURE(mpi.name);
    CAPTURE(signal);
    const TestFolder folder;
    begin(folder);
    constexpr int kSteps = 120;
    succeeds(run(folder, job_arguments("undisturbed", kSteps)));
    std::vector<std::string> options;
    if (!launcher) options.push_back(recovery_of(mpi));
    std::mt19937 random(static_cast<uint32_t>(deaths + signal));
    double longest = 0.0;
    double latest = 4.0; // seconds after the start; a job that is finished before it makes the next moments earlier
    int died = 0, tries = 0, named = 0;
    while (died < deaths && ++tries < 3 * deaths + 10) {
        const int ranks = 2 + static_cast<int>(random() % 3);
        const Job job(mpi, ranks, job_arguments("run", kSteps), options);
        Process process(folder, job.words, job.around);
        wait_between(random, 0.3, latest);
        const int victim = static_cast<int>(random() % static_cast<unsigned>(ranks));
        const std::map<int, pid_t> processes = ranks_in(folder);
        if (const auto found = processes.find(victim); found != processes.end() && ::kill(found->second, signal) == 0) {
            const double seconds = wait_for_end(folder, victim);
            longest = std::max(longest, seconds);
            CHECK(seconds < kLongestEnd);
            ++died;
            latest = std::min(4.0, 1.1 * latest);
        } else {
            latest = std::max(1.0, 0.8 * latest);
        }
        const Ran ended = process.wait(20);
        end_job(folder); // the process that was stopped
        const std::string name = "rank " + std::to_string(victim) + " (host ";
        if (has(ended.err, name)) ++named;
        // Rank 0 writes the files. mpirun may kill it a second after it asked it to end, and MPICH's UCX (it copies
        // from the memory of the one that was killed) or launcher at once: in the middle of a checkpoint.
        if (victim != 0 && !launcher && mpi.module.empty())
            check_left_over(folder, ended);
        else
            check_messages(ended);
        if (ended.status == 0 && is_finished(folder, "run", kSteps)) {
            CHECK(outcome(folder, "run", kSteps) == outcome(folder, "undisturbed", kSteps));
            fs::remove_all(folder / "run");
        }
    }
    CHECK(died == deaths);
    std::this_thread::sleep_for(std::chrono::seconds(1)); // a killed process holds its lock until its memory is freed
    succeeds(run(folder, job_arguments("run", kSteps)));
    CHECK(outcome(folder, "run", kSteps) == outcome(folder, "undisturbed", kSteps));
    CHECK(leftovers(folder) == ""); // of those that were killed: the next training removes them
    MESSAGE(std::string(mpi.name), ", signal ", signal, ": ", died, " ranks ended, ", named,
            " named by others, all processes within ", longest, " s");
}

std::vector<std::string> on_devices(std::vector<std::string> arguments, const char* devices) {
    arguments.insert(arguments.end(), {"--devices", devices});
    return arguments;
}

} // namespace

TEST_CASE("processes give the bits of one, with a device or several each") {
    struct Case {
        int processes = 0, ranks = 0;
        const char* devices = nullptr; // of all; null: one for each process
    };
    const TestFolder folder;
    begin(folder);
    succeeds(run(folder, job_arguments("alone", 6)));
    const std::string expected = outcome(folder, "alone", 6);
    for (const Mpi& mpi : installed_mpi()) {
        CAPTURE(mpi.name);
        for (const Case& c : {Case{2, 2}, Case{4, 4}, Case{2, 4, "0,0,0,0"}, Case{2, 3, "0,0,0"}}) {
            CAPTURE(c.processes);
            CAPTURE(c.ranks);
            const std::string dir =
                std::to_string(c.processes) + "-" + std::to_string(c.ranks) + std::string(mpi.name).substr(0, 2);
            std::vector<std::string> arguments = job_arguments(dir, 6);
            if (c.devices != nullptr) arguments = on_devices(arguments, c.devices);
            const Job job(mpi, c.processes, arguments);
            const Ran ended = run(folder, job.words, job.around);
            succeeds(ended);
            CHECK(count_of(ended.err, "done: 6 steps") == 1); // only rank 0 reports
            CHECK(has(ended.err, "ranks 0 and " + std::to_string(c.ranks - 1) + " use the same"));
            CHECK(outcome(folder, dir, 6) == expected);
        }
    }
}

TEST_CASE("ranks with other recipes, too many ranks and processes that do not know of each other are refused") {
    const TestFolder folder;
    begin(folder);
    for (const Mpi& mpi : installed_mpi()) {
        Job job(mpi, 1, job_arguments("run", 6));
        std::vector<std::string> other{":", "-n", "1", HEKLA_PROGRAM};
        for (const std::string& word : job_arguments("run", 6))
            other.push_back(word == "train.max_steps=6" ? "train.max_steps=7" : word);
        other.insert(other.end(), mpi.module.begin(), mpi.module.end());
        job.words.insert(job.words.end(), other.begin(), other.end());
        const Ran ended = run(folder, job.words, job.around);
        CAPTURE(ended.err);
        CHECK(ended.status != 0);
        CHECK(has(ended.err, "rank 1 (host "));
        CHECK(has(ended.err, "has another recipe: train.max_steps = 7, and 6 on rank 0"));
        CHECK(!folder.exists("run"));

        const Job many(mpi, 5, job_arguments("run", 6));
        const Ran refused = run(folder, many.words, many.around);
        CAPTURE(refused.err);
        CHECK(refused.status != 0);
        CHECK(has(refused.err, "5 ranks need distributed.parts = 5 or more; it is 4"));

        std::vector<std::string> single = job_arguments("run", 6);
        single.insert(single.end(), mpi.module.begin(), mpi.module.end());
        const Ran alone = run(folder, single,
                              {.environment = {{"SLURM_STEP_NUM_TASKS", "4"},
                                               {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                               {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}}});
        CAPTURE(alone.err);
        CHECK(alone.status == 1);
        CHECK(has(alone.err, "a launcher has started 4 processes"));
        CHECK(has(alone.err, "srun needs --mpi=pmix"));
    }
    std::vector<std::string> without = job_arguments("run", 6);
    without.insert(without.end(), {"--mpi-module", "missing.so"});
    fails(run(folder, without, {.environment = {{"SLURM_STEP_NUM_TASKS", "2"}}}),
          {"libhekla_mpi.so", "third_party/install --distributed", "share/hekla/mpi/hekla_mpi.c"});
}

TEST_CASE("ranks whose devices round differently have the same parameters after every step" *
          doctest::test_suite("long")) {
    const std::vector<Mpi> all = installed_mpi();
    if (all.empty() || !all.front().module.empty()) return; // mpirun of Open MPI sets variables of single ranks
    const TestFolder folder;
    begin(folder);
    std::vector<std::string> checked = job_arguments("mixed", 40);
    checked.emplace_back("distributed.check_every=1");
    const Job job = two_ranks(all.front(), checked, {"LP_NATIVE_VECTOR_WIDTH=128"}, {"LP_NATIVE_VECTOR_WIDTH=256"});
    const Ran mixed = run(folder, job.words, job.around);
    succeeds(mixed);
    CHECK(!has(mixed.err, "other parameters"));
    succeeds(run(folder, job_arguments("alone", 40)));
    const auto last = [&](const std::string& dir) {
        const std::string log = folder.read(dir + "/train_log.jsonl");
        const std::size_t at = log.rfind("{\"step\":40,\"loss");
        return json::parse(log.substr(at, log.find('\n', at) - at))["loss"].get<double>();
    };
    CHECK(last("mixed") == doctest::Approx(last("alone")).epsilon(1e-3));
}

TEST_CASE("one rank loses its device: it is named, all ranks end, and the same command resumes" *
          doctest::test_suite("long")) {
    const std::vector<Mpi> all = installed_mpi();
    if (all.empty() || !all.front().module.empty()) return;
    const TestFolder folder;
    begin(folder);
    succeeds(run(folder, job_arguments("undisturbed", 120)));
    int lost = 0;
    for (const int nth : {200, 350}) { // submits: after some checkpoints
        const Job job = two_ranks(all.front(), job_arguments("run", 120), {"UNUSED=1"},
                                  {std::string("LD_LIBRARY_PATH=") + HEKLA_FAULT_FOLDER,
                                   "HEKLA_FAULTS=vkQueueSubmit2:" + std::to_string(nth) + ":-4"});
        const Ran ended = run(folder, job.words, job.around);
        CAPTURE(ended.err);
        if (ended.status == 0) continue;
        ++lost;
        CHECK(has(ended.err, "rank 1 (host "));
        CHECK(has(ended.err, "lost"));
    }
    CHECK(lost > 0);
    const Job job(all.front(), 2, job_arguments("run", 120));
    succeeds(run(folder, job.words, job.around));
    CHECK(outcome(folder, "run", 120) == outcome(folder, "undisturbed", 120));
}

TEST_CASE("a rank is killed before all have connected: each of the others finds out, the last one by a message" *
          doctest::test_suite("long")) {
    const TestFolder folder;
    begin(folder);
    // Rank 0 joins the job, and then waits in dlopen() for a driver that is a pipe without a writer.
    REQUIRE(::mkfifo((folder / "pipe").c_str(), S_IRUSR | S_IWUSR) == 0);
    const json driver{{"library_path", (folder / "pipe").string()}, {"api_version", "1.3.0"}};
    folder.write("driver.json", json{{"file_format_version", "1.0.0"}, {"ICD", driver}}.dump());
    for (const Mpi& mpi : installed_mpi()) {
        CAPTURE(mpi.name);
        Job job(mpi, 1, job_arguments("run", 6), {recovery_of(mpi)});
        job.around.environment["LP_NATIVE_VECTOR_WIDTH"] = "256"; // else a driver is loaded to choose it
        const std::vector<std::string> words = job.words;
        const auto program = std::ranges::find(words, HEKLA_PROGRAM);
        job.words.insert(job.words.begin() + (program - words.begin()),
                         {"env", "VK_DRIVER_FILES=" + (folder / "driver.json").string()});
        job.words.insert(job.words.end(), {":", "-n", "3"});
        job.words.insert(job.words.end(), program, words.end());
        Process process(folder, job.words, job.around);
        for (int tries = 0; tries < 400 && ranks_in(folder).size() < 4; ++tries)
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
        std::this_thread::sleep_for(std::chrono::seconds(2)); // until the others wait for rank 0
        const std::map<int, pid_t> processes = ranks_in(folder);
        REQUIRE(processes.size() == 4);
        REQUIRE(::kill(processes.at(0), SIGKILL) == 0);
        CHECK(wait_for_end(folder, 0) < kLongestEnd);
        const Ran ended = process.wait(20);
        end_job(folder);
        CAPTURE(ended.err);
        // MPICH's launcher tells the others of the death at once, and often fails at their questions and kills them.
        const bool named = has(ended.err, "process 0 ended before all had begun");
        CHECK((named || !mpi.module.empty()));
        check_left_over(folder, ended);
        CHECK(!folder.exists("run"));
    }
}

// As srun and mpirun do, which pass a signal on to all processes.
TEST_CASE("a signal for all processes stops the training at a checkpoint, one for another than rank 0 does not") {
    const std::vector<Mpi> all = installed_mpi();
    if (all.empty()) return;
    const TestFolder folder;
    begin(folder);
    constexpr int kSteps = 60;
    succeeds(run(folder, job_arguments("undisturbed", kSteps)));
    const Job job(all.front(), 2, job_arguments("run", kSteps));
    {
        Process process(folder, job.words, job.around);
        wait_for_step(folder, process, 12);
        for (const auto& [rank, id] : ranks_in(folder)) CHECK(::kill(id, SIGTERM) == 0);
        const Ran ended = process.wait();
        CAPTURE(ended.err);
        CHECK(count_of(ended.err, "hekla: error: ") == 0);
        CHECK(has(ended.err, "stopped after step "));
        CHECK(!is_finished(folder, "run", kSteps));
        CHECK(leftovers(folder) == "");
    }
    {
        Process process(folder, job.words, job.around);
        const int before = count_of(folder.read("run/train_log.jsonl"), "\n");
        wait_for_step(folder, process, before + 2);
        CHECK(::kill(ranks_in(folder).at(1), SIGTERM) == 0);
        succeeds(process.wait());
    }
    CHECK(outcome(folder, "run", kSteps) == outcome(folder, "undisturbed", kSteps));
}

TEST_CASE("a rank is killed or stopped, and the same command goes on" * doctest::test_suite("long")) {
    const std::vector<Mpi> all = installed_mpi();
    if (all.empty()) return;
    survives(all.front(), 1, SIGKILL, true);
    survives(all.front(), 1, SIGSTOP, false);
}

TEST_SUITE("long") {
    TEST_CASE("ranks are killed 25 times, and mpirun ends the others") {
        for (const Mpi& mpi : installed_mpi()) survives(mpi, 25, SIGKILL, true);
    }

    TEST_CASE("ranks are killed 25 times, and the others find out") {
        for (const Mpi& mpi : installed_mpi()) survives(mpi, 25, SIGKILL, false);
    }

    TEST_CASE("ranks are stopped 20 times, and the others find out") {
        for (const Mpi& mpi : installed_mpi()) survives(mpi, 20, SIGSTOP, false);
    }

    TEST_CASE("a process with several devices disappears, and is named") {
        for (const Mpi& mpi : installed_mpi()) {
            CAPTURE(mpi.name);
            const TestFolder folder;
            begin(folder);
            for (const int victim : {0, 1}) {
                CAPTURE(victim);
                const std::string dir = "killed" + std::string(mpi.name).substr(0, 2);
                const Job job(mpi, 2, on_devices(job_arguments(dir, 1000), "0,0,0,0"), {recovery_of(mpi)});
                Process process(folder, job.words, job.around);
                for (int tries = 0; tries < 600 && !folder.exists(dir + "/checkpoint-10"); ++tries)
                    std::this_thread::sleep_for(std::chrono::milliseconds(50));
                REQUIRE(folder.exists(dir + "/checkpoint-10"));
                const std::map<int, pid_t> processes = ranks_in(folder);
                REQUIRE(processes.contains(victim));
                REQUIRE(::kill(processes.at(victim), SIGKILL) == 0);
                CHECK(wait_for_end(folder, victim) < kLongestEnd);
                const Ran ended = process.wait(20);
                CAPTURE(ended.out);
                CAPTURE(ended.err);
                CHECK(count_of(ended.err, "hekla: error: ") <= 1);
                // MPICH's UCX ends the other process where it was copying from the memory of this one.
                const bool named = has(ended.err, victim == 0 ? "rank 0 (host " : "rank 2 (host ");
                CHECK((named || !mpi.module.empty()));
                CHECK(has(ended.err, "was lost") == named);
                fs::remove_all(folder / dir);
            }
        }
    }
}

} // namespace mpi_test
