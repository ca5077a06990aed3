#include "program/lowering/chain_text.hpp"

#include "kernels_texts.hpp"
#include "program/lowering/glsl_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <string_view>

namespace hekla::program {

namespace {

// Kernels whose workgroups are one subgroup, or elementwise, on a CPU, where they do not use shared memory.
constexpr std::string_view kChainable[] = {
    "attention/cached", "attention/forward", "embedding/lookup", "generate/choose", "matmul/direct",
    "matmul/dot",       "matmul/uniform",    "norm/forward",     "pointwise/copy",  "pointwise/copy_rows",
    "position/rotary",  "reduce/rows",       "softmax/forward",
};

// Headers that do not depend on the kernel that includes them; in this order at the beginning of every chain.
constexpr std::string_view kSharedHeaders[] = {
    "record.glsl",
    "divide.glsl",
    "common.h",
    "common.glsl",
    "lanes.glsl",
    "math.glsl",
    "philox.glsl",
    "runtime.h",
    "pointwise/elements.glsl",
    "pointwise/operations.glsl",
    "pointwise/dropout.glsl",
};

// "matmul/direct.t1x4_16": the file "matmul/direct.comp" and its variant "t1x4_16".
struct KernelName {
    explicit KernelName(std::string_view shader) {
        const std::size_t dot = shader.find('.');
        kernel = shader.substr(0, dot);
        if (dot != std::string_view::npos) variant = shader.substr(dot + 1);
    }
    std::string_view kernel, variant;
};

bool is_name_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Returns the name that begins at `at`; empty if none does.
std::string_view name_at(std::string_view text, std::size_t at) {
    std::size_t end = at;
    while (end < text.size() && is_name_character(text[end])) ++end;
    return text.substr(at, end - at);
}

// Returns the name after a prefix of the line; empty if the line does not begin with it.
std::string_view name_after(std::string_view line, std::string_view prefix) {
    return line.starts_with(prefix) ? name_at(line, prefix.size()) : std::string_view();
}

// Calls visit(line) for each line, without its end.
template<class Visit>
void each_line(std::string_view text, Visit visit) {
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size() - 1);
        const std::size_t length = text[end] == '\n' ? end : end + 1;
        visit(text.substr(0, length));
        text.remove_prefix(end + 1);
    }
}

// A line `layout(constant_id = 3) const uint W = 1;`.
struct ConstantLine {
    std::string_view id, name, initial;
};
std::optional<ConstantLine> constant_line(std::string_view line) {
    constexpr std::string_view kBegin = "layout(constant_id = ", kMiddle = ") const uint ", kInitial = " = ";
    ConstantLine found;
    found.id = name_after(line, kBegin);
    if (found.id.empty()) return std::nullopt;
    line.remove_prefix(kBegin.size() + found.id.size());
    found.name = name_after(line, kMiddle);
    line.remove_prefix(kMiddle.size() + found.name.size());
    found.initial = line.substr(kInitial.size(), line.find(';') - kInitial.size());
    return found;
}

// Returns the name that a line at file scope declares; empty if it declares none. Declarations begin in the first
// column.
std::string_view declared_name(std::string_view line) {
    if (line.empty() || (!is_name_character(line[0]) && line[0] != '#')) return {};
    if (const auto constant = constant_line(line)) return constant->name;
    for (const std::string_view prefix :
         {"#define ", "HK_CONSTANT(", "HK_I32_CONSTANT(", "HK_F32_CONSTANT(", "HK_RECORD(", "HK_BUFFER(", "struct ",
          "const uint ", "const bool ", "const float "})
        if (const std::string_view name = name_after(line, prefix); !name.empty()) return name;
    if (line.starts_with("layout(buffer_reference")) {
        constexpr std::string_view kBuffer = " buffer ";
        return name_at(line, line.find(kBuffer) + kBuffer.size());
    }
    if (line[0] == '#' || line.starts_with("PUSH_RECORD")) return {};
    for (const std::string_view qualifier : {"precise ", "shared "})
        if (line.starts_with(qualifier)) line.remove_prefix(qualifier.size());
    // A function: "TYPE NAME(", or a shared array: "TYPE NAME[".
    const std::string_view type = name_at(line, 0);
    if (type.size() + 1 >= line.size() || line[type.size()] != ' ') return {};
    const std::string_view name = name_at(line, type.size() + 1);
    const std::size_t end = type.size() + 1 + name.size();
    return !name.empty() && end < line.size() && (line[end] == '(' || line[end] == '[') ? name : std::string_view();
}

