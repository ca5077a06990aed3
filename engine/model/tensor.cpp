#include "model/tensor.hpp"

#include <fmt/format.h>
#include <limits>

namespace hekla::model {

TensorSource source_of(const TensorView& view) {
    return {static_cast<const TensorInfo&>(view), [bytes = view.bytes](const Sink& sink) { return sink(bytes); }};
}

std::vector<TensorSource> sources_of(std::span<const TensorView> views) {
    std::vector<TensorSource> sources;
    sources.reserve(views.size());
    for (const TensorView& view : views) sources.push_back(source_of(view));
    return sources;
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
    constexpr std::size_t shown = 16;
    if (dims.size() <= shown) return fmt::format("[{}]", fmt::join(dims, ", "));
    return fmt::format("[{}, ... {} more]", fmt::join(dims.first(shown), ", "), dims.size() - shown);
}

std::string describe(const TensorInfo& info) {
    return fmt::format("{} {}", name_of(info.dtype), format_dims(info.dims));
}

std::string in_quotes(std::string_view name) {
    constexpr std::size_t longest = 160;
    std::string text = "\"";
    for (const char c : name.substr(0, longest)) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\')
            (text += '\\') += c;
        else if (byte < 0x20 || byte == 0x7f)
            text += fmt::format("\\x{:02x}", byte);
        else
            text += c;
    }
    text += '"';
    if (name.size() > longest) text += fmt::format("... ({} bytes)", name.size());
    return text;
}

} // namespace hekla::model
