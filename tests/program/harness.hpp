// Runs a graph on the device and in the interpreter, and compares.
#pragma once

#include "gpu/budgeted_queue.hpp"
#include "graph/builder.hpp"
#include "graph/reference.hpp"
#include "program/parameter_store.hpp"
#include "program/program.hpp"
#include "program/runtime.hpp"
#include "validation.hpp"
#ifdef HEKLA_KERNELS_AS_WRITTEN
#include "kernels_as_written_shaders.hpp"
#endif

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace hekla::test {

using graph::Builder;
using graph::Graph;
using graph::Kind;
using graph::Op;
using graph::Shape;
using graph::ValueId;

// The configuration of a whole test process, from its environment: HEKLA_TEST_VALIDATION=gpu for shaders instrumented
// to detect addresses out of bounds (off: validation.hpp), HEKLA_TEST_SHARED_MEMORY=BYTES, HEKLA_TEST_INVOCATIONS=N
// (per workgroup) and HEKLA_TEST_DISABLE=BIT for a smaller device, HEKLA_TEST_KERNELS=gpu for the kernels chosen on a
// GPU.
inline gpu::Validation validation_of_process() {
    const char* given = std::getenv("HEKLA_TEST_VALIDATION");
    if (given == nullptr) return gpu::Validation::on;
    if (is_validation_off()) return gpu::Validation::off;
    REQUIRE_MESSAGE(std::string_view(given) == "gpu", "HEKLA_TEST_VALIDATION is ", given, ", expected gpu or off");
    return gpu::Validation::gpu_assisted;
}
inline bool instrumented() { return validation_of_process() == gpu::Validation::gpu_assisted; }
inline void limit_as_process(gpu::CapabilityOverrides& overrides) {
    if (const char* bytes = std::getenv("HEKLA_TEST_SHARED_MEMORY"))
        overrides.shared_memory_bytes = static_cast<uint32_t>(std::stoul(bytes));
    if (const char* count = std::getenv("HEKLA_TEST_INVOCATIONS"))
        overrides.max_workgroup_invocations = static_cast<uint32_t>(std::stoul(count));
    if (const char* bit = std::getenv("HEKLA_TEST_DISABLE")) overrides.disable.emplace_back(bit);
}

// A device with the validation layer if it is installed; its messages fail the test at the end.
class Bench {
public:
    // measured: uses a queue that measures every segment, as when sessions prepare.
    explicit Bench(program::RuntimeOptions options = {}, gpu::CapabilityOverrides overrides = {},
                   bool measured = false) {
        options.keep_traces = true;
        if (const char* of = std::getenv("HEKLA_TEST_KERNELS")) {
            REQUIRE_MESSAGE(std::string_view(of) == "gpu", "HEKLA_TEST_KERNELS is ", of, ", expected gpu");
            options.kernels_of_gpus = true;
        }
        gpu::ContextOptions context_options;
        limit_as_process(overrides);
        context_options.device.overrides = std::move(overrides);
        context_options.memory.poison = true;
        context_options.device.validation = validation_of_process();
#ifdef HEKLA_KERNELS_AS_WRITTEN
        // The layer of Vulkan 1.3.239 generates invalid SPIR-V for a loop whose first block has a load. spirv-opt emits
        // such loops, the compiler itself does not.
        if (instrumented()) options.kernels = embedded::kernels_as_written();
#endif
        auto context = gpu::create_context(context_options);
        if (!context.ok() && context.code() == Code::unsupported && !instrumented()) {
            context_options.device.validation = gpu::Validation::off;
            context = gpu::create_context(context_options);
        }
        REQUIRE_MESSAGE(context.ok(), context.message());
        device_ = context->device;
        if (instrumented()) { // for the same reason: one such loop of a generated kernel never ended
            gpu::GlslOptions glsl;
            glsl.log = device_->log();
            glsl.optimize = false;
            context->glsl = std::make_shared<gpu::GlslCompiler>(std::move(glsl));
        }
        if (measured) {
            auto queue = gpu::BudgetedQueue::create(device_);
            REQUIRE_MESSAGE(queue.ok(), queue.message());
            REQUIRE(queue.value()->set_mode(gpu::BudgetedQueue::Mode::measuring).ok());
            context->queue = queue.value();
            auto staging = gpu::Staging::create(context->memory, context->queue, uint64_t{1} << 20);
            REQUIRE_MESSAGE(staging.ok(), staging.message());
            context->staging = staging.take();
        }
        auto made = program::Runtime::create(context.take(), options);
        REQUIRE_MESSAGE(made.ok(), made.message());
        runtime_ = made.take();
    }
    ~Bench() {
        const gpu::ValidationCounts counts = device_->validation_counts();
        CHECK_MESSAGE(counts.errors == 0, counts.first);
    }
    Bench(const Bench&) = delete;
    Bench& operator=(const Bench&) = delete;
    program::Runtime& operator*() { return *runtime_; }
    program::Runtime* operator->() { return runtime_.get(); }

private:
    std::shared_ptr<gpu::Device> device_;
    std::unique_ptr<program::Runtime> runtime_;
};

// A bench with the kernels of GPUs, on any device: kernels with uniform loads would be preferred on a CPU.
class GpuKernelsBench : public Bench {
public:
    GpuKernelsBench() : Bench({.kernels_of_gpus = true}, without_uniform_loads()) {}

private:
    static gpu::CapabilityOverrides without_uniform_loads() {
        gpu::CapabilityOverrides overrides;
        overrides.disable = {"uniform_loads"};
        return overrides;
    }
};

inline std::vector<std::byte> to_bytes(const graph::Tensor& tensor) {
    std::vector<std::byte> bytes(tensor.data.size() * 4);
    for (std::size_t i = 0; i < tensor.data.size(); ++i) {
        if (graph::is_float(tensor.kind)) {
            const auto x = static_cast<float>(tensor.data[i]);
            std::memcpy(bytes.data() + i * 4, &x, 4);
        } else {
            const auto x = static_cast<int32_t>(tensor.data[i]);
            std::memcpy(bytes.data() + i * 4, &x, 4);
        }
    }
    return bytes;
}

inline graph::Tensor to_tensor(const program::HostTensor& tensor) {
    graph::Tensor out{tensor.kind, tensor.shape, {}};
    if (graph::is_float(tensor.kind))
        out.data.assign(tensor.floats().begin(), tensor.floats().end());
    else
        out.data.assign(tensor.ints().begin(), tensor.ints().end());
    return out;
}

// The results of one run on the device: outputs, and gradients as "grad.NAME".
using Outcome = std::map<std::string, graph::Tensor>;

struct RunOptions {
    program::CompileOptions compile;
    program::StoreOptions store = {.gradients = true};
    program::RunScalars scalars;
    int runs = 1;
    std::function<void(program::Runtime&)> between = nullptr; // called between two runs
};

// Feeds must contain the values that the device stores: call rounded() first.
inline Outcome run_on_device(program::Runtime& runtime, const Graph& graph, const graph::Feeds& feeds,
                             RunOptions options) {
    auto store = program::ParameterStore::create(runtime, program::parameter_table(graph), options.store);
    REQUIRE_MESSAGE(store.ok(), store.message());
    for (const auto& [name, tensor] : feeds.parameters) {
        const std::vector<float> values(tensor.data.begin(), tensor.data.end());
        const Status status = store.value()->upload(name, values);
        REQUIRE_MESSAGE(status.ok(), status.message());
    }
    if (options.compile.outputs.empty())
        for (const auto& [name, value] : graph.outputs)
            if (!name.starts_with("grad.")) options.compile.outputs.push_back(name);
    auto compiled = program::Program::compile(runtime, graph, *store.value(), options.compile);
    REQUIRE_MESSAGE(compiled.ok(), compiled.message());
    program::Program& program = *compiled.value();
    for (const auto& [name, tensor] : feeds.fields) {
        const Status status = program.set_input(name, to_bytes(tensor));
        REQUIRE_MESSAGE(status.ok(), status.message());
    }
    for (const auto& [name, value] : feeds.step_scalars) {
        const Status status = program.set_scalar(name, static_cast<float>(value));
        REQUIRE_MESSAGE(status.ok(), status.message());
    }
    options.scalars.seed = feeds.seed;
    options.scalars.step = static_cast<uint32_t>(feeds.step);
    options.scalars.first_example = static_cast<uint32_t>(feeds.first_example);
    for (int i = 0; i < options.runs; ++i) {
        if (i > 0 && options.between) options.between(runtime);
        const Status status = program.submit(options.scalars);
        REQUIRE_MESSAGE(status.ok(), status.message());
    }
    const Status ordered = program.check_ordering();
    CHECK_MESSAGE(ordered.ok(), ordered.message());
    Outcome outcome;
    for (const std::string& name : program.output_names()) {
        auto tensor = program.read_output(name);
        REQUIRE_MESSAGE(tensor.ok(), tensor.message());
        outcome[name] = to_tensor(tensor.value());
    }
    for (const std::string& name : program.gradient_names()) {
        auto values = store.value()->download(name, program::StoreArena::gradients);
        REQUIRE_MESSAGE(values.ok(), values.message());
        outcome["grad." + name] = {
            Kind::float32, store.value()->find(name)->shape, {values.value().begin(), values.value().end()}};
    }
    return outcome;
}

inline Outcome run_in_interpreter(const Graph& graph, const graph::Feeds& feeds) {
    std::vector<ValueId> wanted;
    for (const auto& [name, value] : graph.outputs) wanted.push_back(value);
    auto tensors = graph::evaluate(graph, feeds, wanted);
    REQUIRE_MESSAGE(tensors.ok(), tensors.message());
    Outcome outcome;
    std::size_t i = 0;
    for (const auto& [name, value] : graph.outputs) outcome[name] = tensors.value()[i++];
    return outcome;
}

inline bool same_bits(const Outcome& a, const Outcome& b) {
    if (a.size() != b.size()) return false;
    for (const auto& [name, tensor] : a) {
        const auto it = b.find(name);
        if (it == b.end() || to_bytes(tensor) != to_bytes(it->second)) {
            MESSAGE("first difference: " << name);
            return false;
        }
    }
    return true;
}

// Returns the largest |a - b| / (largest |b|), integers compared exactly; `where`: at which element.
inline double worst_error(const Outcome& got, const Outcome& expected, std::string* where = nullptr) {
    double worst = 0;
    for (const auto& [name, b] : expected) {
        const auto it = got.find(name);
        REQUIRE_MESSAGE(it != got.end(), name << " is missing");
        const graph::Tensor& a = it->second;
        REQUIRE_MESSAGE(a.shape == b.shape, name << ": " << a.shape.text() << " and " << b.shape.text());
        double scale = 1e-30;
        for (const double x : b.data)
            if (std::isfinite(x)) scale = std::max(scale, std::abs(x));
        for (std::size_t i = 0; i < b.data.size(); ++i) {
            const double x = a.data[i];
            const double y = b.data[i];
            if (std::isnan(x) && std::isnan(y)) continue;
            if (x == y) continue;
            const double error = graph::is_float(b.kind) ? std::abs(x - y) / scale : 1e9;
            if (!(error <= worst)) {
                worst = std::isnan(error) ? 1e9 : error;
                if (where) *where = fmt::format("{}[{}]: {} and {}", name, i, x, y);
            }
        }
    }
    return worst;
}

class Random {
public:
    explicit Random(uint64_t seed) : engine_(seed) {}
    int64_t below(int64_t n) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(n)); }
    float normal(double scale = 1.0) { return static_cast<float>(scale * normal_(engine_)); }
    graph::Tensor tensor(Kind kind, const Shape& shape, double scale = 1.0, int64_t most = 7) {
        graph::Tensor t{kind, shape, {}};
        for (int64_t i = 0; i < shape.elements(); ++i)
            t.data.push_back(graph::is_float(kind) ? static_cast<double>(normal(scale))
                                                   : static_cast<double>(below(most)));
        return t;
    }

private:
    std::mt19937_64 engine_;
    std::normal_distribution<double> normal_;
};

// Runs the graph in every way that must give the same bits, and compares with the interpreter.
inline void check_graph(Bench& bench, const Graph& graph, const graph::Feeds& feeds, double tolerance) {
    RunOptions options;
    const Outcome fused = run_on_device(*bench, graph, feeds, options);
    options.runs = 2;
    CHECK_MESSAGE(same_bits(fused, run_on_device(*bench, graph, feeds, options)), "two runs differ");
    options.runs = 1;
    options.compile.fused = false;
    CHECK_MESSAGE(same_bits(fused, run_on_device(*bench, graph, feeds, options)), "fused and unfused differ");
    options.compile.fused = true;
    options.compile.serialized = true;
    CHECK_MESSAGE(same_bits(fused, run_on_device(*bench, graph, feeds, options)), "serialized differs");
    std::string where;
    const double error = worst_error(fused, run_in_interpreter(graph, feeds), &where);
    CHECK_MESSAGE(error <= tolerance, "error " << error << " at " << where);
}

} // namespace hekla::test
