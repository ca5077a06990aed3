// The parameters of a graph, and their locations in the arenas of a parameter store.
#pragma once

#include "graph/graph.hpp"
#include "program/lowering/view.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::program {

// A tensor of the parameter table.
struct ParameterEntry {
    std::string name;
    graph::Shape shape;
    bool readable_in_16_bits = false; // by everything that reads it
    bool readable_by_panels = false;  // everything that reads it is a linear, which takes it as stored by panels
    // Its location in the arenas, filled by place_parameters().
    uint32_t chunk = 0;
    uint64_t offset = 0; // elements from the beginning of its chunk in each arena; a multiple of 256
    Storage storage = Storage::f32;
    int64_t panel = 0;       // StoredAs::panel
    bool transposed = false; // StoredAs::transposed
    bool trained = true;     // not among StoreOptions::frozen
    bool own = false;        // among StoreOptions::own
};

// Convert between a chunk and its name, with which a program accesses a whole chunk of an arena
// (ResourceKind::parameter, gradient, moment1, moment2) in addition to the tensors in it. nullopt: it is the name of a
// tensor.
std::string chunk_name(uint32_t chunk);
std::optional<uint32_t> chunk_of(std::string_view name);

// Returns all parameters of a graph in the order of their creation.
std::vector<ParameterEntry> parameter_table(const graph::Graph& graph);

// Clears readable_in_16_bits of parameters that another graph, such as that of their gradients, reads in 32 bits.
void keep_readable_in_16_bits(std::vector<ParameterEntry>& table, const graph::Graph& also);

// A part of the arenas that is one allocation, and the common properties of its tensors.
struct StoreChunk {
    uint64_t elements = 0;          // padding included, a multiple of 256
    Storage storage = Storage::f32; // of the parameters; gradients and moments are float32
    bool trained = true;            // it has gradients and moments, if the store has any
    bool own = false;               // it is never shared
};

} // namespace hekla::program
