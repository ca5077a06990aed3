#include "gguf_tensors.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>
#include <vector>

namespace hekla::app {
namespace {

void transpose(std::size_t rows, std::size_t columns, std::span<const float> in, std::span<float> out) {
    for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t c = 0; c < columns; ++c) out[c * rows + r] = in[r * columns + c];
}

} // namespace

Status require_key(bool same, const char* key, const std::string& expected) {
    return same ? Status() : unsupported(fmt::format("llama.cpp cannot run this model: {} must be {}", key, expected));
}

std::optional<std::string> mapped_name(const Mapping& mapping, std::string_view name) {
    const std::string_view from = mapping.from;
    const std::size_t place = from.find('#');
    if (place == std::string_view::npos) return name == from ? std::optional<std::string>(mapping.to) : std::nullopt;
    const std::string_view tail = from.substr(place + 1);
    if (!name.starts_with(from.substr(0, place)) || !name.ends_with(tail) || name.size() <= place + tail.size())
        return std::nullopt;
    const std::string_view number = name.substr(place, name.size() - place - tail.size());
    if (number.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
    std::string to = mapping.to;
    return to.replace(to.find('#'), 1, number);
}

model::TensorSource changed_source(const model::TensorInfo& info, const model::TensorView& view,
                                   std::function<void(std::span<const float>, std::span<float>)> change) {
    model::TensorSource source;
    static_cast<model::TensorInfo&>(source) = info;
    source.stream = [view, info, change = std::move(change)](const model::Sink& sink) -> Status {
        HK_ASSIGN(const int64_t count, model::element_count(view.dims));
        std::vector<float> values(static_cast<std::size_t>(count)), out(values.size());
        HK_TRY(model::load_float32(view, values));
        change(values, out);
        model::TensorView changed;
        static_cast<model::TensorInfo&>(changed) = info;
        changed.dtype = model::DType::f32;
        changed.bytes = std::as_bytes(std::span<const float>(out));
        return model::converted_source(info.name, changed, info.dtype).stream(sink);
    };
    return source;
}

void interleave_halves(std::size_t heads, std::size_t rows, std::size_t columns, std::span<const float> in,
                       std::span<float> out) {
    const std::size_t half = rows / heads / 2;
    for (std::size_t h = 0; h < heads; ++h)
        for (std::size_t i = 0; i < half; ++i)
            for (std::size_t side = 0; side < 2; ++side) {
                const float* from = in.data() + ((h * 2 + side) * half + i) * columns;
                std::copy(from, from + columns, out.data() + ((h * half + i) * 2 + side) * columns);
            }
}

model::TensorSource source_for(const std::string& name, Form form, const model::TensorView& view, model::DType dtype,
                               const GgufSettings& s) {
    const auto rows = static_cast<std::size_t>(view.dims[0]);
    const auto columns = view.dims.size() > 1 ? static_cast<std::size_t>(view.dims[1]) : 1;
    if (form == Form::as_is) return model::converted_source(name, view, dtype);
    if (form == Form::plus_one)
        return changed_source({name, dtype, view.dims}, view, [](auto in, auto out) {
            std::ranges::transform(in, out.begin(), [](float gain) { return gain + 1.0f; });
        });
    if (form == Form::transposed)
        return changed_source({name, dtype, {view.dims[1], view.dims[0]}}, view,
                              [=](auto in, auto out) { transpose(rows, columns, in, out); });
    const std::size_t heads = s.count(form == Form::query_heads ? "num_attention_heads" : "num_key_value_heads");
    return changed_source({name, dtype, view.dims}, view,
                          [=](auto in, auto out) { interleave_halves(heads, rows, columns, in, out); });
}

} // namespace hekla::app
