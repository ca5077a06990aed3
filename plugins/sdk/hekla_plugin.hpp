// A C++ layer over the plugin ABI: values with operators, RAII scopes, a config that is read by name, and trampolines
// that catch all exceptions. Header only; a plugin consists of build functions and one HEKLA_PLUGIN at the end.
//
// An invalid operation, and every other error of the graph, ends the build function at that call, so it needs no
// checks; the host's message contains the file and line of the author's source.
#pragma once

#include "hekla/plugin/architecture.h"
#include "hekla/plugin/head.h"
#include "hekla/plugin/log.h"
#include "hekla/plugin/objective.h"
#include "hekla/plugin/tokenizer.h"

#include <cstring>
#include <exception>
#include <initializer_list>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::plugin {

// The host's interfaces; set by init() before anything else runs, and constant afterwards.
struct HostInterfaces {
    const hk_host* host = nullptr;
    const hk_error_interface* error = nullptr;
    const hk_config_interface* config = nullptr;
    const hk_graph_interface* graph = nullptr;
    const hk_tokenizer_interface* tokenizer = nullptr;
    const hk_log_interface* log = nullptr;
};
inline HostInterfaces& host_interfaces() {
    static HostInterfaces interfaces;
    return interfaces;
}

inline hk_string text(std::string_view s) { return {s.data(), s.size()}; }
inline std::string_view view(hk_string s) { return {s.data, static_cast<std::size_t>(s.size)}; }

// Returns element i of an array of the host. Structs of a newer host may be longer than in these headers, so the first
// element contains their size. [abi.5]
template<class T>
T& element(T* first, std::size_t i) {
    const uint32_t size = first->struct_size;
    const char* at = reinterpret_cast<const char*>(first) + i * size;
    return *reinterpret_cast<T*>(const_cast<char*>(at));
}

// An exception for constructors and functions of a plugin; the trampolines turn it into the ABI's code and message.
class Error : public std::runtime_error {
public:
    Error(int32_t code, const std::string& message) : std::runtime_error(message), code_(code) {}
    int32_t code() const { return code_; }

private:
    int32_t code_;
};
inline Error invalid(const std::string& message) { return {HK_INVALID_ARGUMENT, message}; }
inline Error unsupported(const std::string& message) { return {HK_UNSUPPORTED, message}; }

inline int32_t report(hk_error* error, int32_t code, const char* message) noexcept {
    if (host_interfaces().error != nullptr) host_interfaces().error->set(error, code, {message, std::strlen(message)});
    return code;
}

// Runs f; returns HK_OK, or the code of its exception after setting `error`.
template<class F>
int32_t guarded(hk_error* error, F&& f) noexcept {
    try {
        f();
        return HK_OK;
    } catch (const Error& e) { return report(error, e.code(), e.what()); } catch (const std::bad_alloc&) {
        return report(error, HK_OUT_OF_MEMORY, "out of memory");
    } catch (const std::exception& e) { return report(error, HK_INTERNAL, e.what()); } catch (...) {
        return report(error, HK_INTERNAL, "an exception of an unknown type");
    }
}

// A location in the author's source. As a default argument it is the caller's location. (Some supported compilers do
// not have std::source_location yet.)
struct Location {
    const char* file = "";
    uint32_t line = 0;
    static constexpr Location here(const char* file = __builtin_FILE(), uint32_t line = __builtin_LINE()) {
        return {file, line};
    }
    // "mixer.cpp:12"
    std::string text() const {
        std::string name = file;
        name.erase(0, name.find_last_of("/\\") + 1);
        return name + ":" + std::to_string(line);
    }
};

class Graph;

using Dims = std::vector<int64_t>;

// A tensor of the graph being described. Empty (id 0) after an error, or if an option is omitted.
struct Value {
    Graph* graph = nullptr;
    hk_value id = 0;

    explicit operator bool() const { return id != 0; }
    Dims shape() const;
    int64_t dim(int axis) const; // axis may count from the end
    int rank() const { return static_cast<int>(shape().size()); }
    int32_t kind() const;
};

// The sum of loss rows that count, and their number, as an argument of Graph::loss().
struct LossSum {
    Value sum, count;
};

struct LossOptions {
    double weight = 1.0;
    std::string_view parameters{}; // that it trains; empty: all, where no loss names any
};

