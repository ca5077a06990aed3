// plugins/sdk/zig/hekla_plugin.zig and operations.zig
#include "description.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <set>

namespace hekla::abi {
namespace {

std::string zig_base(const std::string& base) {
    static const std::map<std::string, std::string> kNames{{"uint8_t", "u8"},  {"int32_t", "i32"},  {"uint32_t", "u32"},
                                                           {"int64_t", "i64"}, {"uint64_t", "u64"}, {"double", "f64"},
                                                           {"float", "f32"},   {"char", "u8"}};
    const auto found = kNames.find(base);
    return found != kNames.end() ? found->second : base;
}

// Quotes the words of the language.
std::string zig_name(const std::string& name) {
    static const std::set<std::string> kWords{"align", "and",   "error", "export", "extern", "for",  "inline", "or",
                                              "test",  "union", "var",   "const",  "struct", "enum", "switch"};
    return kWords.contains(name) ? fmt::format("@\"{}\"", name) : name;
}

using Opaque = std::set<std::string>; // Zig cannot have a C pointer to one of these

std::string zig_type(const Variable& v, const Opaque& opaque);

std::string zig_plain(const Type& t, const Opaque& opaque) {
    if (t.pointers == 0) return zig_base(t.base);
    if (t.base == "void" || opaque.contains(t.base)) {
        const std::string one = (t.is_const ? "?*const " : "?*") + (t.base == "void" ? "anyopaque" : t.base);
        return t.pointers == 1 ? one : "[*c]" + one;
    }
    std::string s;
    for (int i = 0; i < t.pointers; ++i) s += i + 1 == t.pointers && t.is_const ? "[*c]const " : "[*c]";
    return s + zig_base(t.base);
}

std::string zig_function(const Function& f, const Opaque& opaque) {
    std::string parameters;
    for (const Variable& p : f.parameters) parameters += (parameters.empty() ? "" : ", ") + zig_type(p, opaque);
    return fmt::format("?*const fn ({}) callconv(.c) {}", parameters,
                       f.returns.pointers == 0 && f.returns.base == "void" ? "void" : zig_plain(f.returns, opaque));
}

std::string zig_type(const Variable& v, const Opaque& opaque) {
    if (!v.function.empty()) return zig_function(v.function[0], opaque);
    return v.array.empty() ? zig_plain(v.type, opaque) : fmt::format("[{}]{}", v.array, zig_plain(v.type, opaque));
}

} // namespace

std::string zig_bindings(const Description& d) {
    std::string s =
        fmt::format("// The plugin ABI {}.{} in Zig: raw declarations of everything in hekla/plugin/.\n"
                    "// Zig 0.14 or newer. hekla.zig is a layer over them.\n"
                    "// A table's functions beyond the host's minor are not there: read hk_host.abi_minor first.\n"
                    "// Made by tools/generate_abi from engine/plugin/abi.json. Edit that instead.\n\n"
                    "pub const HK_ABI_MAJOR: u32 = {};\npub const HK_ABI_MINOR: u32 = {};\n",
                    d.major, d.minor, d.major, d.minor);
    Opaque opaque;
    for (const Header& h : d.headers)
        for (const Item& item : h.items)
            if (item.kind == ItemKind::opaque) opaque.insert(item.name);
    for (const Header& h : d.headers) {
        s += fmt::format("\n// ---- {}.h\n", h.name);
        for (const Item& item : h.items) {
            if (item.kind != ItemKind::prelude) s += "\n";
            if (!item.about.empty()) s += wrapped(item.about, "//");
            switch (item.kind) {
            case ItemKind::prelude:
            case ItemKind::function: break;
            case ItemKind::constants:
                for (const Constant& c : item.constants) {
                    const std::string value = item.name == "text" ? fmt::format("\"{}\"", c.value) : c.value;
                    const std::string type = item.name == "size"   ? ": usize"
                                             : item.name == "text" ? ""
                                                                   : ": " + zig_base(item.name);
                    s += (c.about.empty() ? "" : wrapped(c.about, "//")) +
                         fmt::format("pub const {}{} = {};\n", c.name, type, value);
                }
                break;
            case ItemKind::opaque: s += fmt::format("pub const {} = opaque {{}};\n", item.name); break;
            case ItemKind::alias: s += fmt::format("pub const {} = {};\n", item.name, zig_base(item.alias)); break;
            case ItemKind::table: s += fmt::format("pub const {} = \"{}\";\n", item.macro, item.id); [[fallthrough]];
            case ItemKind::structure:
                s += fmt::format("pub const {} = extern struct {{\n", item.name);
                for (const Member& m : item.members) {
                    if (!m.about.empty()) s += wrapped(m.about, "    //");
                    if (m.is_function())
                        s += fmt::format("    // {}[{}]\n", m.since > 0 ? fmt::format("Since minor {}. ", m.since) : "",
                                         m.thread);
                    s += fmt::format("    {}: {},\n", zig_name(m.is.name), zig_type(m.is, opaque));
                }
                s += "};\n";
                break;
            }
        }
    }
    return s;
}

namespace {

std::string zig_option_type(const std::string& type) {
    if (type == "int") return "i64";
    if (type == "real") return "f64";
    return type == "text" ? "[]const u8" : type == "ints" ? "[]const i64" : "[]const f64";
}

std::string zig_option_value(const Attribute& a) {
    return a.type == "ints" || a.type == "reals" ? "&.{}" : a.fallback.dump();
}

std::string zig_options(const Operation& o, const std::string& name) {
    std::string fields;
    for (const Input& i : o.inputs)
        if (i.optional) fields += fmt::format("    {}: ?Value = null,\n", i.name);
    for (const Attribute& a : o.attributes)
        if (!a.required())
            fields += (a.doc.empty() ? "" : wrapped(a.doc, "    ///")) +
                      fmt::format("    {}: {} = {},\n", a.name, zig_option_type(a.type), zig_option_value(a));
    return fmt::format("\npub const {} = struct {{\n{}}};\n", name, fields);
}

// Returns the first of the items as a list, as zig fmt writes it.
std::string zig_list(const std::vector<std::string>& items, std::ptrdiff_t count) {
    const std::string some = fmt::format("{}", fmt::join(items.begin(), items.begin() + count, ", "));
    return count < 2 ? fmt::format("&.{{{}}}", some) : fmt::format("&.{{ {} }}", some);
}

// Returns the condition that a call has what the newest revision adds: a host may have the first alone.
std::string zig_uses_newest(const Operation& o) {
    if (o.visible().size() != 1) fail(o.name, "a revision of an operation with several outputs");
    std::string any;
    const auto add = [&](const std::string& one) { any += (any.empty() ? "" : " or ") + one; };
    for (const Input& i : o.inputs)
        if (i.revision > 1) add(fmt::format("options.{} != null", i.name));
    for (const Attribute& a : o.attributes) {
        if (a.revision == 1) continue;
        if (a.type != "int" && a.type != "real") fail(o.name + "." + a.name, "a revision adds numbers");
        add(fmt::format("options.{} != 0", a.name));
    }
    return any;
}

// A parameter must not have the name of a function of the file.
std::string zig_parameter(const Description& d, const std::string& name) {
    const bool taken = std::ranges::any_of(d.operations, [&](const Operation& o) { return o.name == name; });
    return taken ? name + "_" : name;
}

} // namespace

std::string zig_operations(const Description& d) {
    std::string s =
        fmt::format("// The operations as functions of Value. Options have defaults: `.{{}}`, `.{{ .axis = 0 }}`.\n"
                    "{}\nconst sdk = @import(\"hekla.zig\");\nconst Graph = sdk.Graph;\n"
                    "const Value = sdk.Value;\n",
                    kOperationsNotice);
    for (const Operation& o : d.operations) {
        if (o.internal) continue;
        const std::string name = camel(o.name), options = name + "Options";
        const std::vector<std::string> visible = o.visible();
        if (o.has_options()) s += zig_options(o, options);
        std::string result = "Value";
        if (visible.size() > 1) {
            result = name + "Result";
            s += fmt::format("\npub const {} = struct {{\n", result);
            for (const std::string& v : visible) s += fmt::format("    {}: Value,\n", v);
            s += "};\n";
        }
        std::string parameters, graph;
        std::vector<std::string> inputs;
        const auto add = [&](const std::string& n, const std::string& type) {
            parameters += fmt::format("{}{}: {}", parameters.empty() ? "" : ", ", n, type);
        };
        if (o.variadic()) {
            const std::string n = zig_parameter(d, o.inputs[0].name);
            add(n, "[]const Value");
            graph = n + "[0].graph";
            inputs.push_back(n);
        } else if (o.inputs.empty()) {
            add("graph", "*const Graph");
            graph = "graph";
        } else {
            for (const Input& i : o.inputs) {
                const std::string n = i.optional ? "options." + i.name : zig_parameter(d, i.name);
                if (!i.optional) add(n, "Value");
                if (graph.empty() && !i.optional) graph = n + ".graph";
                inputs.push_back(i.optional ? fmt::format("sdk.orNone({})", n) : n);
            }
        }
        std::vector<std::string> attributes;
        for (const Attribute& a : o.attributes) {
            const std::string n = a.required() ? zig_parameter(d, a.name) : "options." + a.name;
            if (a.required()) add(n, zig_option_type(a.type));
            attributes.push_back(fmt::format("sdk.attribute(\"{}\", {})", a.name, n));
        }
        if (o.has_options()) add("options", options);
        // Of what a revision has.
        const auto emitted = [&](int revision) {
            const auto count = [&](const auto& all) {
                return std::ranges::count_if(all, [&](const auto& one) { return one.revision <= revision; });
            };
            return fmt::format("{}.emit(\"{}\", {}, {}, {}, {})", graph, o.name, revision,
                               o.variadic() ? inputs[0] : zig_list(inputs, count(o.inputs)),
                               zig_list(attributes, count(o.attributes)), visible.size());
        };
        s += fmt::format("\n{}pub fn {}({}) {} {{\n", wrapped(o.doc, "///"), o.name, parameters, result);
        if (o.revision > 1) s += fmt::format("    if ({}) return {}[0];\n", zig_uses_newest(o), emitted(o.revision));
        if (visible.size() > 1) {
            s += fmt::format("    const outputs = {};\n    return .{{", emitted(1));
            for (std::size_t i = 0; i < visible.size(); ++i)
                s += fmt::format("{} .{} = outputs[{}]", i > 0 ? "," : "", visible[i], i);
            s += " };\n";
        } else {
            s += fmt::format("    return {}[0];\n", emitted(1));
        }
        s += "}\n";
    }
    return s;
}

} // namespace hekla::abi
