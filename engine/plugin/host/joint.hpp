// What the plugins of one graph share while they describe it, and each plugin's view of that.
#pragma once

#include "graph/builder.hpp"
#include "hekla/plugin/graph.h"

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace hekla::plugin {

class OwnOperations;
struct Invocation;

// A field of the batch that a graph is described for.
struct BatchField {
    std::string name;
    graph::Kind kind = graph::Kind::int32;
    graph::Shape shape;
};

// State that the plugins of one graph share: the builder, the fields, the ports that connect them.
struct Joint {
    graph::Builder builder;
    std::vector<BatchField> fields;
    int32_t mode = HK_MODE_TRAIN;
    std::map<std::string, graph::ValueId, std::less<>> ports;
    OwnOperations* own = nullptr; // plugins' own operations; may be null
    bool in_gradient = false;     // of such an operation
    // Prefix of parameters and ports of the current part; "" if there is one part.
    std::string prefix;
    std::set<std::string> taps; // names so far
    // Called with the first output of every operation that a body or head emits, which it may replace; null: no
    // adapter.
    const std::function<graph::ValueId(graph::ValueId)>* adapt = nullptr;
    std::map<std::string, graph::ValueId> initial; // an adapter's parameters that do not start from constants or draws
    int64_t virtual_tokens = 0;                    // of an adapter, that begin each row of the fields that plugins see
    bool virtual_without_positions = false;        // they take no positions
    bool encoder_decoder = false;                  // virtual tokens begin the rows of the encoder
    int64_t cache_capacity = 0;                    // tokens per row in the caches of mode decode; 0: unknown
    int64_t position_shift = 0;                    // added to positions that count from 0; the result is 0 at least
    const Invocation* invocation = nullptr;  // of the adapter that is being described; null or without tokens: none
    bool in_body = false;                    // the body is being described, not a head or objective
    graph::ValueId token_ids = graph::kNone; // the field input_ids, as plugins see it
    int64_t calls_left = -1; // calls of the graph's functions until one fails as if out of memory; -1: none fails
};

} // namespace hekla::plugin

// One plugin's view of a Joint. Its handles carry the view's tag, so a handle kept from another build is refused.
struct hk_builder {
    hk_builder(hekla::plugin::Joint& joint, uint32_t tag) : joint(joint), tag(tag) {}
    hekla::plugin::Joint& joint;
    uint32_t tag;                                 // 1 to 4095, different for every view
    std::vector<hekla::graph::ValueId> values{0}; // by handle number; 0 is none
    int open_scopes = 0;
    bool open_region = false;
};

namespace hekla::plugin {

// Returns the tag of a new view. Tags count from 1 to 4095 and repeat, over all threads.
uint32_t next_tag();

// Converts values to handles (0: none) and back (kNone with an error if the handle is not from this view).
hk_value handle_of(hk_builder* view, graph::ValueId value);
graph::ValueId value_of(hk_builder* view, hk_value handle, const char* what);

} // namespace hekla::plugin
