// Shared by the programs and parameter stores of one device: pipelines, the activation arena, measured kernels.
#pragma once

#include "gpu/context.hpp"
#include "program/arena.hpp"
#include "program/lowering/dispatch.hpp"
#include "program/lowering/limits.hpp"
#include "program/lowering/view.hpp"
#include "program/measure.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace hekla::program {

class CompilerSpills;
class Tuning;

struct RuntimeOptions {
    // false: pointwise kernels are not generated; the built-in ones give the same bits. Plugins' own GLSL always needs
    // the compiler.
    bool generated_shaders = true;
    bool keep_traces = false;     // keep what was recorded, for check_ordering()
    uint64_t max_block_bytes = 0; // of the activation arena; 0: the allocation limit
    // No single submit is estimated to take longer. 0: chosen for a GPU, so that neither a watchdog ends the work nor a
    // display on the same device stutters; no limit on a CPU.
    double budget_seconds = 0;
    double segment_seconds = 0; // approximate work per recorded segment; 0: chosen
    // Measure kernels once if several can be used (tuning.hpp). never: the same kernels on every run.
    Measure measure_kernels = Measure::never;
    std::shared_ptr<Cache> cache = nullptr; // for reading and writing measurements; null: in memory only
    unsigned compile_threads = 0;           // 0: as many as the machine has on an own device, one on a host's
    bool kernels_of_gpus = false;           // for tests: choose kernels as on a GPU, whatever the device is
    std::span<const gpu::EmbeddedShader> kernels =
        {}; // other SPIR-V of the same kernels, for tests; empty: the engine's
};

// Kernels compiled in advance, by Dispatch::shader: generated ones, and plugins' own GLSL. Programs of a store with
// these (StoreOptions::kernels) never load the compiler: if a generated kernel is missing, the built-in ones are used,
// with the same bits.
struct CompiledKernels {
    std::map<std::string, gpu::Shader, std::less<>> shaders;
    std::string missing; // message if a plugin's own kernel is missing: where kernels are stored, and how to get more
};

class ParameterStore;
class Program;

// A device with its pipelines, shader tables and options. Created once per run.
class Runtime {
public:
    static Result<std::unique_ptr<Runtime>> create(gpu::Context context, const RuntimeOptions& options = {});
    ~Runtime();
    Runtime(const Runtime&) = delete;
    Runtime& operator=(const Runtime&) = delete;

    const gpu::Context& gpu() const { return gpu_; }
    const RuntimeOptions& options() const { return options_; }
    // Returns the limits for lowering on this device. generated_shaders is true only if the GLSL module is available;
    // it is opened by the first call.
    const Limits& limits() const;
    // Returns the limits for programs of a store with these kernels (ParameterStore::kernels(), or null), which need no
    // module.
    Limits limits(const CompiledKernels* kernels) const;
    // Returns the device's limits; generated_shaders is as requested.
    const Limits& device_limits() const { return device_limits_; }
    const Arena& arena() const { return arena_; }
    // Makes block i at least sizes[i] bytes. If a block has to move, waits for the device first.
    Status reserve_arena(std::span<const uint64_t> sizes);
    // Compiled once and cached. kernels: if given, taken from there instead. unsupported or not_found names the shader.
    Result<std::shared_ptr<const gpu::Pipeline>> pipeline(const Dispatch& dispatch,
                                                          const CompiledKernels* kernels = nullptr);
    // The same for each of several dispatches, compiled on RuntimeOptions::compile_threads threads.
    std::vector<Result<std::shared_ptr<const gpu::Pipeline>>> pipelines(std::span<const Dispatch> dispatches,
                                                                        const CompiledKernels* kernels = nullptr);
    Result<gpu::Shader> shader(const Dispatch& dispatch, const CompiledKernels* kernels = nullptr);
    Status save_caches(); // data compiled and measured since the last call
    // Frees all device memory of gpu().memory until restore_device_memory(); programs and stores are unchanged
    // afterwards (gpu::Memory::evict). In between no program of this runtime, or of another with that memory, may run
    // or be created; work submitted to a BudgetedQueue and not started may wait there. out_of_memory: nothing has
    // changed; internal: objects of this runtime cannot be used any more.
    Status evict_device_memory();
    Status restore_device_memory();
    // Splits dispatches again by the times that a gpu::BudgetedQueue has measured: those that take longer than
    // RuntimeOptions::budget_seconds become more slices, with the same bits. Returns whether any was split; its times
    // are then measured again. Nothing may be pending. Without memory for more records a program does not change.
    Result<bool> resplit();
    Tuning& tuning() { return *tuning_; }

private:
    friend class Program;
    friend class ParameterStore;
    friend Result<double> peak_flops(Runtime& runtime, Storage factors);
    friend class GpuSpeed;
    Runtime() = default;
    Result<gpu::PipelineDescription> description(const Dispatch& dispatch, const CompiledKernels* kernels);
    struct ProgramHooks {
        std::function<Status(gpu::Staging&)> renew; // updates the addresses of its memory
        std::function<Result<bool>()> resplit;
    };
    struct SharingHooks {
        std::function<Status()> evict, restore;
    };
    std::map<const void*, ProgramHooks> programs_;
    std::map<const void*, SharingHooks> sharing_; // stores that read SharedWeights
    gpu::Context gpu_;
    RuntimeOptions options_;
    Limits device_limits_;
    mutable std::optional<Limits> limits_;
    Arena arena_;
    std::map<std::string, gpu::Shader, std::less<>> shaders_;
    std::unique_ptr<Tuning> tuning_;
    std::shared_ptr<CompilerSpills> spills_; // null: the driver reports none
    std::map<Storage, double> peaks_;        // measured, by the factors' storage; see program_bench.hpp
    double highest_speed_ = 0;               // of float32 arithmetic in FLOP/s, as measured so far; 0: not measured
};

} // namespace hekla::program
