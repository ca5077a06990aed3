// What the files of the attention family share.
#pragma once

#include "program/lower_common.hpp"

namespace hekla::program {

Status lower_attention_cached(Lowering& lowering, graph::NodeId id);

} // namespace hekla::program
