// What engine/api/host_api.json cannot express: checks of several members at once, and of arguments without a struct.
#include "api/arguments.hpp"

#include "api/members.hpp"

#include <algorithm>
#include <string>

namespace hekla::api {
namespace {

constexpr int64_t kLargest = std::numeric_limits<int32_t>::max(); // rows and tokens are counted in 32 bits on devices

// The members of an options struct that describe adapter slots.
template<class Options>
Status check_slots(const char* type, const Options& o) {
    return Members(type)
        .expect(o.adapter_slots > 0 || (o.adapter_rank == 0 && o.adapter_targets.size == 0), "adapter_slots",
                "is 0, but adapter_rank or adapter_targets is set: set all of them or none")
        .status();
}

} // namespace

Status check_text(const char* name, hk_string text) {
    if (text.data != nullptr || text.size == 0) return {};
    return invalid_argument(fmt::format("{} has null data, but its size is {}", name, text.size));
}

Status check_texts(const char* name, const hk_string* texts, const char* count_name, uint64_t count) {
    if (texts == nullptr && count > 0)
        return invalid_argument(fmt::format("{} is null, but {} is {}", name, count_name, count));
    for (uint64_t i = 0; i < count; ++i) HK_TRY(check_text(fmt::format("{}[{}]", name, i).c_str(), texts[i]));
    return {};
}

Status check_relations(const hk_context_options& o) {
    const bool wrapped = o.device_kind == HK_DEVICE_WRAPPED;
    return Members("hk_context_options")
        .expect(!wrapped || o.vulkan != nullptr, "vulkan", "is null, but device_kind is HK_DEVICE_WRAPPED")
        .expect(wrapped || o.vulkan == nullptr, "vulkan",
                fmt::format("is set, but device_kind is {}: set it to HK_DEVICE_WRAPPED", o.device_kind))
        .expect(
            !wrapped || o.validation == 0, "validation",
            fmt::format("is {}, expected 0: a device of the host is validated by the host's own layers", o.validation))
        .expect(o.cache == nullptr || o.cache_folder.size == 0, "cache_folder",
                "and cache are both set: leave one of them empty")
        .status();
}

Status check_relations(const hk_memory_range& o) {
    return Members("hk_memory_range")
        .expect(o.offset % 65536 == 0, "offset", fmt::format("is {}, expected a multiple of 65536", o.offset))
        .status();
}

Status check_relations(const hk_vulkan_device& o) {
    HK_TRY(Members("hk_vulkan_device")
               .expect((o.lock_queue == nullptr) == (o.unlock_queue == nullptr),
                       o.lock_queue == nullptr ? "lock_queue" : "unlock_queue",
                       "is null: lock_queue and unlock_queue come together, both or neither")
               .status());
    const auto mapped = [](const hk_memory_range& range) { return range.mapped != nullptr; };
    if (o.memory_range_count == 0 || std::any_of(o.memory_ranges, o.memory_ranges + o.memory_range_count, mapped))
        return {};
    return invalid_argument("hk_vulkan_device.memory_ranges: none is mapped, expected one that is: the host writes and "
                            "reads through it");
}

Status check_relations(const hk_communicator& o) {
    return Members("hk_communicator").between("rank", o.rank, 0, o.size - 1).status();
}

Status check_relations(const hk_predict_options& o) {
    return Members("hk_predict_options")
        .expect((o.text_count > 0) != (o.file.size > 0), "texts",
                o.text_count > 0 ? "and file are both set: leave one of them empty"
                                 : "and file are both empty: set one of them")
        .status();
}

Status check_relations(const hk_generate_options& o) {
    HK_TRY(check_slots("hk_generate_options", o));
    for (uint64_t i = 0; i < o.stop_text_count; ++i)
        if (o.stop_texts[i].size == 0)
            return invalid_argument(
                fmt::format("hk_generate_options.stop_texts[{}] is empty, expected a text that ends a row's text", i));
    return Members("hk_generate_options")
        .expect(o.prompt_adapters == nullptr || o.adapter_count > 0, "prompt_adapters",
                "is not null, but there are no adapters: set adapters, or set it to null")
        .expect(o.reference == 0 || o.weights == 0, "weights",
                fmt::format("is {}, expected 0: the float64 interpreter (reference) stores no weights in 16 bits",
                            o.weights))
        .expect(o.token == nullptr || o.beams <= 1, "token",
                fmt::format("is set, but beams is {}: beams are chosen as whole texts; leave one of them out", o.beams))
        .expect(
            o.stop_text_count == 0 || o.beams <= 1, "stop_texts",
            fmt::format("is set, but beams is {}: beams are compared as whole texts; leave one of them out", o.beams))
        .expect(o.chat_template.size == 0 || o.prompt_count > 0, "prompt_count",
                "is 0, expected 1 or more: with chat_template each prompt is a list of messages")
        .status();
}

Status check_relations(const hk_embed_options& o) {
    for (uint64_t i = 0; i < o.row_count; ++i) {
        if (o.row_lengths[i] == 0)
            return invalid_argument(fmt::format("hk_embed_options.row_lengths[{}] is 0, expected 1 or more", i));
        if (o.rows[i] == nullptr)
            return invalid_argument(
                fmt::format("hk_embed_options.rows[{}] is null, but row_lengths[{}] is {}", i, i, o.row_lengths[i]));
        HK_TRY(check_ids(o.rows[i], o.row_lengths[i], 0,
                         [&](uint64_t t) { return fmt::format("hk_embed_options.rows[{}][{}]", i, t); }));
    }
    return Members("hk_embed_options")
        .expect(o.fields_file.size == 0 || o.text_count + o.row_count == 0, "fields_file",
                "is set together with texts or rows: leave them empty")
        .status();
}

Status check_relations(const hk_device_limits& o) {
    const uint32_t lanes = o.subgroup_size;
    return Members("hk_device_limits")
        .expect(lanes >= 4 && lanes <= 128 && (lanes & (lanes - 1)) == 0, "subgroup_size",
                fmt::format("is {}, expected a power of two from 4 to 128", lanes))
        .expect(o.max_allocation >= uint64_t{1} << 20, "max_allocation",
                fmt::format("is {}, expected 1048576 bytes or more", o.max_allocation))
        .status();
}

Status check_relations(const hk_plan_options& o) {
    HK_TRY(check_slots("hk_plan_options", o));
    const bool trains = o.mode == HK_PLAN_TRAIN, generates = o.mode == HK_PLAN_GENERATE;
    Members members("hk_plan_options");
    members
        .expect(generates || (o.adapter_count == 0 && o.adapter_slots == 0),
                o.adapter_slots == 0 ? "adapters" : "adapter_slots",
                "is set, expected none: only HK_PLAN_GENERATE has them here")
        .expect(o.adapters_by_row == 0 || o.adapter_count > 0, "adapters_by_row",
                "is not 0, but there are no adapters: set adapters, or set it to 0");
    if (trains)
        members.required("recipe", o.recipe, "the path of a TOML file");
    else
        members.required("model", o.model, "the folder or file of a model")
            .between("rows", o.rows, 0, kLargest)
            .between("length", o.length, 1, kLargest)
            .expect(o.measure == 0, "measure",
                    fmt::format("is {}, expected 0: only HK_PLAN_TRAIN measures", o.measure));
    return members.between("weights", o.weights, 0, generates ? 2 : 0)
        .between("ranks", o.ranks, 0, trains ? 1 << 16 : 0)
        .between("nodes", o.nodes, 0, std::max(o.ranks, 0))
        .expect(o.measure == 0 || o.limits == nullptr, "measure",
                fmt::format("is {}, but limits is set: a device that is only described cannot be measured", o.measure))
        .status();
}

Status check_relations(const hk_advance& o) {
    const bool recorded = o.command_buffer != nullptr;
    return Members("hk_advance")
        .expect(!recorded || o.wait_count == 0, "wait_count",
                fmt::format("is {}, expected 0 with a command_buffer: the host's submit waits", o.wait_count))
        .expect(!recorded || o.signal_count == 0, "signal_count",
                fmt::format("is {}, expected 0 with a command_buffer: the host's submit signals", o.signal_count))
        .expect(!recorded || o.lease.semaphore != 0, "lease.semaphore",
                "is 0, expected a VkSemaphore with a command_buffer")
        .status();
}

} // namespace hekla::api
