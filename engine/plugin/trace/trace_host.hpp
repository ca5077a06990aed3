// Tables of the host whose functions are traced.
#pragma once

#include <string_view>

namespace hekla::plugin::trace {

// Returns the table itself if an interface is not traced. Tables live as long as the process.
const void* wrapped_host_table(std::string_view interface_id, const void* table);

} // namespace hekla::plugin::trace