// Returns `text` with some of its names replaced.
std::string with_names(std::string_view text, const std::map<std::string, std::string, std::less<>>& names) {
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
        if (!is_name_character(text[at])) {
            out += text[at++];
            continue;
        }
        const std::string_view name = name_at(text, at);
        const auto found = names.find(name);
        out += found == names.end() ? name : std::string_view(found->second);
        at += name.size();
    }
    return out;
}

// The text of one kernel as a function.
class KernelFunction {
public:
    KernelFunction(const Dispatch& dispatch, std::size_t index) : dispatch_(dispatch), index_(index) {
        if (dispatch.source.empty()) {
            const KernelName name(dispatch.shader);
            read_variant(embedded::kernels_text(fmt::format("{}.comp", name.kernel)), name.variant);
            std::set<std::string, std::less<>> seen(std::begin(kSharedHeaders), std::end(kSharedHeaders));
            own_ = expanded_glsl(fmt::format("{}.comp", name.kernel), seen);
        } else {
            own_ = dispatch.source.substr(dispatch.own_text);
            storage16_ = dispatch.source.find("#define STORAGE16\n") != std::string::npos;
        }
    }

    bool storage16() const { return storage16_; }
    std::string name() const { return numbered("main"); }

    std::string text() const {
        std::map<std::string, std::string, std::less<>> names;
        std::string kept = definitions_;
        for (const std::string& name : defined_) names[name] = numbered(name);
        each_line(own_, [&](std::string_view line) {
            if (const std::string_view name = declared_name(line); !name.empty())
                names[std::string(name)] = numbered(name);
            if (line.starts_with("#version") || line.starts_with("#extension GL_GOOGLE_include_directive") ||
                line.starts_with("layout(local_size"))
                return;
            if (const std::string_view record = name_after(line, "PUSH_RECORD("); !record.empty()) {
                names["record"] = fmt::format("{}(hekla_record)", numbered(record));
            } else if (const auto constant = constant_line(line)) {
                kept += fmt::format("const uint {} = {};\n", constant->name, value_of(*constant));
            } else {
                kept.append(line).append("\n");
            }
        });
        return with_names(kept, names);
    }

private:
    std::string numbered(std::string_view name) const { return fmt::format("{}_{}", name, index_); }

    // Reads the line `//! variant NAME A=1 B` of the kernel's variant.
    void read_variant(std::string_view text, std::string_view variant) {
        each_line(text, [&](std::string_view line) {
            constexpr std::string_view kVariant = "//! variant ";
            if (name_after(line, kVariant) != variant || variant.empty()) return;
            std::string_view rest = line.substr(kVariant.size() + variant.size());
            while (!rest.empty()) {
                rest.remove_prefix(1); // a space
                const std::string_view word = rest.substr(0, rest.find(' '));
                rest.remove_prefix(word.size());
                const std::string_view name = name_at(word, 0);
                if (name == "STORAGE16") {
                    storage16_ = true;
                    continue;
                }
                defined_.emplace_back(name);
                definitions_ +=
                    fmt::format("#define {} {}\n", name, word.substr(std::min(word.size(), name.size() + 1)));
            }
        });
    }

