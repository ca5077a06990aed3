// What plugins see of the batch: its fields and positions, with the virtual tokens of adapters.
#pragma once

#include "plugin/host/joint.hpp"

#include <string_view>

namespace hekla::plugin {

const BatchField* find_field(const Joint& joint, std::string_view name); // null: the batch does not have it

// Returns positions as the body sees them, with an adapter's virtual tokens.
graph::ValueId shifted_positions(Joint& joint, int64_t batch, int64_t length);
// Returns the number that all of shifted_positions() are below.
int64_t position_count(const Joint& joint, int64_t length);

// Returns a field of the batch with an adapter's virtual tokens at the beginning of each row.
graph::ValueId with_virtual_tokens(Joint& joint, const BatchField& field, graph::ValueId value);

// Returns the field kAdapterStart of the adapter that is being described, which has an invocation: given by the host in
// decode mode, which does not see whole rows, otherwise computed from the rows.
graph::ValueId adapter_start(Joint& joint);

} // namespace hekla::plugin
