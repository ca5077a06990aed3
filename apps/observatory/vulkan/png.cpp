#include "vulkan/png.hpp"

#include "failure.hpp"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <vector>
#include <zlib.h>

namespace observatory {
namespace {

void put(std::vector<unsigned char>& to, uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) to.push_back(static_cast<unsigned char>(value >> shift & 0xFF));
}

// Length, kind, content and checksum.
void put_chunk(std::vector<unsigned char>& to, const char* kind, const std::vector<unsigned char>& content) {
    put(to, static_cast<uint32_t>(content.size()));
    const std::size_t begin = to.size();
    to.insert(to.end(), kind, kind + 4);
    to.insert(to.end(), content.begin(), content.end());
    put(to, static_cast<uint32_t>(crc32(0, to.data() + begin, static_cast<uInt>(to.size() - begin))));
}

} // namespace

void write_png(const std::string& file, VkExtent2D extent, std::span<const std::byte> pixels) {
    std::vector<unsigned char> rows;
    for (uint32_t y = 0; y < extent.height; ++y) {
        rows.push_back(1); // each byte less the one a pixel before: what ZLIB likes of flat areas
        for (uint32_t x = 0; x < extent.width; ++x)
            for (std::size_t c = 0; c < 3; ++c) {
                const std::size_t at = (std::size_t{y} * extent.width + x) * 4 + c;
                const auto here = std::to_integer<unsigned>(pixels[at]);
                const auto left = x > 0 ? std::to_integer<unsigned>(pixels[at - 4]) : 0U;
                rows.push_back(static_cast<unsigned char>((here - left) & 0xFF));
            }
    }
    uLongf size = compressBound(static_cast<uLong>(rows.size()));
    std::vector<unsigned char> packed(size);
    if (compress2(packed.data(), &size, rows.data(), static_cast<uLong>(rows.size()), 9) != Z_OK)
        throw Failure(file + ": the picture could not be compressed");
    packed.resize(size);
    std::vector<unsigned char> png{0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'}, header;
    put(header, extent.width);
    put(header, extent.height);
    header.insert(header.end(), {8, 2, 0, 0, 0}); // 8 bits of red, green and blue
    put_chunk(png, "IHDR", header);
    put_chunk(png, "IDAT", packed);
    put_chunk(png, "IEND", {});
    std::ofstream out(file, std::ios::binary);
    out.write(reinterpret_cast<const char*>(png.data()), static_cast<std::streamsize>(png.size()));
    if (!out.flush()) throw Failure(file + ": cannot be written: " + std::strerror(errno));
}

} // namespace observatory
