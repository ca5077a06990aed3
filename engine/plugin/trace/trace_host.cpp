#include "plugin/trace/trace_host.hpp"

#include "graph/operation.hpp"
#include "plugin/host/host_error.hpp"
#include "plugin/trace/trace_rules.hpp"
#include "plugin/trace/traced_function.hpp"

#include <fmt/format.h>
#include <tuple>

namespace hekla::plugin::trace {

namespace {

// "hk_graph_interface", "emit" -> "graph.emit"
std::string call_name(std::string_view table, std::string_view name) {
    table.remove_prefix(3);
    if (table.ends_with("_interface")) table.remove_suffix(10);
    return fmt::format("{}.{}", table, name);
}

template<class T>
const T*& real_table() {
    static const T* table = nullptr;
    return table;
}

// Checks the arguments of one call, except strings.
template<auto M>
struct Before {
    template<class... A>
    static void look(BuilderState&, A...) {}
};
#define HK_BEFORE(member, ...)                                                                                         \
    template<>                                                                                                         \
    struct Before<&hk_graph_interface::member> {                                                                       \
        static void look(BuilderState& state, hk_builder* __VA_OPT__(, ) __VA_ARGS__);                                 \
    };                                                                                                                 \
    void Before<&hk_graph_interface::member>::look([[maybe_unused]] BuilderState& state,                               \
                                                   hk_builder* __VA_OPT__(, ) __VA_ARGS__)
HK_BEFORE(input, hk_string) { check_not_in_gradient(state, "input"); }
HK_BEFORE(parameter, hk_string name, const int64_t* dims, uint32_t rank, int32_t, double a, double b, uint32_t flags) {
    check_not_in_gradient(state, "parameter");
    report(broken_by_parameter(view(name), dims, rank, a, b, flags));
}
HK_BEFORE(buffer, hk_string name, int32_t, const int64_t* dims, uint32_t rank, const double* values) {
    check_not_in_gradient(state, "buffer");
    report(broken_by_buffer(view(name), dims, rank, values));
}
HK_BEFORE(constant, int32_t, const int64_t* dims, uint32_t rank, const double* values) {
    report(broken_by_numbers("constant", dims, rank, values));
}
HK_BEFORE(fill, int32_t, const int64_t* dims, uint32_t rank, double) { report(broken_by_shape("fill", dims, rank)); }
HK_BEFORE(step_scalar, hk_string name, double) {
    check_not_in_gradient(state, "step_scalar");
    report(broken_by_name("step_scalar", view(name)));
}
HK_BEFORE(emit, hk_string name, uint32_t revision, const hk_value* inputs, uint32_t count,
          const hk_attribute* attributes, uint32_t attribute_count, hk_value*, uint32_t) {
    for (uint32_t i = 0; inputs != nullptr && i < count; ++i) check_value(state, inputs[i], "emit");
    for (uint32_t i = 0; attributes != nullptr && i < attribute_count; ++i) {
        const std::optional<hk_attribute> a = struct_at(attributes, i);
        if (!a) return report_broken("abi.5", fmt::format("attribute {} has a struct_size that cannot be", i));
        check_text(a->name);
        check_text(a->text);
    }
    const graph::OperationInfo* operation = graph::find_operation(view(name));
    if (operation == nullptr) return;
    if (const uint32_t since = graph::since_of(*operation, revision); since > 0)
        note_use(fmt::format("operation {}", operation->name), since);
}
HK_BEFORE(shape, hk_value value, int64_t*, uint32_t*) { check_value(state, value, "shape"); }
HK_BEFORE(scope_begin, hk_string) { ++state.scopes; }
HK_BEFORE(scope_end) {
    if (--state.scopes < 0) report_broken("graph.7", "scope_end() without scope_begin()");
}
HK_BEFORE(recompute_begin) {
    if (state.region) report_broken("graph.7", "recompute_begin() inside of a region");
    state.region = true;
}
HK_BEFORE(recompute_end) {
    if (!state.region) report_broken("graph.7", "recompute_end() without recompute_begin()");
    state.region = false;
}
HK_BEFORE(offer, hk_string port, hk_value value) {
    check_not_in_gradient(state, "offer");
    report(broken_by_name("offer", view(port)));
    check_value(state, value, "offer");
}
HK_BEFORE(ask, hk_string) { check_not_in_gradient(state, "ask"); }
HK_BEFORE(loss, hk_string, hk_value sum, hk_value count, double weight) {
    check_not_in_gradient(state, "loss");
    check_value(state, sum, "loss");
    check_value(state, count, "loss");
    report(broken_by_weight(weight));
    ++state.losses;
}
HK_BEFORE(metric, hk_string, hk_value sum, hk_value count) {
    check_not_in_gradient(state, "metric");
    check_value(state, sum, "metric");
    check_value(state, count, "metric");
}
#undef HK_BEFORE

// Records the returned values as belonging to the builder.
template<auto M, class R, class... A>
void learn(BuilderState& state, const R& result, A...) {
    if constexpr (std::is_same_v<R, hk_value>)
        if (result != 0) state.values.insert(result);
}

template<auto M>
struct HostCall;
template<class T, class R, class... A, R (*T::*M)(A...)>
struct HostCall<M> {
    using Function = TracedFunction<M>;
    static constexpr std::string_view kName = Function::kName;