    std::string value_of(const ConstantLine& constant) const {
        std::string_view id = constant.id;
        each_line(own_, [&](std::string_view line) { // the number may be a macro
            if (name_after(line, "#define ") == constant.id)
                id = line.substr(std::string_view("#define ").size() + constant.id.size() + 1);
        });
        std::size_t index = 0;
        for (const char digit : id) index = index * 10 + static_cast<std::size_t>(digit - '0');
        if (index < dispatch_.constants.size()) return fmt::format("{}u", dispatch_.constants[index]);
        return std::string(constant.initial);
    }

    const Dispatch& dispatch_;
    std::size_t index_;
    std::string own_, definitions_;
    std::vector<std::string> defined_;
    bool storage16_ = false;
};

// Returns the shared headers.
std::string shared_text(uint32_t lanes, bool uniform_loads, bool storage16) {
    std::string text = "#version 460\n//! no-optimizer\n#define HEKLA_CHAIN\n";
    if (storage16) text += "#define STORAGE16\n";
    text += fmt::format("#define HEKLA_WIDTH {}\n", lanes);
    if (uniform_loads) text += fmt::format("#define HEKLA_LANES {}\n", lanes);
    std::set<std::string, std::less<>> seen;
    std::string headers;
    for (const std::string_view file : kSharedHeaders) headers += expanded_glsl(file, seen);
    each_line(headers, [&](std::string_view line) {
        const auto constant = constant_line(line);
        if (constant && constant->name == "S")
            text += fmt::format("const uint S = {};\n", lanes);
        else if (!line.starts_with("layout(local_size"))
            text.append(line).append("\n");
    });
    // main() begins for all kernels: what they compare inside its loops would not stay constant (lanes.glsl).
    return text + fmt::format("#undef HEKLA_BEGIN\n#define HEKLA_BEGIN\nlayout(local_size_x = {}) in;\n", lanes);
}

} // namespace

bool can_be_chained(const Dispatch& dispatch) {
    if (!dispatch.source.empty()) return dispatch.own_text > 0;
    return dispatch.words == nullptr &&
           std::ranges::find(kChainable, KernelName(dispatch.shader).kernel) != std::end(kChainable);
}

std::string chain_text(std::span<const Dispatch* const> kernels, std::span<const ChainLoop> loops, uint32_t lanes,
                       bool uniform_loads) {
    std::vector<KernelFunction> functions;
    for (std::size_t i = 0; i < kernels.size(); ++i) functions.emplace_back(*kernels[i], i);
    const bool storage16 = std::ranges::any_of(functions, &KernelFunction::storage16);
    std::string text = shared_text(lanes, uniform_loads, storage16) +
                       "uint64_t hekla_record;\n"
                       "HK_RECORD(HeklaHead) {\n    HK_RECORD_HEAD;\n};\n"
                       "layout(push_constant, scalar) uniform Push { uint64_t chain; };\n";
    for (const KernelFunction& function : functions) text += function.text();
    text += "#define HEKLA_STEP(step, at)                      \\\n"
            "    hekla_record = at;                            \\\n"
            "    hekla_linear = 0u;                            \\\n"
            "    do {                                          \\\n"
            "        step();                                   \\\n"
            "    } while (++hekla_linear < HeklaHead(at).end_group); \\\n"
            "    memoryBarrierBuffer();                        \\\n"
            "    barrier();\n"
            "void main() {\n    compare_lanes();\n";
    for (std::size_t l = 0; l < loops.size(); ++l) {
        const ChainLoop& loop = loops[l];
        text += fmt::format("    const uint times{0} = Words(chain + {1}ul).v[0];\n"
                            "    uint64_t at{0} = chain;\n    uint time{0} = 0u;\n    do {{\n",
                            l, loop.iterations_at);
        for (const ChainLoop::Step& step : loop.steps)
            text += fmt::format("    HEKLA_STEP({}, at{} + {}ul)\n", functions[step.kernel].name(), l, step.record);
        text += fmt::format("        at{0} += {1}ul;\n    }} while (++time{0} < times{0});\n", l, loop.stride);
    }
    return text + "}\n";
}

} // namespace hekla::program
