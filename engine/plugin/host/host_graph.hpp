// The host's side of hekla.graph/1: turns a plugin's calls into checked nodes of a graph::Builder.
#pragma once

#include "hekla/plugin/graph.h"
#include "plugin/host/joint.hpp"

namespace hekla::plugin {

const hk_graph_interface* host_graph_interface();

} // namespace hekla::plugin
