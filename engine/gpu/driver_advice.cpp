#include "gpu/driver_advice.hpp"

#include "base/file.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::gpu {
namespace {

struct Distribution {
    std::string_view id; // of os-release(5)
    std::string_view command;
};
constexpr Distribution kDistributions[] = {
    {"debian", "sudo apt install mesa-vulkan-drivers libvulkan1"},
    {"ubuntu", "sudo apt install mesa-vulkan-drivers libvulkan1"},
    {"fedora", "sudo dnf install mesa-vulkan-drivers vulkan-loader"},
    {"rhel", "sudo dnf install mesa-vulkan-drivers vulkan-loader"},
    {"arch", "sudo pacman -S vulkan-icd-loader vulkan-radeon vulkan-intel vulkan-swrast"},
    {"suse", "sudo zypper install libvulkan1 libvulkan_radeon libvulkan_intel libvulkan_lvp"},
    {"alpine", "sudo apk add vulkan-loader mesa-vulkan-ati mesa-vulkan-intel mesa-vulkan-swrast"},
    {"void", "sudo xbps-install vulkan-loader mesa-vulkan-radeon mesa-vulkan-intel mesa-vulkan-lavapipe"},
    {"gentoo", "sudo emerge media-libs/vulkan-loader media-libs/mesa (USE=vulkan)"}};

// Calls f with each word of a key's value until it returns true.
bool any_word_of(std::string_view os_release, std::string_view key, const auto& f) {
    for (std::size_t begin = 0; begin < os_release.size();) {
        const std::size_t end = std::min(os_release.find('\n', begin), os_release.size());
        std::string_view line = os_release.substr(begin, end - begin);
        begin = end + 1;
        if (!line.starts_with(key) || line.substr(key.size(), 1) != "=") continue;
        line.remove_prefix(key.size() + 1);
        for (std::size_t at = 0; at < line.size();) {
            at = line.find_first_not_of(" \"'\r", at);
            if (at == std::string_view::npos) break;
            const std::size_t last = std::min(line.find_first_of(" \"'\r", at), line.size());
            if (f(line.substr(at, last - at))) return true;
            at = last;
        }
    }
    return false;
}

} // namespace

std::string driver_advice(std::string_view os_release) {
    std::string_view command;
    const auto find = [&](std::string_view word) {
        for (const Distribution& one : kDistributions)
            if (word == one.id) command = one.command;
        return !command.empty();
    };
    any_word_of(os_release, "ID", find) || any_word_of(os_release, "ID_LIKE", find);
    const std::string install = command.empty()
                                    ? "install your system's packages of the Vulkan loader and of Mesa's Vulkan drivers"
                                    : fmt::format("run `{}`", command);
    return fmt::format(
        "{} (Mesa's drivers, for AMD, Intel and any CPU; NVIDIA's GPUs need NVIDIA's own driver), or check "
        "VK_DRIVER_FILES and VK_ICD_FILENAMES if they are set",
        install);
}

std::string driver_advice() {
    Result<std::string> text = read_file("/etc/os-release");
    if (!text.ok()) text = read_file("/usr/lib/os-release");
    return driver_advice(text.ok() ? std::string_view(text.value()) : std::string_view());
}

} // namespace hekla::gpu
