// A correct plugin, unless HEKLA_FAULT names a fault: `hekla plugin check` must find, name and survive it (faults.sh).
// Written against the C headers alone, so that the SDK cannot change the effect of a fault.
#include "hekla/plugin/architecture.h"
#include "hekla/plugin/head.h"
#include "hekla/plugin/objective.h"
#include "hekla/plugin/operations.h"

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

bool fault(std::string_view name) {
    const char* given = std::getenv("HEKLA_FAULT");
    return given != nullptr && name == given;
}

const hk_host* host_ = nullptr;
const hk_error_interface* errors = nullptr;
const hk_config_interface* config_ = nullptr;
const hk_graph_interface* graph = nullptr;
const hk_tokenizer_interface* tokenizer_ = nullptr;

hk_string text(std::string_view s) { return {s.data(), s.size()}; }
std::string_view view(hk_string s) { return {s.data, static_cast<std::size_t>(s.size)}; }

int32_t refuse(hk_error* error, const char* why) {
    if (errors != nullptr) errors->set(error, HK_INVALID_ARGUMENT, hk_text(why));
    return HK_INVALID_ARGUMENT;
}

// An allocation failure is an error; every other exception here is a fault, and propagates.
template<auto function>
struct RefusedMemory;
template<class... A, int32_t (*function)(A...)>
struct RefusedMemory<function> {
    static int32_t HK_ABI call(A... arguments) {
        try {
            return function(arguments...);
        } catch (const std::bad_alloc&) {
            if (fault("throws_without_memory")) throw;
            if (fault("forgets_memory")) return HK_OK;
            hk_error* const error = (arguments, ...); // the last one
            errors->set(error, fault("names_memory_wrongly") ? HK_IO : HK_OUT_OF_MEMORY, hk_text("out of memory"));
            return fault("names_memory_wrongly") ? HK_IO : HK_OUT_OF_MEMORY;
        }
    }
};

[[noreturn]] void hang() {
    for (;;) std::this_thread::sleep_for(std::chrono::milliseconds(50));
}
void crash() { std::raise(SIGSEGV); }

// The architecture: embeddings, a causal mean, a small network, a residual.
struct Body {
    int64_t vocabulary = 0, width = 0, depth = 1;
    int64_t builds = 0;
};
int64_t bodies_there = 0; // global state, which plugins must not have
hk_value kept_value = 0;

int32_t body_create(const hk_config* c, void** self, hk_error* error) {
    if (fault("throw_in_create")) throw std::runtime_error("thrown by create");
    auto* body = new Body();
    int32_t code = config_->get_integer(c, hk_text("vocab_size"), &body->vocabulary, error);
    if (code == HK_OK) code = config_->get_integer(c, hk_text("width"), &body->width, error);
    if (code == HK_OK) code = config_->get_integer(c, hk_text("depth"), &body->depth, error);
    if (code == HK_OK && fault("divides_by_depth")) body->width /= body->depth;
    if (code == HK_OK && fault("silent_refusal") && body->depth == 3)
        code = HK_INVALID_ARGUMENT;
    else if (code == HK_OK && (body->vocabulary < 1 || body->width < 1 || body->width > 4096 ||
                               (!fault("any_depth") && (body->depth < 1 || body->depth > 64))))
        code = refuse(error, "vocab_size, width and depth: 1 or more, at most 4096 and 64");
    if (code != HK_OK) {
        delete body;
        return code;
    }
    ++bodies_there;
    *self = body;
    return HK_OK;
}
void body_destroy(void* self) {
    --bodies_there;
    if (fault("leaks_instances")) return;
    delete static_cast<Body*>(self);
    if (fault("frees_twice")) std::free(self);
}

hk_value tensor(hk_builder* b, const std::string& name, std::vector<int64_t> dims) {
    return graph->parameter(b, text(name), dims.data(), static_cast<uint32_t>(dims.size()), HK_INITIALIZE_NORMAL, 0.0,
                            0.2, 0);
}

