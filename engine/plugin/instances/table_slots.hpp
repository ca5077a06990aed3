// The functions of every struct that a plugin provides, from table_slots.inc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace hekla::plugin {

struct TableSlot {
    std::string_view interface_id;
    std::string_view function;
    std::size_t offset; // bytes from the beginning of the struct
    bool may_be_null;
    uint32_t since; // the minor version that added the interface
};

std::span<const TableSlot> table_slots();

// Returns whether this host uses interfaces with this id: "hekla.architecture/1".
bool is_known_interface(std::string_view interface_id);

// Returns the minor version that added an interface; 0 for unknown ones.
uint32_t minor_of_interface(std::string_view interface_id);

} // namespace hekla::plugin
