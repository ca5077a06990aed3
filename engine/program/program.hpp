// A graph made ready to run: lowered, placed in memory, recorded once, replayed at every step. What the trainer, the
// generator, the optimizer and `verify` are written against.
//
//     HK_ASSIGN(auto runtime, Runtime::create(context));
//     HK_ASSIGN(auto store, ParameterStore::create(*runtime, parameter_table(graph), {.gradients = true}));
//     HK_TRY(store->upload("wte.weight", values));
//     HK_ASSIGN(auto program, Program::compile(*runtime, graph, *store, {.outputs = {"loss"}}));
//     HK_TRY(program->set_input("ids", std::as_bytes(std::span(ids))));
//     HK_TRY(program->run({.seed = 1, .step = 0}));
//     HK_ASSIGN(auto loss, program->read_output("loss"));
//
// Ownership: a Runtime outlives its stores, and both outlive the programs made with them. Thread: one at a time for a
// runtime and everything made with it.
#pragma once

#include "base/resource_allocator.hpp"
#include "gpu/context.hpp"
#include "program/lowering/lower.hpp"
#include "program/memory_plan.hpp"
#include "program/ordering_check.hpp"
#include "program/tuning.hpp"

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <memory_resource>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::program {

struct RuntimeOptions {
    // false: no pointwise kernel is generated; the same bits from the built-in ones. Plugins' own GLSL has no other
    // way.
    bool generated_shaders = true;
    bool keep_traces = false;         // keep what was recorded, for check_ordering()
    uint32_t shared_memory_bytes = 0; // lower limit than the device's, for tests; 0: the device's
    uint64_t max_block_bytes = 0;     // of the activation arena; 0: what one allocation may be
    double budget_seconds = 0;        // no single submit is estimated to take longer; 0: no budget
    double segment_seconds = 0.002;   // about how much work a recorded segment holds
    // Where several kernels would do, measure them once (tuning.hpp). Never: the same kernels on every run.
    Measure measure_kernels = Measure::never;
    std::shared_ptr<Cache> cache = nullptr; // what was measured is read from and written to it; null: in memory only
    bool kernels_of_gpus = false;           // for tests: choose kernels as on a GPU, whatever the device is
    std::span<const gpu::EmbeddedShader> kernels =
        {}; // other SPIR-V of the same kernels, for tests; empty: the engine's
};

// The activation arena: blocks shared by all programs of a runtime, as large as the largest needs. Growing it moves it;
// programs notice and rewrite their argument records before their next submit.
class Arena {
public:
    const std::vector<gpu::Buffer>& blocks() const { return blocks_; }
    uint64_t generation() const { return generation_; }
    uint64_t bytes() const;

private:
    friend class Runtime;
    std::vector<gpu::Buffer> blocks_;
    uint64_t generation_ = 0;
};

// Kernels that were compiled before this program ran, by Dispatch::shader: the generated ones, and plugins' own GLSL.
// For programs of a store that has these (StoreOptions::kernels) no compiler is looked for: where a generated one is
// not among them, they are made of the built-in ones, with the same bits.
struct CompiledKernels {
    std::map<std::string, gpu::Shader, std::less<>> shaders;
    std::string missing; // what to say where a plugin's own is not among them: who holds them, and how to get more
};

class ParameterStore;
class SharedWeights;

// A device with its pipelines, shader tables and options. Made once a run.
class Runtime {
public:
    static Result<std::unique_ptr<Runtime>> create(gpu::Context context, const RuntimeOptions& options = {});
    ~Runtime();
    Runtime(const Runtime&) = delete;
    Runtime& operator=(const Runtime&) = delete;

    const gpu::Context& gpu() const { return gpu_; }
    const RuntimeOptions& options() const { return options_; }
    // What lowering may use here. generated_shaders is true only where the GLSL module is really there: it is opened
    // when this is first asked.
    const Limits& limits() const;
    // The same for programs of a store: one with kernels of its own needs no module.
    Limits limits(const ParameterStore& store) const;
    // What the device has; generated_shaders says what was asked for.
    const Limits& device_limits() const { return device_limits_; }
    const Arena& arena() const { return arena_; }
    // Makes block i at least sizes[i] bytes. Waits for the device first where a block has to move.
    Status reserve_arena(std::span<const uint64_t> sizes);
    // unsupported or not_found names the shader. Compiled once, kept; kernels, if given: taken from there instead.
    Result<std::shared_ptr<const gpu::Pipeline>> pipeline(const Dispatch& dispatch,
                                                          const CompiledKernels* kernels = nullptr);
    Result<gpu::Shader> shader(const Dispatch& dispatch, const CompiledKernels* kernels = nullptr);
    Status save_caches(); // what was compiled and measured since
    // Gives all device memory of gpu().memory back until restore(), after which every program and store is as it was
    // (gpu::Memory::evict). Nothing may run, of this runtime or another with that memory, and no program be made
    // between; what was submitted to a BudgetedQueue and not begun may wait in it. out_of_memory: nothing has changed;
    // internal: nothing made here can be used any more.
    Status evict_device_memory();
    Status restore_device_memory();
    // What programs have run since a queue measures their segments (gpu::BudgetedQueue) says how long pieces take:
    // those that take longer than RuntimeOptions::budget_seconds are cut into more, with the same bits. Whether any
    // was: they are measured again. Nothing may be pending. Without memory for more records a program stays as it is.
    Result<bool> resplit();
    Tuning& tuning() { return *tuning_; }

private:
    friend class Program;
    friend class ParameterStore;
    Runtime() = default;
    struct Hooks {
        std::function<Status(gpu::Staging&)> renew; // finds its memory again
        std::function<Result<bool>()> resplit;
    };
    std::map<const void*, Hooks> programs_;
    std::set<ParameterStore*> sharing_; // stores that read SharedWeights
    gpu::Context gpu_;
    RuntimeOptions options_;
    Limits device_limits_;
    mutable std::optional<Limits> limits_;
    Arena arena_;
    std::map<std::string, gpu::Shader, std::less<>> shaders_;
    std::unique_ptr<Tuning> tuning_;
};

// A tensor of the parameter table.
struct ParameterEntry {
    std::string name;
    graph::Shape shape;
    bool readable_in_16_bits = false; // by everything that reads it
    // Where it lies. Filled by create().
    uint32_t chunk = 0;
    uint64_t offset = 0; // elements from the beginning of its chunk in each arena; a multiple of 256
    Storage storage = Storage::f32;
    bool trained = true; // not among StoreOptions::frozen
};

// How a program names a whole chunk of an arena, beside the tensors in it (ResourceKind::parameter, gradient, moment1,
// moment2), and back; nullopt: it is a tensor's name.
std::string chunk_name(uint32_t chunk);
std::optional<uint32_t> chunk_of(std::string_view name);

// All parameters of a graph in the order in which they were asked for.
std::vector<ParameterEntry> parameter_table(const graph::Graph& graph);

struct StoreOptions {
    bool gradients = false;
    bool moments = false; // AdamW's m and v
    // f16 or bf16: parameters of two dimensions and more that everything reads in 16 bits are held so, which is half
    // their memory. For inference: such a store has neither gradients nor moments.
    Storage weights = Storage::f32;
    uint64_t max_chunk_bytes = 0;                             // of one allocation; 0: what the device takes
    std::set<std::string, std::less<>> frozen = {};           // parameters that have neither
    std::shared_ptr<const CompiledKernels> kernels = nullptr; // for the programs made with the store; null: none
    // For inference: the parameters are made so that other stores of the same table may read them
    // (ParameterStore::shared), or are those of such a store, and are not uploaded again.
    bool share = false;
    std::shared_ptr<SharedWeights> shared = nullptr;
};

// A tensor on the host.
struct HostTensor {
    graph::Kind kind = graph::Kind::float32; // float32 or int32
    graph::Shape shape;
    ResourceVector<std::byte> bytes = {}; // float or int32_t elements, row-major
    std::span<const float> floats() const;
    std::span<const int32_t> ints() const;
};

// Which of the store's flat arenas, each cut into chunks of what one allocation may be. Tensor NAME lies whole in one
// chunk, entry(NAME).chunk, at entry(NAME).offset in each of them; between tensors there are zeros, and they stay
// zeros.
enum class StoreArena : uint8_t { parameters, gradients, moment1, moment2 };
inline constexpr std::size_t kStoreArenas = 4;

// What tensors of one chunk share.
struct StoreChunk {
    uint64_t elements = 0;          // padding included, a multiple of 256
    Storage storage = Storage::f32; // of the parameters; gradients and moments are float32
    bool trained = true;            // it has gradients and moments, if the store has any
};

// Where the tensors of a table lie: fills chunk, offset, storage and trained of each. largest: bytes of one allocation.
// Errors: a tensor is larger; two have one name; options that do not go together.
Result<std::vector<StoreChunk>> place_parameters(std::vector<ParameterEntry>& table, const Limits& limits,
                                                 const StoreOptions& options, uint64_t largest);

// Parameters, gradients and the optimizer's moments of a run, and by name whatever else lives across programs: buffers
// of the graph, key-value caches, recurrent states, the optimizer's counters. Zero when made.
class ParameterStore {
public:
    static Result<std::unique_ptr<ParameterStore>> create(Runtime& runtime, std::vector<ParameterEntry> table,
                                                          const StoreOptions& options = {});
    ~ParameterStore();
    ParameterStore(const ParameterStore&) = delete;
    ParameterStore& operator=(const ParameterStore&) = delete;

    const std::vector<ParameterEntry>& table() const { return table_; }
    const ParameterEntry* find(std::string_view name) const; // null if there is none
    const std::vector<StoreChunk>& chunks() const { return chunks_; }
    std::map<std::string, Storage> storage() const; // of those parameters that are held in 16 bits
    // Whether a chunk has memory in that arena; without a chunk: whether any has.
    bool has(StoreArena arena) const;
    bool has(StoreArena arena, uint32_t chunk) const;
    const gpu::Buffer& buffer(StoreArena arena, uint32_t chunk) const; // has() must be true
    uint64_t bytes(StoreArena arena) const;

    // Float32, row-major, exactly the tensor's elements; rounded, and widened again, where they are held in 16 bits.
    // These wait for everything submitted.
    Status upload(std::string_view name, std::span<const float> values, StoreArena arena = StoreArena::parameters);
    Result<ResourceVector<float>> download(std::string_view name, StoreArena arena = StoreArena::parameters);
    Status zero(StoreArena arena);

    // States: made on first use (zeros), then found by name; another size for the same name is an error. A program
    // makes those that it needs when it is compiled; a graph's `buffer` leaves are states named by
    // buffer_state().
    Status make_state(std::string_view name, uint64_t bytes);
    // A state that lies in a host's buffer (gpu::Buffer::borrow): its content is the host's business.
    Status adopt_state(std::string_view name, gpu::Buffer buffer);
    bool has_state(std::string_view name) const;
    Result<uint64_t> state_bytes(std::string_view name) const;
    std::vector<std::string> state_names() const;
    Status upload_state(std::string_view name, std::span<const std::byte> bytes, uint64_t offset = 0);
    Result<ResourceVector<std::byte>> download_state(std::string_view name);
    Status zero_state(std::string_view name);
    const gpu::Buffer* state_buffer(std::string_view name) const; // null if there is none

    std::shared_ptr<SharedWeights> shared() const; // with StoreOptions::share; else null
    // As SharedWeights::Reader, of the runtime's queue; nothing where they are its own.
    Status evict();
    Status restore();

    const CompiledKernels* kernels() const { return kernels_.get(); } // StoreOptions::kernels
    uint64_t bytes() const;                                           // everything, for the memory plan
    std::pmr::memory_resource* host_memory() const { return runtime_->gpu().device->host_memory(); }

private:
    ParameterStore() = default;
    Result<const ParameterEntry*> entry_in(std::string_view name, StoreArena arena) const;
    Runtime* runtime_ = nullptr;
    std::vector<ParameterEntry> table_;
    std::map<std::string, std::size_t, std::less<>> index_;
    std::vector<StoreChunk> chunks_;
    std::shared_ptr<const CompiledKernels> kernels_;
    std::vector<gpu::Buffer> arenas_[kStoreArenas]; // by chunk; null where a chunk has none
    class Shared;
    std::unique_ptr<Shared> shared_; // whose parameters are read instead of arenas_[parameters]; null: its own
    const std::vector<gpu::Buffer>& arena(StoreArena arena) const;
    std::map<std::string, gpu::Buffer, std::less<>> states_;
};

// Numbers that a replay reads from the device, beside fields and step scalars.
struct RunScalars {
    uint64_t seed = 0;
    uint32_t step = 0;
    uint32_t first_example = 0; // of this micro-batch in the step
    bool accumulate = false;    // with Gradients::accumulate: add to the gradient arena (false: overwrite it)
};

// Accesses of one plugin's own operation outside of its tensors, as clamped in the last replay.
struct AccessCounts {
    std::string name; // "acme.swish_gate in block.3"
    uint64_t loads = 0, stores = 0;
};

struct DispatchTiming {
    std::string name; // "matmul in block.3/attention"
    std::string shader;
    double seconds = 0; // of the last replay
    double flops = 0;
    double bytes = 0;
};

// A program: one graph (or one list of dispatches) recorded for replay.
class Program {
public:
    static Result<std::unique_ptr<Program>> compile(Runtime& runtime, const graph::Graph& graph, ParameterStore& store,
                                                    const CompileOptions& options = {});
    // The same for dispatches made by hand (the optimizer): resources are found by kind and name (see dispatch.hpp).
    static Result<std::unique_ptr<Program>> compile(Runtime& runtime, const Lowering& lowering, ParameterStore& store,
                                                    const CompileOptions& options = {});
    ~Program(); // waits for what is pending
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;

    // The whole field, row-major, float or int32_t; kept until set again. Unknown names: not_found with those there
    // are; wrong size: invalid_argument with what was expected. A field that the graph does not read is not an error
    // when the graph it was compiled from has it.
    Status set_input(std::string_view field, std::span<const std::byte> bytes);
    bool has_input(std::string_view field) const;
    Status set_scalar(std::string_view name, float value); // a step scalar; initially what the graph says
    bool has_scalar(std::string_view name) const;

    // submit() copies fields and scalars as they are now and returns at once; at most two are under way, a third waits
    // for the first. wait() waits for all. Fields that were never set: failed_precondition naming them.
    Status submit(const RunScalars& scalars = {});
    Status wait();
    Status run(const RunScalars& scalars = {}); // submit and wait

    // Of the last finished replay. Small outputs (losses, metrics) are copied at the end of each replay; those of more
    // than 64 KiB are read from the device and must be read before the next submit.
    Result<HostTensor> read_output(std::string_view name);
    Result<float> read_scalar_output(std::string_view name); // of one element
    std::vector<std::string> output_names() const;
    // Parameters whose gradients this program writes into the store, in the table's order.
    std::vector<std::string> gradient_names() const; // without "grad."

    const MemoryPlan& memory_plan() const;             // without its placements
    double flops() const;                              // of one replay
    std::vector<DispatchTiming> timings();             // empty without CompileOptions::timings
    Result<std::vector<AccessCounts>> access_counts(); // empty without CompileOptions::count_accesses
    // One line a dispatch: shader, groups, what is read and written, barriers.
    std::string dump() const;
    // Kernel choices that this program was compiled with: "matmul in block.0: matmul/tiled [64, 64, 16]". Equal choices
    // give equal bits; a run records them.
    std::vector<std::string> kernel_choices() const;

    // Proves from what was really recorded that every two accesses that conflict are ordered, across three replays in a
    // row. Needs RuntimeOptions::keep_traces.
    Status check_ordering() const;
    // What check_ordering() looks at: every command of so many replays in a row, as it was recorded.
    Result<std::vector<OrderingEvent>> ordering_events(std::size_t replays) const;
    std::size_t barriers() const; // recorded in one replay
    std::size_t dispatches() const;

private:
    struct State;
    explicit Program(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

} // namespace hekla::program
