#include "plugin/trace/trace_plugin.hpp"

#include "plugin/trace/trace_rules.hpp"
#include "plugin/trace/traced_function.hpp"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <optional>
#include <tuple>

namespace hekla::plugin::trace {

namespace {

struct Slot {
    const void* table = nullptr;
    std::string plugin, what; // "mixer", "architecture 'mixer'"
    uint32_t local_size = 0;  // of operations
};
constexpr int kSlots = 24; // per interface; C functions have no state, so each slot has its own functions
template<class T>
std::array<Slot, kSlots>& slots() {
    static std::array<Slot, kSlots> all;
    return all;
}

// Returns the argument of a type; null if there is none.
template<class Wanted>
Wanted* find_argument() {
    return nullptr;
}
template<class Wanted, class First, class... Rest>
Wanted* find_argument(const First& first, const Rest&... rest) {
    if constexpr (std::is_same_v<First, Wanted*>)
        return first;
    else
        return find_argument<Wanted>(rest...);
}

// Intercepts what a plugin pushes to the host.
template<class Pushed>
struct Pushes {
    void (*push)(void*, Pushed) = nullptr;
    void* context = nullptr;
    uint64_t count = 0;

    static void look(const hk_field* given) {
        report(broken_by_field(given));
        const std::optional<hk_field> field = struct_of(given);
        if (!field) return;
        check_text(field->name);
        write_call(Event::within, frames().size(), "push",
                   {{"field", json_of(field->name)},
                    {"dims", list_of(field->dims, std::min<uint32_t>(field->rank, HK_MAX_RANK))}},
                   "", "");
    }
    static void look(const hk_column_need* given) {
        report(broken_by_column(given));
        const std::optional<hk_column_need> need = struct_of(given);
        if (!need) return;
        check_text(need->name);
        write_call(Event::within, frames().size(), "push", {{"column", json_of(need->name)}}, "", "");
    }
    static void look(hk_string s) {
        check_text(s);
        write_call(Event::within, frames().size(), "push", {{"text", json_of(s)}}, "", "");
    }
    static void forward(void* self, Pushed pushed) {
        auto& pushes = *static_cast<Pushes*>(self);
        ++pushes.count;
        look(pushed);
        pushes.push(pushes.context, pushed);
    }
};

// Calls f with the arguments, with the pair (push, context) replaced; count: number of calls to push.
template<class R, class F, class... A>
R with_pushes(F f, uint64_t& count, A... arguments) {
    if constexpr (sizeof...(A) >= 3) {
        auto all = std::make_tuple(arguments...);
        constexpr std::size_t kPush = sizeof...(A) - 3; // push, context and error are always last
        using Push = std::tuple_element_t<kPush, decltype(all)>;
        const auto through = [&]<class Pushed>(void (*push)(void*, Pushed)) -> R {
            Pushes<Pushed> pushes{push, std::get<kPush + 1>(all)};
            if constexpr (std::is_same_v<Push, void (*)(void*, Pushed)>) {
                std::get<kPush>(all) = Pushes<Pushed>::forward;
                std::get<kPush + 1>(all) = &pushes;
            }
            const R result = std::apply(f, all);
            count = pushes.count;
            return result;
        };
        if constexpr (std::is_same_v<Push, void (*)(void*, const hk_field*)> ||
                      std::is_same_v<Push, void (*)(void*, const hk_column_need*)> ||
                      std::is_same_v<Push, void (*)(void*, hk_string)>)
            return through(std::get<kPush>(all));
    }
    return f(arguments...);
}

template<auto M>
struct PluginCall;
template<class T, class R, class... A, R (*T::*M)(A...)>
struct PluginCall<M> {
    using Function = TracedFunction<M>;
    static constexpr std::string_view kName = Function::kName;

    template<int N>
    static R call(A... arguments) {
        return run(slots<T>()[N], arguments...);
    }