struct Initializer {
    int32_t kind = HK_INITIALIZE_CONSTANT;
    double a = 0.0, b = 0.0;
};
inline Initializer zeros() { return {HK_INITIALIZE_CONSTANT, 0.0, 0.0}; }
inline Initializer ones() { return {HK_INITIALIZE_CONSTANT, 1.0, 0.0}; }
inline Initializer constant_of(double value) { return {HK_INITIALIZE_CONSTANT, value, 0.0}; }
inline Initializer normal(double deviation, double mean = 0.0) { return {HK_INITIALIZE_NORMAL, mean, deviation}; }
inline Initializer uniform(double low, double high) { return {HK_INITIALIZE_UNIFORM, low, high}; }

// An attribute that owns the values it points to.
struct NamedAttribute {
    std::string name;
    hk_attribute raw{};
    std::string text = {};
    Dims integers = {};
    std::vector<double> reals = {};
    bool required = false; // in an own operation's declaration: there is no default
};
inline NamedAttribute attribute(const char* name, int64_t value) {
    NamedAttribute a{name};
    a.raw.type = HK_ATTRIBUTE_INT;
    a.raw.integer = value;
    return a;
}
inline NamedAttribute attribute(const char* name, int value) { return attribute(name, int64_t{value}); }
inline NamedAttribute attribute(const char* name, double value) {
    NamedAttribute a{name};
    a.raw.type = HK_ATTRIBUTE_REAL;
    a.raw.real = value;
    return a;
}
inline NamedAttribute attribute(const char* name, const std::string& value) {
    NamedAttribute a{name};
    a.raw.type = HK_ATTRIBUTE_TEXT;
    a.text = value;
    return a;
}
inline NamedAttribute attribute(const char* name, const Dims& value) {
    NamedAttribute a{name};
    a.raw.type = HK_ATTRIBUTE_INTS;
    a.integers = value;
    return a;
}
inline NamedAttribute attribute(const char* name, const std::vector<double>& value) {
    NamedAttribute a{name};
    a.raw.type = HK_ATTRIBUTE_REALS;
    a.reals = value;
    return a;
}
// Makes the raw attribute point to the values stored next to it; the attribute must not move afterwards.
inline void complete(NamedAttribute& a) {
    a.raw.struct_size = sizeof(hk_attribute);
    a.raw.name = text(a.name);
    a.raw.text = text(a.text);
    a.raw.integers = a.integers.data();
    a.raw.reals = a.reals.data();
    if (a.raw.type == HK_ATTRIBUTE_INTS) a.raw.count = a.integers.size();
    if (a.raw.type == HK_ATTRIBUTE_REALS) a.raw.count = a.reals.size();
}

// The builder of one build() call. Not copied, because values point to it. Invalid calls throw Error with the location
// in the author's source; the graph keeps the reason. `at` is never given: it is the location of the call.
class Graph {
public:
    explicit Graph(hk_builder* builder) : builder_(builder), api_(*host_interfaces().graph) {}
    Graph(const Graph&) = delete;
    Graph& operator=(const Graph&) = delete;

