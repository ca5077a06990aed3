// Every kernel, compiled by the driver of a GPU that is not there (drivers_tests.cmake sets up the driver). The device
// executes nothing, so results are not looked at.
#include "drivers/assembly.hpp"
#include "drivers/rules.hpp"
#include "support/program.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

using namespace hekla::test;
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

const fs::path kSource = HEKLA_SOURCE_DIR;

Ran run_program(const TestFolder& folder, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--measure-kernels", "never"});
    return Process(folder, arguments).wait(1200.0);
}

// Ends the test as skipped if the installed driver refuses the shim's device, as NVK of Mesa 25.0 does.
void require_device(const TestFolder& folder) {
    const Ran listed = run_program(folder, {"doctor", "--list"});
    if (listed.err.find("vkEnumeratePhysicalDevices: VK_ERROR_INITIALIZATION_FAILED") == std::string::npos) return;
    std::printf("skipped: this version of Mesa has no device behind its shim: %s", listed.err.c_str());
    std::fflush(stdout);
    fs::remove_all(folder.path());
    std::_Exit(77); // SKIP_RETURN_CODE in drivers_tests.cmake
}

std::string target() {
    const char* name = std::getenv("HEKLA_TEST_DRIVER");
    return name != nullptr ? name : "";
}

// The assembly that `hekla doctor --kernels --isa isa` wrote for kernel `number`, counted from 1; "" if the driver
// prints none.
std::string assembly_of(const TestFolder& folder, std::size_t number) {
    if (!folder.exists("isa")) return {};
    const std::string beginning = fmt::format("{:02}-", number);
    for (const fs::directory_entry& file : fs::directory_iterator(folder / "isa")) {
        const std::string name = file.path().filename().string();
        if (name.starts_with(beginning) &&
            (name.find(".Assembly.") != std::string::npos || name.find(".NAK.assembly.") != std::string::npos))
            return folder.read("isa/" + name);
    }
    return {};
}

// Compiles the kernels that the arguments name, and checks the rules. Nothing if the device is refused by name for lack
// of 16-bit storage, as old Adreno GPUs are.
json check_kernels(const TestFolder& folder, std::vector<std::string> arguments, Kernels kind) {
    CAPTURE(fmt::format("{}", fmt::join(arguments, " ")));
    fs::remove_all(folder / "isa");
    arguments.insert(arguments.begin(), {"doctor", "--kernels"});
    arguments.insert(arguments.end(), {"--json", "--isa", "isa"});
    const Ran ended = run_program(folder, arguments);
    CAPTURE(ended.err);
    if (ended.status == 1 && ended.err.find("no 16-bit storage") != std::string::npos) return {};
    REQUIRE(ended.status == 0);
    const json report = json::parse(ended.out);
    CHECK(!report["kernels"].empty());
    const auto driver = report["driver"].get<std::string>();
    std::size_t number = 0;
    for (const json& kernel : report["kernels"])
        for (const std::string& broken : broken_rules(kernel, driver, kind, assembly_of(folder, ++number)))
            FAIL_CHECK(broken);
    return report;
}

// One line per kernel: its name, constants, and the numbers that a change of a kernel moves.
std::string table_of(const json& report) {
    std::string lines = fmt::format("# hekla doctor --kernels --case gpt2-124m on {} ({})\n"
                                    "# registers spills scratch shared waves instructions kernel constants\n",
                                    report["device"].get<std::string>(), report["driver"].get<std::string>());
    for (const json& kernel : report["kernels"]) {
        for (const char* key : {"registers", "spills", "scratch_bytes", "shared_bytes", "waves", "instructions"})
            lines += kernel[key].dump() + " ";
        // The name of a generated kernel is a hash of its text.
        const auto name = kernel["kernel"].get<std::string>();
        lines += (name.starts_with("generated:") ? "generated" : name) + " " + kernel["constants"].dump() + "\n";
    }
    return lines;
}

// The lines of a table without their six numbers.
std::vector<std::string> kernels_in(std::istream&& table) {
    std::vector<std::string> kernels;
    for (std::string line; std::getline(table, line);) {
        if (line.starts_with('#')) continue;
        std::istringstream words(line);
        std::string word;
        for (int number = 0; number < 6; ++number) words >> word;
        std::getline(words, word);
        kernels.push_back(word);
    }
    return kernels;
}

} // namespace

