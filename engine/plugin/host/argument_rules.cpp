#include "plugin/host/argument_rules.hpp"

#include "plugin/host/host_error.hpp"
#include "plugin/host/host_struct.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace hekla::plugin {

Broken broken_by_shape(std::string_view what, const int64_t* dims, uint32_t rank) {
    if (rank > HK_MAX_RANK || (rank > 0 && dims == nullptr))
        return BrokenRule{"graph.4",
                          fmt::format("{}: {} dimensions, at most {} are possible", what, rank, HK_MAX_RANK)};
    int64_t product = 1;
    for (uint32_t i = 0; i < rank; ++i) {
        if (dims[i] < 0 || (dims[i] > 0 && product > (int64_t{1} << 46) / dims[i]))
            return BrokenRule{"graph.4", fmt::format("{}: dimension {} is {}, expected 0 or more, and no more than "
                                                     "2^46 elements in all",
                                                     what, i, dims[i])};
        product *= std::max<int64_t>(dims[i], 1);
    }
    return {};
}

Broken broken_by_name(std::string_view what, std::string_view name) {
    if (!name.empty() && is_utf8(name)) return {};
    return BrokenRule{"graph.5", fmt::format("{}: the name is empty or not UTF-8", what)};
}

Broken broken_by_parameter(std::string_view name, const int64_t* dims, uint32_t rank, double first, double second,
                           uint32_t flags) {
    if (Broken broken = broken_by_name("parameter", name)) return broken;
    const std::string what = fmt::format("parameter '{}'", name);
    if (Broken broken = broken_by_shape(what, dims, rank)) return broken;
    if ((flags & ~HK_PARAMETER_NO_DECAY) != 0)
        return BrokenRule{"abi.8", fmt::format("{}: flags {:#x}, of which only {:#x} (HK_PARAMETER_NO_DECAY) is known",
                                               what, flags, HK_PARAMETER_NO_DECAY)};
    if (!std::isfinite(first) || !std::isfinite(second))
        return BrokenRule{"graph.6", fmt::format("{}: its initializer is not finite", what)};
    return {};
}

Broken broken_by_numbers(std::string_view what, const int64_t* dims, uint32_t rank, const double* values) {
    if (Broken broken = broken_by_shape(what, dims, rank)) return broken;
    int64_t count = values != nullptr ? 1 : 0;
    for (uint32_t i = 0; i < rank; ++i) count *= dims[i];
    for (int64_t i = 0; i < count; ++i)
        if (std::isnan(values[i])) return BrokenRule{"graph.6", fmt::format("{}: value {} is NaN", what, i)};
    return {};
}

Broken broken_by_buffer(std::string_view name, const int64_t* dims, uint32_t rank, const double* values) {
    if (Broken broken = broken_by_name("buffer", name)) return broken;
    return broken_by_numbers(fmt::format("buffer '{}'", name), dims, rank, values);
}

Broken broken_by_weight(double weight) {
    if (std::isfinite(weight)) return {};
    return BrokenRule{"graph.6", "loss: the weight is not finite"};
}

Broken broken_by_field(const hk_field* given) {
    const std::optional<hk_field> field = struct_of(given);
    if (!field) return BrokenRule{"abi.5", "a field that is null or whose struct_size is not possible"};
    if (field->reserved != 0) return BrokenRule{"abi.8", "a field whose reserved member is not 0"};
    if (field->kind != HK_KIND_INT32 && field->kind != HK_KIND_FLOAT32)
        return BrokenRule{"objective.3", fmt::format("a field of kind {}, expected {} or {}", field->kind,
                                                     HK_KIND_FLOAT32, HK_KIND_INT32)};
    if (field->rank > HK_MAX_RANK || view(field->name).empty())
        return BrokenRule{"objective.3", fmt::format("a field of the name '{}' with {} dimensions, expected a name and "
                                                     "at most {} dimensions",
                                                     view(field->name), field->rank, HK_MAX_RANK)};
    return {};
}

Broken broken_by_column(const hk_column_need* given) {
    const std::optional<hk_column_need> need = struct_of(given);
    if (!need) return BrokenRule{"abi.5", "a column that is null or whose struct_size is not possible"};
    constexpr uint32_t kKnown = HK_COLUMN_OPTIONAL | HK_COLUMN_TARGET;
    if (need->reserved != 0 || (need->flags & ~kKnown) != 0)
        return BrokenRule{"abi.8", fmt::format("a column with flags {:#x}, of which only {:#x} are known, or a "
                                               "reserved member that is not 0",
                                               need->flags, kKnown)};
    return {};
}

} // namespace hekla::plugin
