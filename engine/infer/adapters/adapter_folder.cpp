#include "infer/adapters/adapter_folder.hpp"

#include <span>

namespace hekla::infer {

std::string as_text(const nlohmann::json& value) {
    return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void add_columns(AdapterFolder& adapter, const model::TensorView& all, int64_t rows, int64_t first, int64_t columns,
                 std::string name) {
    const std::size_t element = model::size_of(all.dtype),
                      row = rows > 0 ? all.bytes.size() / static_cast<std::size_t>(rows) : 0;
    std::vector<std::byte>& part = adapter.parts.emplace_back();
    for (int64_t i = 0; i < rows; ++i) {
        const std::span<const std::byte> of =
            all.bytes.subspan(static_cast<std::size_t>(i) * row + static_cast<std::size_t>(first) * element,
                              static_cast<std::size_t>(columns) * element);
        part.insert(part.end(), of.begin(), of.end());
    }
    model::TensorView view = all;
    view.name = std::move(name);
    view.dims = {rows, columns};
    view.bytes = part;
    adapter.tensors.push_back(std::move(view));
}

} // namespace hekla::infer
