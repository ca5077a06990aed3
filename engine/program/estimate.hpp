// Estimates what parameters and programs need of a device, before anything is created on it: memory by kind,
// dispatches, time. Placement and splitting are the real ones, so the bytes are exact; times are estimates.
#pragma once

#include "program/lowering/limits.hpp"
#include "program/lowering/lower.hpp"
#include "program/node_cost.hpp"
#include "program/parameter_store.hpp"
#include "program/speed.hpp"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace hekla::program {

class Runtime;

// A device for an estimate: a real one, or only a description.
struct Target {
    Limits limits;
    Speed speed;
    uint64_t max_buffer_bytes = 0; // gpu::Memory::max_buffer_bytes()
    uint64_t max_block_bytes = 0;  // RuntimeOptions::max_block_bytes
    double budget_seconds = 0;     // RuntimeOptions::budget_seconds
    uint64_t staging_bytes = 0;    // 0 if device memory can be written directly
};
Target target_of(const Runtime& runtime);
// Returns invalid_argument if no program could run within these limits.
Result<Target> described_target(const Limits& limits, const Speed& speed, uint64_t max_allocation_bytes, bool mapped);

// A kernel with its specialization constants: one pipeline, and how often a unit of work dispatches it.
struct KernelUse {
    Dispatch dispatch; // of the first use; only what determines the pipeline: shader, source or words, constants
    uint64_t dispatches = 0;
    uint64_t workgroups = 0; // of all dispatches
    double flops = 0, bytes = 0;

    void count(const Dispatch& one, double times = 1);
};

// Returns the element of this dispatch's pipeline, adding one without dispatches for the first.
KernelUse& use_of(std::vector<KernelUse>& uses, const Dispatch& dispatch);

struct Estimate {
    // Bytes of device memory, with the gaps between and after buffers.
    uint64_t weights = 0;
    uint64_t gradients = 0;
    uint64_t optimizer = 0;   // moments, counters, averages
    uint64_t states = 0;      // key-value caches, buffers of the graph, fields and ports that stay on the device
    uint64_t activations = 0; // the arena that all programs share
    uint64_t programs = 0;    // constants, inputs, outputs, argument records, and upload and readback buffers
    uint64_t staging = 0;
    uint64_t largest = 0;   // the largest single allocation
    uint64_t system = 0;    // of the host's memory (Moments::in_system_memory), which total() does not count
    int64_t parameters = 0; // numbers, not bytes
    // For one unit of work (a step, a token, a pass).
    uint64_t dispatches = 0;
    uint64_t command_buffers = 0; // secondary ones, if no submit takes longer than Target::budget_seconds
    double flops = 0, bytes = 0, seconds = 0;
    std::vector<NodeCost> nodes;         // of the unit, most expensive first
    std::vector<KernelUse> kernels;      // of the unit, in the order of their first use
    std::vector<KernelProblem> problems; // of the unit, each once
    uint64_t total() const { return weights + gradients + optimizer + states + activations + programs + staging; }
};

// An accumulator of everything that will be created. Thread: one at a time.
class Estimator {
public:
    explicit Estimator(Target target) : target_(target) {}
    const Target& target() const { return target_; }

    // Adds what ParameterStore::create would allocate; programs added later find its tensors. Errors: the same.
    Status add_store(std::vector<ParameterEntry> table, const StoreOptions& options);
    // Adds what Program::compile would allocate. times: how often a unit of work runs it; 0: count only its memory.
    // states: the kind that new states are counted as. Returns the lowering, without its graph.
    Result<Lowering> add(const graph::Graph& graph, CompileOptions options, double times,
                         uint64_t Estimate::*states = &Estimate::states);
    Status add(const Lowering& lowering, double times, uint64_t Estimate::*states = &Estimate::states);

    const std::vector<ParameterEntry>& table() const { return table_; }
    const std::vector<StoreChunk>& chunks() const { return chunks_; }
    // Returns the GLSL that must be compiled for the programs, by Dispatch::shader.
    const std::map<std::string, std::string>& sources() const { return sources_; }
    Estimate finish() const;

private:
    void buffer(uint64_t bytes, uint64_t Estimate::*kind);
    Target target_;
    Estimate sum_;
    std::vector<ParameterEntry> table_;
    std::vector<StoreChunk> chunks_;
    std::map<std::string, StoredAs> stored_otherwise_;
    std::set<std::string, std::less<>> states_;
    std::vector<uint64_t> blocks_; // of the arena
    std::map<std::string, NodeCost> nodes_;
    std::map<std::string, std::string> sources_;
};

// Returns the names of a store's parameters whose gradients a lowered program writes, as Program::gradient_names().
std::vector<std::string> parameters_reached(const std::vector<ParameterEntry>& table, const Lowering& lowering);

} // namespace hekla::program
