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

// Columns first, first + step, ... of [experts, in, out] become rows.
void columns_as_rows(std::size_t experts, std::size_t in_width, std::size_t out_width, std::size_t first,
                     std::size_t step, std::span<const float> in, std::span<float> out) {
    std::size_t to = 0;
    for (std::size_t e = 0; e < experts; ++e)
        for (std::size_t column = first; column < out_width; column += step)
            for (std::size_t row = 0; row < in_width; ++row) out[to++] = in[(e * in_width + row) * out_width + column];
}

} // namespace

bool is_always_float32(std::string_view name, std::size_t rank) {
    if (rank < 2 || name == "position_embd.weight") return true;
    for (const char* end : {".bias", "_norm.weight", ".ffn_gate_inp.weight", ".shortconv.conv.weight"})
        if (name.ends_with(end)) return true;
    return false;
}

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
        HK_ASSIGN(const int64_t changed_count, model::element_count(info.dims));
        std::vector<float> values(static_cast<std::size_t>(count)), out(static_cast<std::size_t>(changed_count));
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
    if (form == Form::without_middle) {
        model::TensorView flat = view;
        flat.dims = {view.dims[0], view.dims[2]};
        return model::converted_source(name, flat, dtype);
    }
    if (form == Form::even_columns || form == Form::odd_columns || form == Form::all_columns) {
        const std::size_t step = form == Form::all_columns ? 1 : 2, first = form == Form::odd_columns ? 1 : 0;
        const bool matrices = view.dims.size() == 3; // a bias has no dimension `in`
        const int64_t width = view.dims.back() / static_cast<int64_t>(step);
        const std::vector<int64_t> shape = matrices ? std::vector<int64_t>{view.dims[0], width, view.dims[1]}
                                                    : std::vector<int64_t>{view.dims[0], width};
        const auto in_width = matrices ? columns : 1, out_width = static_cast<std::size_t>(view.dims.back());
        return changed_source({name, dtype, shape}, view, [=](auto in, auto out) {
            columns_as_rows(rows, in_width, out_width, first, step, in, out);
        });
    }
    const std::size_t heads = s.count(form == Form::query_heads ? "num_attention_heads" : "num_key_value_heads");
    return changed_source({name, dtype, view.dims}, view,
                          [=](auto in, auto out) { interleave_halves(heads, rows, columns, in, out); });
}

} // namespace hekla::app