int32_t body_build(void* self, hk_builder* b, hk_error* error) {
    auto& body = *static_cast<Body*>(self);
    ++body.builds;
    if (fault("throw_in_build")) throw std::runtime_error("thrown by build");
    if (fault("abort_in_build")) std::abort();
    if (fault("exit_in_build")) std::_Exit(0);
    if (fault("hang_in_build")) hang();
    if (fault("eats_memory"))
        for (;;) std::memset(std::malloc(1 << 24), 1, 1 << 24);
    if (fault("garbles_the_pipe") && write(3, "what no message begins with", 27) < 0) crash(); // the host's socket
    if (fault("leaks_in_build")) std::memset(std::malloc(1000), 1, 1000);
    if (fault("needs_fields") && graph->has_field(b, hk_text("input_ids")) == 0) crash();
    const hk_value ids = graph->input(b, hk_text("input_ids"));
    int64_t dims[HK_MAX_RANK] = {1, 1};
    uint32_t rank = 0;
    if (graph->shape(b, ids, dims, &rank) < 0) return graph->status(b, error);
    if (rank != 2) return refuse(error, "input_ids: [batch, length] was expected");
    const int64_t batch = dims[0], length = dims[1];
    if (fault("short_rows") && length < 3) crash();
    if (fault("retries")) // loops until the host has memory, which never happens
        while (graph->status(b, nullptr) != HK_OK || graph->positions(b, batch, length) == 0) {}
    graph->scope_begin(b, hk_text("body"));
    hk_value x = hk_embedding(graph, b, tensor(b, "embedding.weight", {body.vocabulary, body.width}), ids, nullptr);
    if (fault("foreign_value")) {
        if (kept_value != 0) x = hk_add(graph, b, x, kept_value);
        kept_value = x;
    }
    if (fault("attends") || fault("ignores_positions")) {
        const hk_value first = graph->iota(b, length, 0, 1); // the same in every chunk
        x = hk_add(graph, b, x,
                   hk_embedding(graph, b, tensor(b, "places.weight", {64, body.width}),
                                fault("attends") ? graph->positions(b, batch, length) : first, nullptr));
    }
    for (int64_t layer = 0; layer < body.depth; ++layer) {
        const std::string name = "layers." + std::to_string(layer);
        hk_value seen;
        if (fault("attends") || fault("ignores_positions") || fault("keeps_no_cache")) {
            const int64_t by_heads[] = {batch, 1, length, body.width}, by_tokens[] = {batch, length, body.width};
            const hk_value heads = hk_reshape(graph, b, x, by_heads, 4);
            hk_attention_options options = hk_attention_defaults();
            options.causal = 1;
            if (!fault("keeps_no_cache")) options.cache = text(name);
            seen = hk_reshape(graph, b, hk_attention(graph, b, heads, heads, heads, &options), by_tokens, 3);
        } else if (fault("carries") || fault("carries_nothing") || fault("carries_the_last") ||
                   fault("carries_unread")) {
            const int64_t shape[] = {batch, 1, body.width};
            const hk_value start = graph->fill(b, HK_KIND_FLOAT32, shape, 3, 0.0);
            const hk_value before = fault("carries_unread") ? start : hk_state_read(graph, b, start, text(name));
            const hk_value sums = hk_add(graph, b, hk_cumsum(graph, b, x, 1, nullptr), before);
            const hk_value kept = fault("carries_the_last") ? x : sums;
            seen = fault("carries_nothing")
                       ? sums
                       : hk_add(graph, b, sums,
                                hk_mul(graph, b,
                                       hk_state_write(graph, b, hk_slice(graph, b, kept, 1, length - 1, 1, nullptr),
                                                      text(name)),
                                       graph->fill(b, HK_KIND_FLOAT32, nullptr, 0, 0.0)));
        } else if (fault("sees_the_future")) {
            const int64_t axis = 1;
            hk_mean_options keep = hk_mean_defaults();
            keep.keep = 1;
            seen = hk_mean(graph, b, x, &axis, 1, &keep);
        } else {
            std::vector<double> counts;
            for (int64_t t = 0; t < length; ++t) counts.push_back(1.0 / static_cast<double>(t + 1));
            if (fault("draws_constants"))
                counts[0] += std::fmod(
                    std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(), 1.0);
            const int64_t shape[] = {length, 1};
            const hk_value share = graph->constant(b, HK_KIND_FLOAT32, shape, 2, counts.data());
            seen = hk_mul(graph, b, hk_cumsum(graph, b, x, 1, nullptr), share);
        }
        if (fault("mixes_rows")) {
            const int64_t axis = 0;
            hk_mean_options keep = hk_mean_defaults();
            keep.keep = 1;
            seen = hk_add(graph, b, seen, hk_mean(graph, b, x, &axis, 1, &keep));
        }
        const hk_value added = (fault("computes_otherwise") ? hk_abs : hk_relu)(
            graph, b, hk_linear(graph, b, seen, tensor(b, name + ".weight", {body.width, body.width}), nullptr));
        x = hk_add(graph, b, x, added);
    }
    if (fault("has_more_weights")) x = hk_add(graph, b, x, tensor(b, "more.weight", {body.width}));
    if (fault("counts_builds") && body.builds % 2 == 0) x = hk_relu(graph, b, x);
    if (fault("counts_instances") && bodies_there > 6) x = hk_relu(graph, b, x);
    if (fault("odd_lengths") && length % 2 == 1 && length > 5) {
        const int64_t shape[] = {batch, length + 1, body.width};
        x = hk_reshape(graph, b, x, shape, 3);
    }
    if (!fault("open_scope")) graph->scope_end(b);
    graph->offer(b, hk_text("hidden"), x);
    return graph->status(b, error);
}
int32_t body_head(void*, hk_builder*, hk_string, hk_error*) { return HK_NOT_FOUND; }
int32_t body_write(void* self, hk_config_writer* w, hk_error* error) {
    const auto& body = *static_cast<const Body*>(self);
    int32_t code = config_->set_integer(w, hk_text("vocab_size"), body.vocabulary, error);
    if (code == HK_OK)
        code = config_->set_integer(w, hk_text("width"), fault("lies_of_itself") ? body.width * 2 : body.width, error);
    return code == HK_OK ? config_->set_integer(w, hk_text("depth"), body.depth, error) : code;
}
const hk_architecture architecture_table = {RefusedMemory<body_create>::call, body_destroy,
                                            RefusedMemory<body_build>::call, body_head,
                                            RefusedMemory<body_write>::call};