    hk_builder* raw() const { return builder_; }
    int32_t mode() const { return api_.mode(builder_); }
    bool training() const { return mode() == HK_MODE_TRAIN; }
    bool has_field(std::string_view field) { return api_.has_field(builder_, text(field)) != 0; }
    Value input(std::string_view field, Location at = Location::here()) {
        return got(api_.input(builder_, text(field)), at);
    }
    Value parameter(std::string_view name, const Dims& dims, Initializer initializer = zeros(), uint32_t flags = 0,
                    Location at = Location::here()) {
        return got(api_.parameter(builder_, text(name), dims.data(), rank(dims), initializer.kind, initializer.a,
                                  initializer.b, flags),
                   at);
    }
    Value buffer(std::string_view name, int32_t kind, const Dims& dims, const std::vector<double>& values,
                 Location at = Location::here()) {
        if (!holds(dims, values))
            return fail("buffer: the number of values does not fit the shape", HK_INVALID_ARGUMENT, at);
        return got(api_.buffer(builder_, text(name), kind, dims.data(), rank(dims), values.data()), at);
    }
    Value constant(int32_t kind, const Dims& dims, const std::vector<double>& values, Location at = Location::here()) {
        if (!holds(dims, values))
            return fail("constant: the number of values does not fit the shape", HK_INVALID_ARGUMENT, at);
        return got(api_.constant(builder_, kind, dims.data(), rank(dims), values.data()), at);
    }
    Value fill(const Dims& dims, double value, int32_t kind = HK_KIND_FLOAT, Location at = Location::here()) {
        return got(api_.fill(builder_, kind, dims.data(), rank(dims), value), at);
    }
    Value number(double value, Location at = Location::here()) { return fill({}, value, HK_KIND_FLOAT, at); }
    Value integer(int64_t value, Location at = Location::here()) {
        return fill({}, static_cast<double>(value), HK_KIND_INT32, at);
    }
    Value iota(int64_t length, int64_t start = 0, int64_t step = 1, Location at = Location::here()) {
        return got(api_.iota(builder_, length, start, step), at);
    }
    Value positions(int64_t batch, int64_t length, Location at = Location::here()) {
        return got(api_.positions(builder_, batch, length), at);
    }
#if HK_TARGET_ABI_MINOR >= 2
    // Returns a number that all of positions() in rows of this length are below.
    int64_t position_count(int64_t length) { return api_.position_count(builder_, length); }
#endif
    Value step_scalar(std::string_view name, double initial, Location at = Location::here()) {
        return got(api_.step_scalar(builder_, text(name), initial), at);
    }

    void offer(std::string_view port, Value value, Location at = Location::here()) {
        api_.offer(builder_, text(port), value.id);
        check(at);
    }
    bool has_port(std::string_view port) { return api_.has_port(builder_, text(port)) != 0; }
    Value ask(std::string_view port, Location at = Location::here()) { return got(api_.ask(builder_, text(port)), at); }
    void loss(std::string_view name, Value sum, Value count, double weight = 1.0, Location at = Location::here()) {
        api_.loss(builder_, text(name), sum.id, count.id, weight);
        check(at);
    }
    void loss(std::string_view name, const LossSum& total, double weight = 1.0, Location at = Location::here()) {
        loss(name, total.sum, total.count, weight, at);
    }
#if HK_TARGET_ABI_MINOR >= 1
    // A loss that trains the parameters of these names alone: patterns with *, separated by commas (for_parameters).
    void loss(std::string_view name, Value sum, Value count, const LossOptions& options,
              Location at = Location::here()) {
        const auto named = [&] {
            return emit("for_parameters", 1, {sum}, {attribute("names", std::string(options.parameters))}, 1, at)[0];
        };
        loss(name, options.parameters.empty() ? sum : named(), count, options.weight, at);
    }
    void loss(std::string_view name, const LossSum& total, const LossOptions& options, Location at = Location::here()) {
        loss(name, total.sum, total.count, options, at);
    }
#endif
    void metric(std::string_view name, Value sum, Value count, Location at = Location::here()) {
        api_.metric(builder_, text(name), sum.id, count.id);
        check(at);
    }
    // Ends the build function with the author's own error.
    Value fail(const std::string& message, int32_t code = HK_INVALID_ARGUMENT, Location at = Location::here()) {
        api_.fail(builder_, code, text(message));
        check(at);
        return {this, 0};
    }
    bool ok() const { return api_.status(builder_, nullptr) == HK_OK; }

    std::vector<Value> emit(const char* name, uint32_t revision, const std::vector<Value>& inputs,
                            std::vector<NamedAttribute> attributes, uint32_t output_count,
                            Location at = Location::here()) {
        std::vector<hk_value> ids;
        for (const Value& input : inputs) ids.push_back(input.id);
        std::vector<hk_attribute> raw;
        for (NamedAttribute& a : attributes) {
            complete(a);
            raw.push_back(a.raw);
        }
        std::vector<hk_value> outputs(output_count, 0);
        const int32_t code = api_.emit(builder_, text(name), revision, ids.data(), static_cast<uint32_t>(ids.size()),
                                       raw.data(), static_cast<uint32_t>(raw.size()), outputs.data(), output_count);
        if (code != HK_OK) end(code, at);
        std::vector<Value> values;
        for (const hk_value id : outputs) values.push_back({this, id});
        return values;
    }

