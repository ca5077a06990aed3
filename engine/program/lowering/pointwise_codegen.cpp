// Generates GLSL for a group of pointwise operations. The text depends on the operations and on the layout of operands
// (dense, one element, or strided along certain dimensions), never on sizes, so a longer batch compiles nothing.
#include "base/hash.hpp"
#include "program/lowering/glsl_record.hpp"
#include "program/lowering/glsl_text.hpp"
#include "program/lowering/loop.hpp"
#include "program/lowering/pointwise.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace hekla::program {

namespace {

using graph::Op;

// How an operand is read in the loop.
enum class Reading : uint8_t { dense, one, strided, number };

struct Operand {
    graph::ValueId value = 0;
    View view; // broadcast to the loop's shape; not for numbers
    Reading reading = Reading::dense;
    bool integer = false;
    double number = 0;
};

// Elements that a lane computes in an iteration of the loop. Where lanes are together an iteration is expensive, since
// its counter and mask are kept in memory. The text has them one after the other: spirv-opt, which would unroll a loop,
// loses `precise` in all but the first.
constexpr uint32_t kTogether = 4;

class Generator {
public:
    Generator(Lowering& lowering, const PointwiseGroup& group)
        : lowering_(lowering), graph_(*lowering.graph), group_(group), shape_(graph_.shape(group.outputs.front())) {}

    Result<GeneratedKernel> generate() {
        collect_operands();
        make_outputs();
        if (kernel_.outputs.front().elements() == 0) {
            kernel_.dispatch.groups = 0;
            return std::move(kernel_);
        }
        classify();
        HK_TRY(write_body());
        assemble();
        return std::move(kernel_);
    }

private:
    const char* type(graph::ValueId value) const { return graph::is_float(graph_.kind(value)) ? "float" : "int"; }

    void collect_operands() {
        std::set<graph::ValueId> made;
        for (const graph::NodeId id : group_.nodes) {
            for (const graph::ValueId input : graph_.nodes[id].inputs) {
                if (made.contains(input) || names_.contains(input)) continue;
                Operand operand;
                operand.value = input;
                operand.integer = !graph::is_float(graph_.kind(input));
                const graph::Node& producer = graph_.producer(input);
                if (producer.op == Op::fill) {
                    operand.reading = Reading::number;
                    operand.number = producer.real("value");
                } else {
                    operand.view = broadcast_view(lowering_.view(input), shape_);
                }
                names_[input] = fmt::format("x{}", operands_.size());
                operands_.push_back(operand);
            }
            made.insert(graph_.nodes[id].outputs[0]);
        }
    }

    void make_outputs() {
        for (const graph::ValueId output : group_.outputs) {
            kernel_.outputs.push_back(lowering_.allocate(shape_, storage_of_result(lowering_, output),
                                                         graph::info(graph_.producer(output).op).name));
        }
    }

    void classify() {
        std::vector<View> views{kernel_.outputs.front()};
        for (const Operand& operand : operands_)
            if (operand.reading != Reading::number) views.push_back(operand.view);
        loop_ = make_loop(views);
        std::size_t at = 1;
        for (Operand& operand : operands_) {
            if (operand.reading == Reading::number) continue;
            operand.reading = loop_.linear(at) ? Reading::dense : loop_.uniform(at) ? Reading::one : Reading::strided;
            any_strided_ = any_strided_ || operand.reading == Reading::strided;
            at_of_[operand.value] = at++;
        }
        // Lanes in one row of the innermost dimension share all coordinates but the last.
        together_ = lowering_.limits.uniform_loads;
        by_rows_ = together_ && loop_.dims.back() % lowering_.limits.subgroup_size == 0;
    }

    // Add members of the record, each with a variable of the same name that main() reads once.
    void address(const std::string& name, const RecordAddress& address, const char* array) {
        record_.address(name, address);
        locals_ += fmt::format("    {0} {1} = {0}(record.{1});\n", array, name);
    }
    void word(const std::string& name, uint32_t value) {
        record_.u32(name, value);
        locals_ += fmt::format("    const uint {0} = record.{0};\n", name);
    }
    void integer(const std::string& name, int64_t value) {
        record_.i32(name, static_cast<int32_t>(value));
        locals_ += fmt::format("    const int {0} = record.{0};\n", name);
    }
    void number(const std::string& name, float value) {
        record_.f32(name, value);
        locals_ += fmt::format("    const float {0} = record.{0};\n", name);
    }

    // Returns the array type that an operand or result is declared as.
    const char* array_of(const View& view) {
        if (view.storage == Storage::i32) return "IntArray";
        if (view.storage == Storage::f32) return "FloatArray";
        any_half_ = true;
        return "HalfArray";
    }

