#include "train/start/fit.hpp"

#include "base/number_text.hpp"
#include "hekla/plugin/graph.h"
#include "plugin/composition/compose.hpp"
#include "plugin/host/joint.hpp"
#include "program/parameter_store.hpp"
#include "program/program.hpp"
#include "program/runtime.hpp"
#include "train/step/training_graph.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <limits>

namespace hekla::train {
namespace {

constexpr uint64_t kSlack = uint64_t{64} << 20; // staging, the optimizer's tables, pipelines

// Bytes per trained parameter: weight, gradient, moments, average.
uint64_t bytes_per_parameter(const FitOptions& options) {
    const uint64_t moments =
        options.moments.in_system_memory ? 0 : options.moments.count * program::bytes_of(options.moments.storage);
    return (options.averages ? 3 : 2) * sizeof(float) + moments;
}

bool fits_in_all(const MemoryNeed& need, const MemoryRoom& room) {
    return need.total() <= room.free && room.free - need.total() >= room.slack;
}

bool fits(const MemoryNeed& need, const MemoryRoom& room) {
    return need.blocks_suffice && need.largest <= room.allocation && fits_in_all(need, room);
}

Result<graph::Graph> describe(const plugin::Composition& composition, int64_t batch, int64_t length) {
    HK_ASSIGN(const std::vector<plugin::BatchField> fields, composition.training_fields(batch, length));
    return composition.build(HK_MODE_TRAIN, fields);
}

// Returns the parameters with their storage. differentiated: the graph of a step.
std::vector<program::ParameterEntry> stored_table(const graph::Graph& described, const graph::Graph& differentiated,
                                                  const FitOptions& options) {
    std::vector<program::ParameterEntry> table = program::parameter_table(described);
    program::keep_readable_in_16_bits(table, differentiated);
    program::choose_storage(
        table,
        {.gradients = true, .moments = options.moments, .weights = options.frozen_storage, .frozen = options.frozen});
    return table;
}

MemoryNeed parameters_of(const std::vector<program::ParameterEntry>& table, const FitOptions& options) {
    MemoryNeed need;
    need.lasting = options.states;
    for (const program::ParameterEntry& entry : table) {
        const auto elements = static_cast<uint64_t>(entry.shape.elements());
        const uint64_t stored = elements * program::bytes_of(entry.storage);
        need.parameters += entry.shape.elements();
        need.largest = std::max(need.largest, stored);
        need.lasting += entry.trained ? elements * bytes_per_parameter(options) : stored;
    }
    return need;
}

// Returns the memory for a step: its parameters, and its graph with gradients.
Result<MemoryNeed> memory_need_of(const std::vector<program::ParameterEntry>& table, const graph::Graph& graph,
                                  const program::Runtime& runtime, const FitOptions& how) {
    MemoryNeed need = parameters_of(table, how);
    program::CompileOptions options;
    options.outputs = {"loss"};
    options.precision = how.precision;
    options.parameters = program::stored_otherwise(table);
    HK_ASSIGN(const program::Lowering lowering, program::lower(graph, runtime.limits(), options));
    // The total size does not depend on the block size; the second plan checks the block size of this device.
    HK_ASSIGN(const program::MemoryPlan plan, program::plan_memory(lowering, std::numeric_limits<uint64_t>::max() / 4));
    const Result<program::MemoryPlan> real = program::plan_memory(lowering, runtime.options().max_block_bytes);
    need.blocks_suffice = real.ok();
    need.a_program = plan.arena() + plan.constants + plan.inputs + plan.outputs + plan.arguments;
    return need;
}

// Arenas are split into several allocations, tensors are not.
Status check_tensors(const graph::Graph& described, const MemoryRoom& room, const std::string& device) {
    for (const auto& [name, value] : described.parameters()) {
        const uint64_t bytes = static_cast<uint64_t>(described.shape(value).elements()) * sizeof(float);
        if (bytes > room.allocation)
            return out_of_memory(
                fmt::format("the model does not fit: its parameter '{}' {} takes {}, and one allocation "
                            "on {} is at most {}: make the model smaller",
                            name, described.shape(value).text(), size_text(bytes), device, size_text(room.allocation)));
    }
    return {};
}

// Returns what else would help, for the end of a message.
const char* smaller_moments(const FitOptions& options) {
    if (options.moments.count == 0 || options.moments.in_system_memory) return "";
    return options.moments.storage == program::Storage::f32
               ? ", or set train.moments_dtype = \"bfloat16\" or train.moments_memory = \"system\""
               : ", or set train.moments_memory = \"system\"";
}

} // namespace

MemoryRoom memory_room(const program::Runtime& runtime) {
    const gpu::MemoryUsage usage = runtime.gpu().memory->usage();
    MemoryRoom room;
    room.free = runtime.gpu().capabilities().device_memory_bytes;
    if (usage.heap_budget_bytes > 0)
        room.free =
            usage.heap_budget_bytes > usage.heap_usage_bytes ? usage.heap_budget_bytes - usage.heap_usage_bytes : 0;
    room.slack = kSlack;
    const uint64_t below_cap = usage.cap_bytes - std::min(usage.cap_bytes, usage.current_bytes);
    if (usage.cap_bytes > 0 && below_cap < room.free) {
        room.free = below_cap;
        room.cap = usage.cap_bytes;
        room.slack = 0; // allocations beyond the cap fail on their own
    }
    room.allocation = runtime.gpu().memory->max_buffer_bytes();
    return room;
}

std::string MemoryRoom::text() const {
    return fmt::format("{} are free{}", size_text(free), cap > 0 ? fmt::format(" of a cap of {}", size_text(cap)) : "");
}

Result<MemoryNeed> memory_need(const plugin::Composition& composition, const program::Runtime& runtime, int64_t batch,
                               int64_t length, const FitOptions& how) {
    HK_ASSIGN(const graph::Graph described, describe(composition, batch, length));
    HK_ASSIGN(const graph::Graph graph, training_graph(described, how.frozen, how.recompute));
    return memory_need_of(stored_table(described, graph, how), graph, runtime, how);
}

Result<std::optional<int64_t>> largest_fitting_batch(const plugin::Composition& composition,
                                                     const program::Runtime& runtime, int64_t whole, int64_t length,
                                                     const FitOptions& how) {
    const MemoryRoom room = memory_room(runtime);
    for (int64_t batch = whole; batch >= 1; --batch) {
        if (whole % batch != 0) continue;
        const Result<MemoryNeed> need = memory_need(composition, runtime, batch, length, how);
        if (need.ok() && fits(need.value(), room)) return std::optional(batch);
    }
    return std::optional<int64_t>();
}

Status check_fits(const plugin::Composition& composition, const program::Runtime& runtime, int64_t batch,
                  int64_t length, const FitOptions& how) {
    const MemoryRoom room = memory_room(runtime);
    const std::string device = runtime.gpu().capabilities().device_name;
    HK_ASSIGN(const graph::Graph described, describe(composition, batch, length));
    HK_ASSIGN(const graph::Graph graph, training_graph(described, how.frozen, how.recompute));
    const std::vector<program::ParameterEntry> table = stored_table(described, graph, how);
    const MemoryNeed lasting = parameters_of(table, how);
    const std::string of_parameters =
        fmt::format("parameters, gradients{} take {}", how.averages ? ", moments and averages" : " and moments",
                    size_text(lasting.lasting));
    const uint64_t most = room.free > room.slack ? (room.free - room.slack) / bytes_per_parameter(how) : 0;
    if (!fits_in_all(lasting, room))
        return out_of_memory(fmt::format("the model does not fit: its {} on {}, where {}. At most {} parameters "
                                         "can be trained here, and this model has {}: make the model smaller{}",
                                         of_parameters, device, room.text(), grouped(static_cast<double>(most)),
                                         grouped(static_cast<double>(lasting.parameters)), smaller_moments(how)));

    HK_TRY(check_tensors(described, room, device));
    const Result<MemoryNeed> need = memory_need_of(table, graph, runtime, how);
    if (need.ok() && fits(need.value(), room)) return {};
    const std::string text =
        need.ok() ? fmt::format("the batch does not fit: a training step needs {} on {}, {} and one piece is at "
                                "most {} ({}, activations {})",
                                size_text(need.value().total()), device, room.text(), size_text(room.allocation),
                                of_parameters, size_text(need.value().a_program))
                  : need.message();
    for (int64_t smaller = batch / 2; smaller >= 1; smaller /= 2) {
        const Result<MemoryNeed> less = memory_need(composition, runtime, smaller, length, how);
        if (!less.ok() || !fits(less.value(), room)) continue;
        return Status(need.ok() ? Code::out_of_memory : need.code(),
                      fmt::format("{}. With train.per_device_train_batch_size = {} it takes {}; "
                                  "train.gradient_accumulation_steps {} times as large keeps what a step learns from",
                                  text, smaller, size_text(less.value().total()), batch / smaller));
    }
    if (!need.ok()) return need.status();
    return out_of_memory(text + ". Not even one example fits: make train.context_length or the model smaller" +
                         (composition.recompute() ? ""
                                                  : ", or set train.gradient_checkpointing = true: activations are "
                                                    "then computed again instead of kept"));
}

} // namespace hekla::train
