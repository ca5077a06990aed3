// A plugin's own operation: its GLSL between generated accessors and a generated main, or its unmodified SPIR-V. The
// text depends on the operation, on the storage of its inputs and on the length of its lists, never on sizes. The
// record is that of hekla/plugin/operation.h in both cases; if accesses are counted, GLSL has one more address after
// the others.
#include "base/hash.hpp"
#include "gpu/shader.hpp"
#include "program/lowering/common.hpp"
#include "program/lowering/glsl_record.hpp"
#include "program/lowering/glsl_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>

namespace hekla::program {

namespace {

using graph::AttributeType;

struct OwnTensor {
    std::string name;
    View view;
    graph::Shape shape;
    bool integer = false, output = false;
};

class OwnKernel {
public:
    OwnKernel(Lowering& lowering, graph::NodeId id)
        : lowering_(lowering), node_(lowering.graph->nodes[id]), use_(*node_.own), d_(use_.operation->declaration()) {}

    Status lower(graph::NodeId id) {
        collect(id);
        if (use_.invocations == 0) return {};
        HK_TRY(write_record());
        dispatch_.flops = use_.flops;
        dispatch_.bytes = use_.bytes;
        if (d_.glsl.empty()) {
            HK_TRY(take_spirv());
        } else {
            // Named by its text without the author's file and line, which are not in an exported graph.
            const std::string label = use_.operation->label();
            dispatch_.shader = fmt::format("own:{}:{}", label, to_hex(hash128(source(label, 1))));
            dispatch_.source = d_.glsl_file.empty() ? source(label, 1) : source(d_.glsl_file, d_.glsl_line);
        }
        dispatch_.groups = d_.local_size == 0 ? elementwise_groups(use_.invocations)
                                              : static_cast<uint64_t>(use_.invocations / d_.local_size);
        lowering_.append(std::move(dispatch_));
        return {};
    }

private:
    bool counts() const { return lowering_.options.count_accesses && !d_.glsl.empty(); }

    void collect(graph::NodeId id) {
        for (std::size_t i = 0; i < d_.inputs.size(); ++i) {
            const View given = lowering_.view(node_.inputs[i]);
            OwnTensor tensor{d_.inputs[i].name, given, given.shape, d_.inputs[i].integer};
            // An empty input is read from a zero element.
            if (given.elements() == 0)
                tensor.view = lowering_.constant("zero", graph::Shape{}, Storage::f32, std::vector<std::byte>(4));
            else
                tensor.view = lowering_.contiguous(given);
            tensors_.push_back(std::move(tensor));
        }
        for (std::size_t i = 0; i < d_.outputs.size(); ++i) {
            const View view = make_output(lowering_, id, i);
            tensors_.push_back({d_.outputs[i], view, view.shape, view.storage == Storage::i32, true});
        }
    }

    // In the layout of hekla/plugin/operation.h.
    Status write_record() {
        for (const OwnTensor& tensor : tensors_)
            record_.address("hekla_" + tensor.name, tensor.output ? writes(tensor.view) : reads(tensor.view));
        if (counts()) record_.address("hekla_counters", updates(lowering_.access_counters()));
        record_.u32("hekla_invocations", static_cast<uint32_t>(use_.invocations));
        for (const OwnTensor& tensor : tensors_) {
            std::vector<uint32_t> shape{word(tensor.shape.elements()), static_cast<uint32_t>(tensor.shape.rank())};
            for (int d = 0; d < graph::kMaxRank; ++d)
                shape.push_back(d < tensor.shape.rank() ? word(tensor.shape[d]) : 1u);
            record_.u32_array("hekla_shape_" + tensor.name, shape);
        }
        for (const graph::Attribute& attribute : node_.attributes) HK_TRY(write_attribute(attribute));
        dispatch_.record = record_.record();
        return {};
    }

