#include "api/arguments.hpp"

#include "api/boundary.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

namespace hekla::api {
namespace {

constexpr int64_t kLargest = std::numeric_limits<int32_t>::max(); // rows and tokens are counted in 32 bits on devices

// Checks members one after the other and keeps the first error.
class Members {
public:
    explicit Members(const char* type) : type_(type) {}

    Members& zero(const char* member, int64_t value) {
        if (open() && value != 0)
            fail(member, fmt::format("is {}, expected 0: zero the struct before you fill it", value));
        return *this;
    }
    Members& array(const char* member, const void* value, const char* count_name, uint64_t count) {
        if (open() && value == nullptr && count > 0)
            fail(member, fmt::format("is null, but {} is {}", count_name, count));
        return *this;
    }
    Members& text(const char* member, hk_string value) {
        if (open() && value.data == nullptr && value.size > 0)
            fail(member, fmt::format("has null data, but its size is {}", value.size));
        return *this;
    }
    Members& required(const char* member, hk_string value, const char* expected) {
        text(member, value);
        if (open() && value.size == 0) fail(member, fmt::format("is empty, expected {}", expected));
        return *this;
    }
    Members& texts(const char* member, const hk_string* values, const char* count_name, uint64_t count) {
        array(member, values, count_name, count);
        for (uint64_t i = 0; open() && i < count; ++i) text(fmt::format("{}[{}]", member, i).c_str(), values[i]);
        return *this;
    }
    Members& between(const char* member, int64_t value, int64_t least, int64_t most) {
        if (open() && (value < least || value > most))
            fail(member, most == std::numeric_limits<int64_t>::max()
                             ? fmt::format("is {}, expected {} or more", value, least)
                             : fmt::format("is {}, expected {} to {}", value, least, most));
        return *this;
    }
    Members& at_least(const char* member, int64_t value, int64_t least) {
        return between(member, value, least, std::numeric_limits<int64_t>::max());
    }
    Members& real_between(const char* member, double value, double least, double most) {
        if (open() && !(value >= least && value <= most))
            fail(member, fmt::format("is {}, expected {} to {}", value, least, most));
        return *this;
    }
    Members& expect(bool holds, const char* member, const std::string& problem) {
        if (open() && !holds) fail(member, problem);
        return *this;
    }
    // Checks another struct that this one points to or contains.
    template<class F>
    Members& then(F&& checked) {
        if (open()) status_ = checked();
        return *this;
    }
    Status status() { return std::move(status_); }

private:
    bool open() const { return status_.ok(); }
    void fail(const char* member, const std::string& problem) {
        status_ = invalid_argument(fmt::format("{}.{} {}", type_, member, problem));
    }
    const char* type_;
    Status status_;
};

// The members of an options struct that describe adapter slots.
template<class Options>
Status check_slots(const char* type, const Options& o) {
    constexpr int64_t kMostSlots = 65536; // and ranks, of the plugin lora
    return Members(type)
        .between("adapter_slots", o.adapter_slots, 0, kMostSlots)
        .between("adapter_rank", o.adapter_rank, 0, kMostSlots)
        .text("adapter_targets", o.adapter_targets)
        .expect(o.adapter_slots > 0 || (o.adapter_rank == 0 && o.adapter_targets.size == 0), "adapter_slots",
                "is 0, but adapter_rank or adapter_targets is set: set all of them or none")
        .status();
}

Status check_points(const char* name, const char* count_name, const hk_timeline* points, uint64_t count) {
    if (points == nullptr && count > 0)
        return invalid_argument(fmt::format("hk_advance.{} is null, but {} is {}", name, count_name, count));
    for (uint64_t i = 0; i < count; ++i)
        if (points[i].semaphore == 0)
            return invalid_argument(fmt::format("hk_advance.{}[{}].semaphore is 0, expected a VkSemaphore", name, i));
    return {};
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

Status check(const hk_cache* o) {
    HK_TRY(complete_input(o, "hk_cache"));
    return Members("hk_cache")
        .zero("reserved", o->reserved)
        .expect(o->load != nullptr, "load", "is null: load and store are both needed")
        .expect(o->store != nullptr, "store", "is null: load and store are both needed")
        .status();
}

Status check(const hk_allocator* o) {
    HK_TRY(complete_input(o, "hk_allocator"));
    return Members("hk_allocator")
        .zero("reserved", o->reserved)
        .expect(o->allocate != nullptr, "allocate", "is null: allocate and release are both needed")
        .expect(o->release != nullptr, "release", "is null: allocate and release are both needed")
        .status();
}

Status check(const hk_context_options* o) {
    HK_TRY(complete_input(o, "hk_context_options"));
    const bool wrapped = o->device_kind == HK_DEVICE_WRAPPED;
    return Members("hk_context_options")
        .between("validation", o->validation, 0, 2)
        .text("device", o->device)
        .texts("plugin_folders", o->plugin_folders, "plugin_folder_count", o->plugin_folder_count)
        .text("cache_folder", o->cache_folder)
        .between("measure_kernels", o->measure_kernels, 0, 2)
        .between("device_kind", o->device_kind, HK_DEVICE_OWN, HK_DEVICE_ON_DEMAND)
        .expect(!wrapped || o->vulkan != nullptr, "vulkan", "is null, but device_kind is HK_DEVICE_WRAPPED")
        .expect(wrapped || o->vulkan == nullptr, "vulkan",
                fmt::format("is set, but device_kind is {}: set it to HK_DEVICE_WRAPPED", o->device_kind))
        .then([&] { return o->vulkan != nullptr ? check(o->vulkan) : Status(); })
        .expect(
            !wrapped || o->validation == 0, "validation",
            fmt::format("is {}, expected 0: a device of the host is validated by the host's own layers", o->validation))
        .text("describe_program", o->describe_program)
        .real_between("describe_seconds", o->describe_seconds, 0.0, 1e6)
        .between("describe", o->describe, HK_DESCRIBE_AUTOMATIC, HK_DESCRIBE_IN_PROCESS)
        .zero("reserved", o->reserved)
        .zero("reserved2", o->reserved2)
        .then([&] { return o->cache != nullptr ? check(o->cache) : Status(); })
        .expect(o->cache == nullptr || o->cache_folder.size == 0, "cache_folder",
                "and cache are both set: leave one of them empty")
        .then([&] { return o->allocator != nullptr ? check(o->allocator) : Status(); })
        .status();
}

Status check(const hk_context_callbacks* o) {
    HK_TRY(complete_input(o, "hk_context_callbacks"));
    return Members("hk_context_callbacks")
        .zero("reserved", o->reserved)
        .then([&] { return o->cache != nullptr ? check(o->cache) : Status(); })
        .then([&] { return o->allocator != nullptr ? check(o->allocator) : Status(); })
        .status();
}

Status check(const hk_physical_device* o) {
    HK_TRY(complete_input(o, "hk_physical_device"));
    return Members("hk_physical_device")
        .expect(o->get_instance_proc_addr != nullptr, "get_instance_proc_addr", "is null, expected a function")
        .expect(o->instance != nullptr, "instance", "is null, expected a VkInstance")
        .expect(o->physical_device != nullptr, "physical_device", "is null, expected a VkPhysicalDevice")
        .status();
}

Status check(const hk_memory_range* o) {
    HK_TRY(complete_input(o, "hk_memory_range"));
    return Members("hk_memory_range")
        .expect(o->memory != 0, "memory", "is 0, so the range has no VkDeviceMemory")
        .expect(o->offset % 65536 == 0, "offset", fmt::format("is {}, expected a multiple of 65536", o->offset))
        .expect(o->bytes > 0, "bytes", "is 0, expected the size of the range")
        .status();
}

Status check(const hk_vulkan_device* o) {
    HK_TRY(complete_input(o, "hk_vulkan_device"));
    return Members("hk_vulkan_device")
        .expect(o->get_instance_proc_addr != nullptr, "get_instance_proc_addr", "is null, expected a function")
        .expect(o->instance != nullptr, "instance", "is null, expected a VkInstance")
        .expect(o->physical_device != nullptr, "physical_device", "is null, expected a VkPhysicalDevice")
        .expect(o->device != nullptr, "device", "is null, expected a VkDevice")
        .expect(o->queue != nullptr, "queue", "is null, expected a VkQueue")
        .zero("reserved", o->reserved)
        .expect(o->device_create_info != nullptr, "device_create_info", "is null, expected a VkDeviceCreateInfo")
        .expect((o->lock_queue == nullptr) == (o->unlock_queue == nullptr),
                o->lock_queue == nullptr ? "lock_queue" : "unlock_queue",
                "is null: lock_queue and unlock_queue come together, both or neither")
        .array("memory_ranges", o->memory_ranges, "memory_range_count", o->memory_range_count)
        .then([&]() -> Status {
            for (uint64_t i = 0; i < o->memory_range_count; ++i) {
                const Status range = check(&o->memory_ranges[i]);
                if (!range.ok()) return range.with_context(fmt::format("hk_vulkan_device.memory_ranges[{}]", i));
            }
            const auto mapped = [](const hk_memory_range& range) { return range.mapped != nullptr; };
            if (o->memory_range_count == 0 ||
                std::any_of(o->memory_ranges, o->memory_ranges + o->memory_range_count, mapped))
                return {};
            return invalid_argument("hk_vulkan_device.memory_ranges: none is mapped, expected one that is: the host "
                                    "writes and reads through it");
        })
        .status();
}

Status check(const hk_train_options* o) {
    HK_TRY(complete_input(o, "hk_train_options"));
    return Members("hk_train_options")
        .zero("reserved", o->reserved)
        .required("recipe", o->recipe, "the path of a TOML file")
        .texts("overrides", o->overrides, "override_count", o->override_count)
        .then([&] { return o->communicator != nullptr ? check(o->communicator) : Status(); })
        .status();
}

Status check(const hk_communicator* c) {
    HK_TRY(complete_input(c, "hk_communicator"));
    constexpr const char* kNull = "is null, expected a function";
    return Members("hk_communicator")
        .zero("reserved", c->reserved)
        .between("size", c->size, 1, 1 << 20)
        .between("rank", c->rank, 0, c->size - 1)
        .expect(c->begin != nullptr, "begin", kNull)
        .expect(c->test != nullptr, "test", kNull)
        .expect(c->fail != nullptr, "fail", kNull)
        .status();
}

Status check(const hk_evaluate_options* o) {
    HK_TRY(complete_input(o, "hk_evaluate_options"));
    return Members("hk_evaluate_options")
        .required("recipe", o->recipe, "the path of a TOML file")
        .texts("overrides", o->overrides, "override_count", o->override_count)
        .texts("adapters", o->adapters, "adapter_count", o->adapter_count)
        .status();
}

Status check(const hk_predict_options* o) {
    HK_TRY(complete_input(o, "hk_predict_options"));
    return Members("hk_predict_options")
        .required("model", o->model, "the folder of a model")
        .at_least("batch", o->batch, 0)
        .at_least("length", o->length, 0)
        .texts("texts", o->texts, "text_count", o->text_count)
        .texts("second_texts", o->second_texts, "text_count", o->second_texts != nullptr ? o->text_count : 0)
        .text("file", o->file)
        .text("format", o->format)
        .texts("columns", o->columns, "column_count", o->column_count)
        .texts("adapters", o->adapters, "adapter_count", o->adapter_count)
        .expect((o->text_count > 0) != (o->file.size > 0), "texts",
                o->text_count > 0 ? "and file are both set: leave one of them empty"
                                  : "and file are both empty: set one of them")
        .expect(o->row != nullptr, "row", "is null, expected a function that takes the results")
        .status();
}

Status check(const hk_generate_options* o) {
    HK_TRY(complete_input(o, "hk_generate_options"));
    constexpr double kMost = std::numeric_limits<double>::max();
    return Members("hk_generate_options")
        .required("model", o->model, "the folder or file of a model")
        .texts("prompts", o->prompts, "prompt_count", o->prompt_count)
        .between("max_new_tokens", o->max_new_tokens, 1, kLargest)
        .at_least("beams", o->beams, 0)
        .at_least("top_k", o->top_k, 0)
        .expect(o->temperature > 0.0 && o->temperature <= kMost, "temperature",
                fmt::format("is {}, expected above 0; set greedy for the most likely token", o->temperature))
        .expect(o->top_p > 0.0 && o->top_p <= 1.0, "top_p",
                fmt::format("is {}, expected above 0 and at most 1 (1: off)", o->top_p))
        .expect(o->repetition_penalty > 0.0 && o->repetition_penalty <= kMost, "repetition_penalty",
                fmt::format("is {}, expected above 0 (1: off)", o->repetition_penalty))
        .at_least("no_repeat_ngram_size", o->no_repeat_ngram_size, 0)
        .between("weights", o->weights, 0, 2)
        .texts("adapters", o->adapters, "adapter_count", o->adapter_count)
        .texts("prompt_adapters", o->prompt_adapters, "prompt_count",
               o->prompt_adapters != nullptr ? o->prompt_count : 0)
        .then([&] { return check_slots("hk_generate_options", *o); })
        .expect(o->prompt_adapters == nullptr || o->adapter_count > 0, "prompt_adapters",
                "is not null, but there are no adapters: set adapters, or set it to null")
        .expect(o->reference == 0 || o->weights == 0, "weights",
                fmt::format("is {}, expected 0: the float64 interpreter (reference) stores no weights in 16 bits",
                            o->weights))
        .text("chat_template", o->chat_template)
        .expect(o->chat_template.size == 0 || o->prompt_count > 0, "prompt_count",
                "is 0, expected 1 or more: with chat_template each prompt is a list of messages")
        .text("chat_date", o->chat_date)
        .status();
}

Status check(const hk_embed_options* o) {
    HK_TRY(complete_input(o, "hk_embed_options"));
    return Members("hk_embed_options")
        .required("model", o->model, "the folder or file of a model")
        .text("port", o->port)
        .between("pooling", o->pooling, HK_POOLING_NONE, HK_POOLING_MODEL)
        .zero("reserved", o->reserved)
        .zero("reserved2", o->reserved2)
        .text("prompt", o->prompt)
        .at_least("batch", o->batch, 0)
        .texts("texts", o->texts, "text_count", o->text_count)
        .texts("adapters", o->adapters, "adapter_count", o->adapter_count)
        .array("rows", o->rows, "row_count", o->row_count)
        .array("row_lengths", o->row_lengths, "row_count", o->row_count)
        .then([&]() -> Status {
            for (uint64_t i = 0; i < o->row_count; ++i) {
                if (o->row_lengths[i] == 0)
                    return invalid_argument(
                        fmt::format("hk_embed_options.row_lengths[{}] is 0, expected 1 or more", i));
                if (o->rows[i] == nullptr)
                    return invalid_argument(fmt::format("hk_embed_options.rows[{}] is null, but row_lengths[{}] is {}",
                                                        i, i, o->row_lengths[i]));
                HK_TRY(check_ids(o->rows[i], o->row_lengths[i], 0,
                                 [&](uint64_t t) { return fmt::format("hk_embed_options.rows[{}][{}]", i, t); }));
            }
            return {};
        })
        .text("fields_file", o->fields_file)
        .expect(o->fields_file.size == 0 || o->text_count + o->row_count == 0, "fields_file",
                "is set together with texts or rows: leave them empty")
        .expect(o->row != nullptr, "row", "is null, expected a function that takes the results")
        .status();
}

Status check(const hk_device_limits* o) {
    HK_TRY(complete_input(o, "hk_device_limits"));
    const uint32_t lanes = o->subgroup_size;
    return Members("hk_device_limits")
        .expect(lanes >= 4 && lanes <= 128 && (lanes & (lanes - 1)) == 0, "subgroup_size",
                fmt::format("is {}, expected a power of two from 4 to 128", lanes))
        .at_least("max_group_invocations", o->max_group_invocations, 128)
        .at_least("shared_memory", o->shared_memory, 16384)
        .at_least("cores", o->cores, 0)
        .expect(o->max_allocation >= uint64_t{1} << 20, "max_allocation",
                fmt::format("is {}, expected 1048576 bytes or more", o->max_allocation))
        .expect(o->flops > 0.0 && o->flops < 1e30, "flops",
                fmt::format("is {}, expected float32 operations per second, above 0", o->flops))
        .expect(o->bandwidth > 0.0 && o->bandwidth < 1e30, "bandwidth",
                fmt::format("is {}, expected bytes per second, above 0", o->bandwidth))
        .status();
}

Status check(const hk_plan_options* o) {
    HK_TRY(complete_input(o, "hk_plan_options"));
    const bool trains = o->mode == HK_PLAN_TRAIN, generates = o->mode == HK_PLAN_GENERATE;
    Members members("hk_plan_options");
    members.between("mode", o->mode, HK_PLAN_TRAIN, HK_PLAN_FORWARD)
        .expect(o->report != nullptr, "report", "is null, expected a function that takes the results")
        .texts("overrides", o->overrides, "override_count", o->override_count)
        .texts("ports", o->ports, "port_count", o->port_count)
        .text("recipe", o->recipe)
        .text("model", o->model)
        .texts("adapters", o->adapters, "adapter_count", o->adapter_count)
        .then([&] { return check_slots("hk_plan_options", *o); })
        .expect(generates || (o->adapter_count == 0 && o->adapter_slots == 0),
                o->adapter_slots == 0 ? "adapters" : "adapter_slots",
                "is set, expected none: only HK_PLAN_GENERATE has them here")
        .expect(o->adapters_by_row == 0 || o->adapter_count > 0, "adapters_by_row",
                "is not 0, but there are no adapters: set adapters, or set it to 0");
    if (trains)
        members.required("recipe", o->recipe, "the path of a TOML file");
    else
        members.required("model", o->model, "the folder or file of a model")
            .between("rows", o->rows, 0, kLargest)
            .between("length", o->length, 1, kLargest)
            .expect(o->measure == 0, "measure",
                    fmt::format("is {}, expected 0: only HK_PLAN_TRAIN measures", o->measure));
    return members.between("weights", o->weights, 0, generates ? 2 : 0)
        .between("ranks", o->ranks, 0, trains ? 1 << 16 : 0)
        .between("nodes", o->nodes, 0, std::max(o->ranks, 0))
        .real_between("link_bytes_per_second", o->link_bytes_per_second, 0.0, 1e15)
        .real_between("link_latency", o->link_latency, 0.0, 1e3)
        .then([&] { return o->limits != nullptr ? check(o->limits) : Status(); })
        .expect(o->measure == 0 || o->limits == nullptr, "measure",
                fmt::format("is {}, but limits is set: a device that is only described cannot be measured", o->measure))
        .status();
}

Status check(const hk_session_options* o) {
    HK_TRY(complete_input(o, "hk_session_options"));
    return Members("hk_session_options")
        .zero("reserved", o->reserved)
        .real_between("microseconds", o->microseconds, 0.0, 1e9)
        .between("length", o->length, 0, kLargest)
        .status();
}

Status check(const hk_buffer* o) {
    HK_TRY(complete_input(o, "hk_buffer"));
    return Members("hk_buffer")
        .expect(o->buffer != 0, "buffer", "is 0, expected a VkBuffer")
        .zero("reserved", o->reserved)
        .status();
}

Status check(const hk_forward_options* o) {
    HK_TRY(complete_input(o, "hk_forward_options"));
    return Members("hk_forward_options")
        .required("model", o->model, "the folder or file of a model")
        .between("rows", o->rows, 1, kLargest)
        .between("length", o->length, 1, kLargest)
        .texts("ports", o->ports, "port_count", o->port_count)
        .array("bindings", o->bindings, "binding_count", o->binding_count)
        .then([&]() -> Status {
            for (uint64_t i = 0; i < o->binding_count; ++i) {
                const std::string place = fmt::format("hk_forward_options.bindings[{}]", i);
                HK_TRY(Members(place.c_str())
                           .required("name", o->bindings[i].name, "the name of a field or port")
                           .status());
                const Status buffer = check(&o->bindings[i].buffer);
                if (!buffer.ok()) return buffer.with_context(place + ".buffer");
            }
            return {};
        })
        .zero("reserved", o->reserved)
        .between("decoder_length", o->decoder_length, 0, kLargest)
        .status();
}

Status check(const hk_session_callbacks* o) {
    HK_TRY(complete_input(o, "hk_session_callbacks"));
    return Members("hk_session_callbacks").zero("reserved", o->reserved).status();
}

Status check(const hk_advance* o) {
    HK_TRY(complete_input(o, "hk_advance"));
    const bool recorded = o->command_buffer != nullptr;
    return Members("hk_advance")
        .zero("reserved", o->reserved)
        .real_between("microseconds", o->microseconds, 0.0, 1e12)
        .then([&] { return check_points("waits", "wait_count", o->waits, o->wait_count); })
        .then([&] { return check_points("signals", "signal_count", o->signals, o->signal_count); })
        .expect(!recorded || o->wait_count == 0, "wait_count",
                fmt::format("is {}, expected 0 with a command_buffer: the host's submit waits", o->wait_count))
        .expect(!recorded || o->signal_count == 0, "signal_count",
                fmt::format("is {}, expected 0 with a command_buffer: the host's submit signals", o->signal_count))
        .expect(!recorded || o->lease.semaphore != 0, "lease.semaphore",
                "is 0, expected a VkSemaphore with a command_buffer")
        .status();
}

} // namespace hekla::api
