#include "infer/texts/source_rows.hpp"

#include "batch/collate.hpp"

#include <fmt/format.h>

namespace hekla::infer {

Result<SourceRows> source_rows(std::span<const data::Field> fields) {
    SourceRows rows;
    for (const data::Field& field : fields) {
        if (field.name == "labels" || field.name.starts_with("decoder_")) continue;
        if (field.kind != data::FieldKind::int32)
            return unsupported(fmt::format("the field '{}' holds real numbers", field.name));
        graph::Tensor tensor = batch::tensor_of(field);
        if (field.name != "input_ids") {
            rows.fields.emplace(field.name, std::move(tensor));
            continue;
        }
        const int64_t count = field.shape[0];
        const std::size_t width = tensor.data.size() / static_cast<std::size_t>(count);
        for (auto begin = tensor.data.begin(); begin != tensor.data.end(); begin += static_cast<std::ptrdiff_t>(width))
            rows.ids.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(width));
    }
    return rows;
}

} // namespace hekla::infer
