// concat, whose inputs are written in place where a kernel can write with strides.
#pragma once

#include "program/lowering/lowering.hpp"

#include <optional>

namespace hekla::program {

// Returns where a kernel has to write this value so that it becomes a part of a concat without a copy: a view of the
// concat's result, whose storage is that of the value. Empty unless a concat reads the value, directly or after
// reshapes and transposes.
std::optional<View> place_in_concat(Lowering& lowering, graph::ValueId value);

Status lower_concat(Lowering& lowering, graph::NodeId node);

} // namespace hekla::program
