// Two correct operations, unless HEKLA_FAULT names a fault: the tests of `hekla plugin check` for operations must find,
// name and survive it (faults.sh). Written against the C headers alone.
#include "hekla/plugin/operation.h"
#include "hekla/plugin/operations.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

bool fault(std::string_view name) {
    const char* given = std::getenv("HEKLA_FAULT");
    return given != nullptr && name == given;
}

const hk_error_interface* errors = nullptr;
const hk_graph_interface* graph = nullptr;

hk_string text(std::string_view s) { return {s.data(), s.size()}; }

int32_t refuse(hk_error* error, const char* why) {
    errors->set(error, HK_INVALID_ARGUMENT, hk_text(why));
    return HK_INVALID_ARGUMENT;
}

int64_t elements(const hk_operation_tensor& tensor) {
    int64_t count = 1;
    for (uint32_t i = 0; i < tensor.rank; ++i) count *= tensor.dims[i];
    return count;
}

// y = strength x^2
const char* square_text() {
    if (fault("other_kernel")) return "void operation(uint i) { store_y(i, strength * abs(load_x(i))); }";
    if (fault("ignores_attribute")) return "void operation(uint i) { store_y(i, load_x(i) * load_x(i)); }";
    if (fault("loads_outside"))
        return "void operation(uint i) { float x = load_x(i + 3u) * 0.0 + load_x(i); store_y(i, strength * x * x); }";
    if (fault("stores_outside"))
        return "void operation(uint i) { store_y(i, strength * load_x(i) * load_x(i)); store_y(i + 1000u, 1.0); }";
    if (fault("stores_twice"))
        return "void operation(uint i) { store_y(i, strength * load_x(i) * load_x(i));\n"
               "    if (i + 1u < x_size) store_y(i + 1u, strength * load_x(i) * load_x(i + 1u)); }";
    if (fault("leaves_out"))
        return "void operation(uint i) { if (i % 3u != 2u) store_y(i, strength * load_x(i) * load_x(i)); }";
    if (fault("no_glsl")) return "void operation(uint i) {\n    store_y(i, quadrat(load_x(i)));\n}";
    return "void operation(uint i) { store_y(i, strength * load_x(i) * load_x(i)); }";
}

