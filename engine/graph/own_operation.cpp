#include "graph/own_operation.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <set>

namespace hekla::graph {
namespace {

constexpr std::size_t kMostTensors = 16; // inputs and outputs: each is an address in the record
constexpr std::size_t kMostAttributes = 32;
constexpr std::size_t kMostText = std::size_t{1} << 20;
constexpr uint32_t kMostLocalSize = 256; // supported by every device

bool small_letter(char c) { return c >= 'a' && c <= 'z'; }
bool digit(char c) { return c >= '0' && c <= '9'; }

// "swish_gate": accepted as part of a GLSL identifier together with our prefixes.
bool is_member_name(std::string_view name) {
    if (name.empty() || name.size() > 40 || !small_letter(name[0]) || name.back() == '_') return false;
    for (std::size_t i = 0; i < name.size(); ++i) {
        if (!small_letter(name[i]) && !digit(name[i]) && name[i] != '_') return false;
        if (i > 0 && name[i] == '_' && name[i - 1] == '_') return false;
    }
    return !name.starts_with("gl_") && !name.starts_with("hekla_");
}

// "acme.swish_gate": the plugin's name before the first dot.
bool is_operation_name(std::string_view name) {
    const std::size_t point = name.find('.');
    return name.size() <= 128 && !name.empty() && small_letter(name[0]) && point != std::string_view::npos &&
           name.back() != '.' && std::ranges::all_of(name, [](char c) {
               return small_letter(c) || digit(c) || c == '.' || c == '_' || c == '-';
           });
}

// Keywords, types and functions of GLSL, which cannot be attribute names, since the kernel uses these unprefixed.
bool is_glsl_word(std::string_view name) {
    static constexpr std::string_view kWords[] = {
        "abs",       "acos",        "acosh",       "active",        "all",       "any",
        "asin",      "asinh",       "asm",         "atan",          "atanh",     "attribute",
        "barrier",   "bitcount",    "bool",        "break",         "buffer",    "case",
        "cast",      "ceil",        "centroid",    "clamp",         "class",     "common",
        "const",     "continue",    "cos",         "cosh",          "cross",     "default",
        "degrees",   "determinant", "discard",     "distance",      "do",        "dot",
        "double",    "else",        "enum",        "equal",         "exp",       "exp2",
        "extern",    "external",    "faceforward", "false",         "filter",    "fixed",
        "flat",      "float",       "floor",       "fma",           "for",       "fract",
        "frexp",     "goto",        "half",        "highp",         "if",        "in",
        "inline",    "inout",       "input",       "int",           "interface", "invariant",
        "inverse",   "inversesqrt", "invocations", "isinf",         "isnan",     "layout",
        "ldexp",     "length",      "log",         "log2",          "long",      "lowp",
        "main",      "max",         "mediump",     "min",           "mix",       "mod",
        "modf",      "namespace",   "noinline",    "noperspective", "normalize", "not",
        "operation", "out",         "outer",       "output",        "partition", "patch",
        "pow",       "precise",     "precision",   "public",        "radians",   "readonly",
        "record",    "reflect",     "refract",     "resource",      "restrict",  "return",
        "round",     "sample",      "shared",      "short",         "sign",      "sin",
        "sinh",      "sizeof",      "smooth",      "smoothstep",    "sqrt",      "static",
        "step",      "struct",      "subroutine",  "superp",        "switch",    "tan",
        "tanh",      "template",    "this",        "transpose",     "true",      "trunc",
        "typedef",   "uint",        "uniform",     "union",         "unsigned",  "using",
        "varying",   "void",        "volatile",    "while",         "writeonly"};
    for (const char* vector : {"vec", "ivec", "uvec", "bvec", "dvec", "mat", "dmat"})
        if (name.starts_with(vector) && name.size() > std::string_view(vector).size() &&
            name.find_first_not_of("234x", std::string_view(vector).size()) == std::string_view::npos)
            return true;
    return std::ranges::binary_search(kWords, name);
}

} // namespace

OwnOperation::OwnOperation(OwnDeclaration declaration) : declaration_(std::move(declaration)) {
    info_.op = Op::own;
    info_.name = declaration_.name.c_str();
    info_.revision = declaration_.revision;
    info_.since = 0;
    info_.internal = false;
    for (const OwnDeclaration::Input& input : declaration_.inputs)
        info_.inputs.push_back(
            {input.name.c_str(), input.integer ? InputKind::integer : InputKind::floating, false, false});
    for (const OwnDeclaration::Attribute& attribute : declaration_.attributes)
        info_.attributes.push_back({attribute.name.c_str(), attribute.type, attribute.fallback});
    for (const std::string& output : declaration_.outputs) info_.outputs.push_back({output.c_str(), false});
}

Result<std::shared_ptr<const OwnOperation>> OwnOperation::create(OwnDeclaration d) {
    const auto refuse = [&](const std::string& what) {
        return invalid_argument(fmt::format("operation '{}': {}", d.name, what));
    };
    if (!is_operation_name(d.name))
        return refuse("its name is not like 'acme.swish_gate': the plugin's name, a point, and small letters, digits, "
                      "_ and -");
    if (d.revision == 0) return refuse("its revision is 0, they begin with 1");
    if (d.inputs.size() > kMostTensors || d.outputs.size() > kMostTensors || d.outputs.empty())
        return refuse(fmt::format("{} inputs and {} outputs; there may be {} of each, and one output at least",
                                  d.inputs.size(), d.outputs.size(), kMostTensors));
    if (d.attributes.size() > kMostAttributes)
        return refuse(fmt::format("{} attributes, at most {} are possible", d.attributes.size(), kMostAttributes));
    // All identifiers that the kernel sees must be unique.
    std::set<std::string, std::less<>> words;
    const auto add = [&](const std::string& name, const char* what, bool bare) -> Status {
        if (!is_member_name(name))
            return refuse(fmt::format("the {} '{}' is not called by a small letter, then small letters, digits and "
                                      "single _",
                                      what, name));
        if (bare && is_glsl_word(name)) return refuse(fmt::format("the {} '{}' is a word of GLSL", what, name));
        bool fresh = words.insert("name " + name).second;
        for (const char* suffix : {"_size", "_rank", "_dim"})
            if (!bare || std::string_view(suffix) == "_size") fresh = words.insert(name + suffix).second && fresh;
        if (bare) fresh = words.insert(name).second && fresh;
        return fresh ? Status() : refuse(fmt::format("the {} '{}' has a name that another has too", what, name));
    };
    for (const OwnDeclaration::Input& input : d.inputs) HK_TRY(add(input.name, "input", false));
    for (const std::string& output : d.outputs) HK_TRY(add(output, "output", false));
    for (const OwnDeclaration::Attribute& attribute : d.attributes) {
        HK_TRY(add(attribute.name, "attribute", true));
        if (attribute.fallback && attribute.fallback->index() != static_cast<std::size_t>(attribute.type))
            return refuse(fmt::format("the default of '{}' has another type than the attribute", attribute.name));
    }
    for (std::size_t at = 0; (at = d.glsl.find("\r\n", at)) != std::string::npos;) d.glsl.erase(at, 1);
    if (d.glsl.empty() == d.spirv.empty()) return refuse("it needs a kernel: GLSL or SPIR-V, one of the two");
    if (d.glsl.size() > kMostText || d.spirv.size() > kMostText / 4)
        return refuse(fmt::format("its kernel is larger than {} bytes", kMostText));
    if (std::ranges::any_of(d.glsl, [](char c) {
            return (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
        }))
        return refuse("its GLSL holds a control character");
    if (d.local_size > kMostLocalSize || (d.local_size == 0 && !d.spirv.empty()))
        return refuse(fmt::format("its local size is {}; {} to {} are possible", d.local_size, d.spirv.empty() ? 0 : 1,
                                  kMostLocalSize));
    return std::shared_ptr<const OwnOperation>(new OwnOperation(std::move(d)));
}

std::string OwnOperation::label() const { return fmt::format("{}/{}", declaration_.name, declaration_.revision); }

bool OwnOperation::same(const OwnOperation& other) const {
    const OwnDeclaration &a = declaration_, &b = other.declaration_;
    return a.name == b.name && a.revision == b.revision && a.local_size == b.local_size && a.glsl == b.glsl &&
           a.spirv == b.spirv && a.outputs == b.outputs &&
           std::ranges::equal(
               a.inputs, b.inputs,
               [](const auto& x, const auto& y) { return x.name == y.name && x.integer == y.integer; }) &&
           std::ranges::equal(a.attributes, b.attributes, [](const auto& x, const auto& y) {
               return x.name == y.name && x.type == y.type && x.fallback == y.fallback;
           });
}

Status check_own_use(const OwnUse& use) {
    constexpr int64_t kMost = int64_t{1} << 31; // limit of kernels' indices
    const OwnDeclaration& d = use.operation->declaration();
    const auto refuse = [&](const std::string& what) { return invalid_argument(fmt::format("{}: {}", d.name, what)); };
    if (use.inputs.size() != d.inputs.size() || use.outputs.size() != d.outputs.size())
        return refuse(fmt::format("{} inputs and {} outputs, expected {} and {}", use.inputs.size(), use.outputs.size(),
                                  d.inputs.size(), d.outputs.size()));
    for (std::size_t i = 0; i < use.outputs.size(); ++i) {
        int64_t elements = 1;
        for (const int64_t dim : use.outputs[i].second.dims()) {
            if (dim < 0 || (dim > 0 && elements > (kMost << 15) / dim))
                return refuse(
                    fmt::format("output '{}' is {}, expected dimensions from 0 and no more than 2^46 elements",
                                d.outputs[i], use.outputs[i].second.text()));
            elements *= std::max<int64_t>(dim, 1);
        }
    }
    if (use.invocations < 0 || use.invocations >= kMost)
        return refuse(fmt::format("{} invocations; 0 to {} are possible", use.invocations, kMost - 1));
    if (d.local_size > 0 && use.invocations % d.local_size != 0)
        return refuse(
            fmt::format("{} invocations are not a multiple of its local size {}", use.invocations, d.local_size));
    if (!std::isfinite(use.flops) || !std::isfinite(use.bytes) || use.flops < 0 || use.bytes < 0)
        return refuse(
            fmt::format("its cost is {} FLOPs and {} bytes, expected finite numbers from 0", use.flops, use.bytes));
    return {};
}

} // namespace hekla::graph
