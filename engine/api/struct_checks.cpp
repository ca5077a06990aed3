// Made by tools/generate_abi from engine/api/host_api.json. Edit that instead.
#include "api/members.hpp"

// clang-format off
namespace hekla::api {

Status check(const hk_communicator* given) {
    HK_TRY(complete_input(given, "hk_communicator"));
    const hk_communicator& o = *given;
    HK_TRY(Members("hk_communicator")
        .between("size", o.size, 1, 1048576)
        .zero("reserved", o.reserved)
        .expect(o.begin != nullptr, "begin", "is null, expected a function")
        .expect(o.test != nullptr, "test", "is null, expected a function")
        .expect(o.fail != nullptr, "fail", "is null, expected a function")
        .status());
    return check_relations(o);
}

Status check(const hk_physical_device* given) {
    HK_TRY(complete_input(given, "hk_physical_device"));
    const hk_physical_device& o = *given;
    return Members("hk_physical_device")
        .expect(o.get_instance_proc_addr != nullptr, "get_instance_proc_addr", "is null, expected a function")
        .expect(o.instance != nullptr, "instance", "is null, expected a VkInstance")
        .expect(o.physical_device != nullptr, "physical_device", "is null, expected a VkPhysicalDevice")
        .status();
}

Status check(const hk_memory_range* given) {
    HK_TRY(complete_input(given, "hk_memory_range"));
    const hk_memory_range& o = *given;
    HK_TRY(Members("hk_memory_range")
        .expect(o.memory != 0, "memory", "is 0, so the range has no VkDeviceMemory")
        .expect(o.bytes != 0, "bytes", "is 0, expected the size of the range")
        .status());
    return check_relations(o);
}

Status check(const hk_vulkan_device* given) {
    HK_TRY(complete_input(given, "hk_vulkan_device"));
    const hk_vulkan_device& o = *given;
    HK_TRY(Members("hk_vulkan_device")
        .expect(o.get_instance_proc_addr != nullptr, "get_instance_proc_addr", "is null, expected a function")
        .expect(o.instance != nullptr, "instance", "is null, expected a VkInstance")
        .expect(o.physical_device != nullptr, "physical_device", "is null, expected a VkPhysicalDevice")
        .expect(o.device != nullptr, "device", "is null, expected a VkDevice")
        .expect(o.queue != nullptr, "queue", "is null, expected a VkQueue")
        .zero("reserved", o.reserved)
        .expect(o.device_create_info != nullptr, "device_create_info", "is null, expected a VkDeviceCreateInfo")
        .structs("memory_ranges", o.memory_ranges, "memory_range_count", o.memory_range_count)
        .status());
    return check_relations(o);
}

Status check(const hk_cache* given) {
    HK_TRY(complete_input(given, "hk_cache"));
    const hk_cache& o = *given;
    return Members("hk_cache")
        .zero("reserved", o.reserved)
        .expect(o.load != nullptr, "load", "is null: load and store are both needed")
        .expect(o.store != nullptr, "store", "is null: load and store are both needed")
        .status();
}

Status check(const hk_allocator* given) {
    HK_TRY(complete_input(given, "hk_allocator"));
    const hk_allocator& o = *given;
    return Members("hk_allocator")
        .zero("reserved", o.reserved)
        .expect(o.allocate != nullptr, "allocate", "is null: allocate and release are both needed")
        .expect(o.release != nullptr, "release", "is null: allocate and release are both needed")
        .status();
}

Status check(const hk_context_options* given) {
    HK_TRY(complete_input(given, "hk_context_options"));
    const hk_context_options& o = *given;
    HK_TRY(Members("hk_context_options")
        .between("validation", o.validation, 0, 2)
        .text("device", o.device)
        .texts("plugin_folders", o.plugin_folders, "plugin_folder_count", o.plugin_folder_count)
        .text("cache_folder", o.cache_folder)
        .between("measure_kernels", o.measure_kernels, 0, 2)
        .between("device_kind", o.device_kind, HK_DEVICE_OWN, HK_DEVICE_ON_DEMAND)
        .optional(o.vulkan)
        .text("describe_program", o.describe_program)
        .real_between("describe_seconds", o.describe_seconds, 0.0, 1000000.0)
        .between("describe", o.describe, HK_DESCRIBE_AUTOMATIC, HK_DESCRIBE_IN_PROCESS)
        .zero("reserved", o.reserved)
        .optional(o.cache)
        .optional(o.allocator)
        .zero("reserved2", o.reserved2)
        .status());
    return check_relations(o);
}

Status check(const hk_context_callbacks* given) {
    HK_TRY(complete_input(given, "hk_context_callbacks"));
    const hk_context_callbacks& o = *given;
    return Members("hk_context_callbacks")
        .zero("reserved", o.reserved)
        .optional(o.cache)
        .optional(o.allocator)
        .status();
}

Status check(const hk_train_options* given) {
    HK_TRY(complete_input(given, "hk_train_options"));
    const hk_train_options& o = *given;
    return Members("hk_train_options")
        .zero("reserved", o.reserved)
        .required("recipe", o.recipe, "the path of a TOML file")
        .texts("overrides", o.overrides, "override_count", o.override_count)
        .optional(o.communicator)
        .status();
}

Status check(const hk_evaluate_options* given) {
    HK_TRY(complete_input(given, "hk_evaluate_options"));
    const hk_evaluate_options& o = *given;
    return Members("hk_evaluate_options")
        .required("recipe", o.recipe, "the path of a TOML file")
        .texts("overrides", o.overrides, "override_count", o.override_count)
        .texts("adapters", o.adapters, "adapter_count", o.adapter_count)
        .status();
}

Status check(const hk_predict_options* given) {
    HK_TRY(complete_input(given, "hk_predict_options"));
    const hk_predict_options& o = *given;
    HK_TRY(Members("hk_predict_options")
        .required("model", o.model, "the folder of a model")
        .at_least("batch", o.batch, 0)
        .at_least("length", o.length, 0)
        .texts("texts", o.texts, "text_count", o.text_count)
        .texts("second_texts", o.second_texts, "text_count", o.second_texts != nullptr ? o.text_count : 0)
        .text("file", o.file)
        .text("format", o.format)
        .texts("columns", o.columns, "column_count", o.column_count)
        .expect(o.row != nullptr, "row", "is null, expected a function that takes the results")
        .texts("adapters", o.adapters, "adapter_count", o.adapter_count)
        .status());
    return check_relations(o);
}

Status check(const hk_generate_options* given) {
    HK_TRY(complete_input(given, "hk_generate_options"));
    const hk_generate_options& o = *given;
    HK_TRY(Members("hk_generate_options")
        .required("model", o.model, "the folder or file of a model")
        .texts("prompts", o.prompts, "prompt_count", o.prompt_count)
        .between("max_new_tokens", o.max_new_tokens, 1, 2147483647)
        .at_least("beams", o.beams, 0)
        .at_least("top_k", o.top_k, 0)
        .above("temperature", o.temperature, 0.0, std::numeric_limits<double>::max(), "is {}, expected above 0; set greedy for the most likely token")
        .above("top_p", o.top_p, 0.0, 1.0, "is {}, expected above 0 and at most 1 (1: off)")
        .above("repetition_penalty", o.repetition_penalty, 0.0, std::numeric_limits<double>::max(), "is {}, expected above 0 (1: off)")
        .at_least("no_repeat_ngram_size", o.no_repeat_ngram_size, 0)
        .between("weights", o.weights, 0, 2)
        .texts("adapters", o.adapters, "adapter_count", o.adapter_count)
        .texts("prompt_adapters", o.prompt_adapters, "prompt_count", o.prompt_adapters != nullptr ? o.prompt_count : 0)
        .between("adapter_slots", o.adapter_slots, 0, 65536)
        .between("adapter_rank", o.adapter_rank, 0, 65536)
        .text("adapter_targets", o.adapter_targets)
        .text("chat_template", o.chat_template)
        .text("chat_date", o.chat_date)
        .real_between("min_p", o.min_p, 0.0, 1.0)
        .texts("stop_texts", o.stop_texts, "stop_text_count", o.stop_text_count)
        .texts("logit_biases", o.logit_biases, "logit_bias_count", o.logit_bias_count)
        .between("likeliest_tokens", o.likeliest_tokens, 0, 1000)
        .between("published", o.published, 0, 63)
        .status());
    return check_relations(o);
}

Status check(const hk_embed_options* given) {
    HK_TRY(complete_input(given, "hk_embed_options"));
    const hk_embed_options& o = *given;
    HK_TRY(Members("hk_embed_options")
        .required("model", o.model, "the folder or file of a model")
        .text("port", o.port)
        .between("pooling", o.pooling, HK_POOLING_NONE, HK_POOLING_MODEL)
        .zero("reserved", o.reserved)
        .at_least("batch", o.batch, 0)
        .texts("texts", o.texts, "text_count", o.text_count)
        .array("rows", o.rows, "row_count", o.row_count)
        .array("row_lengths", o.row_lengths, "row_count", o.row_count)
        .text("fields_file", o.fields_file)
        .expect(o.row != nullptr, "row", "is null, expected a function that takes the results")
        .texts("adapters", o.adapters, "adapter_count", o.adapter_count)
        .text("prompt", o.prompt)
        .zero("reserved2", o.reserved2)
        .status());
    return check_relations(o);
}

Status check_element(const std::string& place, const hk_timeline& o) {
    return Members(place)
        .expect(o.semaphore != 0, "semaphore", "is 0, expected a VkSemaphore")
        .status();
}

Status check(const hk_session_options* given) {
    HK_TRY(complete_input(given, "hk_session_options"));
    const hk_session_options& o = *given;
    return Members("hk_session_options")
        .zero("reserved", o.reserved)
        .real_between("microseconds", o.microseconds, 0.0, 1000000000.0)
        .between("length", o.length, 0, 2147483647)
        .status();
}

Status check(const hk_buffer* given) {
    HK_TRY(complete_input(given, "hk_buffer"));
    const hk_buffer& o = *given;
    return Members("hk_buffer")
        .expect(o.buffer != 0, "buffer", "is 0, expected a VkBuffer")
        .zero("reserved", o.reserved)
        .status();
}

Status check_element(const std::string& place, const hk_binding& o) {
    return Members(place)
        .required("name", o.name, "the name of a field or port")
        .embedded("buffer", o.buffer)
        .status();
}

Status check(const hk_forward_options* given) {
    HK_TRY(complete_input(given, "hk_forward_options"));
    const hk_forward_options& o = *given;
    return Members("hk_forward_options")
        .required("model", o.model, "the folder or file of a model")
        .between("rows", o.rows, 1, 2147483647)
        .between("length", o.length, 1, 2147483647)
        .texts("ports", o.ports, "port_count", o.port_count)
        .structs("bindings", o.bindings, "binding_count", o.binding_count)
        .zero("reserved", o.reserved)
        .between("decoder_length", o.decoder_length, 0, 2147483647)
        .status();
}

Status check(const hk_advance* given) {
    HK_TRY(complete_input(given, "hk_advance"));
    const hk_advance& o = *given;
    HK_TRY(Members("hk_advance")
        .zero("reserved", o.reserved)
        .real_between("microseconds", o.microseconds, 0.0, 1000000000000.0)
        .structs("waits", o.waits, "wait_count", o.wait_count)
        .structs("signals", o.signals, "signal_count", o.signal_count)
        .status());
    return check_relations(o);
}

Status check(const hk_session_callbacks* given) {
    HK_TRY(complete_input(given, "hk_session_callbacks"));
    const hk_session_callbacks& o = *given;
    return Members("hk_session_callbacks")
        .zero("reserved", o.reserved)
        .status();
}

Status check(const hk_device_limits* given) {
    HK_TRY(complete_input(given, "hk_device_limits"));
    const hk_device_limits& o = *given;
    HK_TRY(Members("hk_device_limits")
        .at_least("max_group_invocations", o.max_group_invocations, 128)
        .at_least("shared_memory", o.shared_memory, 16384)
        .at_least("cores", o.cores, 0)
        .above("flops", o.flops, 0.0, 1e+30, "is {}, expected float32 operations per second, above 0")
        .above("bandwidth", o.bandwidth, 0.0, 1e+30, "is {}, expected bytes per second, above 0")
        .status());
    return check_relations(o);
}

Status check(const hk_plan_options* given) {
    HK_TRY(complete_input(given, "hk_plan_options"));
    const hk_plan_options& o = *given;
    HK_TRY(Members("hk_plan_options")
        .between("mode", o.mode, HK_PLAN_TRAIN, HK_PLAN_FORWARD)
        .text("recipe", o.recipe)
        .texts("overrides", o.overrides, "override_count", o.override_count)
        .text("model", o.model)
        .texts("ports", o.ports, "port_count", o.port_count)
        .optional(o.limits)
        .expect(o.report != nullptr, "report", "is null, expected a function that takes the results")
        .texts("adapters", o.adapters, "adapter_count", o.adapter_count)
        .between("adapter_slots", o.adapter_slots, 0, 65536)
        .between("adapter_rank", o.adapter_rank, 0, 65536)
        .text("adapter_targets", o.adapter_targets)
        .real_between("link_bytes_per_second", o.link_bytes_per_second, 0.0, 1e+15)
        .real_between("link_latency", o.link_latency, 0.0, 1000.0)
        .status());
    return check_relations(o);
}

} // namespace hekla::api
