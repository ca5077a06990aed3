#include "graph/operation.hpp"

#include <algorithm>
#include <utility>

namespace hekla::graph {

const std::vector<OperationInfo>& operation_table() {
    static const auto& kTable = *new std::vector<OperationInfo>{
#define HK_OPERATION_TABLE
#include "graph/operation_table.inc"
    }; // never destroyed: threads may use it while the process exits
    return kTable;
}

const OperationInfo& info(Op op) { return operation_table()[static_cast<std::size_t>(op)]; }

const OperationInfo* find_operation(std::string_view name) {
    const auto& table = operation_table();
    const auto found = std::ranges::find_if(table, [&](const OperationInfo& o) { return o.name == name; });
    return found == table.end() ? nullptr : &*found;
}

uint32_t since_of(const OperationInfo& operation, uint32_t revision) {
    constexpr std::pair<Op, uint32_t> kRevised[] = {
#define HK_REVISED(name, minor) {Op::name, minor},
#include "graph/operation_table.inc"
    };
    if (revision > 1)
        for (const auto& [op, minor] : kRevised)
            if (op == operation.op) return minor;
    return operation.since;
}

bool is_pointwise(Op op) { return op >= Op::add && op <= Op::stop_gradient; }

bool is_leaf(Op op) { return op >= Op::input && op <= Op::step_scalar; }

} // namespace hekla::graph