    static R call(A... arguments) {
        current_trace()->calls.fetch_add(1, std::memory_order_relaxed);
        note_use(Function::kTable, Function::kSince);
        const std::string name = call_name(Function::kTable, Function::kName);
        const std::tuple<A...> all(arguments...);
        (check_text(arguments), ...);
        const auto show = [&](const std::string& result) {
            write_call(Event::within, frames().size(), name,
                       arguments_of(Function::kParameters, all, std::make_index_sequence<sizeof...(A)>()), result, "");
        };
        if constexpr (std::is_same_v<T, hk_graph_interface>) {
            BuilderState* state = state_of(std::get<0>(all), Function::kName);
            if (state == nullptr) {
                show("");
                if constexpr (std::is_void_v<R>)
                    return;
                else
                    return R{};
            }
            Before<M>::look(*state, arguments...);
            if constexpr (std::is_void_v<R>) {
                show("");
                (real_table<T>()->*M)(arguments...);
                return;
            } else {
                const R result = (real_table<T>()->*M)(arguments...);
                learn<M>(*state, result, arguments...);
                if constexpr (kName == "emit") {
                    const hk_value* outputs = std::get<7>(all);
                    for (uint32_t i = 0; outputs != nullptr && i < std::get<8>(all); ++i)
                        if (outputs[i] != 0) state->values.insert(outputs[i]);
                    show(fmt::format("{} {}", code_text(result), dumped(list_of(outputs, std::get<8>(all)))));
                } else if constexpr (kName == "shape") {
                    show(result < 0
                             ? "-1"
                             : fmt::format("{} {}", result, dumped(list_of(std::get<2>(all), *std::get<3>(all)))));
                } else if constexpr (kName == "status") {
                    show(code_text(result));
                } else {
                    show(fmt::format("{}", result));
                }
                return result;
            }
        } else {
            if constexpr (std::is_same_v<T, hk_tokenizer_interface>)
                if (std::get<0>(all) == nullptr) {
                    report_broken("tokenizer.1",
                                  fmt::format("{}() with a null tokenizer; it is not carried out", name));
                    return R{};
                }
            if constexpr (std::is_void_v<R>) {
                show("");
                (real_table<T>()->*M)(arguments...);
            } else {
                const R result = (real_table<T>()->*M)(arguments...);
                if constexpr (std::is_same_v<R, hk_value> && std::is_same_v<T, hk_adapter_host>)
                    if (BuilderState* state = state_of(std::get<0>(all), Function::kName))
                        learn<M>(*state, result, arguments...);
                if constexpr (kName.starts_with("get_"))
                    show(result == HK_OK ? fmt::format("{} {}", code_text(result), dumped(json_of(*std::get<2>(all))))
                                         : code_text(result));
                else if constexpr (kName.starts_with("set_") || kName == "decode")
                    show(code_text(result));
                else
                    show(fmt::format("{}", result));
                return result;
            }
        }
    }
};

template<class T>
const T* wrapped_host(const void* real) {
    real_table<T>() = static_cast<const T*>(real);
    static const T kTable = [] {
        T made{};
#define HK_TRACED_PLUGIN(type, member, names, since)
#define HK_TRACED_HOST(type, member, names, since)                                                                     \
    if constexpr (std::is_same_v<T, type>) made.*(&type::member) = HostCall<&type::member>::call;
#include "plugin/trace/traced.inc"
#undef HK_TRACED_HOST
#undef HK_TRACED_PLUGIN
        return made;
    }();
    return &kTable;
}

} // namespace

const void* wrapped_host_table(std::string_view interface_id, const void* table) {
    if (interface_id == HK_ERROR_INTERFACE) return wrapped_host<hk_error_interface>(table);
    if (interface_id == HK_CONFIG_INTERFACE) return wrapped_host<hk_config_interface>(table);
    if (interface_id == HK_GRAPH_INTERFACE) return wrapped_host<hk_graph_interface>(table);
    if (interface_id == HK_TOKENIZER_INTERFACE) return wrapped_host<hk_tokenizer_interface>(table);
    if (interface_id == HK_LOG_INTERFACE) return wrapped_host<hk_log_interface>(table);
    if (interface_id == HK_ADAPTER_HOST_INTERFACE) return wrapped_host<hk_adapter_host>(table);
    return table;
}

} // namespace hekla::plugin::trace
