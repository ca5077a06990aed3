// The parameters of a graph, and where they are in the arenas of a parameter store.
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
    // Its location in the arenas, filled by place_parameters().
    uint32_t chunk = 0;
    uint64_t offset = 0; // elements from the beginning of its chunk in each arena; a multiple of 256
    Storage storage = Storage::f32;
    bool trained = true; // not among StoreOptions::frozen
};

// How a program names a whole chunk of an arena, besides the tensors in it (ResourceKind::parameter, gradient, moment1,
// moment2), and back; nullopt: it is a tensor's name.
std::string chunk_name(uint32_t chunk);
std::optional<uint32_t> chunk_of(std::string_view name);

// All parameters of a graph in the order in which they were asked for.
std::vector<ParameterEntry> parameter_table(const graph::Graph& graph);

// A part of the arenas that is one allocation, and what its tensors share.
struct StoreChunk {
    uint64_t elements = 0;          // padding included, a multiple of 256
    Storage storage = Storage::f32; // of the parameters; gradients and moments are float32
    bool trained = true;            // it has gradients and moments, if the store has any
};

} // namespace hekla::program
