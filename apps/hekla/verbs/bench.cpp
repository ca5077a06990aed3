// hekla bench matmul, train, generate: speed in units that can be compared with other engines.
#include "bench_case.hpp"
#include "command.hpp"
#include "measured_case.hpp"
#include "output.hpp"
#include "program/parameter_store.hpp"
#include "program/program.hpp"
#include "program/runtime.hpp"

#include "base/philox.hpp"
#include "graph/builder.hpp"
#include "program/lowering/matmul_kernels.hpp"
#include "program/program_bench.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fmt/format.h>
#include <functional>
#include <span>

namespace hekla::app {
namespace {

using nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

struct BenchArguments {
    int64_t m = 512, n = 512, k = 512;
    bool transpose_a = false, transpose_b = false;
    std::vector<std::string> kernels; // empty: the engine's choice
    std::string type = "f32";
    std::vector<std::string> cases{"shakespeare-char-cpu"};
    double seconds = 10.0;
    bool json = false;
    int64_t prompt = 1;   // generate: tokens
    CaseOptions training; // train; type and seconds are those above
};

constexpr uint64_t kSeed = 1337;

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// Creates a runtime that measures kernels as --measure-kernels specifies.
Result<std::unique_ptr<program::Runtime>> create_measuring_runtime(const Globals& globals) {
    program::RuntimeOptions options;
    options.measure_kernels = measure_of(globals);
    return create_runtime(globals, options);
}

// Large matrices repeat their first million values.
std::vector<float> random_values(std::size_t count, uint64_t stream) {
    RandomStream random(kSeed, stream);
    std::vector<float> values(count);
    const std::size_t different = std::min(count, std::size_t{1} << 20);
    for (std::size_t i = 0; i < different; ++i) values[i] = static_cast<float>(random.next_normal());
    for (std::size_t i = different; i < count; ++i) values[i] = values[i - different];
    return values;
}

// ---- matmul --------------------------------------------------------------------------------------------------------

// Compares some elements of the product with float64, so that the speed of a wrong kernel is not reported. The bound is
// the rounding of float32 sums and of the stored product.
Status check_product(const BenchArguments& a, std::span<const float> x, std::span<const float> y,
                     std::span<const float> z) {
    const program::Storage storage = storage_named(a.type);
    const double rounding = storage == program::Storage::f16    ? 0x1p-11
                            : storage == program::Storage::bf16 ? 0x1p-8
                                                                : 0.0;
    RandomStream random(kSeed, 3);
    for (int i = 0; i < 64; ++i) {
        const auto row = random.next_below(static_cast<uint64_t>(a.m)),
                   column = random.next_below(static_cast<uint64_t>(a.n));
        const auto inner = static_cast<uint64_t>(a.k), width = static_cast<uint64_t>(a.n);
        double sum = 0.0, size = 0.0;
        for (uint64_t j = 0; j < inner; ++j) {
            const uint64_t x_at = a.transpose_a ? j * static_cast<uint64_t>(a.m) + row : row * inner + j;
            const uint64_t y_at = a.transpose_b ? column * inner + j : j * width + column;
            const double term = static_cast<double>(x[x_at]) * static_cast<double>(y[y_at]);
            sum += term;
            size += std::abs(term);
        }
        const double got = static_cast<double>(z[row * width + column]);
        if (!(std::abs(got - sum) <= 1e-6 * size + rounding * std::abs(sum)))
            return internal_error(
                fmt::format("the product is wrong: element [{}, {}] is {}, expected {}", row, column, got, sum));
    }
    return {};
}

// Measures one kernel; empty: the engine's choice.
Result<ordered_json> bench_product(program::Runtime& runtime, const graph::Graph& product,
                                   program::ParameterStore& store, const BenchArguments& a, const std::string& kernel,
                                   std::span<const float> left, std::span<const float> right) {
    program::CompileOptions options;
    options.outputs = {"z"};
    options.precision = storage_named(a.type);
    if (!kernel.empty()) {
        const char* type = a.type.c_str();
        const std::string types = a.type == "f32" ? "f32" : fmt::format("{} {} {}", type, type, type);
        options.kernel_choices[fmt::format("matmul {}{} {} [1x {}, {}, {}]", a.transpose_a ? 'T' : 'N',
                                           a.transpose_b ? 'T' : 'N', types, a.m, a.n, a.k)] = kernel;
    }
    // The result stays on the device and is read once, to be checked.
    HK_ASSIGN(const auto program, program::Program::compile(runtime, product, store, options));
    if (!kernel.empty() && std::ranges::none_of(program->kernel_choices(), [&](const std::string& choice) {
            return choice.ends_with(": " + kernel);
        }))
        return invalid_argument(fmt::format("the kernel {} cannot compute this product on this device", kernel));
    HK_TRY(program->run());
    HK_ASSIGN(const program::HostTensor result, program->read_output("z"));
    HK_TRY(check_product(a, left, right, result.floats()));

    HK_TRY(program::raise_clock(runtime));
    double best = 1e30;
    int64_t count = 0;
    const Clock::time_point begin = Clock::now();
    while (count < 3 || since(begin) < a.seconds) {
        const Clock::time_point one = Clock::now();
        HK_TRY(program->run());
        best = std::min(best, since(one));
        ++count;
    }
    const double mean = since(begin) / static_cast<double>(count);
    const double flops = 2.0 * static_cast<double>(a.m) * static_cast<double>(a.n) * static_cast<double>(a.k);
    ordered_json j{{"case", fmt::format("matmul {}x{}x{}", a.m, a.n, a.k)},
                   {"gflops", rounded(flops / mean / 1e9, 10.0)}};
    j["best_gflops"] = rounded(flops / best / 1e9, 10.0);
    HK_TRY(add_share_of_peak(j, runtime, options.precision, flops / best));
    j["ms"] = rounded(mean * 1e3, 1000.0);
    j["kernels"] = program->kernel_choices();
    j["device"] = runtime.gpu().capabilities().device_name;
    j["dtype"] = long_name(storage_named(a.type));
    return j;
}

// Returns a row per kernel.
Result<ordered_json> bench_matmul(const Globals& globals, const BenchArguments& a) {
    const program::Storage storage = storage_named(a.type);
    HK_ASSIGN(const auto runtime, create_measuring_runtime(globals));
    // Both operands are parameters, so a replay computes nothing but the product.
    graph::Builder b;
    const graph::Shape x_shape = a.transpose_a ? graph::Shape{a.k, a.m} : graph::Shape{a.m, a.k};
    const graph::Shape y_shape = a.transpose_b ? graph::Shape{a.n, a.k} : graph::Shape{a.k, a.n};
    b.output("z", b(graph::Op::matmul,
                    {b.parameter("x", x_shape, 0, 0.0, 0.0, 0), b.parameter("y", y_shape, 0, 0.0, 0.0, 0)},
                    {{"transpose_a", int64_t{a.transpose_a}}, {"transpose_b", int64_t{a.transpose_b}}}));
    HK_ASSIGN(const graph::Graph product, b.finish());
    HK_ASSIGN(const auto store,
              program::ParameterStore::create(*runtime, program::parameter_table(product), {.weights = storage}));
    HK_TRY(store->upload("x", random_values(static_cast<std::size_t>(a.m * a.k), 1)));
    HK_TRY(store->upload("y", random_values(static_cast<std::size_t>(a.k * a.n), 2)));
    HK_ASSIGN(const ResourceArray<float> left, store->download("x")); // as stored
    HK_ASSIGN(const ResourceArray<float> right, store->download("y"));
    ordered_json rows = ordered_json::array();
    for (const std::string& kernel : a.kernels.empty() ? std::vector<std::string>{""} : a.kernels) {
        HK_ASSIGN(ordered_json row, bench_product(*runtime, product, *store, a, kernel, left, right));
        rows.push_back(std::move(row));
    }
    HK_TRY(runtime->save_caches());
    return rows;
}

// ---- verbs ---------------------------------------------------------------------------------------------------------

void show_profile(const ordered_json& kernels) {
    fmt::print("  {:>10} {:>10} {:>8} {:>10} {:>8}  kernel\n", "dispatches", "ms", "percent", "gflops", "gb_per_s");
    for (const ordered_json& k : kernels)
        fmt::print("  {:>10} {:>10.3f} {:>8.1f} {:>10.0f} {:>8.1f}  {}\n", k["dispatches"].get<int64_t>(),
                   k["ms"].get<double>(), k["percent"].get<double>(), k["gflops"].get<double>(),
                   k["gb_per_s"].get<double>(), k["kernel"].get<std::string>());
}

void show(const ordered_json& j, bool json) {
    if (json) {
        std::printf("%s\n", json_line(j).c_str());
    } else {
        fmt::print("{}\n", j["case"].get<std::string>());
        for (const auto& [key, value] : j.items())
            if (key != "case" && key != "profile")
                fmt::print("  {:<22} {}\n", key, value.is_string() ? value.get<std::string>() : json_line(value));
        if (j.contains("profile")) show_profile(j["profile"]);
    }
    std::fflush(stdout);
}

int run_matmul(const Globals& globals, const BenchArguments& a) {
    const auto measured = bench_matmul(globals, a);
    if (!measured.ok()) return fail(measured.status());
    for (const ordered_json& row : measured.value()) show(row, a.json);
    return kDone;
}

// Runs each case on a new runtime, so that memory that one case needed is free for the next.
template<class Measure>
int run_cases(const Globals& globals, const BenchArguments& a, Measure&& measure) {
    const plugin::Registry registry = scan_plugins(globals);
    for (const std::string& name : a.cases) {
        const BenchCase* c = find_bench_case(name);
        if (const Status found = compose_case(registry, *c, globals.log()).status(); !found.ok())
            return fail(found.with_context(name)); // before a device is created
        const auto runtime = create_measuring_runtime(globals);
        if (!runtime.ok()) return fail(runtime.status());
        const auto measured = measure(*runtime.value(), registry, *c);
        if (!measured.ok()) return fail(measured.status().with_context(name));
        show(measured.value(), a.json);
    }
    return kDone;
}

int run_train(const Globals& globals, const BenchArguments& a) {
    for (const std::string& name : a.cases)
        if (a.training.frozen_type != "f32" && !find_bench_case(name)->lora())
            return fail(fmt::format("--frozen-dtype {}: the case {} trains all parameters; expected a case with LoRA",
                                    a.training.frozen_type, name));
    return run_cases(globals, a, [&](program::Runtime& runtime, const plugin::Registry& registry, const BenchCase& c) {
        CaseOptions options = a.training;
        options.type = a.type;
        options.seconds = a.seconds;
        return measure_training(runtime, registry, globals.log(), c, options);
    });
}

int run_generate(const Globals& globals, const BenchArguments& a) {
    return run_cases(globals, a, [&](program::Runtime& runtime, const plugin::Registry& registry, const BenchCase& c) {
        return measure_generation(runtime, registry, globals.log(), c, storage_named(a.type), a.prompt);
    });
}

} // namespace

void add_bench(CLI::App& app, const Globals& globals, Verbs& verbs) {
    CLI::App* group = app.add_subcommand("bench", "Measure speed: matrix products, training steps, generated tokens.");
    group->require_subcommand(1);
    group->footer("Example: hekla bench matmul --m 512 --n 512 --k 512 --json");
    const auto add = [&](const char* name, const char* about, const char* example, const char* type_help,
                         int (*run)(const Globals&, const BenchArguments&)) {
        CLI::App* parser = group->add_subcommand(name, about);
        const auto a = std::make_shared<BenchArguments>();
        parser->add_option("--dtype", a->type, type_help)
            ->check(CLI::IsMember({"f32", "f16", "bf16"}))
            ->capture_default_str();
        parser->add_flag("--json", a->json, "print one line of JSON");
        parser->footer(example);
        verbs.push_back({parser, [&globals, a, run] { return run(globals, *a); }});
        return std::pair(parser, a);
    };
    const std::vector<std::string> names = bench_case_names();
    {
        const auto [parser, a] = add("matmul", "Measure [m, k] x [k, n], checked against float64.",
                                     "Example: hekla bench matmul --m 512 --n 512 --k 512 --json",
                                     "storage of operands and product; sums are float32", run_matmul);
        parser->add_option("--m", a->m, "rows of the product")->check(CLI::Range(1, 1 << 20))->capture_default_str();
        parser->add_option("--n", a->n, "columns of the product")->check(CLI::Range(1, 1 << 20))->capture_default_str();
        parser->add_option("--k", a->k, "inner dimension")->check(CLI::Range(1, 1 << 20))->capture_default_str();
        parser->add_flag("--transpose-a", a->transpose_a, "the left matrix is stored [k, m]");
        parser->add_flag("--transpose-b", a->transpose_b, "the right matrix is stored [n, k]");
        std::vector<std::string> kernels;
        for (const program::MatmulKernel& kernel : program::matmul_kernels()) kernels.emplace_back(kernel.name);
        parser->add_option("--kernel", a->kernels, "measure these kernels in place of the engine's choice")
            ->check(CLI::IsMember(kernels));
        a->seconds = 1.0;
        parser->add_option("--seconds", a->seconds, "measure for at least this time")
            ->check(CLI::Range(0.0, 3600.0))
            ->capture_default_str();
    }
    {
        const auto [parser, a] =
            add("train", "Measure training steps on one fixed batch: forward, backward, clipping, AdamW.",
                "Example: hekla bench train shakespeare-char-cpu --json",
                "storage of what matrix products read; the rest is float32", run_train);
        parser->add_option("case", a->cases, "model sizes to measure")
            ->check(CLI::IsMember(names))
            ->capture_default_str();
        parser->add_option("--seconds", a->seconds, "measure for at least this time, and at least 5 steps")
            ->check(CLI::Range(0.0, 3600.0))
            ->capture_default_str();
        parser
            ->add_option("--recompute", a->training.recompute,
                         "compute again for the gradients, in place of keeping it (default: blocks for "
                         "LoRA, none for others)")
            ->check(CLI::IsMember({"norms", "activations", "blocks", "none"}));
        parser
            ->add_option("--frozen-dtype", a->training.frozen_type,
                         "storage of the matrices of LoRA's body, which is not trained; needs cases with LoRA")
            ->check(CLI::IsMember({"f32", "f16", "bf16"}))
            ->capture_default_str();
        parser->add_flag("--profile", a->training.profile,
                         "also show the device's time by kernel, each dispatch timed alone");
    }
    {
        const auto [parser, a] = add(
            "generate",
            "Measure greedy generation with a cache: one row (with slots, one for each adapter), its prompt and up to "
            "127 tokens; median of 5.",
            "Example: hekla bench generate shakespeare-char-cpu --json",
            "storage of the model's matrices, keys and values; the rest is float32", run_generate);
        parser->add_option("case", a->cases, "model sizes to measure")
            ->check(CLI::IsMember(names))
            ->capture_default_str();
        parser->add_option("--prompt", a->prompt, "tokens of the prompt")
            ->check(CLI::Range(int64_t{1}, int64_t{1} << 20))
            ->capture_default_str();
    }
    add_bench_exchange(*group, globals, verbs);
}

} // namespace hekla::app
