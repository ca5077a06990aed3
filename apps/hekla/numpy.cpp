#include "numpy.hpp"

#include <bit>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::app {

static_assert(std::endian::native == std::endian::little, "values are written as they lie in memory");

std::string numpy_file(std::span<const int64_t> dims, std::span<const float> values) {
    std::string header = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}{}), }}",
                                     fmt::join(dims, ", "), dims.size() == 1 ? "," : "");
    constexpr std::size_t kPreamble = 10, kAlignment = 64; // magic, version, length; data begins at a multiple
    header.append(kAlignment - (kPreamble + header.size() + 1) % kAlignment, ' ');
    header += '\n';
    std::string file("\x93NUMPY\x01\x00", 8);
    file += static_cast<char>(header.size() & 0xff);
    file += static_cast<char>(header.size() >> 8);
    file += header;
    const std::size_t begin = file.size();
    file.resize(begin + values.size_bytes());
    if (!values.empty()) std::memcpy(file.data() + begin, values.data(), values.size_bytes());
    return file;
}

} // namespace hekla::app
