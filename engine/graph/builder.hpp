// Checked construction of a graph. The first error is kept: later calls return kNone and finish() reports it.
#pragma once

#include "graph/graph.hpp"

#include <initializer_list>
#include <optional>
#include <span>

namespace hekla::graph {

// Named attributes for emit(); missing ones get the defaults of the table.
struct NamedAttribute {
    std::string_view name;
    AttributeValue value;
};

// Returns every attribute of the operation, given or default; the error names one that is missing, unknown or of
// another type.
Result<std::vector<Attribute>> complete_attributes(const OperationInfo& row, std::span<const NamedAttribute> given);

// Returns the attributes of a node, for emit().
std::vector<NamedAttribute> attributes_of(const Node& node);

class Builder {
public:
    Builder() = default;
    explicit Builder(Graph graph) : graph_(std::move(graph)) {} // continues a checked graph

    // Adds an operation of the table; one_hot, convolutions and others (operations/expand.cpp) become the operations
    // that compute them. Returns all outputs, or nothing after an error. Trailing optional inputs can be omitted.
    std::vector<ValueId> emit(Op op, std::span<const ValueId> inputs, std::span<const NamedAttribute> attributes = {});
    ValueId operator()(Op op, std::initializer_list<ValueId> inputs,
                       std::initializer_list<NamedAttribute> attributes = {}); // returns the first output
    // Adds a plugin's own operation, for exactly these shapes.
    std::vector<ValueId> emit_own(std::shared_ptr<const OwnUse> use, std::span<const ValueId> inputs,
                                  std::span<const NamedAttribute> attributes = {});

    // Leaves. The same name of a parameter, buffer, input or step scalar returns the same value.
    ValueId input(const std::string& field, Kind kind, const Shape& shape);
    ValueId parameter(const std::string& name, const Shape& shape, int64_t initializer, double a, double b,
                      uint32_t flags);
    ValueId buffer(const std::string& name, Kind kind, const Shape& shape, std::vector<double> value);
    ValueId constant(Kind kind, const Shape& shape, std::vector<double> value);
    ValueId fill(Kind kind, const Shape& shape, double value);
    ValueId scalar(double value) { return fill(Kind::float_, Shape{}, value); }
    ValueId iota(int64_t length, int64_t start = 0, int64_t step = 1);
    ValueId positions(int64_t batch, int64_t length);
    ValueId step_scalar(const std::string& name, double initial);

    void scope_begin(const std::string& name);
    void scope_end();
    void recompute_begin();
    void recompute_end();
    // New nodes get this scope instead of the current one (a gradient has the scope of its operation).
    void set_scope(ScopeId scope) { scope_ = scope; }
    void set_region(uint32_t region) { region_ = region; }
    uint32_t region() const { return region_; } // 0: none

    void output(const std::string& name, ValueId value); // replaces an output of the same name
    void drop_output(const std::string& name) { graph_.outputs.erase(name); }
    void loss(const std::string& name, ValueId sum, ValueId count, double weight);
    void metric(const std::string& name, ValueId sum, ValueId count);

    void fail(const Status& status); // adds the scope; only the first error is kept
    const Status& status() const { return status_; }
    bool ok() const { return status_.ok(); }

    const Graph& graph() const { return graph_; }
    Graph& mutable_graph() { return graph_; }                  // for passes that preserve the invariants
    Shape shape(ValueId id) const { return graph_.shape(id); } // a copy, since values move when the graph grows
    Kind kind(ValueId id) const { return graph_.kind(id); }

    // Unrolls the loops. counts: see unroll_loops. An open scope or region is an error.
    Result<Graph> finish(std::span<std::size_t> counts = {});

private:
    std::vector<ValueId> emit_one_hot(std::span<const ValueId> inputs, std::span<const NamedAttribute> attributes);
    std::vector<ValueId> emit(Node node, std::span<const ValueId> inputs, std::span<const NamedAttribute> attributes);
    ValueId leaf(Op op, std::initializer_list<NamedAttribute> attributes, Kind kind, const Shape& shape);
    std::vector<ValueId> append(Node node, std::span<const std::pair<Kind, Shape>> outputs);

    Graph graph_;
    Status status_;
    ScopeId scope_ = 0;
    uint32_t region_ = 0;
    uint32_t regions_ = 0;
    std::map<std::pair<Op, std::string>, ValueId> leaves_;
    std::map<std::string, int64_t> streams_;
};

// Returns whether a builder replaces the operation by others, and emits those that compute a node of it, which was
// checked (operations/expand.cpp).
bool is_expanded(Op op);
bool expands_now(const Builder& builder,
                 const Node& node); // false: a gradient_of whose y comes from a loop, until then
std::vector<ValueId> expand(Builder& builder, const Node& node);

// Returns the graph with every loop unrolled. counts: of the graph's first nodes, ascending; they become how many nodes
// these are in the result. Errors name the node: a value of one step that is used after the loop, a state without
// loop_next or with two, loops that read each other's results, a body too large for its number of steps, operations
// that a body cannot have.
Result<Graph> unroll_loops(Graph graph, std::span<std::size_t> counts = {});

} // namespace hekla::graph
