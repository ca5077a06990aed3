// Tables of plugins whose functions are traced.
#pragma once

#include <string_view>

namespace hekla::plugin::trace {

// Returns the table itself if an interface is not traced. Tables live as long as the process. plugin: the manifest's
// name.
const void* wrapped_plugin_table(std::string_view plugin, std::string_view interface_id, std::string_view id,
                                 const void* table);

} // namespace hekla::plugin::trace