    // A text has no member. A list has its length, and its elements if there are any.
    Status write_attribute(const graph::Attribute& attribute) {
        Status status;
        const auto narrowed = [&](int64_t value) {
            if (value < std::numeric_limits<int32_t>::min() || value > std::numeric_limits<int32_t>::max())
                status = unsupported(fmt::format("attribute {} is {}; kernels see 32 bits", attribute.name, value));
            return static_cast<int32_t>(value);
        };
        const std::string name = attribute.name, count = "hekla_count_" + name, list = "hekla_list_" + name;
        if (const auto* value = std::get_if<int64_t>(&attribute.value))
            record_.i32("hekla_value_" + name, narrowed(*value));
        if (const auto* value = std::get_if<double>(&attribute.value))
            record_.f32("hekla_value_" + name, static_cast<float>(*value));
        if (const auto* values = std::get_if<std::vector<int64_t>>(&attribute.value)) {
            std::vector<int32_t> integers;
            std::ranges::transform(*values, std::back_inserter(integers), narrowed);
            record_.u32(count, word(static_cast<int64_t>(values->size())));
            record_.i32_array(list, integers);
        }
        if (const auto* values = std::get_if<std::vector<double>>(&attribute.value)) {
            const std::vector<float> reals(values->begin(), values->end());
            record_.u32(count, word(static_cast<int64_t>(values->size())));
            record_.f32_array(list, reals);
        }
        return status;
    }

    Status take_spirv() {
        dispatch_.words = std::shared_ptr<const std::vector<uint32_t>>(use_.operation, &d_.spirv);
        dispatch_.shader =
            fmt::format("own:{}:{}", use_.operation->label(), to_hex(hash128(std::as_bytes(std::span(d_.spirv)))));
        HK_ASSIGN(const gpu::Shader shader, gpu::Shader::from_words(dispatch_.shader, d_.spirv));
        const auto& workgroup = shader.workgroup();
        if (workgroup[0].value != d_.local_size || workgroup[1].value != 1 || workgroup[2].value != 1)
            return invalid_argument(
                fmt::format("its SPIR-V has a local size of {} x {} x {}, its description {} x 1 x 1",
                            workgroup[0].value, workgroup[1].value, workgroup[2].value, d_.local_size));
        return {};
    }

    // Returns an accessor of a list, clamped like those of tensors.
    std::string list_text(const std::string& name, const char* type, std::size_t size) const {
        if (size == 0) return fmt::format("{} {}(uint i) {{ return {}(0); }}\n", type, name, type);
        return fmt::format("{0} {1}(uint i) {{ return hekla_record.hekla_list_{1}[min(i, {2}u)]; }}\n", type, name,
                           size - 1);
    }

