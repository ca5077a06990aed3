// A plugin's own operations in C++: the interface of operation.h, without its arrays. An operation is a class of static
// functions:
//
//     struct SwishGate { // y = x * sigmoid(sharpness * gate)
//         static OperationText describe() {
//             return {.inputs = {{"x"}, {"gate"}},
//                     .attributes = {attribute("sharpness", 1.0)},
//                     .outputs = {"y"},
//                     .glsl = R"(void operation(uint i) {
//                         store_y(i, load_x(i) / (1.0 + exp(-sharpness * load_gate(i))));
//                     })"};
//         }
//         static void shape(OperationUse& use) {
//             use.require_same_shape(0, 1);
//             use.give(0, use.shape(0));
//         }
//         static std::vector<Value> gradient(const OperationGradient& d) {
//             const double k = d.real("sharpness");
//             const Value s = sigmoid(d.inputs[1] * k), dy = d.output_gradients[0];
//             return {dy * s, dy * d.inputs[0] * s * (1.0 - s) * k};
//         }
//         static void reference(OperationUse& use) {
//             for (std::size_t i = 0; i < use.output(0).size(); ++i)
//                 use.output(0)[i] = use.input(0)[i] / (1.0 + std::exp(-use.real("sharpness") * use.input(1)[i]));
//         }
//     };
//     HEKLA_PLUGIN({HK_OPERATION_INTERFACE, "acme.swish_gate", operation<SwishGate>()}, ...)
//
// and is used in a build function as  own("acme.swish_gate", 1, {x, gate}, {attribute("sharpness", 2.0)}).
// Without gradient() it is not differentiable.
#pragma once

#include "hekla_plugin.hpp"

#include "hekla/plugin/operation.h"

#include <span>

namespace hekla::plugin {

// GLSL with its location in the author's file, so that the compiler's messages have the right line numbers.
struct Glsl {
    Glsl() = default;
    Glsl(const char* glsl, Location at = Location::here()) : text(glsl), file(at.file), line(at.line) {
        file.erase(0, file.find_last_of("/\\") + 1);
    }
    std::string text, file;
    uint32_t line = 0;
};

struct OperationInput {
    std::string name;
    int32_t kind = HK_KIND_FLOAT; // also accepts float32; or HK_KIND_INT32
};

// Declares an attribute without a default, as opposed to attribute("name", default): required("table",
// HK_ATTRIBUTE_INTS).
inline NamedAttribute required(const char* name, int32_t type) {
    NamedAttribute a = attribute(name, int64_t{0});
    a.raw.type = type;
    a.required = true;
    return a;
}

struct OperationText {
    uint32_t revision = 1;
    std::vector<OperationInput> inputs = {};
    std::vector<NamedAttribute> attributes = {};
    std::vector<std::string> outputs = {};
    uint32_t local_size = 0;
    Glsl glsl = {};
    std::vector<uint32_t> spirv = {}; // instead of glsl
};

// The attributes of a use, by name; an unknown name or another type throws Error.
class OperationAttributes {
public:
    OperationAttributes(const hk_attribute* attributes, uint32_t count) : attributes_(attributes), count_(count) {}
    int64_t integer(std::string_view name) const { return find(name, HK_ATTRIBUTE_INT).integer; }
    double real(std::string_view name) const { return find(name, HK_ATTRIBUTE_REAL).real; }
    std::string_view string(std::string_view name) const { return view(find(name, HK_ATTRIBUTE_TEXT).text); }
    std::span<const int64_t> integers(std::string_view name) const {
        const hk_attribute& a = find(name, HK_ATTRIBUTE_INTS);
        return {a.integers, static_cast<std::size_t>(a.count)};
    }
    std::span<const double> reals(std::string_view name) const {
        const hk_attribute& a = find(name, HK_ATTRIBUTE_REALS);
        return {a.reals, static_cast<std::size_t>(a.count)};
    }

private:
    const hk_attribute& find(std::string_view name, int32_t type) const {
        for (uint32_t i = 0; i < count_; ++i)
            if (const hk_attribute& a = element(attributes_, i); view(a.name) == name && a.type == type) return a;
        throw Error(HK_INTERNAL, "there is no attribute '" + std::string(name) + "' of this type");
    }
    const hk_attribute* attributes_;
    uint32_t count_;
};

// One use: shapes, and in reference() the numbers. Inputs and outputs are addressed by index.
class OperationUse : public OperationAttributes {
public:
    explicit OperationUse(const hk_operation_use* use, hk_operation_cost* cost = nullptr)
        : OperationAttributes(use->attributes, use->attribute_count), use_(*use), cost_(cost) {}

