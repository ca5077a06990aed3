// kill -9 while an adapter is trained and saved at every step: after each kill every folder of the run is missing, the
// old one or the new one, and can be opened; the training resumes and ends with the bits of an undisturbed one.
#include "cases.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <random>

using namespace hekla::test;

namespace adapter_kill_test {
namespace {

namespace fs = std::filesystem;

// The files that make an adapter, as one text.
std::string content_of(const TestFolder& folder, const std::string& name) {
    return folder.read(name + "/config.json") + folder.read(name + "/model.safetensors");
}

bool is_folder_of_adapter(const fs::path& path) {
    const std::string name = path.filename().string();
    return fs::is_directory(path) && !has(name, ".tmp") && !has(name, ".old-") && fs::exists(path / "config.json");
}

std::vector<std::string> arguments(const std::string& dir, int steps) {
    return {"train",
            "recipe.toml",
            "model.from=body",
            "adapter.id=lora",
            "adapter.r=2",
            "train.lr_scheduler_type=constant",
            "train.max_steps=" + std::to_string(steps),
            "train.eval_steps=0",
            "train.save_steps=1",
            "train.save_total_limit=100",
            "output.dir=" + dir};
}

// The folders of an undisturbed training to 8 and then to 16 steps: name -> what may be there.
std::map<std::string, std::vector<std::string>> undisturbed(const TestFolder& folder) {
    std::map<std::string, std::vector<std::string>> possible;
    for (const int steps : {8, 16}) {
        succeeds(run(folder, arguments("undisturbed", steps)));
        possible[""].push_back(content_of(folder, "undisturbed"));
    }
    for (const fs::directory_entry& entry : fs::directory_iterator(folder / "undisturbed"))
        if (is_folder_of_adapter(entry.path())) {
            const std::string name = entry.path().filename().string();
            possible[name].push_back(content_of(folder, "undisturbed/" + name));
        }
    return possible;
}

// Checks what a killed training has left. Returns how many folders there are.
int check_folders(const TestFolder& folder, const std::map<std::string, std::vector<std::string>>& possible) {
    std::vector<std::string> names;
    if (fs::exists(folder / "run"))
        for (const fs::directory_entry& entry : fs::directory_iterator(folder / "run"))
            if (is_folder_of_adapter(entry.path())) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    if (is_folder_of_adapter(folder / "run")) names.emplace_back();
    for (const std::string& name : names) {
        CAPTURE(name);
        REQUIRE(possible.contains(name));
        const std::string found = content_of(folder, "run/" + name);
        CHECK(std::ranges::count(possible.at(name), found) == 1);
    }
    // The last that was written, and the run's own.
    if (!names.empty()) succeeds(run(folder, {"adapter", "inspect", "run/" + names.back()}));
    return static_cast<int>(names.size());
}

void survives(int kills) {
    const TestFolder folder;
    begin(folder);
    succeeds(train(folder, {"output.dir=body"}));
    const auto possible = undisturbed(folder);
    REQUIRE(possible.size() > 8);
    REQUIRE(possible.at("").at(0) != possible.at("").at(1));
    succeeds(run(folder, arguments("timed", 8)));
    const auto begin_time = std::chrono::steady_clock::now();
    fs::remove_all(folder / "timed");
    succeeds(run(folder, arguments("timed", 8)));
    const double whole = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_time).count();
    double latest = whole; // moment of a kill, in seconds: adapts to other load of the machine

    std::mt19937 random(20261125);
    int killed = 0, resumed = 0, ended = 0, folders = 0, steps = 8;
    while (killed < kills) {
        REQUIRE(ended < 4 * kills + 8); // the kills come too late
        Process process(folder, arguments("run", steps));
        wait_between(random, 0.3 * latest, latest);
        process.send(SIGKILL);
        const Ran one = process.wait();
        CAPTURE(one.err);
        CHECK(!has(one.err, "error"));
        if (has(one.err, "resuming after step")) ++resumed;
        const bool kill = one.status == 128 + SIGKILL;
        CHECK((kill || one.status == 0));
        if (kill) {
            ++killed;
            latest *= 1.05;
            folders += check_folders(folder, possible);
            continue;
        }
        ++ended;
        latest = std::max(0.1, 0.8 * latest);
        if (steps == 16) { // start over
            CHECK(content_of(folder, "run") == possible.at("").at(1));
            fs::remove_all(folder / "run");
        }
        steps = 24 - steps;
    }
    MESSAGE(killed, " kills, ", resumed, " resumed, ", ended, " ended in between, ", folders, " folders checked; ",
            whole, " s for 8 steps");
    if (kills >= 10) {
        CHECK(resumed > 0);
        CHECK(folders > kills);
    }
    succeeds(run(folder, arguments("run", 8)));
    succeeds(run(folder, arguments("run", 16)));
    CHECK(content_of(folder, "run") == possible.at("").at(1));
    CHECK(check_folders(folder, possible) == static_cast<int>(possible.size()));
}

} // namespace

TEST_CASE("an adapter killed three times while it is saved") { survives(3); }

TEST_SUITE("long") {
    TEST_CASE("an adapter killed fifty times while it is saved") { survives(50); }
}

} // namespace adapter_kill_test