    Dims shape(hk_value value) {
        int64_t dims[HK_MAX_RANK] = {};
        uint32_t rank = 0;
        if (api_.shape(builder_, value, dims, &rank) < 0) return {};
        return {dims, dims + rank};
    }
    int32_t kind(hk_value value) {
        int64_t dims[HK_MAX_RANK] = {};
        uint32_t rank = 0;
        return api_.shape(builder_, value, dims, &rank);
    }

    void scope_begin(std::string_view name) { api_.scope_begin(builder_, text(name)); }
    void scope_end() { api_.scope_end(builder_); }
    void recompute_begin() { api_.recompute_begin(builder_); }
    void recompute_end() { api_.recompute_end(builder_); }

private:
    friend class Caller;
    // Ends the description, because after the first error its result is unusable. The host knows the reason; this adds
    // the location.
    [[noreturn]] void end(int32_t code, Location at) const { throw Error(code, (caller_ ? *caller_ : at).text()); }
    void check(Location at) const {
        if (const int32_t code = api_.status(builder_, nullptr); code != HK_OK) end(code, at);
    }
    Value got(hk_value id, Location at) {
        if (id == 0) check(at);
        return {this, id};
    }
    static uint32_t rank(const Dims& dims) { return static_cast<uint32_t>(dims.size()); }
    static bool holds(const Dims& dims, const std::vector<double>& values) {
        int64_t product = 1;
        for (const int64_t dim : dims) product *= dim;
        return product >= 0 && static_cast<std::size_t>(product) == values.size();
    }
    hk_builder* builder_;
    const hk_graph_interface& api_;
    std::optional<Location> caller_;
};

// Reports errors at `at` during its lifetime, for functions that consist of several operations, such as those of
// block.hpp. If several are alive, the outermost counts.
class Caller {
public:
    Caller(Graph* graph, Location at) : graph_(graph != nullptr && !graph->caller_ ? graph : nullptr) {
        if (graph_ != nullptr) graph_->caller_ = at;
    }
    Caller(Graph& graph, Location at) : Caller(&graph, at) {}
    Caller(const Caller&) = delete;
    Caller& operator=(const Caller&) = delete;
    ~Caller() {
        if (graph_ != nullptr) graph_->caller_.reset();
    }

private:
    Graph* graph_;
};

inline Dims Value::shape() const { return graph != nullptr ? graph->shape(id) : Dims{}; }
inline int resolve_axis(int axis, std::size_t rank) { return axis < 0 ? axis + static_cast<int>(rank) : axis; }
inline int64_t Value::dim(int axis) const {
    const Dims dims = shape();
    const int i = resolve_axis(axis, dims.size());
    return i >= 0 && i < static_cast<int>(dims.size()) ? dims[static_cast<std::size_t>(i)]
                                                       : 1; // after an error: any valid size
}
inline int32_t Value::kind() const { return graph != nullptr ? graph->kind(id) : HK_KIND_FLOAT; }

inline Graph& graph_of(const std::vector<Value>& values, Location at = Location::here()) {
    for (const Value& value : values)
        if (value.graph != nullptr) return *value.graph;
    throw Error(HK_INVALID_ARGUMENT, "an operation was called on values that belong to no graph (" + at.text() + ")");
}

// Adds a name to the scope of everything described during its lifetime: "block.3", "attention".
class Scope {
public:
    Scope(Graph& graph, std::string_view name) : graph_(graph) { graph_.scope_begin(name); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope() { graph_.scope_end(); }

private:
    Graph& graph_;
};

// A region whose activations may be dropped and recomputed for the gradient.
class Recompute {
public:
    explicit Recompute(Graph& graph) : graph_(graph) { graph_.recompute_begin(); }
    Recompute(const Recompute&) = delete;
    Recompute& operator=(const Recompute&) = delete;
    ~Recompute() { graph_.recompute_end(); }

private:
    Graph& graph_;
};

} // namespace hekla::plugin

#include "operations.hpp"

