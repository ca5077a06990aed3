// `hekla doctor --test`, run as by a user: every fixture in the float64 interpreter and on this device, and the
// contents of the JSON. HEKLA_PROGRAM is the program, HEKLA_SOURCE_DIR contains the fixtures.
#include "support/program.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <unistd.h>
#include <vector>

namespace fs = std::filesystem;
using nlohmann::json;
using namespace hekla::test;

namespace {

struct Verified {
    int status = -1;
    json reports;
};

Verified verify(const std::string& options, const std::vector<fs::path>& folders) {
    std::string command = std::string("'") + HEKLA_PROGRAM + "' " + options + " --json";
    for (const fs::path& folder : folders) command += " '" + folder.string() + "'";
    const Ran ran = shell(".", command);
    Verified v;
    v.status = ran.status;
    v.reports = json::parse(ran.out, nullptr, false);
    REQUIRE_MESSAGE(v.reports.is_array(), ran.out);
    return v;
}

std::vector<fs::path> fixtures(const char* set) {
    std::vector<fs::path> folders;
    for (const auto& entry : fs::directory_iterator(fs::path(HEKLA_SOURCE_DIR) / "tests" / "fixtures" / set))
        if (entry.is_directory()) folders.push_back(entry.path());
    std::sort(folders.begin(), folders.end());
    return folders;
}

// Checks that every fixture passes, with every key and every number below its limit.
void check(const Verified& v, std::size_t count) {
    CHECK(v.status == 0);
    CHECK(v.reports.size() == count);
    const std::pair<const char*, double> bars[] = {
        {"outputs", 1e-5}, {"loss", 1e-6}, {"gradients", 5e-5}, {"adamw_loss", 1e-5}, {"adamw", 2e-3}};
    for (const json& report : v.reports) {
        CAPTURE(report.dump());
        CHECK(report.at("fixture").is_string());
        CHECK(report.at("pass") == true);
        CHECK(report.at("outputs").is_number());
        for (const auto& [key, bar] : bars)
            if (const json& value = report.at(key); !value.is_null()) {
                REQUIRE(value.is_number());
                CHECK(value.get<double>() <= bar);
            }
        const json& generation = report.at("generation");
        CHECK((generation.is_null() || generation == "equal"));
    }
}

} // namespace

TEST_CASE("every fixture in the float64 interpreter") {
    const std::vector<fs::path> folders = fixtures("models");
    REQUIRE(folders.size() == 26);
    const Verified v = verify("verify --reference", folders);
    check(v, folders.size());
    // The compared values: a loss with its gradients and AdamW steps, and generation if there are cases.
    std::size_t losses = 0, generations = 0;
    for (const json& report : v.reports) {
        losses += report.at("loss").is_number() && report.at("gradients").is_number() &&
                  report.at("adamw").is_number() && report.at("adamw_loss").is_number();
        generations += report.at("generation") == "equal";
    }
    CHECK(losses == 26);
    CHECK(generations >= 3);
}

TEST_CASE("every fixture on this device") {
    const std::vector<fs::path> folders = fixtures("models");
    check(verify("verify", folders), folders.size());
}

TEST_CASE("other sizes: one token, primes, heads of odd width, rows longer than a tile") {
    const std::vector<fs::path> folders = fixtures("models-extra");
    REQUIRE(folders.size() == 8);
    check(verify("verify --reference", folders), folders.size());
    check(verify("--validate verify", folders), folders.size());
}

TEST_CASE("the decoders of the Llama family, and newer encoders") {
    const std::vector<fs::path> folders = fixtures("families");
    REQUIRE(folders.size() == 25);
    check(verify("verify --reference", folders), folders.size());
    check(verify("verify", folders), folders.size());
}

TEST_CASE("16 KB of shared memory and no 16-bit storage") {
    std::vector<fs::path> folders = fixtures("models-extra");
    check(verify("verify --shared-memory 16384 --disable storage_16bit", folders), folders.size());
}

TEST_CASE("differences fail and are reported") {
    const TestFolder folder;
    const fs::path copy = folder / "bent";
    fs::copy(fs::path(HEKLA_SOURCE_DIR) / "tests" / "fixtures" / "models-extra" / "gpt2-one-token", copy);
    // Changes the last weight of the file by a large amount.
    const fs::path weights = copy / "model.safetensors";
    fs::permissions(weights, fs::perms::owner_write, fs::perm_options::add);
    std::fstream file(weights, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-4, std::ios::end);
    const float wrong = 40.0f;
    file.write(reinterpret_cast<const char*>(&wrong), 4);
    file.close();
    const Verified v = verify("verify --reference", {copy});
    CHECK(v.status == 1);
    REQUIRE(v.reports.size() == 1);
    CHECK(v.reports[0].at("pass") == false);
    CHECK(v.reports[0].at("outputs").get<double>() > 1e-3);
}

TEST_CASE("bisect names an operation and writes a reproducer") {
    const TestFolder folder;
    const std::vector<fs::path> one{fs::path(HEKLA_SOURCE_DIR) / "tests" / "fixtures" / "models-extra" /
                                    "gpt2-one-token"};
    // Nothing is wrong here...
    const Verified right = verify("verify --bisect --output '" + folder.path().string() + "'", one);
    CHECK(right.status == 0);
    REQUIRE(right.reports.size() == 1);
    CHECK(right.reports[0].at("bisect").at("found") == false);
    CHECK(right.reports[0].at("bisect").at("error").get<double>() > 0.0);
    CHECK(fs::is_empty(folder.path()));
    // ... until rounding counts as an error.
    const Verified strict = verify("verify --bisect --bar 0 --output '" + folder.path().string() + "'", one);
    REQUIRE(strict.reports.size() == 1);
    const json& bisect = strict.reports[0].at("bisect");
    CHECK(bisect.at("found") == true);
    CHECK(bisect.at("reproduced") == true);
    CHECK(bisect.at("node").get<std::string>().size() > 0);
    const fs::path reproducer = folder / "gpt2-one-token";
    for (const char* name :
         {"graph.txt", "inputs.safetensors", "device.safetensors", "reference.safetensors", "dispatches.txt"})
        CHECK_MESSAGE(fs::file_size(reproducer / name) > 0, name);
    std::size_t shaders = 0;
    for (const auto& entry : fs::directory_iterator(reproducer)) shaders += entry.path().extension() == ".spv";
    CHECK(shaders > 0);
}