    // file, line: location of the operation's first line in the compiler's messages.
    std::string source(const std::string& file, uint32_t line) const {
        std::set<std::string, std::less<>> seen;
        std::string text = "#version 460\n";
        const uint32_t width = d_.local_size > 0 ? d_.local_size : lowering_.limits.cpu ? 16 : 128;
        text += fmt::format("#define HEKLA_WIDTH {}\n", width);
        text += expanded_glsl("own/frame.glsl", seen);
        if (std::ranges::any_of(tensors_, [](const OwnTensor& t) { return bytes_of(t.view.storage) == 2; }))
            text += expanded_glsl("own/storage16.glsl", seen);

        std::string globals, set, accessors;
        for (const OwnTensor& t : tensors_) {
            globals += fmt::format("uint {0}_size, {0}_rank;\nuint64_t hekla_at_{0};\n", t.name);
            set += fmt::format("    {0}_size = hekla_record.hekla_shape_{0}[0];\n"
                               "    {0}_rank = hekla_record.hekla_shape_{0}[1];\n"
                               "    hekla_at_{0} = hekla_record.hekla_{0};\n",
                               t.name);
            accessors +=
                fmt::format("uint {0}_dim(uint axis) {{\n"
                            "    return axis < 6u ? hekla_record.hekla_shape_{0}[2u + min(axis, 5u)] : 1u;\n}}\n",
                            t.name);
            accessors += t.output ? store_text(t) : load_text(t);
        }
        for (std::size_t i = 0; i < d_.attributes.size(); ++i) {
            const auto& [name, type, fallback] = d_.attributes[i];
            const graph::AttributeValue& value = node_.attributes[i].value;
            const bool whole = type == AttributeType::integer || type == AttributeType::ints;
            const char* const scalar = whole ? "int" : "float";
            if (type == AttributeType::text) continue;
            if (type == AttributeType::integer || type == AttributeType::real) {
                globals += fmt::format("{} {};\n", scalar, name);
                set += fmt::format("    {0} = hekla_record.hekla_value_{0};\n", name);
                continue;
            }
            const std::size_t size =
                whole ? std::get<std::vector<int64_t>>(value).size() : std::get<std::vector<double>>(value).size();
            globals += fmt::format("const uint {}_size = {}u;\n", name, size);
            accessors += list_text(name, scalar, size);
        }
        text += "layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer HeklaRecord {\n"
                "    uint hekla_first_group;\n    uint hekla_end_group;\n" +
                record_.declarations() +
                "};\nlayout(push_constant) uniform HeklaPush { HeklaRecord hekla_record; };\n"
                "uint invocations;\n" +
                globals + accessors;
        text += fmt::format("#line {} {}\n", std::max(line, 1u), quoted(file));
        text += d_.glsl;
        text += "\n#line 1 \"generated text after the operation\"\n"
                "void main() {\n"
                "    const uint hekla_n = hekla_group() + hekla_record.hekla_first_group;\n"
                "    if (hekla_n >= hekla_record.hekla_end_group) return;\n"
                "    invocations = hekla_record.hekla_invocations;\n" +
                set;
        const bool reversed = lowering_.options.reversed_invocations;
        if (d_.local_size > 0)
            return text +
                   fmt::format("    operation({} * HEKLA_WIDTH + {});\n}}\n",
                               reversed ? "(hekla_record.hekla_end_group - 1u - hekla_n)" : "hekla_n",
                               reversed ? "(HEKLA_WIDTH - 1u - gl_LocalInvocationID.x)" : "gl_LocalInvocationID.x");
        return text + fmt::format("    uint hekla_round = 0u;\n    do {{\n"
                                  "        const uint hekla_i = hekla_n * {0}u + hekla_round * HEKLA_WIDTH + "
                                  "gl_LocalInvocationID.x;\n"
                                  "        if (hekla_i < invocations) operation({1});\n"
                                  "    }} while (++hekla_round < {0}u / HEKLA_WIDTH);\n}}\n",
                                  kernels::kElementsPerGroup, reversed ? "invocations - 1u - hekla_i" : "hekla_i");
    }

    static std::string quoted(std::string_view file) { // for #line: drops characters that would end the text
        std::string out = "\"";
        for (const char c : file)
            if (c != '"' && c != '\\' && static_cast<unsigned char>(c) >= 0x20) out += c;
        return out + '"';
    }

    std::string count_text(const OwnTensor& t, int which) const {
        return counts() ? fmt::format(
                              "    if (i >= {}_size) atomicAdd(HeklaWords(hekla_record.hekla_counters).at[{}], 1u);\n",
                              t.name, which)
                        : std::string();
    }
    std::string load_text(const OwnTensor& t) const {
        const std::string place = fmt::format("min(i, max({}_size, 1u) - 1u)", t.name);
        const char* const type = t.integer ? "int" : "float";
        const std::string value =
            bytes_of(t.view.storage) == 2
                ? fmt::format("unpack_half({}u, uint(HeklaWords16(hekla_at_{}).at[{}]))",
                              static_cast<uint32_t>(t.view.storage), t.name, place)
                : fmt::format("{}(hekla_at_{}).at[{}]", t.integer ? "HeklaInts" : "HeklaFloats", t.name, place);
        return fmt::format("{} load_{}(uint i) {{\n{}    return {};\n}}\n", type, t.name, count_text(t, 0), value);
    }
    std::string store_text(const OwnTensor& t) const {
        return fmt::format(
            "void store_{0}(uint i, {1} v) {{\n{2}    if (i < {0}_size) {3}(hekla_at_{0}).at[i] = v;\n}}\n", t.name,
            t.integer ? "int" : "float", count_text(t, 1), t.integer ? "HeklaInts" : "HeklaFloats");
    }

    Lowering& lowering_;
    const graph::Node& node_;
    const graph::OwnUse& use_;
    const graph::OwnDeclaration& d_;
    std::vector<OwnTensor> tensors_; // inputs, then outputs
    GlslRecord record_;
    Dispatch dispatch_;
};

} // namespace

Status lower_own(Lowering& lowering, graph::NodeId id) { return OwnKernel(lowering, id).lower(id); }

} // namespace hekla::program
