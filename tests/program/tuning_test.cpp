// Kernels chosen by measurement: which ones, where the choices are stored, and that results do not change.
#include "program/kernel_case.hpp"
#include "program/tuning.hpp"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <unistd.h>

namespace tuning_test {

using namespace hekla;
using namespace hekla::test;
namespace fs = std::filesystem;

namespace {

struct Folder {
    fs::path path = fs::temp_directory_path() / fmt::format("hekla-tuning-{}", ::getpid());
    Folder() { fs::create_directories(path); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    ~Folder() { fs::remove_all(path); }
    fs::path only_file() const {
        REQUIRE(std::distance(fs::directory_iterator(path), fs::directory_iterator()) == 1);
        return fs::directory_iterator(path)->path();
    }
};

program::RuntimeOptions measuring(const fs::path& folder = {}) {
    program::RuntimeOptions options;
    options.measure_kernels = program::Measure::always;
    options.cache = folder_cache(folder);
    return options;
}

Graph two_products() {
    Builder b;
    const ValueId x = b.parameter("x", {33, 20}, 0, 0, 0, 0), w = b.parameter("w", {20, 70}, 0, 0, 0, 0);
    const ValueId y = b(Op::tanh, {b(Op::matmul, {x, w})});
    b.output("z", b(Op::matmul, {y, w}, {{"transpose_b", int64_t{1}}}));
    return finished(std::move(b));
}

std::vector<std::string> choices_of(program::Runtime& runtime, const Graph& graph,
                                    const program::CompileOptions& options = {.outputs = {"z"}}) {
    auto store = program::ParameterStore::create(runtime, program::parameter_table(graph));
    REQUIRE_MESSAGE(store.ok(), store.message());
    auto program = program::Program::compile(runtime, graph, *store.value(), options);
    REQUIRE_MESSAGE(program.ok(), program.message());
    return program.value()->kernel_choices();
}

// Every compilation measures at least one problem, however slow the machine is; two_products() has two.
std::vector<std::string> measured_choices_of(program::Runtime& runtime, const Graph& graph) {
    choices_of(runtime, graph);
    return choices_of(runtime, graph);
}

// A bench whose kernels take planted times, three times as long in their first runs (a GPU at a low clock), and of
// which some give wrong products.
class PlantedBench : public program::TuningBench {
public:
    using Seconds = std::function<double(const std::string& kernel, double flops)>;
    PlantedBench(Seconds seconds, std::string wrong, std::size_t product_bytes)
        : seconds_(std::move(seconds)), wrong_(std::move(wrong)), product_(product_bytes) {}