// The objective: next-token prediction.
struct Next {
    uint64_t calls = 0;
    std::vector<int32_t> scratch;
};

int32_t next_create(const hk_config*, const hk_tokenizer*, void** self, hk_error*) {
    *self = new Next();
    return HK_OK;
}
void next_destroy(void* self) { delete static_cast<Next*>(self); }
int32_t next_kind(void*) { return HK_EXAMPLE_WINDOW; }
int64_t next_tokens(void*, int64_t length) { return length + 1; }
int32_t next_fields(void*, int64_t batch, int64_t length, void(HK_ABI* push)(void*, const hk_field*), void* context,
                    hk_error*) {
    for (const char* name : {"input_ids", "next"}) {
        hk_field field{};
        field.struct_size = sizeof field;
        field.kind = HK_KIND_INT32;
        field.name = hk_text(name);
        field.rank = 2;
        field.dims[0] = batch;
        field.dims[1] = length;
        push(context, &field);
    }
    return HK_OK;
}
int32_t next_build(void*, hk_builder* b, hk_error* error) {
    hk_value logits = graph->ask(b, hk_text("logits"));
    const hk_value labels = graph->input(b, hk_text("next"));
    if (fault("learns_nothing")) logits = hk_stop_gradient(graph, b, logits);
    if (fault("not_a_number")) logits = hk_log(graph, b, hk_neg(graph, b, hk_abs(graph, b, logits)));
    const hk_value rows = hk_cross_entropy(graph, b, logits, labels, nullptr);
    const int64_t axes[] = {0, 1};
    const hk_value ignored = graph->fill(b, HK_KIND_INT32, nullptr, 0, -100.0);
    const hk_value counted = hk_cast(graph, b, hk_compare(graph, b, labels, ignored, 1), HK_KIND_FLOAT32);
    graph->loss(b, hk_text("next"), hk_sum(graph, b, rows, axes, 2, nullptr),
                hk_sum(graph, b, counted, axes, 2, nullptr), 1.0);
    return graph->status(b, error);
}
std::vector<int32_t> shared_scratch; // global state, which plugins must not have

