// Every kernel, compiled by the driver of a GPU that is not there (drivers_tests.cmake sets up the driver). The device
// executes nothing, so results are not looked at.
#include "drivers/assembly.hpp"
#include "drivers/rules.hpp"
#include "drivers/simulation.hpp"
#include "drivers/tables.hpp"
#include "support/program.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <doctest/doctest.h>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

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
        const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
        if (name.starts_with(beginning) && (has(".Assembly.") || has(".NAK.assembly.")))
            return folder.read("isa/" + name);
    }
    return {};
}

// Adds what the driver does not report: instructions of loops and of shared memory, and simulated wavefronts.
void add_counts(json& kernel, const std::string& assembly) {
    if (!assembly.empty()) {
        int64_t in_loops = 0;
        for (const LoopCounts& loop : innermost_loops(assembly)) in_loops += loop.instructions;
        kernel["loop_instructions"] = in_loops;
        kernel["shared_instructions"] = shared_instructions(assembly);
    }
    const auto constants = kernel["constants"].get<std::vector<uint32_t>>();
    if (const auto count = drivers::wavefronts(kernel["kernel"].get<std::string>(), constants))
        kernel["wavefronts"] = *count;
}

// What kernels may spill: for drivers of which tables/TARGET.spills.txt exists, as often as it states. With
// HEKLA_WRITE_TABLES it is written.
class AllowedSpills {
public:
    AllowedSpills()
        : file_(kSource / "tests/drivers/tables" / (target() + ".spills.txt")), exists_(fs::exists(file_)),
          writes_(std::getenv("HEKLA_WRITE_TABLES") != nullptr) {}

    // Returns how many registers a kernel may spill; any number if the table is of other versions.
    double of(const json& report, const json& kernel) {
        const std::string header = header_of(report, HEKLA_SHADER_COMPILER), key = key_of(kernel);
        const double spills = kernel["spills"].is_number() ? kernel["spills"].get<double>() : 0.0;
        if (writes_ && may_spill(report)) {
            double& most = written_[key];
            most = std::max(most, spills);
            std::erase_if(written_, [](const auto& entry) { return entry.second == 0; });
            if (spills > 0) std::ofstream(file_) << text_of(written_, header);
            return spills;
        }
        if (!exists_) return 0;
        const std::string stored = content_of(file_);
        if (!stored.starts_with(header)) return HUGE_VAL;
        if (!read_) read_ = read_spills(stored, header);
        const auto found = read_->find(key);
        return found != read_->end() ? found->second : 0;
    }

private:
    // For these kernels were not written yet (shaders/TRIED.md).
    static bool may_spill(const json& report) {
        const auto driver = report["driver"].get<std::string>();
        return driver.starts_with("Intel") || driver.starts_with("panvk");
    }
    fs::path file_;
    bool exists_ = false, writes_ = false;
    std::optional<Spills> read_;
    Spills written_;
};

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
    json report = json::parse(ended.out);
    CHECK(!report["kernels"].empty());
    const auto driver = report["driver"].get<std::string>();
    if (driver.starts_with("panvk")) REQUIRE(add_mali_numbers(report, ended.err));
    static AllowedSpills allowed;
    std::size_t number = 0;
    for (json& kernel : report["kernels"]) {
        const std::string assembly = assembly_of(folder, ++number);
        add_counts(kernel, assembly);
        for (const std::string& broken : broken_rules(kernel, driver, kind, assembly, allowed.of(report, kernel)))
            FAIL_CHECK(broken);
    }
    return report;
}

} // namespace

TEST_CASE("a training step of GPT-2 124M: no spills, enough waves, wide loads, and the numbers of the table") {
    const TestFolder folder;
    require_device(folder);
    const json report = check_kernels(folder, {"--case", "gpt2-124m"}, Kernels::training);
    const json of_16_bit = check_kernels(folder, {"--case", "gpt2-124m", "--dtype", "f16"}, Kernels::training);
    const fs::path file = kSource / "tests/drivers/tables" / (target() + ".txt");
    std::string now = header_of(report, HEKLA_SHADER_COMPILER) + lines_of(report);
    if (!of_16_bit.is_null()) now += "# the same with --dtype f16\n" + lines_of(of_16_bit);
    if (std::getenv("HEKLA_WRITE_TABLES") != nullptr) {
        std::ofstream(file) << now;
        return;
    }
    for (const std::string& difference : differences(content_of(file), now))
        FAIL_CHECK(file.string(), ": ", difference,
                   "; if that is intended, HEKLA_WRITE_TABLES=1 ctest --test-dir build -R drivers_", target(),
                   " writes the table");
}

TEST_CASE("generation: no spills, enough waves, wide loads") {
    const TestFolder folder;
    require_device(folder);
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
    if (target() == "g610") {
        MESSAGE("skipped: with Mesa 25.0.7's driver or shim for Mali, a page of a plugin's data is unmapped before the "
                "end");
        return;
    }
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
