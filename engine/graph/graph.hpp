// The tensor graph: nodes in an order in which every value is computed before it is read. A graph is a plain value:
// passes take one and return another (see rewrite.hpp). Ids are the only references to its contents.
#pragma once

#include "base/status.hpp"
#include "graph/operation.hpp"
#include "graph/own_operation.hpp"

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::graph {

using ValueId = uint32_t; // 0 is none
using NodeId = uint32_t;
using ScopeId = uint32_t; // 0 is the root
inline constexpr ValueId kNone = 0;

struct Attribute {
    const char* name; // string of the table or of the plugin's own operation
    AttributeValue value;
};

struct Node {
    Op op{};
    std::vector<ValueId> inputs;       // one for each input of the table (0: left out), or any number if variadic
    std::vector<ValueId> outputs;      // one for each output of the table, including hidden ones
    std::vector<Attribute> attributes; // one for each attribute of the table, in order
    ScopeId scope = 0;
    uint32_t region = 0;                    // recompute region, 0 is none
    std::shared_ptr<const OwnUse> own = {}; // of Op::own only

    int64_t integer(std::string_view name) const;
    double real(std::string_view name) const;
    const std::string& text(std::string_view name) const;
    const std::vector<int64_t>& ints(std::string_view name) const;
    const std::vector<double>& reals(std::string_view name) const;
    void set(std::string_view name, AttributeValue value);
};

// Returns the description of a node's operation, from the table or of a plugin's own.
const OperationInfo& info(const Node& node);
bool is_random(const Node& node); // draws random numbers; attention with dropout, too

struct Value {
    NodeId node = 0;
    uint32_t output = 0; // index into the node's outputs
    Kind kind = Kind::float_;
    Shape shape;
};

struct Scope {
    ScopeId parent = 0;
    std::string name;
};

// A term of the loss: weight * sum / count; count depends on fields only.
struct LossTerm {
    std::string name;
    ValueId sum = kNone;
    ValueId count = kNone;
    double weight = 1.0;
};

struct Metric {
    std::string name;
    ValueId sum = kNone;
    ValueId count = kNone;
};

struct Graph {
    std::vector<Node> nodes;
    std::vector<Value> values{1};                        // values[0] is kNone
    std::vector<Scope> scopes{1};                        // scopes[0] is the root
    std::map<std::string, ValueId, std::less<>> outputs; // ports and other values to compute and keep, by name
    std::vector<LossTerm> losses;
    std::vector<Metric> metrics;

    const Value& value(ValueId id) const { return values[id]; }
    const Node& producer(ValueId id) const { return nodes[values[id].node]; }
    const Shape& shape(ValueId id) const { return values[id].shape; }
    Kind kind(ValueId id) const { return values[id].kind; }
    std::string scope_path(ScopeId scope) const; // "block.3/attention"; "" for the root

    // Returns the location of a node, for messages: "matmul in block.3/attention".
    std::string describe(NodeId node) const;

    // Returns the value of the parameter, buffer, input or step_scalar of this name; 0 if it does not exist.
    ValueId find_leaf(Op leaf, std::string_view name) const;

    // Returns names and values of all parameters, in order of creation.
    std::vector<std::pair<std::string, ValueId>> parameters() const;
};

// Returns the attribute that holds the name of a leaf ("name" or "field"), or null.
const char* leaf_name_attribute(Op leaf);

// Returns kinds and shapes of the outputs of a node whose inputs and attributes are complete (operations/). The
// error contains the shapes and what does not fit.
Result<std::vector<std::pair<Kind, Shape>>> infer_outputs(const Graph& graph, const Node& node);

} // namespace hekla::graph
