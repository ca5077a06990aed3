#include "examination.hpp"

#include "device_test/device_facts.hpp"
#include "output.hpp"
#include "program/parameter_store.hpp"
#include "program/program.hpp"
#include "program/runtime.hpp"

#include "base/number_text.hpp"
#include "base/philox.hpp"
#include "gpu/driver_advice.hpp"
#include "graph/builder.hpp"
#include "graph/reference.hpp"
#include "program/lowering/half.hpp"
#include "program/program_bench.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <thread>

namespace hekla::app {
namespace {

using nlohmann::ordered_json;

ordered_json device_json(const gpu::DeviceInfo& d) {
    ordered_json j{{"index", d.index},
                   {"name", d.name},
                   {"type", gpu::device_type_name(d.type)},
                   {"driver", d.driver},
                   {"vulkan", version_text(d.api_version)},
                   {"memory_bytes", d.memory_bytes},
                   {"usable", d.usable}};
    if (!d.usable) j["why_not"] = d.why_not;
    return j;
}

// Checks the Vulkan loader and its layers. False ends the examination.
bool examine_loader(Doctor& doctor) {
    const auto loader = gpu::Loader::open();
    if (!loader.ok()) {
        doctor.bad("Vulkan loader", loader.message(), "");
        return false;
    }
    gpu::Functions f;
    if (const Status loaded = f.load_global(loader.value()->get_instance_proc_addr()); !loaded.ok()) {
        doctor.bad("Vulkan loader", loaded.message(), "install a newer Vulkan loader (1.2 or newer)");
        return false;
    }
    uint32_t version = VK_API_VERSION_1_0;
    if (f.vkEnumerateInstanceVersion) f.vkEnumerateInstanceVersion(&version);
    doctor.good("Vulkan loader", version_text(version));
    uint32_t count = 0;
    std::vector<std::string> layers;
    if (f.vkEnumerateInstanceLayerProperties(&count, nullptr) == VK_SUCCESS && count > 0) {
        std::vector<VkLayerProperties> list(count);
        f.vkEnumerateInstanceLayerProperties(&count, list.data());
        list.resize(count);
        for (const VkLayerProperties& layer : list) layers.emplace_back(layer.layerName);
    }
    if (std::ranges::find(layers, "VK_LAYER_KHRONOS_validation") != layers.end())
        doctor.good("layers", fmt::format("{}", fmt::join(layers, ", ")));
    else
        doctor.note("layers", layers.empty() ? "none" : fmt::format("{}", fmt::join(layers, ", ")),
                    "for --validate install vulkan-validationlayers; nothing else needs it");
    for (const char* variable : {"VK_ICD_FILENAMES", "VK_DRIVER_FILES", "VK_INSTANCE_LAYERS", "VK_LOADER_DEBUG"})
        if (const char* value = std::getenv(variable))
            doctor.note(variable, value,
                        "this variable changes which devices Vulkan lists; unset it if one is missing");
    return true;
}

bool examine_list(Doctor& doctor, const Globals& globals) {
    choose_vector_width();
    const auto listed = gpu::Device::list(context_options(globals).device);
    if (!listed.ok()) {
        doctor.bad("devices", listed.message(), "");
        return false;
    }
    ordered_json devices = ordered_json::array();
    bool usable = false;
    for (const gpu::DeviceInfo& d : listed.value()) {
        devices.push_back(device_json(d));
        usable = usable || d.usable;
        const std::string line = fmt::format("{} [{}], {}, Vulkan {}", d.name, gpu::device_type_name(d.type), d.driver,
                                             version_text(d.api_version));
        if (d.usable)
            doctor.good(fmt::format("device {}", d.index), line);
        else
            doctor.note(fmt::format("device {}", d.index), fmt::format("{}: not usable: {}", line, d.why_not),
                        "a newer driver may support it: Mesa 25 or newer, NVIDIA 535 or newer");
    }
    doctor.number("devices", devices);
    if (!usable) {
        doctor.bad("devices", listed.value().empty() ? "Vulkan lists none" : "none can be used", gpu::driver_advice());
        return false;
    }
    return true;
}

void examine_capabilities(Doctor& doctor, const gpu::Context& context) {
    const gpu::Capabilities& c = context.capabilities();
    const bool cpu = c.type == gpu::DeviceType::cpu;
    const std::string name = fmt::format("{} through {} {}", c.device_name, c.driver_name, c.driver_info);
    if (cpu)
        doctor.note("in use", name,
                    "a CPU, which is enough for small models; if this machine has a GPU, its driver is missing");
    else
        doctor.good("in use", name);
    std::vector<std::string> there, missing;
    ordered_json optional;
    for (const std::string_view bit : gpu::capability_names()) {
        const bool* has = gpu::find_capability(c, bit);
        (has != nullptr && *has ? there : missing).emplace_back(bit);
        optional[std::string(bit)] = has != nullptr && *has;
    }
    doctor.good("required features", "all supported");
    doctor.good("optional features", fmt::format("{}", fmt::join(there, ", ")));
    if (!missing.empty()) doctor.good("not supported", fmt::format("{} (none is required)", fmt::join(missing, ", ")));
    for (const std::string& line : c.taken_away)
        doctor.note("not used", line, "a known bug of this driver version, or an override");
    doctor.good(
        "limits",
        fmt::format(
            "subgroups of {} ({} to {}), {} of shared memory, {} invocations per workgroup, allocations of up to {}",
            c.subgroup_size, c.min_subgroup_size, c.max_subgroup_size, size_text(c.shared_memory_bytes),
            c.max_workgroup_invocations, size_text(c.max_allocation_bytes)));
    const gpu::MemoryUsage usage = context.memory->usage();
    std::string memory = size_text(c.device_memory_bytes);
    if (usage.heap_budget_bytes > 0)
        memory += fmt::format(", {} free", size_text(usage.heap_budget_bytes -
                                                     std::min(usage.heap_budget_bytes, usage.heap_usage_bytes)));
    doctor.good("memory", memory);
    if (const Status glsl = context.glsl->available(); glsl.ok())
        doctor.good("GLSL at run time", "available");
    else
        doctor.note("GLSL at run time", glsl.message(),
                    "results are the same, but elementwise operations are not fused; keep libhekla_glsl.so next to the "
                    "program");
    if (cpu) {
        const char* width = std::getenv("LP_NATIVE_VECTOR_WIDTH");
        doctor.good("CPU", fmt::format("{} threads{}", std::thread::hardware_concurrency(),
                                       width != nullptr ? fmt::format(", LP_NATIVE_VECTOR_WIDTH={}", width) : ""));
    }
    doctor.number("optional", optional);
    doctor.number("memory_bytes", c.device_memory_bytes);
}

std::vector<float> probe_values(std::size_t count, uint64_t key) {
    RandomStream random(17, key);
    std::vector<float> values(count);
    for (float& v : values) v = static_cast<float>(random.next_normal());
    return values;
}

// Computes softmax(tanh(x W + b)) at odd sizes on the device and in float64, which covers matmul, elementwise and
// reduction kernels. Returns the largest difference.
Result<double> kernel_error(program::Runtime& runtime) {
    constexpr int64_t kRows = 37, kInner = 61, kColumns = 53;
    graph::Builder b;
    const graph::ValueId x = b.input("x", graph::Kind::float32, {kRows, kInner}),
                         w = b.parameter("w", {kInner, kColumns}, 0, 0.0, 0.0, 0),
                         bias = b.parameter("b", {kColumns}, 0, 0.0, 0.0, 0);
    const graph::ValueId y =
        b(graph::Op::softmax, {b(graph::Op::tanh, {b(graph::Op::add, {b(graph::Op::matmul, {x, w}), bias})})});
    b.output("y", y);
    HK_ASSIGN(const graph::Graph graph, b.finish());
    const std::vector<float> values = probe_values(kRows * kInner, 1), weights = probe_values(kInner * kColumns, 2),
                             biases = probe_values(kColumns, 3);
    HK_ASSIGN(const auto store, program::ParameterStore::create(runtime, program::parameter_table(graph)));
    HK_TRY(store->upload("w", weights));
    HK_TRY(store->upload("b", biases));
    program::CompileOptions options;
    options.outputs = {"y"};
    HK_ASSIGN(const auto program, program::Program::compile(runtime, graph, *store, options));
    HK_TRY(program->set_input("x", std::as_bytes(std::span(values))));
    HK_TRY(program->run());
    HK_ASSIGN(const program::HostTensor got, program->read_output("y"));
    const auto tensor = [](const std::vector<float>& from, graph::Shape shape) {
        return graph::Tensor{graph::Kind::float32, shape, {from.begin(), from.end()}};
    };
    graph::Feeds feeds;
    feeds.fields.emplace("x", tensor(values, {kRows, kInner}));
    feeds.parameters.emplace("w", tensor(weights, {kInner, kColumns}));
    feeds.parameters.emplace("b", tensor(biases, {kColumns}));
    const graph::ValueId wanted[] = {graph.outputs.at("y")};
    HK_ASSIGN(const std::vector<graph::Tensor> expected, graph::evaluate(graph, feeds, wanted));
    double worst = 0.0;
    for (std::size_t i = 0; i < expected[0].data.size(); ++i) {
        const double difference = std::abs(static_cast<double>(got.floats()[i]) - expected[0].data[i]);
        if (!(difference <= worst)) worst = difference; // NaN counts as the worst
    }
    return worst;
}

// Measures a matmul [m, k] x [k, n]. Returns the seconds of the fastest run.
Result<double> matmul_seconds(program::Runtime& runtime, int64_t m, int64_t n, int64_t k) {
    graph::Builder b;
    const graph::ValueId x = b.parameter("x", {m, k}, 0, 0.0, 0.0, 0), y = b.parameter("y", {k, n}, 0, 0.0, 0.0, 0);
    b.output("z", b(graph::Op::matmul, {x, y}));
    HK_ASSIGN(const graph::Graph graph, b.finish());
    HK_ASSIGN(const auto store, program::ParameterStore::create(runtime, program::parameter_table(graph)));
    HK_TRY(store->upload("x", probe_values(static_cast<std::size_t>(m * k), 4)));
    HK_TRY(store->upload("y", probe_values(static_cast<std::size_t>(k * n), 5)));
    program::CompileOptions options;
    options.outputs = {"z"};
    HK_ASSIGN(const auto program, program::Program::compile(runtime, graph, *store, options));
    HK_TRY(program->run());
    HK_TRY(program::raise_clock(runtime));
    double best = 1e30;
    const auto begin = std::chrono::steady_clock::now();
    const auto since = [](std::chrono::steady_clock::time_point t) {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count();
    };
    for (int i = 0; i < 3 || (i < 50 && since(begin) < 0.5); ++i) {
        const auto one = std::chrono::steady_clock::now();
        HK_TRY(program->run());
        best = std::min(best, since(one));
    }
    return best;
}

} // namespace

void Doctor::add(Finding finding) {
    if (!quiet_) {
        fmt::print("{} {:<22} {}\n",
                   finding.good    ? "ok  "
                   : finding.fatal ? "FAIL"
                                   : "note",
                   finding.what, finding.value);
        if (!finding.advice.empty()) fmt::print("     {:<22} -> {}\n", "", finding.advice);
        std::fflush(stdout);
    }
    failed_ = failed_ || finding.fatal;
    ordered_json j{{"what", finding.what}, {"value", finding.value}, {"good", finding.good}};
    if (!finding.advice.empty()) j["advice"] = finding.advice;
    report_["findings"].push_back(std::move(j));
}

ordered_json Doctor::report() const {
    ordered_json all = report_;
    all["healthy"] = healthy();
    return all;
}

int list_devices(const Globals& globals, bool json) {
    choose_vector_width();
    const auto listed = gpu::Device::list(context_options(globals).device);
    if (!listed.ok()) return fail(listed.status());
    if (json) {
        ordered_json j = ordered_json::array();
        for (const gpu::DeviceInfo& d : listed.value()) j.push_back(device_json(d));
        std::printf("%s\n", json_line(j).c_str());
        return kDone;
    }
    for (const gpu::DeviceInfo& d : listed.value()) {
        fmt::print("{}: {} [{}], {}, Vulkan {}, {}\n", d.index, d.name, gpu::device_type_name(d.type), d.driver,
                   version_text(d.api_version), size_text(d.memory_bytes));
        if (!d.usable) fmt::print("   not usable: {}\n", d.why_not);
    }
    if (listed.value().empty()) return fail(fmt::format("Vulkan lists no device: {}", gpu::driver_advice()));
    return kDone;
}

void examine(Doctor& doctor, const Globals& globals) {
    if (!examine_loader(doctor) || !examine_list(doctor, globals)) return;
    auto created = gpu::create_context(context_options(globals));
    if (!created.ok()) return doctor.bad("device", created.message(), "try another with --device INDEX");
    examine_capabilities(doctor, created.value());
    auto runtime = program::Runtime::create(created.take());
    if (!runtime.ok()) return doctor.bad("runtime", runtime.message(), "");

    const plugin::Registry registry = scan_plugins(globals);
    if (registry.manifests().empty())
        doctor.note("plugins", "none found",
                    "install them in lib/hekla/plugins of the program's prefix, or give --plugin-path FOLDER");
    else
        doctor.good("plugins", fmt::format("{} manifests", registry.manifests().size()));

    const Result<double> error = kernel_error(*runtime.value());
    if (!error.ok())
        return doctor.bad("kernels", error.message(),
                          "run `hekla doctor --test --bisect` with fixture folders, and send its reproducer to the "
                          "vendor of the driver");
    doctor.number("kernel_error", error.value());
    if (!(error.value() <= 1e-6))
        return doctor.bad("kernels",
                          fmt::format("differ from float64 by {:.1e}; at most 1e-6 was expected", error.value()),
                          "this driver computes wrong results: try another version of it, or another device");
    doctor.good("kernels", fmt::format("agree with float64 to {:.1e}", error.value()));

    for (const program::Storage storage : {program::Storage::f32, program::Storage::f16, program::Storage::bf16}) {
        const Result<double> measured = program::peak_flops(*runtime.value(), storage);
        if (!measured.ok()) return doctor.bad("peak", measured.message(), "restart the machine, or try another driver");
        const double peak = measured.value();
        if (peak <= 0.0) continue;
        const char* name = program::storage_name(storage);
        const bool units = storage != program::Storage::f32;
        doctor.number(fmt::format("peak_{}_gflops", name).c_str(), peak / 1e9);
        doctor.good(units ? fmt::format("peak, {} units", name) : "peak, float32",
                    fmt::format("{:.1f} GFLOP/s (measured without memory)", peak / 1e9));
    }

    const gpu::Capabilities& device = runtime.value()->gpu().capabilities();
    const program::Limits& limits = runtime.value()->device_limits();
    if (device.cooperative_matrix && !limits.matrix_f16 && !limits.matrix_bf16)
        doctor.note("matrix units", "this device has some that no kernel of this program uses",
                    "if CMake printed \"Kernels left out\", build the target hekla_compile_shaders with a newer glslc");

    // GPT-2's largest repeated shape: tokens through the layer that widens 768 to 3,072; as many as fill a GPU.
    const int64_t tokens = limits.cpu ? 256 : 8192;
    const Result<double> square = matmul_seconds(*runtime.value(), 512, 512, 512),
                         wide = matmul_seconds(*runtime.value(), tokens, 3072, 768);
    if (!square.ok()) return doctor.bad("matmul", square.message(), "");
    if (!wide.ok()) return doctor.bad("matmul", wide.message(), "");
    const double speed = 2.0 * 512 * 512 * 512 / square.value(),
                 model_speed = 2.0 * static_cast<double>(tokens) * 3072 * 768 / wide.value();
    doctor.number("matmul_gflops", speed / 1e9);
    doctor.good("matmul", fmt::format("{:.1f} GFLOP/s (512 x 512 x 512, float32)", speed / 1e9));
    // 6 N + 6 L C T floating-point operations per token (forward and backward) at the speed of its matmuls: an upper
    // bound, since the other operations take time as well.
    const double per_token = 6.0 * 124.4e6 + 6.0 * 12 * 768 * 1024;
    doctor.number("gpt2_124m_tokens_per_s", model_speed / per_token);
    doctor.good("GPT-2 124M",
                fmt::format("trains at most {} tokens/s here (estimated: its matmuls reach {:.1f} GFLOP/s)",
                            grouped(model_speed / per_token), model_speed / 1e9));
}

} // namespace hekla::app
