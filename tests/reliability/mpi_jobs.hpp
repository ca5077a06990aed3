// Jobs of MPI: the program as several processes, which tests kill, starve of resources and cut off from each other.
#pragma once

#include "cases.hpp"

#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <map>
#include <thread>

namespace hekla::test {

inline constexpr double kTimeout = 5;     // seconds without a sign of life
inline constexpr double kLongestEnd = 60; // seconds until the processes of a job have ended, on a busy machine too

struct Mpi {
    const char* name = "";
    std::string mpirun;
    std::vector<std::string> options; // of mpirun
    std::vector<std::string> module;  // of hekla
};

inline std::vector<Mpi> installed_mpi() {
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

// Returns the processes of hekla that work in a folder, by rank.
inline std::map<int, pid_t> ranks_in(const TestFolder& folder) {
    std::map<int, pid_t> found;
    for (const std::filesystem::directory_entry& entry : std::filesystem::directory_iterator("/proc")) {
        const std::string id = entry.path().filename().string();
        if (id.find_first_not_of("0123456789") != std::string::npos) continue;
        std::error_code error;
        if (std::filesystem::read_symlink(entry.path() / "exe", error) != std::filesystem::path(HEKLA_PROGRAM))
            continue;
        if (std::filesystem::read_symlink(entry.path() / "cwd", error) != folder.path()) continue;
        std::ifstream file(entry.path() / "environ", std::ios::binary);
        const std::string environment{std::istreambuf_iterator<char>(file), {}};
        for (const char* name : {"OMPI_COMM_WORLD_RANK=", "PMI_RANK="})
            if (const std::size_t at = environment.find(name); at != std::string::npos)
                found[std::atoi(environment.c_str() + at + std::strlen(name))] = std::atoi(id.c_str());
    }
    return found;
}

inline std::vector<std::string> job_arguments(const std::string& dir, int steps) {
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

// Two ranks whose processes have different environments.
inline Job two_ranks(const Mpi& mpi, const std::vector<std::string>& arguments, const std::vector<std::string>& first,
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

// Waits until the processes of a job have ended, except `left_out`, at most a minute. Returns the seconds.
inline double wait_for_end(const TestFolder& folder, int left_out = -1) {
    const auto begin = std::chrono::steady_clock::now();
    const auto seconds = [&] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    for (;;) {
        std::map<int, pid_t> left = ranks_in(folder);
        left.erase(left_out);
        if (left.empty() || seconds() > kLongestEnd) return seconds();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
}

// Kills what is left of a job, and waits for its end.
inline void end_job(const TestFolder& folder) {
    for (const auto& [rank, id] : ranks_in(folder)) ::kill(id, SIGKILL);
    wait_for_end(folder); // its lock is released when it has ended
}

// Returns the temporary files and folders that are left.
inline std::string leftovers(const TestFolder& folder) {
    std::string names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path()))
        if (has(entry.path().filename().string(), ".tmp")) names += entry.path().string() + " ";
    return names;
}

// Checks the messages of a job that failed. errors: a rank that fails reports it, and so does another that ends because
// of it; a rank that is killed reports nothing.
inline void check_messages(const Ran& ended, int errors = 1) {
    CAPTURE(ended.err);
    CHECK(count_of(ended.err, "hekla: error: ") <= errors);
}

// Also its files, where no rank was killed: one that ends by itself removes what it has not finished.
inline void check_left_over(const TestFolder& folder, const Ran& ended, int errors = 1) {
    check_messages(ended, errors);
    CAPTURE(ended.err);
    CHECK(leftovers(folder) == "");
}

} // namespace hekla::test
