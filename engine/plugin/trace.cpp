#include "plugin/trace.hpp"

#include "plugin/host_error.hpp"
#include "plugin/host_struct.hpp"

#include "hekla/plugin/draft/adapter.h"
#include "hekla/plugin/drafts.h"
#include "hekla/plugin/log.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <fcntl.h>
#include <fmt/format.h>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <thread>
#include <tuple>
#include <unistd.h>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace hekla::plugin {
namespace {

using nlohmann::ordered_json;

struct TracedRule {
    std::string_view id;
    bool traced;
    std::string_view text;
};
constexpr TracedRule kRules[] = {
#define HK_RULE(id, traced, text) {id, traced, text},
#include "plugin/rules.inc"
#undef HK_RULE
};

// What a plugin is doing with one builder, from the begin of the build call to its end.
struct BuilderState {
    std::string plugin;
    std::thread::id thread;
    bool in_gradient = false;
    int scopes = 0;
    bool region = false;
    int losses = 0;
    std::unordered_set<hk_value> values;
};

struct Trace {
    int file = 2;
    bool json = false;
    std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
    std::atomic<uint64_t> calls{0};
    std::mutex lock;
    std::map<std::string, uint64_t> broken;
    std::map<std::string, uint32_t> used;
    std::unordered_map<const hk_builder*, BuilderState> builders;
    std::set<std::pair<std::string, const void*>> instances; // "mixer architecture 'mixer'", self
    std::unordered_map<std::thread::id, int> threads;        // numbers that a reader can tell apart
};

// The trace of this process; null: there is none. Wrapped functions can reach nothing else.
Trace*& the_trace() {
    static Trace* trace = nullptr;
    return trace;
}

// The calls into plugins that this thread is in, innermost last.
struct Frame {
    std::string plugin, call;
    const hk_builder* builder = nullptr;
};
std::vector<Frame>& frames() {
    static thread_local std::vector<Frame> stack;
    return stack;
}

std::string plugin_here() { return frames().empty() ? "?" : frames().back().plugin; }

void write_line(std::string line) {
    line += '\n';
    const char* at = line.data();
    for (std::size_t left = line.size(); left > 0;) { // one write a line: several processes may share the file
        const ssize_t put = ::write(the_trace()->file, at, left);
        if (put <= 0) return; // what cannot be written must not end the program
        at += put;
        left -= static_cast<std::size_t>(put);
    }
}

int thread_number() {
    Trace& t = *the_trace();
    const std::scoped_lock hold(t.lock);
    return t.threads.emplace(std::this_thread::get_id(), static_cast<int>(t.threads.size()) + 1).first->second;
}

double milliseconds() {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - the_trace()->start).count();
}

