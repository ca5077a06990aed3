#include "graph/graph.hpp"

#include <cstring>
#include <fmt/format.h>

namespace hekla::graph {
namespace {

const Attribute* find(const Node& node, std::string_view name) {
    for (const Attribute& attribute : node.attributes)
        if (attribute.name == name) return &attribute;
    return nullptr;
}

} // namespace

bool is_random(const Node& node) {
    switch (node.op) {
    case Op::dropout:
    case Op::random_uniform:
    case Op::random_normal:
    case Op::truncated_normal: return true;
    case Op::attention: return node.real("dropout") > 0.0;
    default: return false;
    }
}

const OperationInfo& info(const Node& node) {
    return node.own != nullptr ? node.own->operation->info() : info(node.op);
}

// Reading an attribute that the operation does not have in the table is a bug in the engine, which every test that
// reaches it finds: std::get and the dereference below are unchecked only for names that check() has already validated.
int64_t Node::integer(std::string_view name) const { return std::get<int64_t>(find(*this, name)->value); }
double Node::real(std::string_view name) const { return std::get<double>(find(*this, name)->value); }
const std::string& Node::text(std::string_view name) const { return std::get<std::string>(find(*this, name)->value); }
const std::vector<int64_t>& Node::ints(std::string_view name) const {
    return std::get<std::vector<int64_t>>(find(*this, name)->value);
}
const std::vector<double>& Node::reals(std::string_view name) const {
    return std::get<std::vector<double>>(find(*this, name)->value);
}

void Node::set(std::string_view name, AttributeValue value) {
    for (Attribute& attribute : attributes) {
        if (attribute.name != name) continue;
        attribute.value = std::move(value);
        return;
    }
}

std::string Graph::scope_path(ScopeId scope) const {
    std::string path;
    while (scope != 0) {
        path = path.empty() ? scopes[scope].name : fmt::format("{}/{}", scopes[scope].name, path);
        scope = scopes[scope].parent;
    }
    return path;
}

std::string Graph::describe(NodeId node) const {
    const std::string path = scope_path(nodes[node].scope);
    const char* name = info(nodes[node]).name;
    return path.empty() ? std::string(name) : fmt::format("{} in {}", name, path);
}

const char* leaf_name_attribute(Op leaf) {
    switch (leaf) {
    case Op::input: return "field";
    case Op::parameter:
    case Op::buffer:
    case Op::step_scalar: return "name";
    default: return nullptr;
    }
}

ValueId Graph::find_leaf(Op leaf, std::string_view name) const {
    const char* attribute = leaf_name_attribute(leaf);
    for (const Node& node : nodes)
        if (attribute != nullptr && node.op == leaf && node.text(attribute) == name) return node.outputs[0];
    return kNone;
}

std::vector<std::pair<std::string, ValueId>> Graph::parameters() const {
    std::vector<std::pair<std::string, ValueId>> result;
    for (const Node& node : nodes)
        if (node.op == Op::parameter) result.emplace_back(node.text("name"), node.outputs[0]);
    return result;
}

} // namespace hekla::graph
