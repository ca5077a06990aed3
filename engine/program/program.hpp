// A compiled graph: lowered, placed in memory, recorded once, replayed at every step. Used by the trainer, the
// generator, the optimizer and `verify`.
//
//     HK_ASSIGN(auto runtime, Runtime::create(context));
//     HK_ASSIGN(auto store, ParameterStore::create(*runtime, parameter_table(graph), {.gradients = true}));
//     HK_TRY(store->upload("wte.weight", values));
//     HK_ASSIGN(auto program, Program::compile(*runtime, graph, *store, {.outputs = {"loss"}}));
//     HK_TRY(program->set_input("ids", std::as_bytes(std::span(ids))));
//     HK_TRY(program->run({.seed = 1, .step = 0}));
//     HK_ASSIGN(auto loss, program->read_output("loss"));
//
// Ownership: a Runtime outlives its stores, and both outlive the programs created with them. Thread: one at a time for
// a runtime and everything created with it.
#pragma once

#include "base/resource_array.hpp"
#include "program/host_tensor.hpp"
#include "program/lowering/lower.hpp"
#include "program/memory_plan.hpp"
#include "program/ordering_check.hpp"

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::program {

class GradientReader;
class ParameterStore;
class Runtime;

// Scalars that every replay reads, in addition to fields and step scalars.
struct RunScalars {
    uint64_t seed = 0;
    uint32_t step = 0;
    uint32_t first_example = 0; // of this micro-batch in the step
    bool accumulate = false;    // with Gradients::accumulate: add to the gradient arena (false: overwrite it)
};

// Out-of-bounds accesses of one plugin's own operation, which were clamped in the last replay.
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

class Program;

// One replay of a program, for Program::submit().
struct Replay {
    Program* program = nullptr;
    RunScalars scalars = {};
    // Replays in a row of a program that writes its own fields (CompileOptions::choose): each reads what the one before
    // has written. Together they count as one, with the outputs of the last.
    uint32_t times = 1;
};

// A program: one graph (or one list of dispatches) recorded for replay.
class Program {
public:
    static Result<std::unique_ptr<Program>> compile(Runtime& runtime, const graph::Graph& graph, ParameterStore& store,
                                                    const CompileOptions& options = {});
    // Compiles dispatches written by hand (the optimizer): resources are found by kind and name (see dispatch.hpp).
    static Result<std::unique_ptr<Program>> compile(Runtime& runtime, const Lowering& lowering, ParameterStore& store,
                                                    const CompileOptions& options = {});
    ~Program(); // waits for pending work
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;

    // Sets a whole field, row-major, float or int32_t; it is kept until set again. Unknown names: not_found with the
    // existing ones; wrong size: invalid_argument with the expected one. A field that the graph does not read is not an
    // error if the graph it was compiled from has it.
    Status set_input(std::string_view field, std::span<const std::byte> bytes);
    bool has_input(std::string_view field) const;
    Status set_scalar(std::string_view name, float value); // a step scalar; initially the graph's value
    bool has_scalar(std::string_view name) const;

    // submit() copies fields and scalars as they are now and returns immediately; at most two replays are pending, a
    // third waits for the first. wait() waits for all. Fields that were never set: failed_precondition naming them.
    Status submit(const RunScalars& scalars = {});
    // The same for one replay each of several programs of one runtime, in this order and submitted together. After an
    // error none of them runs.
    static Status submit(std::span<const Replay> replays);
    // As submit(), in pieces: each ends when a range of the reader has its gradients, which are then copied to the
    // host. Returns, for each range, the value of the queue's timeline for GradientReader::read().
    Result<std::vector<uint64_t>> submit_by_range(const RunScalars& scalars, const GradientReader& reader);
    Status wait();
    Status run(const RunScalars& scalars = {}); // submit and wait

    // Reads from the last submitted replay, after waiting for it; age 1: from the one before it. Outputs of up to 1
    // MiB (losses, metrics, the logits of a token) are copied at the end of each replay; larger ones are read from the
    // device: age 0, before the next submit.
    Result<HostTensor> read_output(std::string_view name, std::size_t age = 0);
    Result<float> read_scalar_output(std::string_view name, std::size_t age = 0); // of one element
    // The same for a float output, into `to`, of as many elements.
    Status read_floats(std::string_view name, std::span<float> to);
    // Reads a state of CompileOptions::read_states as the last submitted replay left it, after waiting for it.
    Result<ResourceArray<std::byte>> read_state(std::string_view name);
    std::vector<std::string> output_names() const;
    // Parameters whose gradients this program writes to the store, in the table's order.
    std::vector<std::string> gradient_names() const; // without "grad."

    const MemoryPlan& memory_plan() const;             // without its placements
    double flops() const;                              // of one replay
    std::vector<DispatchTiming> timings();             // empty without CompileOptions::timings
    Result<std::vector<AccessCounts>> access_counts(); // empty without CompileOptions::count_accesses
    // Returns one line per dispatch: shader, groups, bytes read and written, barriers.
    std::string dump() const;
    // Returns the kernel choices that this program was compiled with: "matmul in block.0: matmul/tiled [64, 64, 16]".
    // Equal choices give equal bits; a run records them.
    std::vector<std::string> kernel_choices() const;

    // Proves from the recorded commands that every two conflicting accesses are ordered, across three consecutive
    // replays. Needs RuntimeOptions::keep_traces.
    Status check_ordering() const;
    // Returns the input of check_ordering(): every command of `replays` consecutive replays, as recorded.
    Result<std::vector<OrderingEvent>> ordering_events(std::size_t replays) const;
    std::size_t barriers() const; // recorded in one replay
    std::size_t dispatches() const;
    std::size_t command_buffers() const; // secondary ones, of one replay

private:
    struct State;
    explicit Program(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

} // namespace hekla::program
