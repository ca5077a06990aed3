// What to install where there is no Vulkan driver, by the text of os-release(5).
#include "gpu/driver_advice.hpp"

#include <doctest/doctest.h>

TEST_CASE("without a driver the command of the distribution is named, or of the one that it is like") {
    const auto has = [](const std::string& os_release, std::string_view part) {
        return hekla::gpu::driver_advice(os_release).find(part) != std::string::npos;
    };
    CHECK(has("PRETTY_NAME=\"Debian\"\nID=debian\n", "run `sudo apt install mesa-vulkan-drivers"));
    CHECK(has("ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n", "sudo apt install"));
    CHECK(has("ID=\"opensuse-tumbleweed\"\nID_LIKE=\"opensuse suse\"", "sudo zypper install"));
    CHECK(has("ID='arch'\r\n", "sudo pacman -S"));
    CHECK(has("ID=nobara\nID_LIKE=fedora", "sudo dnf install"));
    CHECK(has("VARIANT_ID=debian\nID=plan9\n", "install your system's packages"));
    CHECK(has("", "install your system's packages"));
    CHECK(has("ID=debian", "NVIDIA's own driver"));
}
