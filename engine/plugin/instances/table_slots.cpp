#include "plugin/instances/table_slots.hpp"

#include "hekla/plugin/architecture.h"
#include "hekla/plugin/combiner.h"
#include "hekla/plugin/draft/reward.h"
#include "hekla/plugin/draft/rollout.h"
#include "hekla/plugin/drafts.h"
#include "hekla/plugin/head.h"
#include "hekla/plugin/objective.h"
#include "hekla/plugin/operation.h"
#include "hekla/plugin/optimizer.h"

#include <algorithm>

namespace hekla::plugin {
namespace {

constexpr TableSlot kTableSlots[] = {
#define HK_SLOT(interface_id, table, function, may_be_null, since)                                                     \
    {interface_id, #function, offsetof(table, function), may_be_null, since},
#include "plugin/instances/table_slots.inc"
#undef HK_SLOT
};

} // namespace

std::span<const TableSlot> table_slots() { return kTableSlots; }

bool is_known_interface(std::string_view interface_id) {
    return std::ranges::any_of(kTableSlots, [&](const TableSlot& slot) { return slot.interface_id == interface_id; });
}

uint32_t minor_of_interface(std::string_view interface_id) {
    const auto found = std::ranges::find(kTableSlots, interface_id, &TableSlot::interface_id);
    return found != std::end(kTableSlots) ? found->since : 0;
}

} // namespace hekla::plugin
