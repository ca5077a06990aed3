// The table of rules: each operation has what a finished graph needs of it.
#include "graph/operations/rules.hpp"

#include "graph/operations/loop.hpp"
#include "support.hpp"

namespace hekla::test {

TEST_CASE("every operation has the rules that graphs need") {
    for (const OperationInfo& o : operation_table()) {
        CAPTURE(o.name);
        const OperationRules& rules = rules_of(o.op);
        const bool replaced = is_expanded(o.op) || is_loop_operation(o.op) || o.op == Op::one_hot; // by a builder
        const bool given = o.op == Op::input || o.op == Op::parameter;
        CHECK((rules.outputs != nullptr) == (o.op != Op::one_hot));
        CHECK((rules.reference != nullptr) == (!replaced && !given));
        if (replaced || is_leaf(o.op)) CHECK((rules.gradient == nullptr));
        const bool has_float_input =
            std::ranges::any_of(o.inputs, [](const InputInfo& in) { return in.kind != InputKind::integer; });
        const bool waits = o.op == Op::incoming_gradient; // with_gradient has its gradient
        if (!o.internal && !replaced && !waits) CHECK((rules.gradient != nullptr) == has_float_input);
    }
}

TEST_CASE("operations without a gradient end it, and do not refuse it") {
    for (const Op op : {Op::sign, Op::floor, Op::round, Op::compare, Op::argmax, Op::stop_gradient})
        CHECK_MESSAGE((rules_of(op).gradient == no_gradient), info(op).name);
    CHECK((rules_of(Op::attention_gradient).gradient == nullptr)); // has none of its own: an error
}

TEST_CASE("a revision that was added later needs a newer minor version of the ABI") {
    CHECK(since_of(info(Op::attention), 1) == 0);
    CHECK(since_of(info(Op::attention), 2) == 2);
    CHECK(since_of(info(Op::scatter), 1) == 1);
    for (const OperationInfo& o : operation_table())
        CHECK_MESSAGE((o.revision > 1) == (since_of(o, 2) != o.since), o.name);
}

} // namespace hekla::test