namespace hekla::plugin {

// Returns a number of the same kind as the value next to it.
inline Value like(Value a, double number, Location at = Location::here()) {
    const int32_t kind = a.kind();
    return graph_of({a}, at).fill({}, number, kind < 0 ? HK_KIND_FLOAT : kind, at);
}

// A value with its location in the source, because operators cannot have the default argument that functions have.
struct Operand {
    Operand(Value written, Location here = Location::here()) : value(written), at(here) {}
    Value value;
    Location at;
};
inline Value operator+(Operand a, Value b) { return add(a.value, b, a.at); }
inline Value operator-(Operand a, Value b) { return sub(a.value, b, a.at); }
inline Value operator*(Operand a, Value b) { return mul(a.value, b, a.at); }
inline Value operator/(Operand a, Value b) { return div(a.value, b, a.at); }
inline Value operator-(Operand a) { return neg(a.value, a.at); }
inline Value operator+(Operand a, double b) { return add(a.value, like(a.value, b, a.at), a.at); }
inline Value operator-(Operand a, double b) { return sub(a.value, like(a.value, b, a.at), a.at); }
inline Value operator*(Operand a, double b) { return mul(a.value, like(a.value, b, a.at), a.at); }
inline Value operator/(Operand a, double b) { return div(a.value, like(a.value, b, a.at), a.at); }
inline Value operator+(double a, Operand b) { return add(like(b.value, a, b.at), b.value, b.at); }
inline Value operator-(double a, Operand b) { return sub(like(b.value, a, b.at), b.value, b.at); }
inline Value operator*(double a, Operand b) { return mul(like(b.value, a, b.at), b.value, b.at); }
inline Value operator/(double a, Operand b) { return div(like(b.value, a, b.at), b.value, b.at); }

// Emits a plugin's own operation, of this or another plugin, and returns its first output. own_outputs: the first
// `count`.
inline std::vector<Value> own_outputs(const char* name, uint32_t revision, const std::vector<Value>& inputs,
                                      uint32_t count, const std::vector<NamedAttribute>& attributes = {},
                                      Location at = Location::here()) {
    return graph_of(inputs, at).emit(name, revision, inputs, attributes, count, at);
}
inline Value own(const char* name, uint32_t revision, const std::vector<Value>& inputs,
                 const std::vector<NamedAttribute>& attributes = {}, Location at = Location::here()) {
    return own_outputs(name, revision, inputs, 1, attributes, at)[0];
}

inline Value equal(Value a, Value b, Location at = Location::here()) { return compare(a, b, 0, at); }
inline Value not_equal(Value a, Value b, Location at = Location::here()) { return compare(a, b, 1, at); }
inline Value less(Value a, Value b, Location at = Location::here()) { return compare(a, b, 2, at); }
inline Value less_equal(Value a, Value b, Location at = Location::here()) { return compare(a, b, 3, at); }
inline Value greater(Value a, Value b, Location at = Location::here()) { return compare(a, b, 4, at); }
inline Value greater_equal(Value a, Value b, Location at = Location::here()) { return compare(a, b, 5, at); }
inline Value equal(Value a, double b, Location at = Location::here()) { return compare(a, like(a, b, at), 0, at); }
inline Value not_equal(Value a, double b, Location at = Location::here()) { return compare(a, like(a, b, at), 1, at); }
inline Value less(Value a, double b, Location at = Location::here()) { return compare(a, like(a, b, at), 2, at); }
inline Value less_equal(Value a, double b, Location at = Location::here()) { return compare(a, like(a, b, at), 3, at); }
inline Value greater(Value a, double b, Location at = Location::here()) { return compare(a, like(a, b, at), 4, at); }
inline Value greater_equal(Value a, double b, Location at = Location::here()) {
    return compare(a, like(a, b, at), 5, at);
}
inline Value pow(Value a, double b, Location at = Location::here()) { return pow(a, like(a, b, at), at); }
inline Value to_float(Value x, Location at = Location::here()) { return cast(x, HK_KIND_FLOAT, at); }
inline Value to_float32(Value x, Location at = Location::here()) { return cast(x, HK_KIND_FLOAT32, at); }
inline Value to_int(Value x, Location at = Location::here()) { return cast(x, HK_KIND_INT32, at); }
inline Value sum_all(Value x, Location at = Location::here()) {
    Dims axes;
    for (int axis = 0; axis < x.rank(); ++axis) axes.push_back(axis);
    return sum(x, axes, {}, at);
}

// A configuration with access by name. Every function throws Error if a key is missing or of another type.
class Config {
public:
    explicit Config(const hk_config* config) : config_(config), api_(*host_interfaces().config) {}