    static R run(Slot& slot, A... arguments) {
        Trace& t = *current_trace();
        t.calls.fetch_add(1, std::memory_order_relaxed);
        const std::tuple<A...> all(arguments...);
        hk_error* error = find_argument<hk_error>(arguments...);
        hk_builder* builder = find_argument<hk_builder>(arguments...);
        const std::string name = fmt::format("{}.{}", slot.what, kName);
        const std::size_t depth = frames().size();
        frames().push_back({slot.plugin, name, builder});
        if (builder != nullptr) open(slot, *builder, all);
        if constexpr (kName == "destroy") {
            const std::scoped_lock hold(t.lock);
            t.instances.erase({slot.what, std::get<0>(all)});
        }
        void** made = nullptr;
        void* before = nullptr;
        if constexpr (kName == "create") {
            made = find_argument<void*>(arguments...);
            before = made != nullptr ? *made : nullptr;
        }
        write_call(Event::enter, depth, name,
                   arguments_of(Function::kParameters, all, std::make_index_sequence<sizeof...(A)>()), "", "");
        const double start = milliseconds();
        const auto end = [&](const std::string& result, const std::string& what) {
            write_call(Event::leave, depth, name, {}, result, what, milliseconds() - start);
            if (builder != nullptr) close(*builder);
            frames().pop_back();
        };
        try {
            const auto real = static_cast<const T*>(slot.table)->*M;
            if constexpr (std::is_void_v<R>) {
                real(arguments...);
                end("", "");
            } else {
                uint64_t pushed = 0;
                const R result = with_pushes<R>(real, pushed, arguments...);
                if constexpr (std::is_same_v<R, int32_t> && kName != "example_kind") {
                    const bool none = kName == "build_head" && result == HK_NOT_FOUND;
                    if (result < HK_OK || result > HK_INTERNAL)
                        report_broken("abi.2", fmt::format("{}() gives the code {}", kName, result));
                    else if (result != HK_OK && !none && builder == nullptr && error != nullptr &&
                             error->message.empty())
                        report_broken("error.1",
                                      fmt::format("{}() fails with {} and no message", kName, code_text(result)));
                    if constexpr (kName == "create") made_one(slot, result, made, before);
                    if constexpr (std::is_same_v<T, hk_head> && kName == "decode")
                        if (result == HK_OK && std::get<1>(all) != nullptr && pushed != std::get<1>(all)->row_count)
                            report_broken("head.2", fmt::format("decode() returned results of {} rows, there are {}",
                                                                pushed, std::get<1>(all)->row_count));
                    if constexpr (std::is_same_v<T, hk_operation> && kName == "shape")
                        check_cost(slot, result, std::get<1>(all));
                    if (builder != nullptr && result == HK_OK) check_closed(*builder, kName);
                    end(code_text(result), error != nullptr && result != HK_OK ? error->message : "");
                } else if constexpr (std::is_pointer_v<R>) {
                    if constexpr (std::is_same_v<T, hk_operation>) slot.local_size = check_description(result);
                    end(result != nullptr ? "a table" : "null", "");
                } else {
                    end(fmt::format("{}", result), "");
                }
                return result;
            }
        } catch (...) {
            report_broken("abi.4", fmt::format("{}() threw an exception", kName));
            end("an exception", "");
            throw;
        }
    }

private:
    static void open(const Slot& slot, const hk_builder& builder, const std::tuple<A...>& all) {
        BuilderState state;
        state.plugin = slot.plugin;
        state.thread = std::this_thread::get_id();
        if constexpr (std::is_same_v<T, hk_operation> && kName == "gradient") {
            state.in_gradient = true;
            if (const hk_operation_gradient* use = std::get<1>(all)) {
                state.values.insert(use->inputs, use->inputs + use->input_count);
                state.values.insert(use->outputs, use->outputs + use->output_count);
                state.values.insert(use->output_gradients, use->output_gradients + use->output_count);
            }
        }
        if constexpr (std::is_same_v<T, hk_adapter> && (kName == "adapt" || kName == "merge"))
            if (const hk_site_values* given = std::get<3>(all))
                for (const hk_value value : {given->x, given->y, given->weight, given->bias, given->normed})
                    state.values.insert(value);
        if constexpr (std::is_same_v<T, hk_combiner> && kName == "combine") {
            const hk_site_values* given = std::get<3>(all);
            for (const hk_value value : {given->x, given->y, given->normed}) state.values.insert(value);
            const hk_branch* branches = std::get<4>(all);
            for (uint32_t i = 0; i < std::get<5>(all); ++i)
                for (const hk_value value : {branches[i].delta, branches[i].input, branches[i].a, branches[i].b})
                    state.values.insert(value);
        }
        if constexpr (std::is_same_v<T, hk_optimizer> && kName == "build") {
            const hk_update_values* given = std::get<3>(all);
            for (const hk_value value : {given->parameter, given->gradient, given->learning_rate, given->step})
                state.values.insert(value);
        }
        Trace& t = *current_trace();
        const std::scoped_lock hold(t.lock);
        t.builders.insert_or_assign(&builder, std::move(state));
    }
    static void close(const hk_builder& builder) {
        Trace& t = *current_trace();
        const std::scoped_lock hold(t.lock);
        t.builders.erase(&builder);
    }
    static void check_closed(const hk_builder& builder, std::string_view function) {
        Trace& t = *current_trace();
        std::unique_lock hold(t.lock);
        const auto found = t.builders.find(&builder);
        if (found == t.builders.end()) return;
        const BuilderState& state = found->second;
        const bool open_scope = state.scopes > 0 || state.region;
        const bool no_loss = std::is_same_v<T, hk_objective> && state.losses == 0;
        hold.unlock();
        if (open_scope) report_broken("graph.7", fmt::format("a scope or region is still open after {}()", function));
        if (no_loss) report_broken("objective.4", "build() added no loss");
    }
    static void made_one(const Slot& slot, int32_t code, void** made, void* before) {
        if (made == nullptr) return;
        if (code != HK_OK) {
            if (*made != before) report_broken("abi.2", "create() fails and has written to *self");
            return;
        }
        const std::string rule = slot.what.substr(0, slot.what.find(' ')) + ".1"; // "architecture.1"
        if (*made == nullptr) return report_broken(rule, "create() gives HK_OK and a null *self");
        Trace& t = *current_trace();
        std::unique_lock hold(t.lock);
        const bool fresh = t.instances.emplace(slot.what, *made).second;
        hold.unlock();
        if (!fresh) report_broken(rule, "create() gives an instance that is in use already");
    }
    static void check_cost(const Slot& slot, int32_t code, const hk_operation_cost* cost) {
        if (code != HK_OK || cost == nullptr) return;
        if (cost->reserved != 0) report_broken("abi.8", "shape() sets a reserved member of the cost");
        if (slot.local_size > 0 && cost->invocations % slot.local_size != 0)
            report_broken("operation.5",
                          fmt::format("{} invocations, a local size of {}", cost->invocations, slot.local_size));
    }
};

template<class T, int N>
void fill_wrapped(T& made, const T& real) {
#define HK_TRACED_HOST(type, member, names, since)
#define HK_TRACED_PLUGIN(type, member, names, since)                                                                   \
    if constexpr (std::is_same_v<T, type>)                                                                             \
        if (real.*(&type::member) != nullptr) made.*(&type::member) = PluginCall<&type::member>::template call<N>;
#include "plugin/trace/traced.inc"
#undef HK_TRACED_HOST
#undef HK_TRACED_PLUGIN
}

template<class T, int... N>
const T* wrapped_plugin(std::string_view plugin, std::string_view what, const void* real,
                        std::integer_sequence<int, N...>) {
    static std::mutex lock;
    static std::array<T, kSlots> tables{};
    const std::scoped_lock hold(lock);
    for (int i = 0; i < kSlots; ++i) {
        Slot& slot = slots<T>()[static_cast<std::size_t>(i)];
        if (slot.table == real) return &tables[static_cast<std::size_t>(i)];
        if (slot.table != nullptr) continue;
        slot.table = real;
        slot.plugin = plugin;
        slot.what = what;
        T& table = tables[static_cast<std::size_t>(i)];
        ((i == N ? fill_wrapped<T, N>(table, *static_cast<const T*>(real)) : void()), ...);
        return &table;
    }
    write_line(fmt::format("NOT TRACED: {} of {}: there are {} of its kind already", what, plugin, kSlots));
    return static_cast<const T*>(real);
}

} // namespace

const void* wrapped_plugin_table(std::string_view plugin, std::string_view interface_id, std::string_view id,
                                 const void* table) {
    const auto wrap = [&]<class T>(std::string_view kind, const T*) -> const void* {
        return wrapped_plugin<T>(plugin, fmt::format("{} '{}'", kind, id), table,
                                 std::make_integer_sequence<int, kSlots>());
    };
    if (interface_id == HK_ARCHITECTURE_INTERFACE)
        return wrap("architecture", static_cast<const hk_architecture*>(nullptr));
    if (interface_id == HK_OBJECTIVE_INTERFACE) return wrap("objective", static_cast<const hk_objective*>(nullptr));
    if (interface_id == HK_HEAD_INTERFACE) return wrap("head", static_cast<const hk_head*>(nullptr));
    if (interface_id == HK_ADAPTER_INTERFACE) return wrap("adapter", static_cast<const hk_adapter*>(nullptr));
    if (interface_id == HK_COMBINER_INTERFACE) return wrap("combiner", static_cast<const hk_combiner*>(nullptr));
    if (interface_id == HK_OPTIMIZER_INTERFACE) return wrap("optimizer", static_cast<const hk_optimizer*>(nullptr));
    if (interface_id == HK_ROLLOUT_DRAFT) return wrap("rollout", static_cast<const hk_rollout_use*>(nullptr));
    if (interface_id == HK_REWARD_DRAFT) return wrap("reward", static_cast<const hk_reward*>(nullptr));
    if (interface_id == HK_OPERATION_INTERFACE) return wrap("operation", static_cast<const hk_operation*>(nullptr));
    return table;
}

} // namespace hekla::plugin::trace