const hk_operation_description* square_describe() {
    if (fault("crash_in_describe")) std::raise(SIGSEGV);
    static const hk_operation_input inputs[] = {{sizeof inputs[0], HK_KIND_FLOAT, text("x")}};
    static hk_attribute one{};
    one.struct_size = sizeof one;
    one.type = HK_ATTRIBUTE_REAL;
    one.real = 1.0;
    static const hk_operation_attribute attributes[] = {
        {sizeof attributes[0], HK_ATTRIBUTE_REAL, text("strength"), &one}};
    static const hk_string outputs[] = {text("y")};
    static hk_operation_description d{};
    d.struct_size = sizeof d;
    d.revision = 1;
    d.input_count = d.attribute_count = d.output_count = 1;
    d.inputs = inputs;
    d.attributes = attributes;
    d.outputs = outputs;
    d.glsl = hk_text(square_text());
    static const hk_string capitals[] = {text("Y")};
    if (fault("capital_letters")) d.outputs = capitals;
    return &d;
}
int32_t square_shape(const hk_operation_use* use, hk_operation_cost* cost, hk_error* error) {
    static int calls = 0;
    if (fault("throw_in_shape")) throw std::runtime_error("thrown by shape");
    if (fault("hang_in_shape"))
        for (;;) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const hk_operation_tensor& x = use->inputs[0];
    hk_operation_tensor& y = use->outputs[0];
    if (volatile int64_t count = elements(x); fault("divides_by_size") && (count = 100 / count) < 0) return HK_INTERNAL;
    if (fault("refuses_in_silence") && x.rank == 2) return HK_INVALID_ARGUMENT;
    y.rank = x.rank;
    for (uint32_t i = 0; i < x.rank; ++i) y.dims[i] = x.dims[i];
    if (fault("wrong_shape") && x.rank > 1) y.dims[0] += 1;
    if (fault("shape_counts") && x.rank > 0 && x.dims[0] > 0) cost->flops = static_cast<double>(++calls);
    if (fault("wrong_cost")) cost->bytes = 1;
    if (fault("cost_falls")) cost->flops = 1e6 / static_cast<double>(elements(x) + 1);
    if (fault("negative_cost")) cost->flops = -1;
    if (fault("reserved_cost")) cost->reserved = 1;
    if (fault("few_invocations")) cost->invocations = static_cast<uint64_t>(elements(x) + 1) / 2;
    return HK_OK;
}
int32_t square_gradient(hk_builder* b, const hk_operation_gradient* use, hk_error* error) {
    if (fault("throw_in_gradient")) throw std::runtime_error("thrown by gradient");
    const hk_value x = use->inputs[0], dy = use->output_gradients[0];
    const hk_value factor =
        graph->fill(b, HK_KIND_FLOAT, nullptr, 0, (fault("wrong_gradient") ? 1.0 : 2.0) * use->attributes[0].real);
    hk_value dx = hk_mul(graph, b, hk_mul(graph, b, dy, x), factor);
    if (fault("gradient_fades")) { // below float16's range, through a product and back
        int64_t dims[HK_MAX_RANK] = {};
        uint32_t rank = 0;
        graph->shape(b, dx, dims, &rank);
        const int64_t width = dims[rank - 1];
        std::vector<double> one(static_cast<std::size_t>(width * width));
        for (int64_t i = 0; i < width; ++i) one[static_cast<std::size_t>(i * (width + 1))] = 1.0;
        const int64_t square[] = {width, width};
        int64_t flat[] = {1, width};
        for (uint32_t i = 0; i + 1 < rank; ++i) flat[0] *= dims[i];
        const hk_value small = graph->fill(b, HK_KIND_FLOAT, nullptr, 0, 1e-14);
        const hk_value large = graph->fill(b, HK_KIND_FLOAT, nullptr, 0, 1e14);
        dx = hk_reshape(graph, b, hk_mul(graph, b, dx, small), flat, 2);
        dx = hk_matmul(graph, b, dx, graph->constant(b, HK_KIND_FLOAT, square, 2, one.data()), nullptr);
        dx = hk_mul(graph, b, hk_reshape(graph, b, dx, dims, rank), large);
    }
    if (fault("gradient_of_parameter"))
        dx = hk_mul(graph, b, dx, graph->parameter(b, hk_text("mine"), nullptr, 0, HK_INITIALIZE_NORMAL, 0, 1, 0));
    if (fault("gradient_of_another_shape")) {
        const int64_t axis = 0;
        dx = hk_sum(graph, b, dx, &axis, 1, nullptr);
    }
    use->input_gradients[0] = dx;
    return graph->status(b, error);
}
int32_t square_reference(const hk_operation_use* use, hk_error* error) {
    static int calls = 0;
    if (fault("throw_in_reference")) throw std::runtime_error("thrown by reference");
    if (fault("reference_fails")) return refuse(error, "it does not want to");
    const int64_t count = elements(use->inputs[0]);
    const double strength = use->attributes[0].real;
    double* const x = use->inputs[0].data;
    double* const y = use->outputs[0].data;
    for (int64_t i = 0; i < count; ++i) y[i] = strength * x[i] * x[i];
    if (fault("reference_reads_behind")) y[0] += 0.0 * x[count];
    if (fault("reference_writes_behind")) y[count] = 1.0;
    if (fault("reference_writes_before")) y[-1] = 1.0;
    if (fault("reference_writes_inputs")) x[0] = 1.0;
    if (fault("reference_counts")) y[0] += ++calls;
    return HK_OK;
}
const hk_operation square = {square_describe, square_shape, square_gradient, square_reference};

