// The host's side of hekla.adapter-host/1.
#pragma once

#include "hekla/plugin/adapter.h"

namespace hekla::plugin {

const hk_adapter_host* host_adapter_interface();

} // namespace hekla::plugin
