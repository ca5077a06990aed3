// Whether a display depends on a GPU: then work must be submitted in short pieces, or the screen stutters.
#pragma once

#include <cstdint>
#include <filesystem>

namespace hekla::gpu {

// Where a device is on the PCI bus.
struct PciAddress {
    uint32_t domain = 0, bus = 0, device = 0, function = 0;
};

// Returns whether a connector of the device has a display, as Linux reports it in `system`/bus/pci. false on other
// systems, and for devices that are not on the PCI bus.
bool has_display(const PciAddress& address, const std::filesystem::path& system = "/sys");

} // namespace hekla::gpu
