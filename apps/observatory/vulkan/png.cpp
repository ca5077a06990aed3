#include "vulkan/png.hpp"

#include "base/system_file.hpp"
#include "failure.hpp"

#include <stb_image_write.h>
#include <vector>

namespace observatory {

void write_png(const std::string& file, VkExtent2D extent, std::span<const std::byte> pixels) {
    const std::size_t count = std::size_t{extent.width} * extent.height;
    std::vector<std::byte> colors; // without alpha
    colors.reserve(count * 3);
    for (std::size_t i = 0; i < count; ++i)
        colors.insert(colors.end(), pixels.data() + i * 4, pixels.data() + i * 4 + 3);
    std::string bytes;
    const auto write = [](void* to, void* data, int size) {
        static_cast<std::string*>(to)->append(static_cast<const char*>(data), static_cast<std::size_t>(size));
    };
    const auto width = static_cast<int>(extent.width), height = static_cast<int>(extent.height);
    if (stbi_write_png_to_func(write, &bytes, width, height, 3, colors.data(), width * 3) == 0)
        throw Failure(file + ": the picture could not be compressed");
    if (const std::error_code problem = hekla::write_unsynced(file, bytes))
        throw Failure(file + ": cannot be written: " + problem.message());
}

} // namespace observatory
