// Writes images as PNG files.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vulkan/vulkan.h>

namespace observatory {

// `pixels`: rows of red, green, blue, alpha, from the top; alpha is dropped. Throws a Failure that names the file.
void write_png(const std::string& file, VkExtent2D extent, std::span<const std::byte> pixels);

} // namespace observatory