// y = x plus the next element, in groups of 64 that wrap around; through shared memory.
constexpr int64_t kGroup = 64;
const char* pairs_text() {
    if (fault("no_barrier"))
        return "shared float seen[64];\n"
               "void operation(uint i) { seen[i % 64u] = i < x_size ? load_x(i) : 0.0;\n"
               "    if (i < x_size) store_y(i, load_x(i) + seen[(i + 1u) % 64u]); }";
    if (fault("takes_tickets")) // in order of arrival
        return "shared float seen[64]; shared uint tickets;\n"
               "void operation(uint i) { tickets = 0u; barrier(); seen[i % 64u] = i < x_size ? load_x(i) : 0.0;\n"
               "    const uint ticket = atomicAdd(tickets, 1u); barrier();\n"
               "    if (i < x_size) store_y(i, load_x(i) + seen[(i + 1u) % 64u] + 1e-7 * float(ticket)); }";
    if (fault("shares_much"))
        return "shared float seen[4097];\n"
               "void operation(uint i) { seen[i % 64u] = i < x_size ? load_x(i) : 0.0; barrier();\n"
               "    if (i < x_size) store_y(i, load_x(i) + seen[(i + 1u) % 64u]); }";
    return "shared float seen[64];\n"
           "void operation(uint i) { seen[i % 64u] = i < x_size ? load_x(i) : 0.0; barrier();\n"
           "    if (i < x_size) store_y(i, load_x(i) + seen[(i + 1u) % 64u]); }";
}
const hk_operation_description* pairs_describe() {
    static const hk_operation_input inputs[] = {{sizeof inputs[0], HK_KIND_FLOAT, text("x")}};
    static const hk_string outputs[] = {text("y")};
    static hk_operation_description d{};
    d.struct_size = sizeof d;
    d.revision = 1;
    d.input_count = d.output_count = 1;
    d.local_size = kGroup;
    d.inputs = inputs;
    d.outputs = outputs;
    d.glsl = hk_text(pairs_text());
    return &d;
}
int32_t pairs_shape(const hk_operation_use* use, hk_operation_cost* cost, hk_error*) {
    const hk_operation_tensor& x = use->inputs[0];
    use->outputs[0].rank = x.rank;
    for (uint32_t i = 0; i < x.rank; ++i) use->outputs[0].dims[i] = x.dims[i];
    if (fault("uneven_invocations")) cost->invocations = kGroup + 1;
    return HK_OK;
}
int32_t pairs_reference(const hk_operation_use* use, hk_error*) {
    const int64_t count = elements(use->inputs[0]);
    const double* const x = use->inputs[0].data;
    for (int64_t i = 0; i < count; ++i) {
        const int64_t next = i / kGroup * kGroup + (i + 1) % kGroup;
        use->outputs[0].data[i] = x[i] + (next < count ? x[next] : 0.0);
    }
    return HK_OK;
}
const hk_operation pairs = {pairs_describe, pairs_shape, nullptr, pairs_reference};

bool serving = false;
int32_t init(const hk_host* host, hk_error* error) {
    if (serving) {
        errors->set(error, HK_FAILED_PRECONDITION, hk_text("it serves another host"));
        return HK_FAILED_PRECONDITION;
    }
    errors = static_cast<const hk_error_interface*>(host->get_interface(host, hk_text(HK_ERROR_INTERFACE)));
    graph = static_cast<const hk_graph_interface*>(host->get_interface(host, hk_text(HK_GRAPH_INTERFACE)));
    serving = errors != nullptr && graph != nullptr;
    return serving ? HK_OK : HK_UNSUPPORTED;
}
void deinit() { serving = false; }
const void* get_interface(hk_string interface_id, hk_string id) {
    const auto same = [](hk_string a, std::string_view b) {
        return std::string_view(a.data != nullptr ? a.data : "", static_cast<std::size_t>(a.size)) == b;
    };
    if (!same(interface_id, HK_OPERATION_INTERFACE)) return nullptr;
    return same(id, "faulty_operation.square") ? &square : same(id, "faulty_operation.pairs") ? &pairs : nullptr;
}

} // namespace

extern "C" HK_EXPORT const hk_plugin_entry* hekla_plugin_entry(void) {
    static const hk_plugin_entry entry = {HK_ENTRY_MAGIC, sizeof(hk_plugin_entry),
                                          HK_ABI_MAJOR,   HK_TARGET_ABI_MINOR,
                                          HK_ABI_MINOR,   0,
                                          {nullptr, 0},   init,
                                          deinit,         get_interface};
    return &entry;
}
