// plugins/sdk/zig/hekla_plugin.zig
#include "description.hpp"

#include <fmt/format.h>
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
    return fmt::format("?*const fn ({}) callconv(.C) {}", parameters,
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
                    "// NOT TESTED: made from the same description as the C headers, never compiled yet.\n"
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
            case ItemKind::prelude: break;
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
                    s += fmt::format("    @\"{}\": {},\n", m.is.name, zig_type(m.is, opaque));
                }
                s += "};\n";
                break;
            }
        }
    }
    return s;
}

} // namespace hekla::abi
