// Operations that pass a value through, and mark it for the engine: modes of decoding, taps, sites of adapters,
// losses of some parameters.
#include "graph/gradient/backward.hpp"
#include "graph/operations/rules.hpp"
#include "graph/operations/shape_rule.hpp"
#include "graph/reference/call.hpp"

namespace hekla::graph {
namespace {

void same_gradient(Backward& b) { b.give(0, b.dy()); }

} // namespace

const OperationRules once_rules{like_first_input, same_gradient, run_same};
const OperationRules state_read_rules{like_first_input, same_gradient, run_same};
const OperationRules state_write_rules{like_first_input, same_gradient, run_same};
const OperationRules for_parameters_rules{like_first_input, same_gradient, run_same};
const OperationRules tap_rules{like_first_input, same_gradient, run_same};
const OperationRules site_rules{like_first_input, same_gradient, run_same};

} // namespace hekla::graph
