// A stored tensor: its description, a view of its bytes, and a source that streams them. No graph and no device here.
#pragma once

#include "model/dtype.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::model {

// Row-major and dense. An empty `dims` is a single element.
struct TensorInfo {
    std::string name;
    DType dtype = DType::f32;
    std::vector<int64_t> dims;
};

// Bytes belong to someone else (a mapped file, a buffer of the caller's) and must outlive the view; any alignment.
struct TensorView : TensorInfo {
    std::span<const std::byte> bytes;
};

// Takes the next bytes of a stream, in pieces of any size.
using Sink = std::function<Status(std::span<const std::byte>)>;

// A tensor whose bytes are produced when they are written: read back from a device piece by piece, converted, ...
// `stream` must hand exactly byte_count() bytes to the sink and return the sink's errors.
struct TensorSource : TensorInfo {
    std::function<Status(const Sink&)> stream;
};

// A source over bytes that stay valid until it has been written.
TensorSource source_of(const TensorView& view);
std::vector<TensorSource> sources_of(std::span<const TensorView> views);
// The same under another name, its numbers rounded to `dtype` while it is written (dtype.hpp). Both types are floating,
// or the same. Streaming ends with invalid_argument at a number that is too large for `dtype`.
TensorSource converted_source(std::string name, const TensorView& view, DType dtype);

// Elements and bytes; invalid_argument for a negative dimension or where a product leaves 63 bits.
// The non-zero dimensions alone must stay within them too, so that strides computed from `dims` cannot overflow.
Result<int64_t> element_count(std::span<const int64_t> dims);
Result<int64_t> byte_count(DType dtype, std::span<const int64_t> dims);

std::string format_dims(std::span<const int64_t> dims); // "[12, 64]"
std::string describe(const TensorInfo& info);           // "f32 [12, 64]"

// A name from outside made fit for a message: in double quotes, control characters escaped, long ones cut.
std::string in_quotes(std::string_view name);

} // namespace hekla::model