    const hk_config* raw() const { return config_; }
    // Returns whether the key exists and is not null.
    bool has(std::string_view key) const { return api_.has(config_, text(key)) != 0; }
#if HK_TARGET_ABI_MINOR >= 2
    // Returns whether the key exists and is null; a parameter with a default needs "null": true in the manifest.
    bool is_null(std::string_view key) const { return api_.is_null(config_, text(key)) != 0; }
#endif
    int64_t integer(std::string_view key) const {
        int64_t value = 0;
        check(api_.get_integer(config_, text(key), &value, nullptr), key, "an integer");
        return value;
    }
    double real(std::string_view key) const {
        double value = 0;
        check(api_.get_real(config_, text(key), &value, nullptr), key, "a number");
        return value;
    }
    bool boolean(std::string_view key) const {
        int32_t value = 0;
        check(api_.get_boolean(config_, text(key), &value, nullptr), key, "true or false");
        return value != 0;
    }
    std::string string(std::string_view key) const {
        hk_string value{};
        check(api_.get_text(config_, text(key), &value, nullptr), key, "a text");
        return std::string(view(value));
    }
    int64_t integer(std::string_view key, int64_t otherwise) const { return has(key) ? integer(key) : otherwise; }
    double real(std::string_view key, double otherwise) const { return has(key) ? real(key) : otherwise; }
    bool boolean(std::string_view key, bool otherwise) const { return has(key) ? boolean(key) : otherwise; }
    std::string string(std::string_view key, const char* otherwise) const { return has(key) ? string(key) : otherwise; }
    // Returns whether the key is an object or an array, even an empty one.
    bool holds_members(std::string_view key) const {
        uint64_t value = 0;
        return api_.get_count(config_, text(key), &value, nullptr) == HK_OK;
    }
    uint64_t count(std::string_view key) const {
        uint64_t value = 0;
        check(api_.get_count(config_, text(key), &value, nullptr), key, "an object or an array");
        return value;
    }

private:
    void check(int32_t code, std::string_view key, const char* expected) const {
        if (code == HK_OK) return;
        throw Error(code, "config key '" + std::string(key) + "' " + (has(key) ? "is not " : "is missing, expected ") +
                              expected);
    }
    const hk_config* config_;
    const hk_config_interface& api_;
};

class ConfigWriter {
public:
    explicit ConfigWriter(hk_config_writer* writer) : writer_(writer), api_(*host_interfaces().config) {}
    void set(std::string_view key, int64_t value) { check(api_.set_integer(writer_, text(key), value, nullptr), key); }
    void set(std::string_view key, int value) { set(key, static_cast<int64_t>(value)); }
    void set(std::string_view key, double value) { check(api_.set_real(writer_, text(key), value, nullptr), key); }
    void set(std::string_view key, bool value) {
        check(api_.set_boolean(writer_, text(key), value ? 1 : 0, nullptr), key);
    }
    void set(std::string_view key, const std::string& value) {
        check(api_.set_text(writer_, text(key), text(value), nullptr), key);
    }
    void set(std::string_view key, const char* value) { set(key, std::string(value)); }
    void set_null(std::string_view key) { check(api_.set_null(writer_, text(key), nullptr), key); }
    template<class T>
    void set(std::string_view key, const std::vector<T>& values) {
        check(api_.set_array(writer_, text(key), values.size(), nullptr), key);
        for (std::size_t i = 0; i < values.size(); ++i) set(std::string(key) + "." + std::to_string(i), values[i]);
    }

private:
    void check(int32_t code, std::string_view key) {
        if (code != HK_OK) throw Error(code, "cannot write config key '" + std::string(key) + "'");
    }
    hk_config_writer* writer_;
    const hk_config_interface& api_;
};

// Trampolines. An architecture T has: T(const Config&), void build(Graph&), bool head(Graph&, std::string_view id)
// (false: it does not have this head), void write(ConfigWriter&).
template<class T>
const hk_architecture* architecture() {
    static const hk_architecture kTable = {
        [](const hk_config* config, void** self, hk_error* error) -> int32_t {
            return guarded(error, [&] { *self = std::make_unique<T>(Config(config)).release(); });
        },
        [](void* self) { delete static_cast<T*>(self); },
        [](void* self, hk_builder* builder, hk_error* error) -> int32_t {
            return guarded(error, [&] {
                Graph graph(builder);
                static_cast<T*>(self)->build(graph);
            });
        },
        [](void* self, hk_builder* builder, hk_string head, hk_error* error) -> int32_t {
            bool found = true;
            const int32_t code = guarded(error, [&] {
                Graph graph(builder);
                found = static_cast<T*>(self)->head(graph, view(head));
            });
            return code == HK_OK && !found ? HK_NOT_FOUND : code;
        },
        [](void* self, hk_config_writer* writer, hk_error* error) -> int32_t {
            return guarded(error, [&] {
                ConfigWriter out(writer);
                static_cast<T*>(self)->write(out);
            });
        },
    };
    return &kTable;
}

// A head T has: T(const Config&), void build(Graph&). For a head with decode use decoding_head (decoding.hpp).
template<class T>
hk_head head_table() {
    hk_head table{};
    table.create = [](const hk_config* config, void** self, hk_error* error) -> int32_t {
        return guarded(error, [&] { *self = std::make_unique<T>(Config(config)).release(); });
    };
    table.destroy = [](void* self) { delete static_cast<T*>(self); };
    table.build = [](void* self, hk_builder* builder, hk_error* error) -> int32_t {
        return guarded(error, [&] {
            Graph graph(builder);
            static_cast<T*>(self)->build(graph);
        });
    };
    return table;
}

// A field of a batch.
struct Field {
    std::string name;
    int32_t kind = HK_KIND_INT32;
    Dims dims;
};

// A column that an objective reads, e.g. {"label", HK_COLUMN_CLASSES, HK_COLUMN_TARGET}.
struct ColumnNeed {
    std::string name;
    int32_t kind = HK_COLUMN_TOKENS;
    uint32_t flags = 0;
};

// An objective T has: T(const Config&, const hk_tokenizer*), static constexpr int32_t example_kind, std::vector<Field>
// fields(int64_t batch, int64_t length), void build(Graph&);
// to train from text, void collate(const hk_batch&, hk_field* fields, uint32_t count) (collate.hpp makes these easy to
// read), and either int64_t tokens_per_example(int64_t length) or std::vector<ColumnNeed> columns();
// if examples differ in length, int64_t example_length(const hk_example&).
template<class T>
hk_objective objective_table() {
    hk_objective table{};
    table.create = [](const hk_config* config, const hk_tokenizer* tokenizer, void** self, hk_error* error) -> int32_t {
        return guarded(error, [&] { *self = std::make_unique<T>(Config(config), tokenizer).release(); });
    };
    table.destroy = [](void* self) { delete static_cast<T*>(self); };
    table.example_kind = [](void*) -> int32_t { return T::example_kind; };
    table.tokens_per_example = [](void* self, int64_t length) -> int64_t {
        if constexpr (requires(T & t) { t.tokens_per_example(int64_t{}); })
            return static_cast<T*>(self)->tokens_per_example(length);
        else
            return length;
    };
    if constexpr (requires(T & t) { t.columns(); }) {
        table.columns = [](void* self, void (*push)(void*, const hk_column_need*), void* context,
                           hk_error* error) -> int32_t {
            return guarded(error, [&] {
                for (const ColumnNeed& need : static_cast<T*>(self)->columns()) {
                    const hk_column_need raw{sizeof(hk_column_need), need.kind, text(need.name), need.flags, 0};
                    push(context, &raw);
                }
            });
        };
    }
    if constexpr (requires(T & t, const hk_example& e) { t.example_length(e); }) {
        table.example_length = [](void* self, const hk_example* example) -> int64_t {
            int64_t length = 0;
            const int32_t code = guarded(nullptr, [&] { length = static_cast<T*>(self)->example_length(*example); });
            return code == HK_OK ? length : 0;
        };
    }
    table.fields = [](void* self, int64_t batch, int64_t length, void (*push)(void*, const hk_field*), void* context,
                      hk_error* error) -> int32_t {
        return guarded(error, [&] {
            for (const Field& field : static_cast<T*>(self)->fields(batch, length)) {
                hk_field raw{};
                raw.struct_size = sizeof raw;
                raw.kind = field.kind;
                raw.name = text(field.name);
                raw.rank = static_cast<uint32_t>(field.dims.size());
                for (std::size_t i = 0; i < field.dims.size() && i < HK_MAX_RANK; ++i) raw.dims[i] = field.dims[i];
                push(context, &raw);
            }
        });
    };
    table.build = [](void* self, hk_builder* builder, hk_error* error) -> int32_t {
        return guarded(error, [&] {
            Graph graph(builder);
            static_cast<T*>(self)->build(graph);
        });
    };
    if constexpr (requires(T & t, const hk_batch& b, hk_field* f) { t.collate(b, f, uint32_t{}); }) {
        table.collate = [](void* self, const hk_batch* batch, hk_field* fields, uint32_t field_count,
                           hk_error* error) -> int32_t {
            return guarded(error, [&] { static_cast<T*>(self)->collate(*batch, fields, field_count); });
        };
    }
    return table;
}

template<class T>
const hk_head* head() {
    static const hk_head kTable = head_table<T>();
    return &kTable;
}
template<class T>
const hk_objective* objective() {
    static const hk_objective kTable = objective_table<T>();
    return &kTable;
}

// An interface that a plugin library provides: (interface id, id) -> table.
struct Offer {
    const char* interface_id;
    const char* id;
    const void* table;
};

inline int32_t initialize(const hk_host* host, hk_error* error) {
    HostInterfaces& interfaces = host_interfaces();
    const auto get = [host](const char* id) { return host->get_interface(host, {id, std::strlen(id)}); };
    if (interfaces.host != nullptr) { // [entry.8]
        constexpr std::string_view kTaken = "the plugin serves another host in this process already";
        const auto* set = static_cast<const hk_error_interface*>(get(HK_ERROR_INTERFACE));
        if (set != nullptr) set->set(error, HK_FAILED_PRECONDITION, text(kTaken));
        return HK_FAILED_PRECONDITION;
    }
    interfaces.host = host;
    interfaces.error = static_cast<const hk_error_interface*>(get(HK_ERROR_INTERFACE));
    interfaces.config = static_cast<const hk_config_interface*>(get(HK_CONFIG_INTERFACE));
    interfaces.graph = static_cast<const hk_graph_interface*>(get(HK_GRAPH_INTERFACE));
    interfaces.tokenizer = static_cast<const hk_tokenizer_interface*>(get(HK_TOKENIZER_INTERFACE));
    interfaces.log = static_cast<const hk_log_interface*>(get(HK_LOG_INTERFACE));
    if (interfaces.error != nullptr && interfaces.config != nullptr && interfaces.graph != nullptr) return HK_OK;
    interfaces.host = nullptr;
    return report(error, HK_UNSUPPORTED, "the host lacks hekla.error/1, hekla.config/1 or hekla.graph/1");
}

} // namespace hekla::plugin

