// One pass through an opened model: fields in, ports out. Only compiled programs are kept between passes.
#pragma once

#include "graph/graph.hpp"
#include "graph/passes/attention_maps.hpp"
#include "infer/open/tensors.hpp"
#include "program/lowering/compile_options.hpp"

namespace hekla::gpu {
class Buffer;
}
namespace hekla::program {
class Estimator;
class Program;
} // namespace hekla::program

namespace hekla::infer {

struct Model;

// Returns the ports that this model offers for these fields, sorted.
Result<std::vector<std::string>> port_names(const Model& model, const Tensors& fields);

// Returns whether the model reads a field when it gets these. Without attention_mask it must not get padded rows.
Result<bool> reads_field(const Model& model, const Tensors& fields, const std::string& field);

// Returns the name of the state of the model's store that holds a field or an output on the device.
inline std::string forward_state(std::string_view name) { return "forward." + std::string(name); }

// A model compiled for one set of field shapes. Ownership: the model outlives it. Thread: one at a time.
class Forward {
public:
    // fields: only names, kinds and shapes are used. ports: those of the architecture and head ("hidden", "logits",
    // "layer.3.hidden"); an unknown one is an error that lists the existing ones. attention: also the map of every
    // attention, as "attention.N".
    static Result<std::unique_ptr<Forward>> create(Model& model, const Tensors& fields,
                                                   const std::vector<std::string>& ports, bool attention = false);
    // Creates a pass for a model with a runtime. Fields and outputs stay on the device, in states named by
    // forward_state(), without copies. lens: also the logits of each layer's hidden state (logit lens), as "lens.N".
    // `buffer` may return a buffer of the host for any of them; empty: the store creates one.
    using GiveBuffer = std::function<Result<gpu::Buffer>(const std::string& name, uint64_t bytes)>;
    static Result<std::unique_ptr<Forward>> create_on_device(Model& model, const Tensors& fields,
                                                             const std::vector<std::string>& ports, bool attention,
                                                             bool lens, const GiveBuffer& buffer);
    // Adds everything that create_on_device() creates, with separate buffers for every field and output; `model` may be
    // opened with ModelOptions::describe_only. The unit of work is a pass.
    static Status estimate(program::Estimator& estimator, Model& model, const Tensors& fields,
                           const std::vector<std::string>& ports, bool attention);
    ~Forward();
    Forward(const Forward&) = delete;
    Forward& operator=(const Forward&) = delete;

    // Runs a pass over fields of the same names and shapes. Returns outputs by port.
    Result<Tensors> run(const Tensors& fields);

    // Runs a pass of create_on_device().
    Status run();
    // Returns N if the values of a field are looked up in tables of N rows, so that ids are 0 to N - 1. 0: in none.
    int64_t id_range(std::string_view field) const;
    // Returns an output, or a field that the model reads; null for any other name.
    const graph::Value* find(std::string_view name) const;

    const std::vector<graph::AttentionMap>& attention_maps() const { return maps_; }
    std::vector<std::string> output_names() const;
    // Returns the names of the graph's step scalars, ascending.
    std::vector<std::string> step_scalars() const;
    // Sets a step scalar for the following runs; a name that the outputs do not depend on has no effect.
    Status set_scalar(std::string_view name, double value);

private:
    Forward() = default;
    Status describe(const Tensors& fields, const std::vector<std::string>& ports, bool attention, bool lens);
    // Returns options with the fields that are read, and the outputs, in states of the store.
    program::CompileOptions on_device(const Tensors& fields) const;
    Model* model_ = nullptr;
    graph::Graph graph_;
    std::vector<graph::AttentionMap> maps_;
    std::unique_ptr<program::Program> program_; // with a runtime
};

} // namespace hekla::infer
