// .npy: one array of float32 as NumPy reads it (format 1.0, little-endian, row-major).
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace hekla::app {

// Returns the whole file. values.size() is the product of dims.
std::string numpy_file(std::span<const int64_t> dims, std::span<const float> values);

} // namespace hekla::app