    Dims shape(std::size_t input) const { return dims(in(input)); }
    Dims output_shape(std::size_t output) const { return dims(out(output)); }
    int32_t kind(std::size_t input) const { return in(input).kind; }
    std::span<const double> input(std::size_t i) const { return {in(i).data, elements(in(i))}; }
    std::span<double> output(std::size_t i) { return {out(i).data, elements(out(i))}; }

    // In shape(): sets an output's shape, and the cost if the host's estimate is wrong.
    void give(std::size_t output, const Dims& shape, int32_t kind = HK_KIND_FLOAT) {
        if (shape.size() > HK_MAX_RANK) throw invalid("more than six dimensions");
        hk_operation_tensor& to = out(output);
        to.kind = kind;
        to.rank = static_cast<uint32_t>(shape.size());
        for (std::size_t d = 0; d < shape.size(); ++d) to.dims[d] = shape[d];
    }
    void invocations(int64_t count) { cost().invocations = static_cast<uint64_t>(count); }
    void flops(double count) { cost().flops = count; }
    void bytes(double count) { cost().bytes = count; }
    void require_same_shape(std::size_t a, std::size_t b) const {
        if (shape(a) != shape(b))
            throw invalid("inputs " + std::to_string(a) + " and " + std::to_string(b) + " are " + said(shape(a)) +
                          " and " + said(shape(b)) + "; they must be alike");
    }
    void require_rank(std::size_t input, std::size_t rank) const {
        if (shape(input).size() != rank)
            throw invalid("input " + std::to_string(input) + " is " + said(shape(input)) + ", expected " +
                          std::to_string(rank) + " dimensions");
    }

private:
    static std::string said(const Dims& shape) {
        std::string text;
        for (const int64_t dim : shape) text += (text.empty() ? "" : ", ") + std::to_string(dim);
        return "[" + text + "]";
    }
    static Dims dims(const hk_operation_tensor& t) { return {t.dims, t.dims + t.rank}; }
    static std::size_t elements(const hk_operation_tensor& t) {
        int64_t count = 1;
        for (uint32_t d = 0; d < t.rank; ++d) count *= t.dims[d];
        return static_cast<std::size_t>(count);
    }
    const hk_operation_tensor& in(std::size_t i) const {
        if (i >= use_.input_count) throw Error(HK_INTERNAL, "there is no input " + std::to_string(i));
        return element(use_.inputs, i);
    }
    hk_operation_tensor& out(std::size_t i) const {
        if (i >= use_.output_count) throw Error(HK_INTERNAL, "there is no output " + std::to_string(i));
        return element(use_.outputs, i);
    }
    hk_operation_cost& cost() {
        if (cost_ == nullptr) throw Error(HK_INTERNAL, "set the cost in shape()");
        return *cost_;
    }
    const hk_operation_use& use_;
    hk_operation_cost* cost_;
};

// The arguments of gradient(), which returns a value for each input, {} for an input without a gradient.
class OperationGradient : public OperationAttributes {
public:
    OperationGradient(Graph& graph, const hk_operation_gradient& use)
        : OperationAttributes(use.attributes, use.attribute_count), graph(graph) {
        for (uint32_t i = 0; i < use.input_count; ++i) inputs.push_back({&graph, use.inputs[i]});
        for (uint32_t i = 0; i < use.output_count; ++i) {
            outputs.push_back({&graph, use.outputs[i]});
            output_gradients.push_back({&graph, use.output_gradients[i]});
        }
    }
    Graph& graph;
    std::vector<Value> inputs, outputs;
    std::vector<Value> output_gradients; // empty for int32 outputs
};

// The description in the form of the ABI. Points into itself, so it must not move.
class OperationDescription {
public:
    explicit OperationDescription(OperationText given) : text_(std::move(given)) {
        for (const OperationInput& input : text_.inputs)
            inputs_.push_back({sizeof(hk_operation_input), input.kind, text(input.name)});
        for (NamedAttribute& a : text_.attributes) complete(a);
        for (const NamedAttribute& a : text_.attributes)
            attributes_.push_back(
                {sizeof(hk_operation_attribute), a.raw.type, text(a.name), a.required ? nullptr : &a.raw});
        for (const std::string& output : text_.outputs) outputs_.push_back(text(output));
        raw_.struct_size = sizeof raw_;
        raw_.revision = text_.revision;
        raw_.input_count = static_cast<uint32_t>(inputs_.size());
        raw_.attribute_count = static_cast<uint32_t>(attributes_.size());
        raw_.output_count = static_cast<uint32_t>(outputs_.size());
        raw_.local_size = text_.local_size;
        raw_.inputs = inputs_.data();
        raw_.attributes = attributes_.data();
        raw_.outputs = outputs_.data();
        raw_.glsl = text(text_.glsl.text);
        raw_.glsl_file = text(text_.glsl.file);
        raw_.glsl_line = text_.glsl.line;
        raw_.spirv = text_.spirv.data();
        raw_.spirv_count = text_.spirv.size();
    }
    OperationDescription(const OperationDescription&) = delete;
    OperationDescription& operator=(const OperationDescription&) = delete;
    const hk_operation_description* raw() const { return &raw_; }

private:
    OperationText text_;
    std::vector<hk_operation_input> inputs_;
    std::vector<hk_operation_attribute> attributes_;
    std::vector<hk_string> outputs_;
    hk_operation_description raw_{};
};

template<class T>
const hk_operation* operation() {
    static const hk_operation kTable = [] {
        hk_operation made{};
        made.describe = []() -> const hk_operation_description* {
            const hk_operation_description* described = nullptr;
            guarded(nullptr, [&] {
                static const auto& kept = *new OperationDescription(T::describe());
                described = kept.raw();
            });
            return described;
        };
        made.shape = [](const hk_operation_use* raw, hk_operation_cost* cost, hk_error* error) -> int32_t {
            return guarded(error, [&] {
                OperationUse use(raw, cost);
                T::shape(use);
            });
        };
        if constexpr (requires(const OperationGradient& d) { T::gradient(d); }) {
            made.gradient = [](hk_builder* builder, const hk_operation_gradient* use, hk_error* error) -> int32_t {
                return guarded(error, [&] {
                    Graph graph(builder);
                    const std::vector<Value> made_of = T::gradient(OperationGradient(graph, *use));
                    if (made_of.size() != use->input_count)
                        throw Error(HK_INTERNAL, "there are " + std::to_string(made_of.size()) + " gradients for " +
                                                     std::to_string(use->input_count) +
                                                     " inputs; {} marks an input without a gradient");
                    for (std::size_t i = 0; i < made_of.size(); ++i) use->input_gradients[i] = made_of[i].id;
                });
            };
        }
        made.reference = [](const hk_operation_use* raw, hk_error* error) -> int32_t {
            return guarded(error, [&] {
                OperationUse use(raw);
                T::reference(use);
            });
        };
        return made;
    }();
    return &kTable;
}

} // namespace hekla::plugin