// HEKLA_PLUGIN({HK_ARCHITECTURE_INTERFACE, "gpt2", hekla::plugin::architecture<Gpt2>()}, ...): the one export.
#define HEKLA_PLUGIN(...)                                                                                              \
    extern "C" HK_EXPORT const hk_plugin_entry* hekla_plugin_entry(void);                                              \
    extern "C" const hk_plugin_entry* hekla_plugin_entry(void) {                                                       \
        static const hekla::plugin::Offer hekla_offers[] = {__VA_ARGS__};                                              \
        static const hk_plugin_entry entry = {                                                                         \
            HK_ENTRY_MAGIC,                                                                                            \
            static_cast<uint32_t>(sizeof(hk_plugin_entry)),                                                            \
            HK_ABI_MAJOR,                                                                                              \
            HK_TARGET_ABI_MINOR,                                                                                       \
            HK_ABI_MINOR,                                                                                              \
            0,                                                                                                         \
            {nullptr, 0},                                                                                              \
            [](const hk_host* host, hk_error* error) -> int32_t { return hekla::plugin::initialize(host, error); },    \
            [] { hekla::plugin::host_interfaces().host = nullptr; },                                                   \
            [](hk_string interface_id, hk_string id) -> const void* {                                                  \
                for (const auto& offer : hekla_offers)                                                                 \
                    if (hekla::plugin::view(interface_id) == offer.interface_id &&                                     \
                        hekla::plugin::view(id) == offer.id)                                                           \
                        return offer.table;                                                                            \
                return nullptr;                                                                                        \
            },                                                                                                         \
        };                                                                                                             \
        return &entry;                                                                                                 \
    }
