// Kernels chosen by measurement: which ones, where the choices are stored, and that results do not change.
#include "program/kernel_case.hpp"
#include "program/lowering/matmul_problem.hpp"
#include "program/lowering/spill_counts.hpp"
#include "program/parameter_store.hpp"
#include "program/peak.hpp"
#include "program/program_bench.hpp"
#include "program/runtime.hpp"
#include "program/tuning.hpp"
#include "support/test_folder.hpp"

#include <algorithm>
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

struct Folder : TestFolder {
    fs::path only_file() const {
        REQUIRE(std::distance(fs::directory_iterator(path()), fs::directory_iterator()) == 1);
        return fs::directory_iterator(path())->path();
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

// A bench whose dispatches take planted times, and of which some give wrong results, on a GPU whose clock rises from
// its lowest to 1 in 0.2 s of work and falls back in 0.5 s without. Time is a number that compiling and running add to.
struct Planted {
    using Seconds = std::function<double(const std::string& choice, double flops)>;
    Seconds seconds;
    std::string wrong = {};
    double peak = 0; // of float32; that of matrix units is not known
    double compile_seconds = 0.001;
    // What happened.
    static constexpr double kLowest = 0.17;
    double now = 0, clock = kLowest;
    std::vector<std::string> added = {}; // of all benches

    void idle(double at_rest) {
        now += at_rest;
        clock = std::max(kLowest, clock - at_rest * (1 - kLowest) / 0.5);
    }
    double busy(double at_full_speed) {
        const double took = at_full_speed / clock;
        now += took;
        clock = std::min(1.0, clock + took * (1 - kLowest) / 0.2);
        return took;
    }

    program::TuningBenches benches(const program::Limits& limits = {});
};

class PlantedBench : public program::TuningBench {
public:
    explicit PlantedBench(Planted& planted) : planted_(planted) {}
    Status upload(const std::string&, std::span<const std::byte>) override { return {}; }
    void compile(std::span<const program::Lowering>) override {}
    Result<std::size_t> add(const program::Lowering& lowering) override {
        double flops = 0;
        for (const program::Dispatch& dispatch : lowering.dispatches) flops += dispatch.flops;
        added_.emplace_back(lowering.trial->text(), flops);
        planted_.added.push_back(lowering.trial->text());
        planted_.idle(planted_.compile_seconds);
        const float element = added_.back().first == planted_.wrong ? 1.0f : 0.0f;
        for (std::size_t i = 0; i < product_.size(); i += sizeof element)
            std::memcpy(product_.data() + i, &element, sizeof element);
        return added_.size() - 1;
    }
    Result<double> run(std::size_t dispatches) override {
        return planted_.busy(planted_.seconds(added_[dispatches].first, added_[dispatches].second));
    }
    Result<std::vector<std::byte>> download(const std::string&) override { return product_; }

private:
    Planted& planted_;
    std::vector<std::pair<std::string, double>> added_; // choice, flops
    std::vector<std::byte> product_ = std::vector<std::byte>(4096);
};

program::TuningBenches Planted::benches(const program::Limits& limits) {
    return {limits, [this] { return std::unique_ptr<program::TuningBench>(std::make_unique<PlantedBench>(*this)); },
            [this](program::Storage factors) { return factors == program::Storage::f32 ? peak : 0; },
            [this] { return now; }, [this]() -> Result<double> { return 0.01 / busy(0.01); }};
}

std::unique_ptr<program::Tuning> made_tuning() {
    auto tuning = program::Tuning::create({}, nullptr, Log());
    REQUIRE(tuning.ok());
    return tuning.take();
}

std::map<std::string, std::string> tuned(Planted& planted, const std::vector<program::KernelProblem>& problems,
                                         const program::Limits& limits = {}) {
    std::map<std::string, std::string> choices;
    made_tuning()->choose(planted.benches(limits), problems, choices);
    return choices;
}

// A product of 2048 cubed.
program::KernelProblem cube(std::vector<program::KernelOption> kernels) {
    program::KernelProblem problem = program::matmul_problem({}, {.m = 2048, .n = 2048, .k = 2048}, {});
    problem.key = "planted";
    problem.kernels = std::move(kernels);
    return problem;
}

// Returns what tuning chooses for a product of 2048 cubed on a GPU.
std::string chosen_of(const Planted::Seconds& seconds, const std::string& wrong = "") {
    Planted planted{.seconds = seconds, .wrong = wrong};
    return tuned(planted, {cube({{"tiled.t128"}, {"tiled.t64"}, {"direct.t4x4"}})}).at("planted");
}

// The times of choices, per floating-point operation in femtoseconds; of others 1000.
Planted::Seconds rates(std::map<std::string, double> of) {
    return [of = std::move(of)](const std::string& choice, double flops) {
        const auto found = of.find(choice);
        return (found != of.end() ? found->second : 1000.0) * flops * 1e-15;
    };
}

// A GPU whose subgroups have 8, 16 or 32 lanes, like Intel's.
program::Limits gpu_limits() {
    program::Limits limits;
    limits.registers_at_any_width = false;
    limits.subgroup_size = limits.max_subgroup_size = 32;
    limits.min_subgroup_size = 8;
    return limits;
}

std::vector<program::KernelProblem> problems_of(const Graph& graph, const program::Limits& limits,
                                                const program::CompileOptions& options = {.outputs = {"value"}}) {
    auto lowered = program::lower(graph, limits, options);
    REQUIRE_MESSAGE(lowered.ok(), lowered.message());
    return lowered.value().problems;
}

Graph attention_graph(int64_t rows = 512) {
    Builder b;
    std::vector<ValueId> inputs(18, graph::kNone);
    for (std::size_t i = 0; i < 3; ++i) inputs[i] = b.parameter(std::string(1, "qkv"[i]), {4, 6, rows, 64}, 0, 0, 0, 0);
    const graph::NamedAttribute attributes[] = {{"causal", int64_t{1}}};
    const auto outputs = b.emit(Op::attention, inputs, attributes);
    REQUIRE_MESSAGE(b.ok(), b.status().message());
    return with_gradients(std::move(b), outputs[0]);
}

} // namespace

TEST_CASE("tuning: the kernel that is fastest at the problem's own size") {
    const auto takes = [](double t128, double t64) {
        return rates({{"tiled.t128", t128}, {"tiled.t64", t64}, {"direct.t4x4", 40.0}});
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

TEST_CASE("tuning: a GPU whose clock falls while kernels are compiled") {
    // Each is compiled in the time in which the clock falls to its lowest, and one of them in no time.
    for (const char* best : {"tiled.t128", "tiled.t64", "direct.t4x4"}) {
        std::map<std::string, double> of{{"tiled.t128", 14}, {"tiled.t64", 12}, {"direct.t4x4", 13}};
        of[best] = 10;
        Planted planted{.seconds = rates(of), .compile_seconds = 0.5};
        CHECK(tuned(planted, {cube({{"tiled.t128"}, {"tiled.t64"}, {"direct.t4x4"}})}).at("planted") == best);
    }
}

TEST_CASE("tuning: parts of K and subgroup sizes of the fastest kernel") {
    const program::KernelProblem problem =
        cube({{"tiled.t128", {2}, {8}}, {"tiled.t64", {2, 4}, {8, 16}}, {"direct.t4x4"}});
    const auto chosen = [&](std::map<std::string, double> of, const std::string& wrong = "") {
        Planted planted{.seconds = rates(std::move(of)), .wrong = wrong};
        return tuned(planted, {problem}).at("planted");
    };
    CHECK(chosen({{"tiled.t128", 10}, {"tiled.t64", 20}}) == "tiled.t128");
    CHECK(chosen({{"tiled.t128", 10}, {"tiled.t128 splits=2", 8}}) == "tiled.t128 splits=2");
    std::map<std::string, double> of{{"tiled.t128", 10},
                                     {"tiled.t64", 9},
                                     {"tiled.t64 splits=4", 8},
                                     {"tiled.t64 splits=4 lanes=16", 7},
                                     {"tiled.t64 lanes=16", 1}}; // not with the best number of parts: not measured
    CHECK(chosen(of) == "tiled.t64 splits=4 lanes=16");
    CHECK(chosen(of, "tiled.t64 splits=4 lanes=16") == "tiled.t64 splits=4");
    CHECK(chosen(of, "tiled.t64 splits=4") == "tiled.t64 lanes=16");
}

TEST_CASE("tuning: nothing more is measured near the peak") {
    const program::KernelProblem problem = cube({{"tiled.t128", {2}}, {"tiled.t64"}, {"direct.t4x4"}});
    const auto added = [&](double peak) {
        Planted planted{.seconds = rates({{"tiled.t128", 10}, {"tiled.t64", 9}, {"direct.t4x4", 40}}), .peak = peak};
        CHECK(tuned(planted, {problem}).at("planted") == (peak > 0 && peak < 1.1e14 ? "tiled.t128" : "tiled.t64"));
        return std::ranges::count(planted.added, "tiled.t64");
    };
    CHECK(added(0) > 0);        // not known
    CHECK(added(2e14) > 0);     // tiled.t128 reaches half of it
    CHECK(added(1.05e14) == 0); // 95 percent
}

TEST_CASE("tuning: kernels without matrix units are not compiled where one with them is faster than arithmetic") {
    program::KernelProblem problem = cube({{.kernel = "matrix.t128", .matrix_units = true},
                                           {"tiled.t128"},
                                           {.kernel = "matrix.t64", .matrix_units = true}});
    problem.units = program::Storage::f16;
    const auto added = [&](double of_units) {
        Planted planted{.seconds = rates({{"matrix.t128", of_units}, {"matrix.t64", of_units / 2}, {"tiled.t128", 20}}),
                        .peak = 1e14}; // 10 femtoseconds an operation
        CHECK(tuned(planted, {problem}).at("planted") == (of_units < 30 ? "matrix.t64" : "tiled.t128"));
        return std::ranges::count(planted.added, "tiled.t128");
    };
    CHECK(added(9) == 0);
    CHECK(added(15) == 0); // matrix.t64 is
    CHECK(added(60) > 0);
}

TEST_CASE("tuning: no more time than allowed, the most expensive problem first") {
    std::vector<program::KernelProblem> problems;
    for (const int64_t m : {256, 4096, 1024}) {
        problems.push_back(program::matmul_problem({}, {.m = m, .n = 1024, .k = 1024}, {}));
        problems.back().key = fmt::format("{}", m);
        problems.back().kernels = {{"tiled.t128"}, {"tiled.t64"}, {"tiled.t32x64"}, {"direct.t4x4"}};
    }
    // A compilation takes 1.5 seconds.
    Planted planted{.seconds = rates({{"tiled.t128", 20}, {"tiled.t64", 10}}), .compile_seconds = 1.5};
    const auto tuning = made_tuning();
    std::map<std::string, std::string> choices;
    tuning->choose(planted.benches(), problems, choices);
    CHECK(choices == std::map<std::string, std::string>{{"4096", "tiled.t64"}});
    constexpr double kOneCandidate = 3.5; // compiled for two sizes, and measured
    CHECK(planted.now <= program::Tuning::kSeconds + kOneCandidate);
    // Another program of this process has no time left, and none for what is known.
    const double before = planted.now;
    tuning->choose(planted.benches(), problems, choices);
    CHECK(planted.now == before);
    CHECK(choices.size() == 1);
}

TEST_CASE("tuning: attention forward and backward") {
    const std::vector<program::KernelProblem> problems = problems_of(attention_graph(), gpu_limits());
    std::vector<std::string> passes;
    for (const program::KernelProblem& problem : problems) {
        CAPTURE(problem.key);
        passes.push_back(problem.key.substr(0, problem.key.find(" f32")));
        for (const char* best : {"tiled.t64x64", "tiled.t64x32", "tiled.t32x128 lanes=16"}) {
            Planted planted{.seconds = rates({{best, 10}, {"tiled.t32x128", best[7] == '3' ? 12.0 : 1000.0}})};
            CHECK(tuned(planted, {problem}, gpu_limits()).at(problem.key) == best);
        }
    }
    CHECK(passes == std::vector<std::string>{"attention forward", "attention dq", "attention dk dv"});
}

TEST_CASE("tuning: choices as text, and what they do") {
    using program::KernelChoice;
    CHECK(KernelChoice{"tiled.t64", 4, 16}.text() == "tiled.t64 splits=4 lanes=16");
    for (const char* text : {"tiled.t64", "tiled.t64 splits=4", "tiled.t64 lanes=16", "tiled.t64 splits=4 lanes=16"})
        CHECK(KernelChoice::parse(text).text() == text);
    CHECK(KernelChoice::parse("tiled.t64 waves=3").kernel == "tiled.t64 waves=3");
    CHECK(KernelChoice::parse("tiled.t64 splits=x").kernel == "tiled.t64 splits=x");

    const auto first_dispatch = [](const Graph& graph, const std::string& choice) {
        program::CompileOptions options{.outputs = {"value"}};
        for (const program::KernelProblem& problem : problems_of(graph, gpu_limits()))
            options.kernel_choices[problem.key] = choice;
        auto lowered = program::lower(graph, gpu_limits(), options);
        REQUIRE_MESSAGE(lowered.ok(), lowered.message());
        CHECK(lowered.value().problems.empty());
        const auto found = std::ranges::find_if(lowered.value().dispatches, [](const program::Dispatch& dispatch) {
            return dispatch.shader.starts_with("matmul/") || dispatch.shader.starts_with("attention/");
        });
        REQUIRE(found != lowered.value().dispatches.end());
        return *found;
    };
    Builder b;
    b.output("value",
             b(Op::matmul, {b.parameter("x", {70, 1024}, 0, 0, 0, 0), b.parameter("w", {1024, 70}, 0, 0, 0, 0)}));
    const Graph product = finished(std::move(b));
    const program::Dispatch whole = first_dispatch(product, "tiled.t64 splits=1"),
                            parts = first_dispatch(product, "tiled.t64 splits=4 lanes=16");
    CHECK(parts.groups == 4 * whole.groups);
    CHECK(parts.subgroup_size == 16);
    CHECK(whole.subgroup_size == 0);
    CHECK(first_dispatch(product, "direct.t4x4 lanes=8").subgroup_size == 8);
    CHECK(first_dispatch(attention_graph(), "tiled.t64x32 lanes=16").subgroup_size == 16);
    CHECK(first_dispatch(attention_graph(), "tiled.t64x32").shader == "attention/tiled_forward.t64x32");
    CHECK(first_dispatch(attention_graph(), "of another version").shader == "attention/of another version");
}

TEST_CASE("tuning: subgroup sizes by rule") {
    const auto sizes = [](program::Limits limits) {
        limits.matrix_f16 = {16, 16, 16};
        limits.storage16 = true;
        limits.shared_memory = 65536;
        limits.max_group_invocations = 1024;
        Builder b;
        const ValueId x = b.input("x", Kind::float_, {256, 256}), w = b.input("w", Kind::float_, {256, 256});
        b.output("value", b(Op::softmax, {b(Op::matmul, {x, w})}));
        auto lowered =
            program::lower(finished(std::move(b)), limits, {.outputs = {"value"}, .precision = program::Storage::f16});
        REQUIRE_MESSAGE(lowered.ok(), lowered.message());
        std::vector<uint32_t> product_and_row;
        for (const program::Dispatch& dispatch : lowered.value().dispatches)
            if (dispatch.shader.starts_with("matmul/matrix") || dispatch.shader.starts_with("softmax/"))
                product_and_row.push_back(dispatch.subgroup_size);
        return product_and_row;
    };
    program::Limits limits = gpu_limits();
    CHECK(sizes(limits) == std::vector<uint32_t>{16, 32});
    limits.min_subgroup_size = limits.max_subgroup_size = 0; // the size cannot be chosen
    CHECK(sizes(limits) == std::vector<uint32_t>{32, 32});
    limits.subgroup_size = limits.max_subgroup_size = 64; // AMD
    limits.min_subgroup_size = 32;
    limits.registers_at_any_width = true;
    CHECK(sizes(limits) == std::vector<uint32_t>{64, 64});
}

TEST_CASE("spills: a kernel that spills is not chosen where another does not") {
    // Counts by the beginning of a kernel's name; of others nothing is known.
    struct PlantedSpills : program::SpillCounts {
        std::map<std::string, uint64_t> counts;
        std::vector<std::string> asked;
        std::optional<uint64_t> of(const program::Dispatch& dispatch) override {
            asked.push_back(dispatch.shader);
            for (const auto& [kernel, count] : counts)
                if (dispatch.shader.starts_with(kernel)) return count;
            return std::nullopt;
        }
    };
    const auto spills = std::make_shared<PlantedSpills>();
    program::Limits limits = gpu_limits();
    const auto chosen = [&](const std::shared_ptr<program::SpillCounts>& known,
                            const std::map<std::string, std::string>& fixed = {}) {
        limits.spills = known;
        Builder b;
        const ValueId x = b.parameter("x", {2048, 256}, 0, 0, 0, 0), w = b.parameter("w", {256, 2048}, 0, 0, 0, 0);
        b.output("z", b(Op::matmul, {x, w}));
        const Graph graph = finished(std::move(b));
        const auto lowered = program::lower(graph, limits, {.outputs = {"z"}, .kernel_choices = fixed});
        REQUIRE_MESSAGE(lowered.ok(), lowered.message());
        REQUIRE(lowered.value().choices.size() == 1);
        const std::string kernel = lowered.value().choices.begin()->second;
        if (fixed.empty()) CHECK(lowered.value().problems.front().kernels.front().kernel == kernel); // measured first
        CHECK(std::ranges::any_of(lowered.value().dispatches, [&](const program::Dispatch& dispatch) {
            return dispatch.shader.starts_with("matmul/" + kernel);
        }));
        return kernel;
    };
    const std::string preferred = chosen(nullptr);
    CHECK(preferred == "tiled.t128");
    CHECK(chosen(spills) == preferred); // nothing is known
    spills->counts = {{"matmul/tiled.t128", 0}, {"matmul/", 0}};
    spills->asked.clear();
    CHECK(chosen(spills) == preferred);
    CHECK(spills->asked.size() == 1); // no other kernel is compiled
    spills->counts = {{"matmul/tiled.t128", 7}, {"matmul/tiled.t32x64", 0}, {"matmul/tiled.t64", 0}};
    CHECK(chosen(spills) == "tiled.t32x64"); // the next by the rules
    spills->counts = {{"matmul/tiled.t128", 7}, {"matmul/tiled.t32x64", 2}, {"matmul/tiled.t64", 0}};
    CHECK(chosen(spills) == "tiled.t64");
    spills->counts = {{"matmul/", 7}};
    CHECK(chosen(spills) == preferred);          // all spill
    spills->counts = {{"matmul/tiled.t128", 7}}; // of the others nothing is known
    CHECK(chosen(spills) == preferred);
    const std::string key = "matmul NN f32 [1x 2048, 2048, 256]";
    spills->counts = {{"matmul/tiled.t128", 7}, {"matmul/", 0}};
    CHECK(chosen(spills, {{key, "tiled.t128"}}) == "tiled.t128"); // a recorded choice stays
}

TEST_CASE("tuning: sizes share a bucket up to a power of two") {
    program::MatmulShape s{.batches = 3, .m = 100, .n = 128, .k = 1, .transpose_b = true};
    program::MatmulStorage storage;
    const auto bucket = [&] { return program::matmul_problem({}, s, storage).bucket; };
    CHECK(bucket() == "matmul NT f32 f32 f32 [4x 128, 128, 1]");
    s.m = 65;
    storage.c = program::Storage::bf16;
    CHECK(bucket() == "matmul NT f32 f32 bf16 [4x 128, 128, 1]");
    s.m = 64;
    CHECK(bucket() == "matmul NT f32 f32 bf16 [4x 64, 128, 1]");
}

TEST_CASE("tuning: rows that are aligned stay so in a shorter trial") {
    const program::KernelProblem problem = program::matmul_problem({}, {.m = 1544, .n = 50256, .k = 3080}, {});
    for (const program::TrialTensor& tensor : problem.trial(4e9, int64_t{1} << 25).inputs)
        CHECK(tensor.elements % 64 == 0);
    CHECK(problem.trial(4e9, int64_t{1} << 25).flops <= 4e9);
}

TEST_CASE("peak: as long as it takes to measure it, in short submits") {
    for (const double flops_per_second : {1e10, 1e12, 1e15}) {
        double longest = 0;
        Planted planted{.seconds = [&](const std::string&, double flops) {
            const double seconds = flops / flops_per_second + 5e-6; // and a submission
            longest = std::max(longest, seconds);
            return seconds;
        }};
        class Bench : public PlantedBench {
        public:
            using PlantedBench::PlantedBench;
            Result<std::size_t> add(const program::Lowering& lowering) override {
                program::Lowering of_trial = lowering;
                of_trial.trial = program::KernelChoice{"peak"};
                return PlantedBench::add(of_trial);
            }
        };
        planted.clock = 1;
        Bench bench(planted);
        CAPTURE(flops_per_second);
        const Result<double> peak = program::measure_peak(bench, {}, program::Storage::f32, 0.01);
        REQUIRE(peak.ok());
        CHECK(peak.value() == doctest::Approx(flops_per_second).epsilon(0.05));
        CHECK(longest < 0.06);
        CHECK(planted.now < 0.3);
        CHECK(program::measure_peak(bench, {}, program::Storage::f16, 0.01).value() == 0); // no matrix units
    }
}

TEST_CASE("peak: measured once, and of matrix units where there are any") {
    Bench bench;
    const double peak = program::peak_flops(*bench, program::Storage::f32).value();
    CHECK(peak > 0);
    CHECK(program::peak_flops(*bench, program::Storage::f32).value() == peak); // measured once
    for (const program::Storage units : {program::Storage::f16, program::Storage::bf16})
        CHECK((program::peak_flops(*bench, units).value() > 0) ==
              static_cast<bool>(bench->limits().matrix_unit(units)));
}

TEST_CASE("tuning: measurements are stored for the next time, and results do not change") {
    const Folder folder;
    const Graph graph = two_products();
    Random random(3);
    const graph::Feeds feeds = kernel_feeds(graph, random);
    std::map<std::string, std::string> first;
    for (int start = 0; start < 2; ++start) { // each measures at least one product, however slow the machine is
        Bench bench(measuring(folder.path()));
        std::string where;
        const double error =
            worst_error(run_on_device(*bench, graph, feeds, {}), run_in_interpreter(graph, feeds), &where);
        CHECK_MESSAGE(error <= 2e-6, "error " << error << " at " << where);
        choices_of(*bench, graph);
        first = bench->tuning().measured();
        CHECK(first.size() > static_cast<std::size_t>(start));
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
        Bench bench(measuring(folder.path()));
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
        Bench bench(measuring(folder.path()));
        CHECK(bench->tuning().measured().empty());
        CHECK(choices_of(*bench, graph).size() == 2);
        first = bench->tuning().measured();
        REQUIRE(bench->save_caches().ok());
    }
    Bench bench(measuring(folder.path()));
    CHECK(!first.empty());
    CHECK(bench->tuning().measured() == first);
}

TEST_CASE("tuning: off by default, and no file without a folder") {
    const Graph graph = two_products();
    Bench plain;
    CHECK(choices_of(*plain, graph).size() == 2);
    CHECK(plain->tuning().measured().empty());
    Bench without(measuring());
    CHECK(choices_of(*without, graph).size() == 2);
    CHECK(!without->tuning().measured().empty());
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
    Builder b;
    const ValueId x = b.input("x", Kind::float_, {2, 40, 24}), w = b.parameter("w", {2, 24, 10}, 0, 0, 0, 0);
    b.output("z", b(Op::add, {b(Op::matmul, {x, w}), b.scalar(1.0)}));
    const Graph graph = finished(std::move(b));
    Random random(3);
    graph::Feeds feeds = kernel_feeds(graph, random);
    for (const auto storage : {program::Storage::f32, program::Storage::bf16, program::Storage::f16}) {
        Bench bench(measuring());
        if (storage != program::Storage::f32 && !bench->limits().storage16) continue;
        RunOptions options;
        options.compile.precision = storage;
        std::string where;
        const double error =
            worst_error(run_on_device(*bench, graph, feeds, options), run_in_interpreter(graph, feeds), &where);
        CHECK_MESSAGE(error <= (storage == program::Storage::f32 ? 2e-6 : 0x1p-6),
                      "error " << error << " at " << where);
        CHECK(bench->tuning().measured().size() == 1);
    }
    // More rows than are measured.
    Bench bench(measuring());
    std::map<std::string, std::string> choices;
    program::KernelProblem large =
        program::matmul_problem(bench->limits(), {.batches = 3, .m = 4096, .n = 4096, .k = 4096}, {});
    large.key = "large";
    large.kernels = {{"direct.t4x4"}, {"direct.t16x4"}};
    made_tuning()->choose(program::tuning_benches(*bench), {large}, choices);
    CHECK(choices.contains("large"));
}

TEST_CASE("tuning: kernels of attention on the device, results do not change" * doctest::test_suite("long")) {
    if (instrumented()) return;
    program::RuntimeOptions options = measuring();
    options.kernels_of_gpus = true;
    gpu::CapabilityOverrides overrides;
    overrides.disable = {"uniform_loads"};
    Bench bench(options, overrides);
    check_kernel(bench, attention_graph(70), 1e-5);
    std::size_t measured = 0;
    for (const auto& [bucket, choice] : bench->tuning().measured())
        measured += bucket.starts_with("attention ") ? 1 : 0;
    CHECK(measured >= 1); // as many as there is time for
}

} // namespace tuning_test
