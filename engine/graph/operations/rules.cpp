#include "graph/operations/rules.hpp"

namespace hekla::graph {
namespace {

constexpr const OperationRules* kRules[] = {
#define HK_OPERATION(name) &name##_rules,
#include "graph/operation_table.inc"
};

} // namespace

const OperationRules& rules_of(Op op) { return *kRules[static_cast<std::size_t>(op)]; }

void no_gradient(Backward&) {}

} // namespace hekla::graph
