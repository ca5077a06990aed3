// hekla prune, killed and interrupted in several rounds: it resumes where it was, and ends with the same bits.
#include "support/program.hpp"

#include <chrono>
#include <csignal>
#include <doctest/doctest.h>
#include <string>
#include <thread>

using namespace hekla::test;

namespace prune_kill_test {
namespace {

namespace fs = std::filesystem;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

void write_files(const TestFolder& folder) {
    std::string text;
    for (int i = 0; i < 60; ++i)
        text += "line " + std::to_string(i * 7919 % 1000) + " of a text that is long enough.\n";
    folder.write("text.txt", text);
    folder.write("recipe.toml", "[model]\narchitecture = \"gpt2\"\nn_layer = 1\nn_head = 2\nn_embd = 16\n"
                                "n_positions = 16\n[data]\ntrain = \"text.txt\"\n[train]\nmax_steps = 40\n"
                                "context_length = 16\neval_steps = 20\neval_batches = 1\nsave_steps = 4\n"
                                "[prune]\nrounds = 2\nrewind_step = 4\n[output]\ndir = \"run\"\n");
}

// Waits until the log of a training contains a step, and returns whether the process still runs.
bool reaches(const TestFolder& folder, Process& process, const std::string& training, int step) {
    const std::string log = "run/" + training + "/train_log.jsonl", line = "{\"step\":" + std::to_string(step) + ",";
    for (int i = 0; i < 12000 && process.running(); ++i) {
        if (folder.exists(log) && has(folder.read(log), line)) return process.running();
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return false;
}

} // namespace

TEST_CASE("prune resumes after kill -9 and after signals, in any round, with the same bits" *
          doctest::test_suite("long")) {
    const TestFolder folder;
    write_files(folder);
    const Ran whole = run(folder, {"prune", "recipe.toml", "--controls", "output.dir=undisturbed"});
    CAPTURE(whole.err);
    REQUIRE(whole.status == 0);
    const std::vector<std::string> arguments{"prune", "recipe.toml", "--controls"};
    for (const char* training : {"round-00", "round-01", "round-02", "round-01-random-mask"}) {
        CAPTURE(training);
        {
            Process process(folder, arguments);
            if (reaches(folder, process, training, 6)) process.send(SIGKILL);
            process.wait();
        }
        Process process(folder, arguments);
        if (!reaches(folder, process, training, 10)) continue; // too fast for a second interruption
        process.send(SIGTERM);
        const Ran stopped = process.wait();
        CAPTURE(stopped.err);
        if (stopped.status != 0) {
            CHECK(stopped.status == 128 + SIGTERM);
            CHECK(has(stopped.err, "the same command resumes"));
        }
    }
    const Ran last = run(folder, arguments);
    CAPTURE(last.err);
    REQUIRE(last.status == 0);
    CHECK(last.out == whole.out);
    for (const char* training : {"round-00", "round-01", "round-02", "round-01-random-mask", "round-01-random-init",
                                 "round-02-random-mask", "round-02-random-init"})
        for (const char* file : {"model.safetensors", "mask.safetensors", "ticket.json",
                                 "checkpoint-40/model.safetensors", "checkpoint-40/optimizer.safetensors"}) {
            const std::string name = std::string(training) + "/" + file;
            CAPTURE(name);
            CHECK(folder.exists("run/" + name) == folder.exists("undisturbed/" + name));
            if (folder.exists("run/" + name)) CHECK(folder.read("run/" + name) == folder.read("undisturbed/" + name));
        }
}

} // namespace prune_kill_test
