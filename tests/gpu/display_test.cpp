// Displays as Linux lists them, in a folder made like /sys.
#include "gpu/display.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fstream>
#include <string>
#include <unistd.h>

namespace display_test {

namespace fs = std::filesystem;
using hekla::gpu::has_display;

namespace {

struct System {
    System() { fs::remove_all(root); }
    ~System() { fs::remove_all(root); }
    void connector(const char* device, const char* name, const char* status) const {
        const fs::path folder = root / "bus/pci/devices" / device / "drm/card1" / name;
        fs::create_directories(folder);
        std::ofstream(folder / "status") << status << '\n';
    }
    fs::path root = fs::temp_directory_path() / fmt::format("hekla_display_{}", ::getpid());
};

} // namespace

TEST_CASE("a display is found by the device's PCI address") {
    const System system;
    CHECK_FALSE(has_display({}, system.root)); // nothing there
    system.connector("0000:0a:00.0", "card1-DP-1", "disconnected");
    system.connector("0000:0a:00.0", "power", "connected"); // not a connector
    CHECK_FALSE(has_display({0, 10, 0, 0}, system.root));
    system.connector("0000:0a:00.0", "card1-HDMI-A-1", "connected");
    CHECK(has_display({0, 10, 0, 0}, system.root));
    CHECK_FALSE(has_display({0, 10, 0, 1}, system.root)); // another device
    CHECK_FALSE(has_display({0, 11, 0, 0}, system.root));
    system.connector("0001:0b:1f.3", "card1-eDP-1", "connected");
    CHECK(has_display({1, 11, 31, 3}, system.root));
}

} // namespace display_test
