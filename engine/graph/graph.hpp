// The tensor graph: nodes in an order in which every value is made before it is read. A graph is a plain value: passes
// take one and give another (see rewrite.hpp), and nothing points into it from outside but by number.
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
    const char* name; // the table's own string, or that of the node's own operation
    AttributeValue value;
};

struct Node {
    Op op{};
    std::vector<ValueId> inputs;       // one for each of the table's inputs (0: left out), or any number if variadic
    std::vector<ValueId> outputs;      // one for each of the table's outputs, hidden ones too
    std::vector<Attribute> attributes; // one for each of the table's, in its order
    ScopeId scope = 0;
    uint32_t region = 0;                    // recompute region, 0 is none
    std::shared_ptr<const OwnUse> own = {}; // of Op::own alone: what it is and does

    int64_t integer(std::string_view name) const;
    double real(std::string_view name) const;
    const std::string& text(std::string_view name) const;
    const std::vector<int64_t>& ints(std::string_view name) const;
    const std::vector<double>& reals(std::string_view name) const;
    void set(std::string_view name, AttributeValue value);
};

// The row that describes a node: the table's, or a plugin's own.
const OperationInfo& info(const Node& node);

struct Value {
    NodeId node = 0;
    uint32_t output = 0; // which of the node's
    Kind kind = Kind::float_;
    Shape shape;
};

struct Scope {
    ScopeId parent = 0;
    std::string name;
};

// A term of the loss: weight * sum / count; count depends on fields alone.
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
    std::vector<Value> values{1};                        // values[0] is the place of "none"
    std::vector<Scope> scopes{1};                        // scopes[0] is the root
    std::map<std::string, ValueId, std::less<>> outputs; // ports and whatever else must be computed and kept, by name
    std::vector<LossTerm> losses;
    std::vector<Metric> metrics;

    const Value& value(ValueId id) const { return values[id]; }
    const Node& producer(ValueId id) const { return nodes[values[id].node]; }
    const Shape& shape(ValueId id) const { return values[id].shape; }
    Kind kind(ValueId id) const { return values[id].kind; }
    std::string scope_path(ScopeId scope) const; // "block.3/attention"; "" for the root

    // A place in words, for messages: "matmul in block.3/attention".
    std::string describe(NodeId node) const;

    // The value of the leaf parameter, buffer, input or step_scalar of that name; 0 if there is none.
    ValueId find_leaf(Op leaf, std::string_view name) const;

    // Names of all parameters, in the order in which they were asked for, with their values.
    std::vector<std::pair<std::string, ValueId>> parameters() const;
};

// Attributes of leaves: the attribute that holds the name ("name" or "field"), or null where there is none.
const char* leaf_name_attribute(Op leaf);

// Kinds and shapes of the outputs of a node whose inputs and attributes are complete (infer.cpp); the error names the
// shapes and says what differs.
Result<std::vector<std::pair<Kind, Shape>>> infer(const Graph& graph, const Node& node);

// Every invariant: order, counts, kinds, shapes by the shape rules, names. For tests and after parsing text.
Status check(const Graph& graph);

} // namespace hekla::graph
