// What parameters and programs would take of a device, before anything is made on it: memory by kind, dispatches, time.
// Placed and cut as when they are made, so the bytes are those that will be asked for; times are estimates.
#pragma once

#include "program/lowering/lower.hpp"
#include "program/parameter_store.hpp"
#include "program/runtime.hpp"
#include "program/speed.hpp"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace hekla::program {

// A device as a plan sees it: a real one, or one that is only described.
struct Target {
    Limits limits;
    Speed speed;
    uint64_t max_buffer_bytes = 0; // gpu::Memory::max_buffer_bytes()
    uint64_t max_block_bytes = 0;  // RuntimeOptions::max_block_bytes
    double budget_seconds = 0;     // RuntimeOptions::budget_seconds
    uint64_t staging_bytes = 0;    // where device memory cannot be written directly
};
Target target_of(const Runtime& runtime);
// invalid_argument where no program could run within these limits.
Result<Target> described_target(const Limits& limits, const Speed& speed, uint64_t max_allocation_bytes, bool mapped);

// What the dispatches of one node of a graph cost, all together.
struct NodeCost {
    std::string name; // "matmul in block.3/attention"
    uint64_t dispatches = 0;
    double seconds = 0, flops = 0, bytes = 0;
};

struct Estimate {
    // Bytes of device memory, with the gaps between and after buffers.
    uint64_t weights = 0;
    uint64_t gradients = 0;
    uint64_t optimizer = 0;   // moments, counters, averages
    uint64_t states = 0;      // key-value caches, buffers of the graph, fields and ports that stay on the device
    uint64_t activations = 0; // the arena that all programs share
    uint64_t programs = 0;    // constants, inputs, outputs, argument records, and inputs and outputs on their way
    uint64_t staging = 0;
    uint64_t largest = 0;   // of one allocation
    int64_t parameters = 0; // numbers, not bytes
    // Of one unit of work (a step, a token, a pass).
    uint64_t dispatches = 0;
    double flops = 0, bytes = 0, seconds = 0;
    std::vector<NodeCost> nodes; // of the unit, most expensive first
    uint64_t total() const { return weights + gradients + optimizer + states + activations + programs + staging; }
};

// Adds up what is to be made. Thread: one at a time.
class Estimator {
public:
    explicit Estimator(Target target) : target_(std::move(target)) {}
    const Target& target() const { return target_; }

    // As ParameterStore::create makes it; programs added later find its tensors. Errors: as it.
    Status add_store(std::vector<ParameterEntry> table, const StoreOptions& options);
    // As Program::compile makes it. times: how often a unit of work runs it; 0: it takes memory alone. states: what the
    // states that it makes are counted as. Gives the lowering back, without its graph.
    Result<Lowering> add(const graph::Graph& graph, CompileOptions options, double times,
                         uint64_t Estimate::*states = &Estimate::states);
    Status add(const Lowering& lowering, double times, uint64_t Estimate::*states = &Estimate::states);

    const std::vector<ParameterEntry>& table() const { return table_; }
    const std::vector<StoreChunk>& chunks() const { return chunks_; }
    // The GLSL that the programs need compiled, by Dispatch::shader.
    const std::map<std::string, std::string>& sources() const { return sources_; }
    Estimate finish() const;

private:
    void buffer(uint64_t bytes, uint64_t Estimate::*kind);
    Target target_;
    Estimate sum_;
    std::vector<ParameterEntry> table_;
    std::vector<StoreChunk> chunks_;
    std::map<std::string, Storage> storage_;
    std::set<std::string, std::less<>> states_;
    std::vector<uint64_t> blocks_; // of the arena
    std::map<std::string, NodeCost> nodes_;
    std::map<std::string, std::string> sources_;
};

} // namespace hekla::program