int32_t next_collate(void* self, const hk_batch* batch, hk_field* fields, uint32_t count, hk_error* error) {
    auto& next = *static_cast<Next*>(self);
    if (fault("throw_in_collate")) throw std::runtime_error("thrown by collate");
    if (fault("hang_in_collate")) hang();
    if (fault("crash_in_collate")) crash();
    if (const char* mark = std::getenv("HEKLA_FAULT_ONCE"); mark != nullptr && fault("crash_once_in_collate")) {
        const int made = open(mark, O_WRONLY | O_CREAT | O_EXCL, 0600);
        if (made >= 0) crash(); // the mark does not exist, so this is the first time
    }
    if (count != 2) return refuse(error, "two fields were expected");
    const int64_t rows = fields[0].dims[0], length = fields[0].dims[1];
    auto* ids = static_cast<int32_t*>(fields[0].data);
    auto* labels = static_cast<int32_t*>(fields[1].data);
    ++next.calls;
    for (int64_t row = 0; row < rows; ++row) {
        for (int64_t t = 0; t < length; ++t) labels[row * length + t] = -100;
        if (row >= batch->example_count) continue;
        const hk_example& example = batch->examples[row];
        const hk_column& column = example.columns[0];
        if (fault("needs_tokens")) ids[row * length] = column.ids[column.size - 1];
        std::vector<int32_t>& tokens = fault("shares_scratch") ? shared_scratch : *new std::vector<int32_t>();
        tokens.assign(column.ids, column.ids + column.size);
        if (fault("shares_scratch")) std::this_thread::yield();
        for (int64_t t = 0; t < length && t < static_cast<int64_t>(tokens.size()); ++t)
            ids[row * length + t] = tokens[static_cast<std::size_t>(t)];
        for (int64_t t = 0; t < length && t + 1 < static_cast<int64_t>(tokens.size()); ++t)
            labels[row * length + t] = tokens[static_cast<std::size_t>(t + 1)];
        if (!fault("shares_scratch")) delete &tokens;
        if (fault("counts_calls")) ids[row * length] = static_cast<int32_t>(next.calls % 5);
        if (fault("draws_by_row")) ids[row * length] = static_cast<int32_t>(row % 5);
        if (fault("foreign_ids")) ids[row * length] = 1 << 20;
    }
    if (fault("writes_behind")) labels[rows * length] = 1;
    if (fault("writes_before")) ids[-1] = 1;
    return HK_OK;
}
const hk_objective objective_table = {RefusedMemory<next_create>::call,
                                      next_destroy,
                                      next_kind,
                                      next_tokens,
                                      nullptr,
                                      nullptr,
                                      RefusedMemory<next_fields>::call,
                                      RefusedMemory<next_build>::call,
                                      RefusedMemory<next_collate>::call};

// The head: logits of the next token, and the most probable token after the last one.
struct Head {
    int64_t vocabulary = 0;
};
int32_t head_create(const hk_config* c, void** self, hk_error* error) {
    int64_t vocabulary = 0;
    if (const int32_t code = config_->get_integer(c, hk_text("vocab_size"), &vocabulary, error); code != HK_OK)
        return code;
    if (vocabulary < 1 || vocabulary > 1 << 24) return refuse(error, "vocab_size: 1 to 2^24");
    *self = new Head{vocabulary};
    return HK_OK;
}
void head_destroy(void* self) { delete static_cast<Head*>(self); }
int32_t head_build(void* self, hk_builder* b, hk_error* error) {
    const hk_value hidden = graph->ask(b, hk_text("hidden"));
    int64_t dims[HK_MAX_RANK] = {};
    uint32_t rank = 0;
    if (graph->shape(b, hidden, dims, &rank) < 0) return graph->status(b, error);
    const hk_value weight = tensor(b, "head.weight", {static_cast<Head*>(self)->vocabulary, dims[rank - 1]});
    graph->offer(b, hk_text("logits"), hk_linear(graph, b, hidden, weight, nullptr));
    return graph->status(b, error);
}
int32_t head_ports(void*, void(HK_ABI* push)(void*, hk_string), void* context, hk_error*) {
    push(context, hk_text("logits"));
    return HK_OK;
}
int32_t head_decode(void*, const hk_decode_input* in, void(HK_ABI* push)(void*, hk_string), void* context, hk_error*) {
    if (fault("crash_in_decode")) crash();
    const hk_output& logits = in->outputs[0];
    const int64_t length = logits.dims[1], width = logits.dims[2];
    const uint32_t rows = fault("forgets_rows") ? in->row_count - 1 : in->row_count;
    for (uint32_t row = 0; row < rows; ++row) {
        const float* last = logits.values + (static_cast<int64_t>(row) * length + length - 1) * width;
        int64_t best = 0;
        for (int64_t i = 1; i < width; ++i)
            if (last[i] > last[best]) best = i;
        const std::string prediction =
            fault("no_json") ? "the label is " + std::to_string(best) : "{\"label\": " + std::to_string(best) + "}";
        push(context, text(prediction));
    }
    return HK_OK;
}
const hk_head head_table = {RefusedMemory<head_create>::call, head_destroy, RefusedMemory<head_build>::call,
                            RefusedMemory<head_ports>::call, RefusedMemory<head_decode>::call};