    Status write_body() {
        word("count", static_cast<uint32_t>(shape_.elements()));
        if (any_strided_) write_coordinates();
        for (std::size_t k = 0; k < operands_.size(); ++k) write_load(operands_[k], k);
        for (const graph::NodeId id : group_.nodes) HK_TRY(write_operation(id));
        for (std::size_t o = 0; o < group_.outputs.size(); ++o) {
            const View& output = kernel_.outputs[o];
            const std::string& value = names_.at(group_.outputs[o]);
            address(fmt::format("out{}", o), writes(output), array_of(output));
            stores_ += bytes_of(output.storage) == 2 ? fmt::format("            hekla_store_half(out{}, i, {}, {}u);\n",
                                                                   o, value, static_cast<uint32_t>(output.storage))
                                                     : fmt::format("            out{}.at[i] = {};\n", o, value);
        }
        return {};
    }

    void write_coordinates() {
        body_ += fmt::format("        uint rest = {};\n", by_rows_ ? "base" : "i");
        for (int d = loop_.rank() - 1; d > 0; --d) {
            const auto dim = static_cast<uint32_t>(loop_.dims[static_cast<std::size_t>(d)]);
            word(fmt::format("dim{}", d), dim);
            word(fmt::format("factor{}", d), divisor(dim).factor);
            word(fmt::format("shift{}", d), divisor(dim).shift);
            body_ += fmt::format("        const uint whole{0} = hekla_divide(rest, factor{0}, shift{0});\n"
                                 "        const int c{0} = int(rest - whole{0} * dim{0});\n        rest = whole{0};\n",
                                 d);
        }
        body_ += "        const int c0 = int(rest);\n";
    }

    void write_load(const Operand& operand, std::size_t k) {
        const std::string name = fmt::format("x{}", k);
        const char* const kind = operand.integer ? "int" : "float";
        if (operand.reading == Reading::number) {
            if (operand.integer)
                integer(name, static_cast<int64_t>(operand.number));
            else
                number(name, static_cast<float>(operand.number));
            return;
        }
        const std::string array = fmt::format("in{}", k);
        const bool half = bytes_of(operand.view.storage) == 2;
        address(array, reads(operand.view), array_of(operand.view));
        const auto loaded = [&](std::string_view index) {
            return half ? fmt::format("hekla_load_half({}, uint({}), {}u)", array, index,
                                      static_cast<uint32_t>(operand.view.storage))
                        : fmt::format("{}.at[{}]", array, index);
        };
        if (operand.reading == Reading::one) {
            locals_ += fmt::format("    const {} {} = {};\n", kind, name, loaded("0"));
            return;
        }
        std::string place = together_ && !half ? "base" : "i";
        bool consecutive = together_ && !half;
        if (operand.reading == Reading::strided) {
            const auto& strides = loop_.strides[at_of_.at(operand.value)];
            place.clear();
            const int64_t innermost = strides[static_cast<std::size_t>(loop_.rank() - 1)];
            consecutive = by_rows_ && innermost == 1 && !half;
            for (int d = 0; d < loop_.rank(); ++d) {
                const int64_t stride = strides[static_cast<std::size_t>(d)];
                if (stride == 0) continue;
                if (!place.empty()) place += " + ";
                // A unit stride of the last dimension is common, so it is part of the text.
                if (stride == 1 && d == loop_.rank() - 1) {
                    place += fmt::format("c{}", d);
                } else {
                    integer(fmt::format("s{}_{}", k, d), stride);
                    place += fmt::format("c{} * s{}_{}", d, k, d);
                }
            }
            if (by_rows_ && innermost != 0 && innermost != 1)
                place += fmt::format(" + int(gl_SubgroupInvocationID) * s{}_{}", k, loop_.rank() - 1);
            if (by_rows_ && innermost == 1 && half) place += " + int(gl_SubgroupInvocationID)";
        }
        body_ += consecutive ? fmt::format("        const {0} {1} = hekla_consecutive_{0}({2}, uint({3}));\n", kind,
                                           name, array, place)
                             : fmt::format("        const {} {} = {};\n", kind, name, loaded(place));
    }

