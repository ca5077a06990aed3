// A stored tensor: its description, a view of its bytes, and a source that streams them. Independent of graphs and
// devices.
#pragma once

#include "model/dtype.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::model {

// The description of a row-major, dense tensor. An empty `dims` is a single element.
struct TensorInfo {
    std::string name;
    DType dtype = DType::f32;
    std::vector<int64_t> dims;
};

// A view of bytes that are not owned (a mapped file, a buffer of the caller) and must outlive the view; any alignment.
struct TensorView : TensorInfo {
    std::span<const std::byte> bytes;
    // Of a tensor that is stacked of several stored ones (stacked_tensors.hpp): their bytes, in order along the first
    // axis; `bytes` is empty then.
    std::vector<std::span<const std::byte>> parts = {};
    // Returns the bytes in order; valid as long as this object.
    std::span<const std::span<const std::byte>> pieces() const {
        return parts.empty() ? std::span(&bytes, 1) : std::span(parts);
    }
    std::size_t byte_size() const;
};

// Takes the next bytes of a stream, in pieces of any size.
using Sink = std::function<Status(std::span<const std::byte>)>;

// A tensor whose bytes are produced when they are written: read back from a device in pieces, converted, ... `stream`
// must pass exactly byte_count() bytes to the sink and return the sink's errors.
struct TensorSource : TensorInfo {
    std::function<Status(const Sink&)> stream;
};

// Return sources over bytes that must stay valid until they are written.
TensorSource source_of(const TensorView& view);
std::vector<TensorSource> sources_of(std::span<const TensorView> views);
// Returns a source under another name, whose numbers are rounded to `dtype` when it is written (dtype.hpp). Both types
// are floating, or equal. Streaming ends with invalid_argument at a number that is too large for `dtype`.
TensorSource converted_source(std::string name, const TensorView& view, DType dtype);

// Return the number of elements or bytes; invalid_argument for a negative dimension or a product beyond 63 bits. The
// product of the non-zero dimensions must stay within 63 bits too, so that strides computed from `dims` cannot
// overflow.
Result<int64_t> element_count(std::span<const int64_t> dims);
Result<int64_t> byte_count(DType dtype, std::span<const int64_t> dims);

std::string format_dims(std::span<const int64_t> dims); // "[12, 64]"
std::string describe(const TensorInfo& info);           // "f32 [12, 64]"

// Returns an untrusted name for a message: in double quotes, control characters escaped, shortened if long.
std::string in_quotes(std::string_view name);

} // namespace hekla::model
