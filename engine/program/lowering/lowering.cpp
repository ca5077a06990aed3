#include "program/lowering/lowering.hpp"

#include "program/lowering/loop.hpp"
#include "program/lowering/records.hpp"
#include "program/lowering/spill_counts.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <limits>

namespace hekla::program {

namespace {

View dense(ResourceId resource, const graph::Shape& shape, Storage storage) {
    View view;
    view.resource = resource;
    view.storage = storage;
    view.shape = shape;
    view.strides = shape.strides();
    return view;
}

// Returns a view of the same elements whose first one has the lowest address.
View from_lowest(View view) {
    for (int d = 0; d < view.shape.rank(); ++d)
        if (const auto axis = static_cast<std::size_t>(d); view.strides[axis] < 0) view = flipped(view, axis);
    return view;
}

// Moves the first kernel that spills no registers to the front, if the preferred one spills.
void prefer_without_spills(KernelProblem& problem, const Limits& limits) {
    if (limits.spills == nullptr || problem.kernels.size() < 2) return;
    const KernelTrial trial =
        problem.trial(std::numeric_limits<double>::infinity(), std::numeric_limits<int64_t>::max());
    const auto spills = [&](const KernelOption& option) {
        Lowering alone;
        alone.limits = limits;
        alone.trial = KernelChoice{.kernel = option.kernel};
        trial.lower(alone);
        std::optional<uint64_t> sum = 0;
        for (const Dispatch& dispatch : alone.dispatches) {
            const std::optional<uint64_t> count = limits.spills->of(dispatch);
            if (!count) return count;
            *sum += *count;
        }
        return sum;
    };
    if (spills(problem.kernels.front()).value_or(0) == 0) return;
    const auto better = std::find_if(problem.kernels.begin() + 1, problem.kernels.end(),
                                     [&](const KernelOption& option) { return spills(option) == 0u; });
    if (better != problem.kernels.end()) std::rotate(problem.kernels.begin(), better, better + 1);
}

// Copies rows of at least a subgroup's width, dense on both sides. Returns false if the views have none.
bool copy_rows(Lowering& lowering, const View& from, const View& to, const Loop& loop) {
    const Limits& limits = lowering.limits;
    const auto last = static_cast<std::size_t>(loop.rank() - 1);
    const int64_t width = loop.dims[last];
    if (loop.rank() > 6 || loop.strides[0][last] != 1 || loop.strides[1][last] != 1 || width < limits.subgroup_size)
        return false;
    if (last == 0) return false; // one row: the elementwise kernel distributes it over all cores
    const int64_t rows = from.elements() / width;
    Dispatch dispatch;
    dispatch.shader = "pointwise/copy_rows";
    dispatch.constants = {limits.subgroup_size, width >= 2 * int64_t{limits.subgroup_size} ? 2u : 1u,
                          static_cast<uint32_t>(last)};
    dispatch.subgroup_size = limits.subgroup_size;
    const View lowest = from_lowest(from);
    kernels::pointwise::CopyRowsRecord record{.from = lowest,
                                              .to = to,
                                              .first = static_cast<uint32_t>(from.offset - lowest.offset),
                                              .rows = static_cast<uint32_t>(rows),
                                              .width = static_cast<uint32_t>(width)};
    for (std::size_t d = 0; d < 5; ++d) {
        record.dims[d] = d < last ? static_cast<uint32_t>(loop.dims[d]) : 1u;
        record.from_strides[d] = d < last ? static_cast<int32_t>(loop.strides[0][d]) : 0;
        record.to_strides[d] = d < last ? static_cast<int32_t>(loop.strides[1][d]) : 0;
    }
    dispatch.record = make_record(record);
    dispatch.groups = row_groups(limits, rows);
    dispatch.bytes = 2.0 * static_cast<double>(from.bytes());
    lowering.append(std::move(dispatch));
    return true;
}

} // namespace

View Lowering::allocate(const graph::Shape& shape, Storage storage, const std::string& name) {
    Resource resource;
    resource.name = name;
    resource.kind = ResourceKind::arena;
    resource.bytes = std::max<uint64_t>(4, static_cast<uint64_t>(shape.elements()) * bytes_of(storage));
    resources.push_back(std::move(resource));
    return dense(static_cast<ResourceId>(resources.size() - 1), shape, storage);
}

View Lowering::contiguous(const View& view) {
    if (view.contiguous()) return view;
    const View copied = allocate(view.shape, view.storage, "copy of " + resources[view.resource].name);
    copy(view, copied);
    return copied;
}

void Lowering::copy(const View& from, const View& to) {
    if (from.elements() == 0) return;
    const View operands[] = {from, to};
    const Loop loop = make_loop(operands);
    if (limits.uniform_loads && bytes_of(from.storage) == 4 && copy_rows(*this, from, to, loop)) return;
    Dispatch dispatch;
    dispatch.shader = bytes_of(from.storage) == 2 ? "pointwise/copy.half"
                      : limits.cpu                ? "pointwise/copy.narrow"
                                                  : "pointwise/copy";
    const bool linear = loop.linear(0) && loop.linear(1);
    dispatch.constants = {linear ? 0u : static_cast<uint32_t>(loop.rank())};
    const View lowest = from_lowest(from);
    kernels::pointwise::CopyRecord record{.from = lowest, .to = to, .count = static_cast<uint32_t>(from.elements())};
    record.first = static_cast<uint32_t>(from.offset - lowest.offset);
    set_dims(loop.dims, record.dims, record.factors, record.shifts);
    set_strides(loop.strides[0], record.from_strides);
    set_strides(loop.strides[1], record.to_strides);
    dispatch.record = make_record(record);
    dispatch.groups = elementwise_groups(from.elements());
    dispatch.bytes = 2.0 * static_cast<double>(from.bytes());
    append(std::move(dispatch));
}

void Lowering::store_as_16_bit(std::span<const std::pair<View, View>> from_to) {
    using namespace kernels::pointwise;
    while (!from_to.empty()) {
        const auto now = from_to.first(std::min<std::size_t>(from_to.size(), kTensorsAtOnce));
        from_to = from_to.subspan(now.size());
        Dispatch dispatch;
        dispatch.shader = "pointwise/to_16_bit";
        dispatch.constants = {limits.subgroup_size, static_cast<uint32_t>(now.front().second.storage)};
        dispatch.subgroup_size = limits.subgroup_size;
        To16BitRecord record;
        std::size_t n = 0;
        for (const auto& [from, to] : now) {
            if (from.elements() == 0) continue;
            record.from[n] = from;
            record.to[n] = to;
            // Both tensors have space for an even number of elements.
            record.words[n] = static_cast<uint32_t>(divide_up(from.elements(), 2));
            dispatch.groups += elementwise_groups(from.elements());
            record.ends[n++] = static_cast<uint32_t>(dispatch.groups);
            dispatch.bytes += static_cast<double>(from.bytes() + to.bytes());
        }
        if (n == 0) continue;
        for (std::size_t rest = n; rest < kTensorsAtOnce; ++rest) record.ends[rest] = record.ends[n - 1];
        dispatch.record = make_record(record);
        append(std::move(dispatch));
    }
}

void Lowering::store_as_16_bit(const View& from, const View& to) {
    const std::pair<View, View> one[] = {{from, to}};
    store_as_16_bit(one);
}

View Lowering::as_16_bit(const View& view) {
    if (bytes_of(options.precision) == 4 || view.storage != Storage::f32) return view;
    if (!stored_as_16_bit_.contains(view.resource)) copy_as_16_bit({&view, 1});
    View result = view;
    result.resource = stored_as_16_bit_.at(view.resource);
    result.storage = options.precision;
    return result;
}

void Lowering::copy_as_16_bit(std::span<const View> views) {
    std::vector<std::pair<View, View>> copies;
    for (const View& view : views) {
        const auto [copy, fresh] = stored_as_16_bit_.try_emplace(view.resource);
        if (!fresh) continue;
        const auto elements = static_cast<int64_t>(resources[view.resource].bytes / sizeof(float));
        const View half = allocate({elements}, options.precision, resources[view.resource].name + " in 16 bits");
        copy->second = half.resource;
        copies.emplace_back(dense(view.resource, {elements}, Storage::f32), half);
    }
    store_as_16_bit(copies);
}

void Lowering::fill_zero(const View& view) {
    const View zero = constant("zero", graph::Shape{}, Storage::f32, std::vector<std::byte>(4));
    copy(broadcast_view(zero, view.shape), view);
}

Dispatch& Lowering::append(Dispatch dispatch) {
    dispatch.node = current;
    dispatches.push_back(std::move(dispatch));
    return dispatches.back();
}

View Lowering::named(ResourceKind kind, const std::string& name, const graph::Shape& shape, Storage storage) {
    const auto [place, fresh] = names_.try_emplace({kind, name}, static_cast<ResourceId>(resources.size()));
    if (fresh) {
        Resource resource;
        resource.name = name;
        resource.kind = kind;
        resource.bytes = std::max<uint64_t>(4, static_cast<uint64_t>(shape.elements()) * bytes_of(storage));
        resources.push_back(std::move(resource));
    }
    const View view = dense(place->second, shape, storage);
    if (kind == ResourceKind::output) outputs.try_emplace(name, view);
    return view;
}

View Lowering::parameter(const std::string& name, const graph::Shape& shape) {
    const auto it = options.parameters.find(name);
    return named(ResourceKind::parameter, name, shape,
                 it == options.parameters.end() ? Storage::f32 : it->second.storage);
}

View Lowering::stored(const StoreTensor& tensor, const graph::Shape& shape, Storage storage) {
    switch (tensor.kind) {
    case StoreTensor::Kind::parameter: return parameter(tensor.name, shape);
    case StoreTensor::Kind::gradient: return named(ResourceKind::gradient, tensor.name, shape, storage);
    case StoreTensor::Kind::state: break;
    }
    if (tensor.words == 0) return named(ResourceKind::state, tensor.name, shape, storage);
    View part = dense(named(ResourceKind::state, tensor.name, {tensor.words}, storage).resource, shape, storage);
    part.offset = tensor.first;
    return part;
}

View Lowering::constant(const std::string& name, const graph::Shape& shape, Storage storage,
                        std::vector<std::byte> content) {
    const View view = named(ResourceKind::constant, name, shape, storage);
    Resource& resource = resources[view.resource];
    if (resource.content.empty()) {
        content.resize(static_cast<std::size_t>(resource.bytes));
        resource.content = std::move(content);
    }
    return view;
}

View Lowering::step_scalar(const std::string& name, float initial) {
    scalar_initials.try_emplace(name, initial);
    return named(ResourceKind::input, kScalarPrefix + name, graph::Shape{}, Storage::f32);
}

bool Lowering::move_to(const View& view, ResourceKind kind, const std::string& name) {
    Resource& resource = resources[view.resource];
    if (resource.kind != ResourceKind::arena || !view.contiguous() || view.offset != 0) return false;
    if (view.elements() == 0 || view.bytes() != resource.bytes) return false;
    if (!names_.try_emplace({kind, name}, view.resource).second) return false;
    resource.kind = kind;
    resource.name = name;
    if (kind == ResourceKind::output) outputs.try_emplace(name, view);
    return true;
}

View Lowering::runtime() {
    return named(ResourceKind::input, kRuntimeInput, graph::Shape{static_cast<int64_t>(sizeof(RuntimeRecord) / 4)},
                 Storage::i32);
}

View Lowering::access_counters() {
    const View counters = named(ResourceKind::output, fmt::format("{}{}", kAccessPrefix, access_counts.size()),
                                graph::Shape{2}, Storage::i32);
    fill_zero(counters);
    access_counts.emplace_back(current, counters);
    return counters;
}

KernelChoice Lowering::choose(KernelProblem problem) {
    if (trial) return *trial;
    const auto [it, fresh] = choices.try_emplace(problem.key);
    if (!fresh) return KernelChoice::parse(it->second);
    if (const auto fixed = options.kernel_choices.find(problem.key); fixed != options.kernel_choices.end()) {
        it->second = fixed->second;
    } else {
        prefer_without_spills(problem, limits);
        it->second = problem.kernels.front().kernel;
        problems.push_back(std::move(problem));
    }
    return KernelChoice::parse(it->second);
}

} // namespace hekla::program