TEST_CASE("a training step of GPT-2 124M: no spills, enough waves, wide loads") {
    const TestFolder folder;
    require_device(folder);
    const json report = check_kernels(folder, {"--case", "gpt2-124m"}, Kernels::training);
    // The numbers depend on the versions of Mesa and glslc; which kernels there are does not.
    const fs::path file = kSource / "tests/drivers/tables" / (target() + ".txt");
    const std::string now = table_of(report);
    if (std::getenv("HEKLA_WRITE_TABLES") != nullptr)
        std::ofstream(file) << now;
    else
        CHECK_MESSAGE(kernels_in(std::ifstream(file)) == kernels_in(std::istringstream(now)), file.string(),
                      " lists other kernels: HEKLA_WRITE_TABLES=1 ctest --test-dir build -R drivers");
}

TEST_CASE("16-bit training and generation: no spills, enough waves, wide loads") {
    const TestFolder folder;
    require_device(folder);
    check_kernels(folder, {"--case", "gpt2-124m", "--dtype", "f16"}, Kernels::training);
    check_kernels(folder, {"--case", "gpt2-124m", "--generate"}, Kernels::token);
    check_kernels(folder, {"--case", "gpt2-124m", "--generate", "--dtype", "f16"}, Kernels::token);
}

TEST_CASE("attention with VK_NV_cooperative_matrix2, which RADV has on request: no spills, enough waves") {
    const TestFolder folder;
    require_device(folder);
    setenv("radv_cooperative_matrix2_nv", "true", 1); // other drivers do not read it
    const json report = check_kernels(folder, {"--case", "gpt2-124m", "--dtype", "f16"}, Kernels::training);
    unsetenv("radv_cooperative_matrix2_nv");
    if (report.is_null()) return; // refused by name
    const auto uses = [&](const std::string& part) {
        return std::ranges::any_of(report["kernels"], [&](const json& kernel) {
            return kernel["kernel"].get<std::string>().find(part) != std::string::npos;
        });
    };
    // RADV has it since Mesa 26.2, for GPUs with matrix units, whose kernels are built if glslc knows the extension.
    double version = 0.0;
    std::sscanf(report["driver"].get<std::string>().c_str(), "radv Mesa %lf", &version);
    if (version < 26.2 || !uses("attention/matrix_")) return;
    for (const char* kernel : {"matrix_forward", "matrix_gradient_query", "matrix_gradient_key"})
        CHECK(uses(std::string("attention/") + kernel + ".f16_elements"));
}

TEST_CASE("rows with 16 adapters in one batch, trained and generated: no spills, enough waves") {
    const TestFolder folder;
    require_device(folder);
    for (const std::vector<std::string>& generate : {std::vector<std::string>{}, {"--generate"}}) {
        std::vector<std::string> arguments{"--case", "smollm2-135m-slots"};
        arguments.insert(arguments.end(), generate.begin(), generate.end());
        const json report = check_kernels(folder, arguments, generate.empty() ? Kernels::training : Kernels::token);
        if (report.is_null()) continue; // refused by name
        CHECK(std::ranges::any_of(report["kernels"], [](const json& kernel) {
            return kernel["kernel"].get<std::string>().starts_with("row_linear/");
        }));
    }
}

TEST_CASE("a training step of every fixture: no spills, enough waves") {
    const TestFolder folder;
    require_device(folder);
    std::vector<std::string> arguments{"--fixture"};
    for (const char* kind : {"models", "models-extra"})
        for (const fs::directory_entry& fixture : fs::directory_iterator(kSource / "tests/fixtures" / kind))
            if (fixture.is_directory()) arguments.push_back(fixture.path().string());
    check_kernels(folder, arguments, Kernels::any_size);
}

TEST_CASE("training and generation run through with validation, on a device of its own memory") {
    const TestFolder folder;
    require_device(folder);
    std::string text;
    for (int i = 0; i < 400; ++i) text += fmt::format("line {} of a text\n", i * 7919 % 1000);
    folder.write("text.txt", text);
    folder.write("recipe.toml", R"([data]
valid_fraction = 0.0
train = "text.txt"
[tokenizer]
kind = "char"
[model]
architecture = "gpt2"
n_layer = 2
n_head = 2
n_embd = 64
n_positions = 64
[train]
max_steps = 3
context_length = 64
per_device_train_batch_size = 4
eval_steps = 0
[output]
dir = "run"
)");
    const Ran trained = run_program(folder, {"--validate", "train", "recipe.toml"});
    CAPTURE(trained.err);
    CHECK(trained.status == 0);
    CHECK(trained.err.find("validation:") == std::string::npos);
    const Ran generated =
        run_program(folder, {"--validate", "generate", "run", "--prompt", "line", "--max-new-tokens", "8"});
    CAPTURE(generated.err);
    CHECK(generated.status == 0);
    CHECK(generated.err.find("validation:") == std::string::npos);
}
