// One pass through an opened model: fields in, ports out. Nothing is kept between passes but compiled programs.
#pragma once

#include "graph/attention_maps.hpp"
#include "infer/model.hpp"

namespace hekla::infer {

// Ports that a description of this model offers for these fields, sorted.
Result<std::vector<std::string>> port_names(const Model& model, const Tensors& fields);

// Whether the model reads a field when it has these: one without attention_mask must not be given padded rows.
Result<bool> reads_field(const Model& model, const Tensors& fields, const std::string& field);

// A model compiled for one set of field shapes. Ownership: the model outlives it. Thread: one at a time.
class Forward {
public:
    // fields: only names, kinds and shapes count. ports: as the architecture and head offer them ("hidden", "logits",
    // "layer.3.hidden"); one that nobody offers is an error that names those there are. attention: also the map of
    // every attention, as "attention.N".
    static Result<std::unique_ptr<Forward>> create(Model& model, const Tensors& fields,
                                                   const std::vector<std::string>& ports, bool attention = false);
    ~Forward();
    Forward(const Forward&) = delete;
    Forward& operator=(const Forward&) = delete;

    // Fields of the same names and shapes. Outputs by port.
    Result<Tensors> run(const Tensors& fields);

    const std::vector<graph::AttentionMap>& attention_maps() const { return maps_; }

private:
    Forward() = default;
    Model* model_ = nullptr;
    graph::Graph graph_;
    std::vector<graph::AttentionMap> maps_;
    std::unique_ptr<program::Program> program_; // with a runtime
};

} // namespace hekla::infer
