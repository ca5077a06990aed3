// The host's side of hekla.graph/1: what a plugin says becomes nodes of a graph::Builder, checked on the way.
#pragma once

#include "graph/builder.hpp"
#include "hekla/plugin/graph.h"
#include "plugin/host_operation.hpp"

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::plugin {

// A field of the batch that a graph is described for.
struct BatchField {
    std::string name;
    graph::Kind kind = graph::Kind::int32;
    graph::Shape shape;
};

// What several plugins describe together: one builder, one table of fields, the ports that connect them.
struct Joint {
    graph::Builder builder;
    std::vector<BatchField> fields;
    int32_t mode = HK_MODE_TRAIN;
    std::map<std::string, graph::ValueId, std::less<>> ports;
    OwnOperations* own = nullptr; // plugins' own operations; null: there are none
    bool in_gradient = false;     // of such an operation
    // Of the names of parameters and ports of the part that is being described; "" for the only part.
    std::string prefix;
    // What is computed with in place of a parameter of that name; null: the parameter.
    const std::function<graph::ValueId(const std::string& name, graph::ValueId)>* adapt = nullptr;
    int64_t calls_left = -1; // of the graph's functions, before one fails as if memory had run out; -1: no end
};

const hk_graph_interface* host_graph_interface();

} // namespace hekla::plugin

// One plugin's view of a Joint. Its handles carry the view's tag, so a handle kept from another build is refused.
struct hk_builder {
    hk_builder(hekla::plugin::Joint& joint, uint32_t tag) : joint(joint), tag(tag) {}
    hekla::plugin::Joint& joint;
    uint32_t tag;                                 // 1 to 4095, another for every view
    std::vector<hekla::graph::ValueId> values{0}; // by handle number; 0 is none
    int open_scopes = 0;
    bool open_region = false;
};

namespace hekla::plugin {

// Handles of different views must differ, whichever threads build: the tag counts through the 4,095 there are.
uint32_t next_tag();

// The handle of a value, 0 for none; and back: kNone, with an error where the handle is not this view's.
hk_value handle_of(hk_builder* view, graph::ValueId value);
graph::ValueId value_of(hk_builder* view, hk_value handle, const char* what);

// An attribute as a plugin gave it.
Result<graph::AttributeValue> read_attribute(const hk_attribute& attribute);

} // namespace hekla::plugin
