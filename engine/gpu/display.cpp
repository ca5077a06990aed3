#include "gpu/display.hpp"

#include "base/file.hpp"

#include <fmt/format.h>
#include <string>
#include <system_error>

namespace hekla::gpu {
namespace {

namespace fs = std::filesystem;

bool connected(const fs::path& connector) {
    const Result<std::string> status = read_file(connector / "status");
    return status.ok() && status.value().substr(0, status.value().find('\n')) == "connected";
}

} // namespace

bool has_display(const PciAddress& address, const fs::path& system) {
    const fs::path cards =
        system / "bus/pci/devices" /
        fmt::format("{:04x}:{:02x}:{:02x}.{:x}", address.domain, address.bus, address.device, address.function) / "drm";
    // card1/card1-DP-1/status, for every connector
    std::error_code ignored; // no such device, or no right to look
    for (const fs::directory_entry& card : fs::directory_iterator(cards, ignored))
        for (const fs::directory_entry& connector : fs::directory_iterator(card.path(), ignored))
            if (connector.path().filename().string().starts_with("card") && connected(connector.path())) return true;
    return false;
}

} // namespace hekla::gpu
