// Ranks that are processes of an MPI job: the bits of one process, and what is left when one of them dies.
#include "cases.hpp"

#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

using namespace hekla::test;
using nlohmann::json;

namespace mpi_test {
namespace {

namespace fs = std::filesystem;

constexpr double kTimeout = 5; // seconds without a sign of life

struct Mpi {
    const char* name = "";
    std::string mpirun;
    std::vector<std::string> options; // of mpirun
    std::vector<std::string> module;  // of hekla
};

std::vector<Mpi> installed() {
    std::vector<Mpi> all;
#ifdef HEKLA_OPENMPI
    all.push_back({"Open MPI", HEKLA_OPENMPI, {"--oversubscribe", "--bind-to", "none"}, {}});
#endif
#ifdef HEKLA_MPICH
    all.push_back({"MPICH", HEKLA_MPICH, {}, {"--mpi-module", HEKLA_MPICH_MODULE}});
#endif
    if (all.empty()) MESSAGE("skipped: no MPI is installed; third_party/install --distributed installs one");
    return all;
}

// The program with arguments, as `ranks` processes; options: more of mpirun.
struct Job {
    Job(const Mpi& mpi, int ranks, std::vector<std::string> arguments, std::vector<std::string> options = {})
        : around{.environment = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                 {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                                 {"LP_NUM_THREADS", "1"}},
                 .program = mpi.mpirun} {
        words = mpi.options;
        words.insert(words.end(), options.begin(), options.end());
        words.insert(words.end(), {"-n", std::to_string(ranks), HEKLA_PROGRAM});
        words.insert(words.end(), arguments.begin(), arguments.end());
        words.insert(words.end(), mpi.module.begin(), mpi.module.end());
    }
    Surroundings around;
    std::vector<std::string> words;
};

// The processes of hekla that work in a folder, by rank.
std::map<int, pid_t> ranks_in(const Folder& folder) {
    std::map<int, pid_t> found;
    for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
        const std::string id = entry.path().filename().string();
        if (id.find_first_not_of("0123456789") != std::string::npos) continue;
        std::error_code error;
        if (fs::read_symlink(entry.path() / "exe", error) != fs::path(HEKLA_PROGRAM)) continue;
        if (fs::read_symlink(entry.path() / "cwd", error) != folder.root()) continue;
        std::ifstream file(entry.path() / "environ", std::ios::binary);
        const std::string environment{std::istreambuf_iterator<char>(file), {}};
        for (const char* name : {"OMPI_COMM_WORLD_RANK=", "PMI_RANK="})
            if (const std::size_t at = environment.find(name); at != std::string::npos)
                found[std::atoi(environment.c_str() + at + std::strlen(name))] = std::atoi(id.c_str());
    }
    return found;
}

std::vector<std::string> arguments(const std::string& dir, int steps) {
    return {"train",
            "recipe.toml",
            "train.gradient_accumulation_steps=4",
            "train.per_device_train_batch_size=1",
            "train.max_steps=" + std::to_string(steps),
            "train.save_steps=10",
            "train.eval_steps=30",
            "train.save_total_limit=2",
            "distributed.parts=4",
            "distributed.timeout=" + std::to_string(kTimeout),
            "output.dir=" + dir};
}

// Ends a random rank at a random moment, `deaths` times, and resumes with another number of ranks each time. launcher:
// whether mpirun ends the other processes; if it does not, they must find out by themselves.
void survives(const Mpi& mpi, int deaths, int signal, bool launcher) {
    CAPTURE(mpi.name);
    CAPTURE(signal);
    const Folder folder;
    begin(folder);
    constexpr int kSteps = 120;
    succeeds(run(folder, arguments("undisturbed", kSteps)));
    std::vector<std::string> options;
    if (!launcher) options.push_back(mpi.module.empty() ? "--enable-recovery" : "-disable-auto-cleanup");
    std::mt19937 random(static_cast<uint32_t>(deaths + signal));
    double longest = 0.0;
    int died = 0, tries = 0, named = 0;
    while (died < deaths && ++tries < 3 * deaths + 10) {
        const int ranks = 2 + static_cast<int>(random() % 3);
        const Job job(mpi, ranks, arguments("run", kSteps), options);
        Process process(folder, job.words, job.around);
        std::this_thread::sleep_for(
            std::chrono::duration<double>(std::uniform_real_distribution<double>(0.3, 4.0)(random)));
        const int victim = static_cast<int>(random() % static_cast<unsigned>(ranks));
        const std::map<int, pid_t> processes = ranks_in(folder);
        if (const auto found = processes.find(victim); found != processes.end() && ::kill(found->second, signal) == 0) {
            const auto begin = std::chrono::steady_clock::now();
            const auto others_end = [&] {
                std::map<int, pid_t> left = ranks_in(folder);
                left.erase(victim);
                return left.empty();
            };
            while (!others_end() && std::chrono::steady_clock::now() - begin < std::chrono::seconds(60))
                std::this_thread::sleep_for(std::chrono::milliseconds(20));
            const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
            longest = std::max(longest, seconds);
            CHECK(others_end());
            CHECK(seconds < kTimeout + 5);
            ++died;
        }
        const Ended ended = process.wait(20);
        for (const auto& [rank, id] : ranks_in(folder)) ::kill(id, SIGKILL); // the one that was stopped
        for (int i = 0; i < 500 && !ranks_in(folder).empty(); ++i)           // its lock is released when it has ended
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        CAPTURE(ended.err);
        const std::string name = "rank " + std::to_string(victim) + " (host ";
        if (has(ended.err, name)) ++named;
        CHECK(count_of(ended.err, "hekla: error: ") <= 1);
        for (const fs::directory_entry& entry : fs::directory_iterator(folder.root()))
            CHECK(!has(entry.path().filename().string(), ".tmp"));
        if (ended.status == 0 && folder.exists("run/checkpoint-" + std::to_string(kSteps))) {
            CHECK(outcome(folder, "run", kSteps) == outcome(folder, "undisturbed", kSteps));
            fs::remove_all(folder.path("run"));
        }
    }
    CHECK(died == deaths);
    std::this_thread::sleep_for(std::chrono::seconds(1)); // a killed process holds its lock until its memory is freed
    succeeds(run(folder, arguments("run", kSteps)));
    CHECK(outcome(folder, "run", kSteps) == outcome(folder, "undisturbed", kSteps));
    MESSAGE(std::string(mpi.name), ", signal ", signal, ": ", died, " ranks ended, ", named,
            " named by others, all processes within ", longest, " s");
}

} // namespace