    Status write_operation(graph::NodeId id) {
        const graph::Node& node = graph_.nodes[id];
        const graph::ValueId output = node.outputs[0];
        const std::string name = fmt::format("v{}", steps_++);
        std::string call;
        if (node.op == Op::dropout && node.real("probability") > 0) {
            const DropoutNumbers numbers = dropout_numbers(graph_, node);
            if (!dropout_) address("runtime", reads(lowering_.runtime()), "RuntimeRecord");
            dropout_ = true;
            word(name + "_stream", numbers.stream);
            word(name + "_threshold", numbers.threshold);
            number(name + "_factor", numbers.factor);
            word(name + "_example", numbers.example);
            call = fmt::format("hekla_dropout({0}, runtime, {1}_stream, {1}_threshold, {1}_factor, i, {1}_example)",
                               names_.at(node.inputs[0]), name);
        } else if (node.op == Op::dropout) {
            call = names_.at(node.inputs[0]);
        } else {
            HK_ASSIGN(const PointwiseChoice choice, choose_pointwise(graph_, node));
            call = fmt::format("op_{}(", choice.kernel->name);
            for (std::size_t k = 0; k < node.inputs.size(); ++k)
                call += fmt::format("{}{}", k == 0 ? "" : ", ", names_.at(node.inputs[k]));
            if (choice.kernel->signature.ends_with("pp")) {
                number(name + "_p", choice.p);
                number(name + "_q", choice.q);
                call += fmt::format(", {0}_p, {0}_q", name);
            }
            call += ")";
        }
        body_ += fmt::format("        precise const {} {} = {};\n", type(output), name, call);
        names_[output] = name;
        return {};
    }

    void assemble() {
        Dispatch& dispatch = kernel_.dispatch;
        dispatch.record = record_.record();
        std::set<std::string, std::less<>> seen;
        std::string source = "#version 460\n";
        if (any_half_) source += "#define STORAGE16\n";
        if (together_) {
            source += fmt::format("#define HEKLA_WIDTH {0}\n#define HEKLA_LANES {0}\n", lowering_.limits.subgroup_size);
            dispatch.subgroup_size = lowering_.limits.subgroup_size;
        } else if (lowering_.limits.cpu) {
            source += "#define HEKLA_WIDTH 16\n";
        }
        source += expanded_glsl("pointwise/elements.glsl", seen);
        source += expanded_glsl("pointwise/operations.glsl", seen);
        if (dropout_) source += expanded_glsl("pointwise/dropout.glsl", seen);
        dispatch.own_text = source.size();
        source += "HK_RECORD(Record) {\n    HK_RECORD_HEAD;\n" + record_.declarations() + "};\nPUSH_RECORD(Record);\n" +
                  "void main() {\n    HEKLA_GROUP(group, record)\n" + locals_ + "    uint round = 0u;\n    do {\n";
        const uint32_t rounds = together_ ? kTogether : 1;
        for (uint32_t t = 0; t < rounds; ++t) {
            source += fmt::format(
                "        {{\n        const uint begin = group * kElementsPerGroup + (round + {}u) * HEKLA_WIDTH;\n", t);
            source +=
                together_
                    ? "        const uint element = begin + gl_SubgroupInvocationID, base = min(begin, count - 1u);\n"
                    : "        const uint element = begin + gl_LocalInvocationID.x;\n";
            source += "        const uint i = min(element, count - 1u);\n" + body_ +
                      "        if (element < count) {\n" + stores_ + "        }\n        }\n";
        }
        source +=
            fmt::format("        round += {}u;\n    }} while (round < kElementsPerGroup / HEKLA_WIDTH);\n}}\n", rounds);
        dispatch.shader = "generated:" + to_hex(hash128(source));
        dispatch.source = std::move(source);
        dispatch.groups = elementwise_groups(shape_.elements());
        const auto elements = static_cast<double>(shape_.elements());
        for (const Operand& operand : operands_) {
            if (operand.reading == Reading::number) continue;
            dispatch.bytes += operand.reading == Reading::one ? 4.0 : static_cast<double>(operand.view.bytes());
        }
        for (const View& output : kernel_.outputs) dispatch.bytes += static_cast<double>(output.bytes());
        dispatch.flops = elements * static_cast<double>(group_.nodes.size());
        std::string label;
        for (const graph::NodeId id : group_.nodes)
            label += (label.empty() ? "" : "+") + std::string(info(graph_.nodes[id].op).name);
        const std::string scope = graph_.scope_path(graph_.nodes[group_.nodes.back()].scope);
        dispatch.label = label + (scope.empty() ? "" : " in " + scope);
    }

    Lowering& lowering_;
    const graph::Graph& graph_;
    const PointwiseGroup& group_;
    graph::Shape shape_;
    std::vector<Operand> operands_;
    std::map<graph::ValueId, std::string> names_; // the variable of a value
    std::map<graph::ValueId, std::size_t> at_of_; // an operand's index in the loop
    Loop loop_;
    bool any_strided_ = false;
    bool any_half_ = false; // an operand or result is stored in 16 bits
    bool together_ = false; // a subgroup's lanes load through one address (Limits::uniform_loads)
    bool by_rows_ = false;
    bool dropout_ = false;
    std::size_t steps_ = 0;
    GlslRecord record_;
    std::string locals_, body_, stores_;
    GeneratedKernel kernel_;
};

} // namespace

Result<GeneratedKernel> generate_pointwise(Lowering& lowering, const PointwiseGroup& group) {
    return Generator(lowering, group).generate();
}

} // namespace hekla::program