    Status upload(const std::string&, std::span<const std::byte>) override { return {}; }
    Result<std::size_t> add(const program::Lowering& lowering) override {
        const program::Dispatch& dispatch = lowering.dispatches.front();
        kernels_.push_back(dispatch.shader.substr(std::string_view("matmul/").size()));
        flops_.push_back(dispatch.flops);
        const float element = kernels_.back() == wrong_ ? 1.0f : 0.0f;
        for (std::size_t i = 0; i < product_.size(); i += sizeof element)
            std::memcpy(product_.data() + i, &element, sizeof element);
        return kernels_.size() - 1;
    }
    Result<double> run(std::size_t dispatches) override {
        const double seconds = seconds_(kernels_[dispatches], flops_[dispatches]);
        return ++runs_ <= 2 ? 3 * seconds : seconds;
    }
    Result<std::vector<std::byte>> download(const std::string&) override { return product_; }

private:
    Seconds seconds_;
    std::string wrong_;
    std::vector<std::string> kernels_;
    std::vector<double> flops_;
    std::vector<std::byte> product_;
    int runs_ = 0;
};

// Returns what tuning chooses for a product of 2048 cubed on a GPU.
std::string chosen_of(const PlantedBench::Seconds& seconds, const std::string& wrong = "") {
    program::KernelProblem problem;
    problem.key = "planted";
    problem.candidates = {"tiled.t128", "tiled.t64", "direct.t4x4"};
    problem.m = problem.n = problem.k = 2048;
    auto tuning = program::Tuning::create({}, nullptr, Log());
    REQUIRE(tuning.ok());
    const auto make = [&]() -> Result<std::unique_ptr<program::TuningBench>> {
        return std::unique_ptr<program::TuningBench>(std::make_unique<PlantedBench>(seconds, wrong, 4096));
    };
    std::map<std::string, std::string> choices;
    REQUIRE(tuning.value()->choose({program::Limits{}, make}, {problem}, choices).ok());
    return choices.at("planted");
}

} // namespace

TEST_CASE("tuning: the kernel that is fastest at the problem's own size") {
    const auto takes = [](double t128, double t64) {
        return [=](const std::string& kernel, double flops) {
            const double rate = kernel == "tiled.t128" ? t128 : kernel == "tiled.t64" ? t64 : 40.0;
            return rate * flops * 1e-15;
        };
    };
    CHECK(chosen_of(takes(10, 20)) == "tiled.t128");
    CHECK(chosen_of(takes(20, 10)) == "tiled.t64");   // measured second, at a higher clock
    CHECK(chosen_of(takes(10, 9.9)) == "tiled.t128"); // not worth it
    CHECK(chosen_of(takes(20, 10), "tiled.t64") == "tiled.t128");
    CHECK(chosen_of(takes(10, 20), "tiled.t128") == "tiled.t64");
    // The large tile is slow in the shortened product that is checked.
    CHECK(chosen_of([](const std::string& kernel, double flops) {
              return kernel == "tiled.t128" ? 1e-3 : flops > 1e10 ? 2e-3 : 0.5e-3;
          }) == "tiled.t128");
}

TEST_CASE("tuning: sizes share a bucket up to a power of two") {
    program::KernelProblem p;
    p.transpose_b = true;
    p.batches = 3;
    p.m = 100;
    p.n = 128;
    p.k = 1;
    CHECK(program::Tuning::bucket(p) == "matmul NT f32 f32 f32 [4x 128, 128, 1]");
    p.m = 65;
    p.c = program::Storage::bf16;
    CHECK(program::Tuning::bucket(p) == "matmul NT f32 f32 bf16 [4x 128, 128, 1]");
    p.m = 64;
    CHECK(program::Tuning::bucket(p) == "matmul NT f32 f32 bf16 [4x 64, 128, 1]");
}

TEST_CASE("tuning: measurements are stored for the next time, and results do not change") {
    const Folder folder;
    const Graph graph = two_products();
    Random random(3);
    const graph::Feeds feeds = kernel_feeds(graph, random);
    std::map<std::string, std::string> first;
    {
        Bench bench(measuring(folder.path));
        std::string where;
        const double error =
            worst_error(run_on_device(*bench, graph, feeds, {}), run_in_interpreter(graph, feeds), &where);
        CHECK_MESSAGE(error <= 2e-6, "error " << error << " at " << where);
        measured_choices_of(*bench, graph);
        first = bench->tuning().measured();
        CHECK(first.size() == 2);
        for (const auto& [bucket, kernel] : first) {
            CAPTURE(bucket);
            CHECK(bucket.starts_with("matmul N"));
            CHECK(std::ranges::any_of(choices_of(*bench, graph),
                                      [&](const std::string& line) { return line.ends_with(": " + kernel); }));
        }
        REQUIRE(bench->save_caches().ok());
    }
    // The next one measures nothing: a choice that measuring would never make is taken from the file.
    std::ofstream(folder.only_file()) << "{\"matmul NN f32 f32 f32 [1x 64, 128, 32]\": \"direct.t16x4\", \"else\": 3}";
    {
        Bench bench(measuring(folder.path));
        CHECK(bench->tuning().measured().size() == 1);
        const auto choices = choices_of(*bench, graph);
        CHECK(std::ranges::find(choices, "matmul NN f32 [1x 33, 70, 20]: direct.t16x4") != choices.end());
        CHECK(bench->tuning().measured().size() == 2); // the other product's
        // Choices fixed by a run are not measured.
        const auto fixed = choices_of(
            *bench, graph, {.outputs = {"z"}, .kernel_choices = {{"matmul NN f32 [1x 33, 70, 20]", "direct.t4x4"}}});
        CHECK(std::ranges::find(fixed, "matmul NN f32 [1x 33, 70, 20]: direct.t4x4") != fixed.end());
    }
    std::ofstream(folder.only_file()) << "no JSON";
    {
        Bench bench(measuring(folder.path));
        CHECK(bench->tuning().measured().empty());
        CHECK(measured_choices_of(*bench, graph).size() == 2);
        REQUIRE(bench->save_caches().ok());
    }
    Bench bench(measuring(folder.path));
    CHECK(bench->tuning().measured().size() == 2);
}

TEST_CASE("tuning: off by default, and no file without a folder") {
    const Graph graph = two_products();
    Bench plain;
    CHECK(choices_of(*plain, graph).size() == 2);
    CHECK(plain->tuning().measured().empty());
    Bench without(measuring());
    CHECK(measured_choices_of(*without, graph).size() == 2);
    CHECK(without->tuning().measured().size() == 2);
    CHECK(without->save_caches().ok());
    CHECK(plain->tuning().identity() == without->tuning().identity());
    program::RuntimeOptions gpus;
    gpus.measure_kernels = program::Measure::on_gpus;
    Bench bench(gpus);
    if (bench->limits().cpu) {
        CHECK(choices_of(*bench, graph) == choices_of(*plain, graph));
        CHECK(bench->tuning().measured().empty());
    }
}

TEST_CASE("tuning: large and batched products, 16-bit storage") {
    Bench bench(measuring());
    const bool halves = bench->limits().storage16;
    Builder b;
    const ValueId x = b.input("x", Kind::float_, {2, 40, 24}), w = b.parameter("w", {2, 24, 10}, 0, 0, 0, 0);
    b.output("z", b(Op::add, {b(Op::matmul, {x, w}), b.scalar(1.0)}));
    const Graph graph = finished(std::move(b));
    Random random(3);
    graph::Feeds feeds = kernel_feeds(graph, random);
    for (const auto storage : {program::Storage::f32, program::Storage::bf16, program::Storage::f16}) {
        if (storage != program::Storage::f32 && !halves) continue;
        RunOptions options;
        options.compile.precision = storage;
        std::string where;
        const double error =
            worst_error(run_on_device(*bench, graph, feeds, options), run_in_interpreter(graph, feeds), &where);
        CHECK_MESSAGE(error <= (storage == program::Storage::f32 ? 2e-6 : 0x1p-6),
                      "error " << error << " at " << where);
    }
    CHECK(bench->tuning().measured().size() == (halves ? 3 : 1));
    // More rows than are measured.
    std::map<std::string, std::string> choices;
    program::KernelProblem large;
    large.key = "large";
    large.candidates = {"direct.t4x4", "direct.t32x4"};
    large.batches = 3;
    large.m = large.n = large.k = 4096;
    REQUIRE(bench->tuning().choose(program::tuning_benches(*bench), {large}, choices).ok());
    CHECK(choices.contains("large"));
}

} // namespace tuning_test