int32_t begin(const hk_host* host, hk_error* error) {
    const auto get = [&](const char* id) { return host->get_interface(host, hk_text(id)); };
    errors = static_cast<const hk_error_interface*>(get(HK_ERROR_INTERFACE));
    config_ = static_cast<const hk_config_interface*>(get(HK_CONFIG_INTERFACE));
    graph = static_cast<const hk_graph_interface*>(get(HK_GRAPH_INTERFACE));
    tokenizer_ = static_cast<const hk_tokenizer_interface*>(get(HK_TOKENIZER_INTERFACE));
    if (fault("needs_graph") && graph->emit == nullptr) return HK_INTERNAL;
    if (fault("needs_error")) errors->set(error, HK_OK, hk_text("fine"));
    if (fault("init_fails")) return HK_INTERNAL;
    if (fault("thread_stays")) std::thread([] { std::this_thread::sleep_for(std::chrono::seconds(5)); }).detach();
    if (fault("init_fails_in_silence") && config_ == nullptr) return HK_INTERNAL;
    if (graph == nullptr || config_ == nullptr)
        return refuse(error, "a host with hekla.graph/1 and hekla.config/1 is needed");
    return HK_OK;
}
int32_t init(const hk_host* host, hk_error* error) {
    static int begun = 0;
    if (host_ != nullptr && !fault("serves_two")) {
        if (!fault("refuses_second_in_silence")) refuse(error, "it serves another host");
        return HK_FAILED_PRECONDITION;
    }
    if (fault("begins_once") && begun++ > 0) return refuse(error, "it has ended");
    const int32_t code = begin(host, error);
    host_ = code == HK_OK ? host : nullptr;
    return code;
}
void deinit() {
    if (fault("crash_in_deinit")) crash();
    host_ = nullptr;
}
const void* get_interface(hk_string interface_id, hk_string id) {
    if (fault("null_ids") && interface_id.data[0] == 'x') return nullptr;
    std::string_view i = interface_id.data != nullptr ? view(interface_id) : std::string_view();
    const std::string_view wanted = id.data != nullptr ? view(id) : std::string_view();
    if (fault("any_revision") && i.starts_with("hekla.architecture")) i = HK_ARCHITECTURE_INTERFACE;
    const auto named = [&](std::string_view own) {
        if (fault("c_strings")) return id.data != nullptr && std::strcmp(id.data, own.data()) == 0;
        if (fault("id_prefixes")) return wanted.starts_with(own);
        if (fault("any_id")) return true;
        return wanted == own;
    };
    if (i == HK_ARCHITECTURE_INTERFACE && named("faulty")) return &architecture_table;
    if (i == HK_OBJECTIVE_INTERFACE && named("faulty_next")) return &objective_table;
    if (i == HK_HEAD_INTERFACE && named("faulty_head") && !fault("less_than_promised")) return &head_table;
    return nullptr;
}

struct AtLoad {
    AtLoad() {
        if (fault("slow_to_open")) std::this_thread::sleep_for(std::chrono::milliseconds(900));
        if (fault("crash_at_load")) crash();
    }
} at_load;

} // namespace

#ifdef TWO_EXPORTS
extern "C" HK_EXPORT int compress(int x) { return x; } // the same name as in zlib
#endif

extern "C" HK_EXPORT const hk_plugin_entry* hekla_plugin_entry(void) {
    static hk_plugin_entry entry = {HK_ENTRY_MAGIC, sizeof(hk_plugin_entry),
                                    HK_ABI_MAJOR,   HK_TARGET_ABI_MINOR,
                                    HK_ABI_MINOR,   0,
                                    {nullptr, 0},   init,
                                    deinit,         get_interface};
    static hk_plugin_entry second = entry;
    if (fault("null_entry")) return nullptr;
    if (fault("throw_in_entry")) throw 1;
    if (fault("wrong_magic")) entry.magic = 1;
    if (fault("short_entry")) entry.struct_size = 8;
    if (fault("long_entry")) entry.struct_size = 1u << 30;
    if (fault("no_deinit")) entry.deinit = nullptr;
    if (fault("newer_abi")) entry.abi_minor_needed = 99;
    if (fault("other_major")) entry.abi_major = HK_ABI_MAJOR + 7;
    if (fault("built_before_needed")) entry.abi_minor_needed = entry.abi_minor_built + 1;
    if (fault("reserved_bits")) entry.reserved = 5;
    static int calls = 0;
    if (fault("two_entries") && ++calls % 2 == 0) return &second;
    return &entry;
}
