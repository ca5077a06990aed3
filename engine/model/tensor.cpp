#include "model/tensor.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>

namespace hekla::model {

std::size_t TensorView::byte_size() const {
    std::size_t size = 0;
    for (const std::span<const std::byte> piece : pieces()) size += piece.size();
    return size;
}

TensorSource source_of(const TensorView& view) {
    return {static_cast<const TensorInfo&>(view), [view](const Sink& sink) -> Status {
                for (const std::span<const std::byte> piece : view.pieces()) HK_TRY(sink(piece));
                return {};
            }};
}

std::vector<TensorSource> sources_of(std::span<const TensorView> views) {
    std::vector<TensorSource> sources;
    sources.reserve(views.size());
    for (const TensorView& view : views) sources.push_back(source_of(view));
    return sources;
}

namespace {

constexpr std::size_t kElementsAtOnce = 1 << 16; // elements

Status convert_piece(const TensorView& view, std::span<const std::byte> bytes, DType dtype, std::vector<double>& values,
                     std::vector<std::byte>& out) {
    values.resize(bytes.size() / size_of(view.dtype));
    out.resize(values.size() * size_of(dtype));
    HK_TRY(to_float64(view.dtype, bytes, values));
    HK_TRY(from_float64(dtype, values, out));
    const double largest = dtype == DType::f16    ? 65504.0
                           : dtype == DType::bf16 ? 0x1.FEp127
                           : dtype == DType::f32  ? static_cast<double>(std::numeric_limits<float>::max())
                                                  : std::numeric_limits<double>::max();
    std::vector<double> back(1);
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (!(std::abs(values[i]) > largest) || std::isinf(values[i])) continue;
        HK_TRY(to_float64(dtype, std::span<const std::byte>(out).subspan(i * size_of(dtype), size_of(dtype)), back));
        if (std::isinf(back[0]))
            return invalid_argument(fmt::format("tensor {}: {} is too large for {}: bf16 and f32 hold more",
                                                in_quotes(view.name), values[i], name_of(dtype)));
    }
    return {};
}

} // namespace

TensorSource converted_source(std::string name, const TensorView& view, DType dtype) {
    TensorSource source = source_of(view);
    source.name = std::move(name);
    source.dtype = dtype;
    if (dtype == view.dtype) return source;
    source.stream = [view, dtype](const Sink& sink) -> Status {
        std::vector<double> values;
        std::vector<std::byte> out;
        const std::size_t piece = kElementsAtOnce * size_of(view.dtype);
        for (const std::span<const std::byte> bytes : view.pieces())
            for (std::size_t at = 0; at < bytes.size(); at += piece) {
                HK_TRY(convert_piece(view, bytes.subspan(at, std::min(piece, bytes.size() - at)), dtype, values, out));
                HK_TRY(sink(out));
            }
        return {};
    };
    return source;
}

namespace {

Status too_large(std::span<const int64_t> dims) {
    return invalid_argument(fmt::format("shape {} is larger than 63 bits can count", format_dims(dims)));
}

Result<int64_t> checked_product(int64_t unit, std::span<const int64_t> dims) {
    int64_t product = unit;
    bool empty = false;
    for (const int64_t dim : dims) {
        if (dim < 0) return invalid_argument(fmt::format("shape {} has a negative dimension", format_dims(dims)));
        if (dim == 0)
            empty = true;
        else if (__builtin_mul_overflow(product, dim, &product))
            return too_large(dims);
    }
    return empty ? int64_t{0} : product;
}

} // namespace

Result<int64_t> element_count(std::span<const int64_t> dims) { return checked_product(1, dims); }

Result<int64_t> byte_count(DType dtype, std::span<const int64_t> dims) {
    return checked_product(static_cast<int64_t>(size_of(dtype)), dims);
}

std::string format_dims(std::span<const int64_t> dims) {
    constexpr std::size_t kShown = 16;
    if (dims.size() <= kShown) return fmt::format("[{}]", fmt::join(dims, ", "));
    return fmt::format("[{}, ... {} more]", fmt::join(dims.first(kShown), ", "), dims.size() - kShown);
}

std::string describe(const TensorInfo& info) {
    return fmt::format("{} {}", name_of(info.dtype), format_dims(info.dims));
}

std::string in_quotes(std::string_view name) {
    constexpr std::size_t kLongest = 160;
    std::string text = "\"";
    for (const char c : name.substr(0, kLongest)) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\')
            (text += '\\') += c;
        else if (byte < 0x20 || byte == 0x7f)
            text += fmt::format("\\x{:02x}", byte);
        else
            text += c;
    }
    text += '"';
    if (name.size() > kLongest) text += fmt::format("... ({} bytes)", name.size());
    return text;
}

} // namespace hekla::model