TEST_CASE("processes give the bits of one") {
    const Folder folder;
    begin(folder);
    succeeds(run(folder, arguments("alone", 6)));
    const std::string expected = outcome(folder, "alone", 6);
    for (const Mpi& mpi : installed()) {
        CAPTURE(mpi.name);
        for (const int ranks : {2, 4}) {
            CAPTURE(ranks);
            const std::string dir = "ranks-" + std::to_string(ranks) + std::string(mpi.name).substr(0, 2);
            const Job job(mpi, ranks, arguments(dir, 6));
            const Ended ended = run(folder, job.words, job.around);
            succeeds(ended);
            CHECK(count_of(ended.err, "done: 6 steps") == 1); // only rank 0 reports
            CHECK(outcome(folder, dir, 6) == expected);
        }
    }
}

TEST_CASE("ranks with other recipes, too many ranks and processes that do not know of each other are refused") {
    const Folder folder;
    begin(folder);
    for (const Mpi& mpi : installed()) {
        Job job(mpi, 1, arguments("run", 6));
        std::vector<std::string> other{":", "-n", "1", HEKLA_PROGRAM};
        for (const std::string& word : arguments("run", 6))
            other.push_back(word == "train.max_steps=6" ? "train.max_steps=7" : word);
        other.insert(other.end(), mpi.module.begin(), mpi.module.end());
        job.words.insert(job.words.end(), other.begin(), other.end());
        const Ended ended = run(folder, job.words, job.around);
        CAPTURE(ended.err);
        CHECK(ended.status != 0);
        CHECK(has(ended.err, "rank 1 (host "));
        CHECK(has(ended.err, "has another recipe: train.max_steps = 7, and 6 on rank 0"));
        CHECK(!folder.exists("run"));

        const Job many(mpi, 5, arguments("run", 6));
        const Ended refused = run(folder, many.words, many.around);
        CAPTURE(refused.err);
        CHECK(refused.status != 0);
        CHECK(has(refused.err, "5 ranks need distributed.parts = 5 or more; it is 4"));

        std::vector<std::string> single = arguments("run", 6);
        single.insert(single.end(), mpi.module.begin(), mpi.module.end());
        const Ended alone = run(folder, single,
                                {.environment = {{"SLURM_STEP_NUM_TASKS", "4"},
                                                 {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                                 {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}}});
        CAPTURE(alone.err);
        CHECK(alone.status == 1);
        CHECK(has(alone.err, "a launcher has started 4 processes"));
        CHECK(has(alone.err, "srun needs --mpi=pmix"));
    }
    std::vector<std::string> without = arguments("run", 6);
    without.insert(without.end(), {"--mpi-module", "missing.so"});
    fails(run(folder, without, {.environment = {{"SLURM_STEP_NUM_TASKS", "2"}}}),
          {"libhekla_mpi.so", "third_party/install --distributed", "share/hekla/mpi/hekla_mpi.c"});
}

// Two ranks whose processes have different environments.
Job two(const Mpi& mpi, const std::vector<std::string>& arguments, const std::vector<std::string>& first,
        const std::vector<std::string>& second) {
    Job job(mpi, 1, arguments);
    job.words = mpi.options;
    for (const std::vector<std::string>* environment : {&first, &second}) {
        if (environment == &second) job.words.emplace_back(":");
        job.words.insert(job.words.end(), {"-n", "1"});
        for (const std::string& one : *environment) job.words.insert(job.words.end(), {"-x", one});
        job.words.emplace_back(HEKLA_PROGRAM);
        job.words.insert(job.words.end(), arguments.begin(), arguments.end());
    }
    return job;
}

TEST_CASE("ranks whose devices round differently have the same parameters after every step") {
    const std::vector<Mpi> all = installed();
    if (all.empty() || !all.front().module.empty()) return; // mpirun of Open MPI sets variables of single ranks
    const Folder folder;
    begin(folder);
    std::vector<std::string> checked = arguments("mixed", 40);
    checked.emplace_back("distributed.check_every=1");
    const Job job = two(all.front(), checked, {"LP_NATIVE_VECTOR_WIDTH=128"}, {"LP_NATIVE_VECTOR_WIDTH=256"});
    const Ended mixed = run(folder, job.words, job.around);
    succeeds(mixed);
    CHECK(!has(mixed.err, "other parameters"));
    succeeds(run(folder, arguments("alone", 40)));
    const auto last = [&](const std::string& dir) {
        const std::string log = folder.read(dir + "/train_log.jsonl");
        const std::size_t at = log.rfind("{\"step\":40,\"loss");
        return json::parse(log.substr(at, log.find('\n', at) - at))["loss"].get<double>();
    };
    CHECK(last("mixed") == doctest::Approx(last("alone")).epsilon(1e-3));
}

TEST_CASE("one rank loses its device: it is named, all ranks end, and the same command resumes") {
    const std::vector<Mpi> all = installed();
    if (all.empty() || !all.front().module.empty()) return;
    const Folder folder;
    begin(folder);
    succeeds(run(folder, arguments("undisturbed", 120)));
    int lost = 0;
    for (const int nth : {200, 350}) { // submits: after some checkpoints
        const Job job = two(all.front(), arguments("run", 120), {"UNUSED=1"},
                            {std::string("LD_LIBRARY_PATH=") + HEKLA_FAULT_FOLDER,
                             "HEKLA_FAULTS=vkQueueSubmit2:" + std::to_string(nth) + ":-4"});
        const Ended ended = run(folder, job.words, job.around);
        CAPTURE(ended.err);
        if (ended.status == 0) continue;
        ++lost;
        CHECK(has(ended.err, "rank 1 (host "));
        CHECK(has(ended.err, "lost"));
    }
    CHECK(lost > 0);
    const Job job(all.front(), 2, arguments("run", 120));
    succeeds(run(folder, job.words, job.around));
    CHECK(outcome(folder, "run", 120) == outcome(folder, "undisturbed", 120));
}

TEST_CASE("a rank is killed or stopped, and the same command goes on") {
    const std::vector<Mpi> all = installed();
    if (all.empty()) return;
    survives(all.front(), 1, SIGKILL, true);
    survives(all.front(), 1, SIGSTOP, false);
}

TEST_SUITE("long") {
    TEST_CASE("a hundred ranks are killed, and forty stopped") {
        for (const Mpi& mpi : installed()) {
            survives(mpi, 25, SIGKILL, true);
            survives(mpi, 25, SIGKILL, false);
            survives(mpi, 20, SIGSTOP, false);
        }
    }
}

} // namespace mpi_test