std::string dumped(const ordered_json& value) {
    return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

void broken(std::string_view rule, const std::string& what) {
    Trace& t = *the_trace();
    {
        const std::scoped_lock hold(t.lock);
        ++t.broken[std::string(rule)];
    }
    const auto found = std::ranges::find(kRules, rule, &TracedRule::id);
    const std::string_view text = found != std::end(kRules) ? found->text : "";
    const std::string call = frames().empty() ? "" : frames().back().call;
    if (t.json)
        write_line(dumped({{"time_ms", milliseconds()},
                           {"thread", thread_number()},
                           {"broken", rule},
                           {"plugin", plugin_here()},
                           {"in", call},
                           {"what", what},
                           {"rule", text}}));
    else
        write_line(fmt::format("BROKEN [{}] {}{}{}: {}\n       the rule: {}", rule, plugin_here(),
                               call.empty() ? "" : " in ", call, what, text));
}

// ---- arguments as JSON, which the lines of text show too

ordered_json json_of(std::string_view s) {
    constexpr std::size_t kShown = 120;
    return s.size() > kShown ? std::string(s.substr(0, kShown)) + "..." : std::string(s);
}
std::string shown(std::string_view s) { return dumped(json_of(s)); }
ordered_json json_of(hk_string s) { return json_of(view(s)); }
ordered_json json_of(int32_t v) { return v; }
ordered_json json_of(uint32_t v) { return v; }
ordered_json json_of(int64_t v) { return v; }
ordered_json json_of(uint64_t v) { return v; }
ordered_json json_of(double v) {
    if (std::isfinite(v)) return v;
    return fmt::format("{}", v); // JSON has no such number
}
// Pointers say nothing.
template<class T>
ordered_json json_of(T*) {
    return {};
}

template<class T>
ordered_json list_of(const T* values, uint64_t count) {
    if (values == nullptr) return {};
    constexpr uint64_t kShown = 16;
    ordered_json out = ordered_json::array();
    for (uint64_t i = 0; i < std::min(count, kShown); ++i) out.push_back(json_of(values[i]));
    if (count > kShown) out.push_back(fmt::format("... {} in all", count));
    return out;
}

ordered_json list_of(const hk_attribute* attributes, uint64_t count) {
    if (attributes == nullptr) return {};
    ordered_json out = ordered_json::object();
    for (uint64_t i = 0; i < std::min<uint64_t>(count, 32); ++i) {
        const std::optional<hk_attribute> a = struct_at(attributes, i);
        if (!a) return out;
        ordered_json& to = out[is_utf8(view(a->name)) ? std::string(view(a->name)) : std::string("?")];
        switch (a->type) {
        case HK_ATTRIBUTE_INT: to = json_of(a->integer); break;
        case HK_ATTRIBUTE_REAL: to = json_of(a->real); break;
        case HK_ATTRIBUTE_TEXT: to = json_of(a->text); break;
        case HK_ATTRIBUTE_INTS: to = list_of(a->integers, a->count); break;
        default: to = list_of(a->reals, a->count);
        }
    }
    return out;
}

template<std::size_t I, class Tuple>
void add_argument(ordered_json& to, const std::vector<std::string_view>& names, const Tuple& arguments) {
    using T = std::tuple_element_t<I, Tuple>;
    const T& value = std::get<I>(arguments);
    const std::string name(I < names.size() ? names[I] : "?");
    if constexpr (std::is_pointer_v<T> && I + 1 < std::tuple_size_v<Tuple>) {
        using Next = std::tuple_element_t<I + 1, Tuple>;
        using Element = std::remove_const_t<std::remove_pointer_t<T>>;
        constexpr bool counted = std::is_same_v<Next, uint32_t> || std::is_same_v<Next, uint64_t>;
        constexpr bool listed = std::is_same_v<Element, int64_t> || std::is_same_v<Element, hk_value> ||
                                std::is_same_v<Element, hk_attribute>;
        if constexpr (counted && listed && std::is_const_v<std::remove_pointer_t<T>>) {
            to[name] = list_of(value, std::get<I + 1>(arguments));
            return;
        }
    }
    if (ordered_json made = json_of(value); !made.is_null()) to[name] = std::move(made);
}

template<class Tuple, std::size_t... I>
ordered_json arguments_of(std::string_view parameters, const Tuple& arguments, std::index_sequence<I...>) {
    std::vector<std::string_view> names;
    while (!parameters.empty()) {
        const std::size_t space = parameters.find(' ');
        names.push_back(parameters.substr(0, space));
        parameters.remove_prefix(space == std::string_view::npos ? parameters.size() : space + 1);
    }
    ordered_json out = ordered_json::object();
    (add_argument<I>(out, names, arguments), ...);
    return out;
}

std::string code_text(int32_t code) {
    constexpr const char* kNames[] = {"HK_OK",
                                      "HK_INVALID_ARGUMENT",
                                      "HK_NOT_FOUND",
                                      "HK_UNSUPPORTED",
                                      "HK_FAILED_PRECONDITION",
                                      "HK_OUT_OF_MEMORY",
                                      "HK_IO",
                                      "HK_CORRUPT",
                                      "HK_DEVICE_LOST",
                                      "HK_CANCELLED",
                                      "HK_INTERNAL"};
    return code >= 0 && code <= HK_INTERNAL ? kNames[code] : fmt::format("{}", code);
}

// mark: what a line begins with: '>' into the plugin, '<' back from it, '.' into the host and back.
void say(char mark, std::size_t depth, std::string_view call, const ordered_json& arguments, const std::string& result,
         const std::string& error, double took = -1) {
    Trace& t = *the_trace();
    if (t.json) {
        ordered_json line{{"time_ms", milliseconds()},
                          {"thread", thread_number()},
                          {"depth", depth},
                          {"event", mark == '>'   ? "begin"
                                    : mark == '<' ? "end"
                                                  : "call"},
                          {"from", mark == '.' ? "plugin" : "host"},
                          {"plugin", plugin_here()},
                          {"call", call}};
        if (mark != '<') line["arguments"] = arguments;
        if (!result.empty()) line["result"] = result;
        if (!error.empty()) line["error"] = error;
        if (took >= 0) line["took_ms"] = took;
        write_line(dumped(line));
        return;
    }
    std::string text;
    for (const auto& [name, value] : arguments.items())
        text += (text.empty() ? "" : ", ") + name + ": " + dumped(value);
    write_line(fmt::format("{:10.3f} {} {}{} {} {}{}{}{}{}", milliseconds(), thread_number(),
                           std::string(2 * depth, ' '), mark, plugin_here(), call,
                           mark == '<' ? "" : fmt::format("({})", text), result.empty() ? "" : " = " + result,
                           error.empty() ? "" : " " + shown(error), took >= 0 ? fmt::format(" {:.3f} ms", took) : ""));
}

// ---- what both directions look at

bool is_text(hk_string s) { return (s.data != nullptr || s.size == 0) && is_utf8(view(s)); }

void check_text(hk_string s) {
    if (s.data == nullptr && s.size > 0)
        broken("abi.1", fmt::format("a string is a null pointer with a size of {}", s.size));
    else if (!is_text(s))
        broken("abi.1", fmt::format("{} is not UTF-8", shown(view(s))));
}
template<class T>
void check_text(const T&) {}

void check_dims(const char* what, const int64_t* dims, uint32_t rank) {
    if (rank > HK_MAX_RANK || (rank > 0 && dims == nullptr))
        return broken("graph.4", fmt::format("{}: a rank of {}, or no dimensions", what, rank));
    double elements = 1;
    for (uint32_t i = 0; i < rank; ++i) {
        if (dims[i] < 0) broken("graph.4", fmt::format("{}: dimension {} is {}", what, i, dims[i]));
        elements *= static_cast<double>(std::max<int64_t>(dims[i], 0));
    }
    if (elements > 0x1p46) broken("graph.4", fmt::format("{}: {} elements", what, elements));
}

void check_name(const char* what, hk_string name) {
    if (name.size == 0 || !is_text(name)) broken("graph.5", fmt::format("{} of the name {}", what, shown(view(name))));
}

void check_numbers(const char* what, const int64_t* dims, uint32_t rank, const double* values) {
    if (values == nullptr || rank > HK_MAX_RANK || (rank > 0 && dims == nullptr)) return;
    int64_t count = 1;
    for (uint32_t i = 0; i < rank; ++i) {
        if (dims[i] < 0 || (dims[i] > 0 && count > (int64_t{1} << 46) / dims[i])) return;
        count *= dims[i];
    }
    for (int64_t i = 0; i < count; ++i)
        if (std::isnan(values[i])) return broken("graph.6", fmt::format("{}: value {} is NaN", what, i));
}

// The state of a builder that is in use; null, and said, where its build call is over.
BuilderState* state_of(const hk_builder* builder, std::string_view function) {
    Trace& t = *the_trace();
    std::unique_lock hold(t.lock);
    const auto found = t.builders.find(builder);
    if (found == t.builders.end()) {
        hold.unlock();
        broken("graph.8", fmt::format("{}() with a builder whose build call is over; it is not carried out", function));
        return nullptr;
    }
    BuilderState* state = &found->second;
    const bool other = state->thread != std::this_thread::get_id();
    hold.unlock();
    if (other) broken("abi.9", fmt::format("{}() from another thread than the build call's", function));
    return state;
}

void check_value(const BuilderState& state, hk_value value, std::string_view function) {
    if (value != 0 && !state.values.contains(value))
        broken("graph.3", fmt::format("{}() with the value {}, which this builder did not give", function, value));
}

void note_use(std::string_view table, uint32_t since) {
    Trace& t = *the_trace();
    const std::scoped_lock hold(t.lock);
    uint32_t& newest = t.used[std::string(table)];
    newest = std::max(newest, since);
}

// ---- host functions: hooks before and after, by the function

template<auto M>
struct TracedFunction; // name, parameters, first minor version
#define HK_TRACED_HOST(table, member, names, since)                                                                    \
    template<>                                                                                                         \
    struct TracedFunction<&table::member> {                                                                            \
        static constexpr const char *kTable = #table, *kName = #member, *kParameters = names;                          \
        static constexpr uint32_t kSince = since;                                                                      \
    };
#define HK_TRACED_PLUGIN(table, member, names, since) HK_TRACED_HOST(table, member, names, since)
#include "plugin/traced.inc"
#undef HK_TRACED_HOST
#undef HK_TRACED_PLUGIN

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

// What is wrong with the arguments of one call, beyond its strings.
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
void of_no_gradient(const BuilderState& state, const char* function) {
    if (state.in_gradient) broken("operation.7", fmt::format("{}() in a gradient", function));
}
HK_BEFORE(input, hk_string) { of_no_gradient(state, "input"); }
HK_BEFORE(parameter, hk_string name, const int64_t* dims, uint32_t rank, int32_t, double a, double b, uint32_t flags) {
    of_no_gradient(state, "parameter");
    check_name("a parameter", name);
    check_dims("a parameter", dims, rank);
    if (!std::isfinite(a) || !std::isfinite(b)) broken("graph.6", "an initializer that is not finite");
    if ((flags & ~HK_PARAMETER_NO_DECAY) != 0) broken("abi.8", fmt::format("flags {:#x} of a parameter", flags));
}
HK_BEFORE(buffer, hk_string name, int32_t, const int64_t* dims, uint32_t rank, const double* values) {
    of_no_gradient(state, "buffer");
    check_name("a buffer", name);
    check_dims("a buffer", dims, rank);
    check_numbers("a buffer", dims, rank, values);
}
HK_BEFORE(constant, int32_t, const int64_t* dims, uint32_t rank, const double* values) {
    check_dims("a constant", dims, rank);
    check_numbers("a constant", dims, rank, values);
}
HK_BEFORE(fill, int32_t, const int64_t* dims, uint32_t rank, double) { check_dims("fill", dims, rank); }
HK_BEFORE(step_scalar, hk_string name, double) {
    of_no_gradient(state, "step_scalar");
    check_name("a step scalar", name);
}
HK_BEFORE(emit, hk_string, uint32_t, const hk_value* inputs, uint32_t count, const hk_attribute* attributes,
          uint32_t attribute_count, hk_value*, uint32_t) {
    for (uint32_t i = 0; inputs != nullptr && i < count; ++i) check_value(state, inputs[i], "emit");
    for (uint32_t i = 0; attributes != nullptr && i < attribute_count; ++i) {
        const std::optional<hk_attribute> a = struct_at(attributes, i);
        if (!a) return broken("abi.5", fmt::format("attribute {} has a struct_size that cannot be", i));
        check_text(a->name);
        check_text(a->text);
    }
}
HK_BEFORE(shape, hk_value value, int64_t*, uint32_t*) { check_value(state, value, "shape"); }
HK_BEFORE(scope_begin, hk_string) { ++state.scopes; }
HK_BEFORE(scope_end) {
    if (--state.scopes < 0) broken("graph.7", "scope_end() without scope_begin()");
}
HK_BEFORE(recompute_begin) {
    if (state.region) broken("graph.7", "recompute_begin() inside of a region");
    state.region = true;
}
HK_BEFORE(recompute_end) {
    if (!state.region) broken("graph.7", "recompute_end() without recompute_begin()");
    state.region = false;
}
HK_BEFORE(offer, hk_string port, hk_value value) {
    of_no_gradient(state, "offer");
    check_name("a port", port);
    check_value(state, value, "offer");
}
HK_BEFORE(ask, hk_string) { of_no_gradient(state, "ask"); }
HK_BEFORE(loss, hk_string, hk_value sum, hk_value count, double weight) {
    of_no_gradient(state, "loss");
    check_value(state, sum, "loss");
    check_value(state, count, "loss");
    if (!std::isfinite(weight)) broken("graph.6", "a loss whose weight is not finite");
    ++state.losses;
}
HK_BEFORE(metric, hk_string, hk_value sum, hk_value count) {
    of_no_gradient(state, "metric");
    check_value(state, sum, "metric");
    check_value(state, count, "metric");
}
#undef HK_BEFORE

// Values that the host gave belong to the builder from now on.
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
        the_trace()->calls.fetch_add(1, std::memory_order_relaxed);
        note_use(Function::kTable, Function::kSince);
        const std::string name = call_name(Function::kTable, Function::kName);
        const std::tuple<A...> all(arguments...);
        (check_text(arguments), ...);
        const auto show = [&](const std::string& result) {
            say('.', frames().size(), name,
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
                    broken("tokenizer.1", fmt::format("{}() with a null tokenizer; it is not carried out", name));
                    return R{};
                }
            if constexpr (std::is_void_v<R>) {
                show("");
                (real_table<T>()->*M)(arguments...);
            } else {
                const R result = (real_table<T>()->*M)(arguments...);
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

// ---- plugin functions

struct Slot {
    const void* table = nullptr;
    std::string plugin, what; // "mixer", "architecture 'mixer'"
    uint32_t local_size = 0;  // of operations
};
constexpr int kSlots = 24; // of one interface; C functions carry nothing, so each has functions of its own
template<class T>
std::array<Slot, kSlots>& slots() {
    static std::array<Slot, kSlots> all;
    return all;
}

// The argument of a type; null where there is none.
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

// What a plugin pushes goes through here on its way to the host.
template<class Pushed>
struct Pushes {
    void (*push)(void*, Pushed) = nullptr;
    void* context = nullptr;
    uint64_t count = 0;

    static void look(const hk_field* given) {
        const std::optional<hk_field> field = struct_of(given);
        if (!field) return broken("abi.5", "a field whose struct_size cannot be");
        if (field->reserved != 0) broken("abi.8", "a field whose reserved member is not 0");
        if (field->kind != HK_KIND_INT32 && field->kind != HK_KIND_FLOAT32)
            broken("objective.3", fmt::format("a field of the kind {}", field->kind));
        if (field->rank > HK_MAX_RANK || field->name.size == 0)
            broken("objective.3",
                   fmt::format("a field with a rank of {} and the name {}", field->rank, shown(view(field->name))));
        check_text(field->name);
        say('.', frames().size(), "push",
            {{"field", json_of(field->name)},
             {"dims", list_of(field->dims, std::min<uint32_t>(field->rank, HK_MAX_RANK))}},
            "", "");
    }
    static void look(const hk_column_need* given) {
        const std::optional<hk_column_need> need = struct_of(given);
        if (!need) return broken("abi.5", "a column whose struct_size cannot be");
        if (need->reserved != 0 || (need->flags & ~(HK_COLUMN_OPTIONAL | HK_COLUMN_TARGET)) != 0)
            broken("abi.8", fmt::format("a column with flags {:#x}", need->flags));
        check_text(need->name);
        say('.', frames().size(), "push", {{"column", json_of(need->name)}}, "", "");
    }
    static void look(hk_string s) {
        check_text(s);
        say('.', frames().size(), "push", {{"text", json_of(s)}}, "", "");
    }
    static void forward(void* self, Pushed pushed) {
        auto& pushes = *static_cast<Pushes*>(self);
        ++pushes.count;
        look(pushed);
        pushes.push(pushes.context, pushed);
    }
};

// Calls f with the arguments, the pair (push, context) replaced; count: how often it was called.
template<class R, class F, class... A>
R with_pushes(F f, uint64_t& count, A... arguments) {
    if constexpr (sizeof...(A) >= 3) {
        auto all = std::make_tuple(arguments...);
        constexpr std::size_t kPush = sizeof...(A) - 3; // push, context and error are always the last
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

void check_operation_names(const hk_operation_description* given, Slot& slot) {
    const std::optional<hk_operation_description> d = struct_of(given);
    if (!d) return broken("abi.5", "a description that is null or whose struct_size cannot be");
    slot.local_size = d->local_size;
    if (d->reserved != 0) broken("abi.8", "a description whose reserved member is not 0");
    const auto check = [](std::string_view name) {
        const bool good = !name.empty() && name[0] >= 'a' && name[0] <= 'z' && std::ranges::all_of(name, [](char c) {
            return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
        });
        if (!good) broken("operation.4", fmt::format("the name {}", shown(name)));
    };
    for (uint32_t i = 0; d->inputs != nullptr && i < std::min(d->input_count, 256u); ++i)
        if (const std::optional<hk_operation_input> input = struct_at(d->inputs, i)) check(view(input->name));
    for (uint32_t i = 0; d->attributes != nullptr && i < std::min(d->attribute_count, 256u); ++i)
        if (const std::optional<hk_operation_attribute> a = struct_at(d->attributes, i)) check(view(a->name));
    for (uint32_t i = 0; d->outputs != nullptr && i < std::min(d->output_count, 256u); ++i) check(view(d->outputs[i]));
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

    // The rule about instances of this kind of plugin.
    static const char* life_rule() {
        return std::is_same_v<T, hk_architecture> ? "architecture.1"
               : std::is_same_v<T, hk_objective>  ? "objective.1"
               : std::is_same_v<T, hk_adapter>    ? "adapter.1"
                                                  : "head.1";
    }

    static R run(Slot& slot, A... arguments) {
        Trace& t = *the_trace();
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
        say('>', depth, name, arguments_of(Function::kParameters, all, std::make_index_sequence<sizeof...(A)>()), "",
            "");
        const double start = milliseconds();
        const auto end = [&](const std::string& result, const std::string& what) {
            say('<', depth, name, {}, result, what, milliseconds() - start);
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
                        broken("abi.2", fmt::format("{}() gives the code {}", kName, result));
                    else if (result != HK_OK && !none && builder == nullptr && error != nullptr &&
                             error->message.empty())
                        broken("error.1", fmt::format("{}() fails with {} and no message", kName, code_text(result)));
                    if constexpr (kName == "create") made_one(slot, result, made, before);
                    if constexpr (std::is_same_v<T, hk_head> && kName == "decode")
                        if (result == HK_OK && std::get<1>(all) != nullptr && pushed != std::get<1>(all)->row_count)
                            broken("head.2", fmt::format("decode() said something of {} rows, there are {}", pushed,
                                                         std::get<1>(all)->row_count));
                    if constexpr (std::is_same_v<T, hk_operation> && kName == "shape")
                        check_cost(slot, result, std::get<1>(all));
                    if (builder != nullptr && result == HK_OK) check_closed(*builder, kName);
                    end(code_text(result), error != nullptr && result != HK_OK ? error->message : "");
                } else if constexpr (std::is_pointer_v<R>) {
                    if constexpr (std::is_same_v<T, hk_operation>) check_operation_names(result, slot);
                    end(result != nullptr ? "a table" : "null", "");
                } else {
                    end(fmt::format("{}", result), "");
                }
                return result;
            }
        } catch (...) {
            broken("abi.4", fmt::format("{}() threw an exception", kName));
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
        if constexpr (std::is_same_v<T, hk_adapter> && kName == "adapt") state.values.insert(std::get<3>(all));
        Trace& t = *the_trace();
        const std::scoped_lock hold(t.lock);
        t.builders.insert_or_assign(&builder, std::move(state));
    }
    static void close(const hk_builder& builder) {
        Trace& t = *the_trace();
        const std::scoped_lock hold(t.lock);
        t.builders.erase(&builder);
    }
    static void check_closed(const hk_builder& builder, std::string_view function) {
        Trace& t = *the_trace();
        std::unique_lock hold(t.lock);
        const auto found = t.builders.find(&builder);
        if (found == t.builders.end()) return;
        const BuilderState& state = found->second;
        const bool open_scope = state.scopes > 0 || state.region;
        const bool no_loss = std::is_same_v<T, hk_objective> && state.losses == 0;
        hold.unlock();
        if (open_scope) broken("graph.7", fmt::format("a scope or region is still open after {}()", function));
        if (no_loss) broken("objective.4", "build() added no loss");
    }
    static void made_one(const Slot& slot, int32_t code, void** made, void* before) {
        if (made == nullptr) return;
        if (code != HK_OK) {
            if (*made != before) broken("abi.2", "create() fails and has written to *self");
            return;
        }
        if (*made == nullptr) return broken(life_rule(), "create() gives HK_OK and a null *self");
        Trace& t = *the_trace();
        std::unique_lock hold(t.lock);
        const bool fresh = t.instances.emplace(slot.what, *made).second;
        hold.unlock();
        if (!fresh) broken(life_rule(), "create() gives an instance that is in use already");
    }
    static void check_cost(const Slot& slot, int32_t code, const hk_operation_cost* cost) {
        if (code != HK_OK || cost == nullptr) return;
        if (cost->reserved != 0) broken("abi.8", "shape() sets a reserved member of the cost");
        if (slot.local_size > 0 && cost->invocations % slot.local_size != 0)
            broken("operation.5",
                   fmt::format("{} invocations, a local size of {}", cost->invocations, slot.local_size));
    }
};

// ---- tables of wrapped functions

template<class T>
const T* wrapped_host(const void* real) {
    real_table<T>() = static_cast<const T*>(real);
    static const T table = [] {
        T made{};
#define HK_TRACED_PLUGIN(type, member, names, since)
#define HK_TRACED_HOST(type, member, names, since)                                                                     \
    if constexpr (std::is_same_v<T, type>) made.*(&type::member) = HostCall<&type::member>::call;
#include "plugin/traced.inc"
#undef HK_TRACED_HOST
#undef HK_TRACED_PLUGIN
        return made;
    }();
    return &table;
}

template<class T, int N>
void fill_wrapped(T& made, const T& real) {
#define HK_TRACED_HOST(type, member, names, since)
#define HK_TRACED_PLUGIN(type, member, names, since)                                                                   \
    if constexpr (std::is_same_v<T, type>)                                                                             \
        if (real.*(&type::member) != nullptr) made.*(&type::member) = PluginCall<&type::member>::template call<N>;
#include "plugin/traced.inc"
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

Status start_trace(const TraceOptions& options) {
    if (the_trace() != nullptr) return failed_precondition("a trace runs already");
    auto trace = std::make_unique<Trace>();
    trace->json = options.json;
    if (!options.file.empty()) {
        trace->file = ::open(options.file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        if (trace->file < 0)
            return io_error(fmt::format("{}: the trace cannot be written: {}", options.file.string(),
                                        std::system_category().message(errno)));
    }
    the_trace() = trace.release(); // as long as the process: plugins keep the tables
    return {};
}

bool tracing() { return the_trace() != nullptr; }

TraceSummary trace_summary() {
    TraceSummary summary;
    if (!tracing()) return summary;
    Trace& t = *the_trace();
    summary.calls = t.calls;
    const std::scoped_lock hold(t.lock);
    summary.broken = t.broken;
    summary.used = t.used;
    return summary;
}

const void* traced_host_table(std::string_view interface_id, const void* table) {
    if (!tracing() || table == nullptr) return table;
    if (interface_id == HK_ERROR_INTERFACE) return wrapped_host<hk_error_interface>(table);
    if (interface_id == HK_CONFIG_INTERFACE) return wrapped_host<hk_config_interface>(table);
    if (interface_id == HK_GRAPH_INTERFACE) return wrapped_host<hk_graph_interface>(table);
    if (interface_id == HK_TOKENIZER_INTERFACE) return wrapped_host<hk_tokenizer_interface>(table);
    if (interface_id == HK_LOG_INTERFACE) return wrapped_host<hk_log_interface>(table);
    return table;
}

const void* traced_plugin_table(std::string_view plugin, std::string_view interface_id, std::string_view id,
                                const void* table) {
    if (!tracing() || table == nullptr) return table;
    const auto wrap = [&]<class T>(std::string_view kind, const T*) -> const void* {
        return wrapped_plugin<T>(plugin, fmt::format("{} '{}'", kind, id), table,
                                 std::make_integer_sequence<int, kSlots>());
    };
    if (interface_id == HK_ARCHITECTURE_INTERFACE)
        return wrap("architecture", static_cast<const hk_architecture*>(nullptr));
    if (interface_id == HK_OBJECTIVE_INTERFACE) return wrap("objective", static_cast<const hk_objective*>(nullptr));
    if (interface_id == HK_HEAD_INTERFACE) return wrap("head", static_cast<const hk_head*>(nullptr));
    if (interface_id == HK_ADAPTER_DRAFT) return wrap("adapter", static_cast<const hk_adapter*>(nullptr));
    if (interface_id == HK_OPERATION_INTERFACE) return wrap("operation", static_cast<const hk_operation*>(nullptr));
    return table;
}

void trace_entry(std::string_view plugin, std::string_view function, std::string_view what) {
    if (!tracing()) return;
    the_trace()->calls.fetch_add(1, std::memory_order_relaxed);
    frames().push_back({std::string(plugin), std::string(function), nullptr});
    say(function == "host.get_interface" ? '.' : '>', 0, function, {{"of", json_of(what)}}, "", "");
    frames().pop_back();
}

} // namespace hekla::plugin
