// The layout as lines of text, and the files generated from a released layout.
#include "description.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <sstream>
#include <stdexcept>

namespace hekla::abi {
namespace {

struct Extent {
    std::size_t size = 0, alignment = 1;
};

// Sizes and constants by name, filled in the order of the headers.
struct Known {
    std::map<std::string, Extent> types{{"int32_t", {4, 4}},  {"uint32_t", {4, 4}}, {"int64_t", {8, 8}},
                                        {"uint64_t", {8, 8}}, {"double", {8, 8}},   {"float", {4, 4}}};
    std::map<std::string, std::size_t> sizes;

    Extent of(const Variable& v) const {
        if (!v.function.empty() || v.type.pointers > 0) return {8, 8};
        const auto found = types.find(v.type.base);
        if (found == types.end())
            throw std::runtime_error(fmt::format("{}: the type {} is not known here", v.name, v.type.base));
        Extent extent = found->second;
        if (!v.array.empty()) extent.size *= sizes.at(v.array);
        return extent;
    }
};

std::size_t rounded(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);)
        if (!line.empty() && line[0] != '#') lines.push_back(line);
    return lines;
}

bool is_function(const std::string& type) { return type.find("(HK_ABI*)") != std::string::npos; }

// One struct of a layout, or a line that is not a struct.
struct Entry {
    std::string head; // "struct hk_string", "constant HK_OK"
    std::string rest; // "16", "int32_t 0"
    std::vector<std::string> members;
};

std::vector<Entry> entries_of(const std::string& text) {
    std::vector<Entry> entries;
    for (const std::string& line : lines_of(text)) {
        if (line[0] == ' ') {
            if (entries.empty()) throw std::runtime_error("the layout begins with a member");
            entries.back().members.push_back(line);
            continue;
        }
        const std::size_t first = line.find(' '), second = line.find(' ', first + 1);
        if (first == std::string::npos || second == std::string::npos)
            throw std::runtime_error(fmt::format("the layout has a line '{}'", line));
        entries.push_back({line.substr(0, second), line.substr(second + 1), {}});
    }
    return entries;
}

// "  88 8 @2 int32_t(HK_ABI*)(...) set_array"
struct Slot {
    std::string offset, size, since, type, name;
};
Slot slot_of(const std::string& line) {
    std::istringstream in(line);
    Slot slot;
    in >> slot.offset >> slot.size >> slot.since;
    std::getline(in >> std::ws, slot.type);
    const std::size_t last = slot.type.rfind(' ');
    if (slot.since.empty() || slot.since[0] != '@' || last == std::string::npos)
        throw std::runtime_error(fmt::format("the layout has a member '{}'", line));
    slot.name = slot.type.substr(last + 1);
    slot.type.resize(last);
    slot.since.erase(0, 1);
    return slot;
}

// Returns the type of a pointer to such a member.
std::string pointer_to(const std::string& type) {
    if (const std::size_t function = type.find("(HK_ABI*)"); function != std::string::npos)
        return std::string(type).insert(function + 8, "*");
    if (const std::size_t array = type.find('['); array != std::string::npos)
        return type.substr(0, array) + "(*)" + type.substr(array);
    return type + "*";
}

// Returns the lines of the headers, and adds what they define.
std::string lines_of_headers(const std::vector<Header>& headers, Known& known) {
    std::string s;
    for (const Header& h : headers) {
        s += fmt::format("# {}.h\n", h.name);
        for (const Item& item : h.items) {
            switch (item.kind) {
            case ItemKind::prelude: break;
            case ItemKind::constants:
                for (const Constant& c : item.constants) {
                    s += fmt::format("constant {} {} {} @{}\n", c.name, item.name, c.value, c.since);
                    if (item.name == "size") known.sizes[c.name] = std::stoul(c.value);
                }
                break;
            case ItemKind::opaque: s += fmt::format("opaque {} -\n", item.name); break;
            case ItemKind::alias:
                s += fmt::format("alias {} {}\n", item.name, item.alias);
                known.types[item.name] = is_function(item.alias) ? Extent{8, 8} : known.types.at(item.alias);
                break;
            case ItemKind::function: s += fmt::format("function {} {}\n", item.name, item.alias); break;
            case ItemKind::table:
                s += fmt::format("interface {} {} {} {}{}\n", item.macro, item.id, item.name,
                                 item.by_host ? "host" : "plugin",
                                 item.since > 0 ? fmt::format(" @{}", item.since) : "");
                [[fallthrough]];
            case ItemKind::structure: {
                Extent whole;
                std::string members;
                for (const Member& m : item.members) {
                    const Extent extent = known.of(m.is);
                    const std::size_t offset = rounded(whole.size, extent.alignment);
                    whole = {offset + extent.size, std::max(whole.alignment, extent.alignment)};
                    members +=
                        fmt::format("  {} {} @{} {} {}\n", offset, extent.size, m.since, c_type_of(m.is), m.is.name);
                }
                whole.size = rounded(whole.size, whole.alignment);
                known.types[item.name] = whole;
                s += fmt::format("struct {} {}\n{}", item.name, whole.size, members);
                break;
            }
            }
        }
    }
    return s;
}

} // namespace

std::string layout_of(const std::string& api, const std::string& origin, const std::vector<Header>& basis,
                      const std::vector<Header>& headers) {
    Known known;
    lines_of_headers(basis, known);
    return fmt::format("# {} where pointers have 64 bits: constants, types, and of every struct its size and its "
                       "members\n"
                       "# (offset, size, @ the minor version that brought it, type, name).\n"
                       "# Made by tools/generate_abi from {}\n",
                       api, origin) +
           lines_of_headers(headers, known);
}

std::string layout(const Description& d) {
    return layout_of(fmt::format("The plugin ABI {}.{}", d.major, d.minor),
                     "engine/plugin/abi.json. tests/abi/golden/ keeps those that were released.", {}, d.headers);
}

std::string first_sizes(const Description& d) {
    std::string s = kAbiNotice;
    s += "// The size of every data struct when it was first released.\n";
    Known known;
    for (const Header& h : d.headers)
        for (const Item& item : h.items) {
            if (item.kind == ItemKind::constants && item.name == "size")
                for (const Constant& c : item.constants) known.sizes[c.name] = std::stoul(c.value);
            if (item.kind == ItemKind::alias) known.types[item.name] = known.types.at(item.alias);
            if (item.kind != ItemKind::structure) continue;
            Extent whole, first;
            for (const Member& m : item.members) {
                const Extent extent = known.of(m.is);
                whole = {rounded(whole.size, extent.alignment) + extent.size,
                         std::max(whole.alignment, extent.alignment)};
                if (m.since == item.since) first = whole;
            }
            whole.size = rounded(whole.size, whole.alignment);
            known.types[item.name] = whole;
            if (item.members.front().is.name == "struct_size")
                s += fmt::format("HK_FIRST_SIZE({}, {})\n", item.name, rounded(first.size, first.alignment));
        }
    return s;
}

std::string broken(const std::string& golden, const std::string& current) {
    std::map<std::string, Entry> now;
    for (Entry& entry : entries_of(current)) now.emplace(entry.head, std::move(entry));
    std::string s;
    for (const Entry& then : entries_of(golden)) {
        const auto found = now.find(then.head);
        if (found == now.end()) {
            s += fmt::format("{} was removed\n", then.head);
            continue;
        }
        const Entry& entry = found->second;
        // Only a struct may change, and only by growing at its end.
        if (then.members.empty() && entry.rest != then.rest)
            s += fmt::format("{} was {}, is {}\n", then.head, then.rest, entry.rest);
        for (std::size_t i = 0; i < then.members.size(); ++i)
            if (i >= entry.members.size() || entry.members[i] != then.members[i])
                s += fmt::format("{}: was '{}', is '{}'\n", then.head, then.members[i].substr(2),
                                 i < entry.members.size() ? entry.members[i].substr(2) : "gone");
    }
    return s;
}

namespace {

// Returns the names of the headers of a layout, "hekla.h".
std::vector<std::string> headers_of(const std::string& text) {
    std::vector<std::string> headers;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);)
        if (line.starts_with("# ") && line.ends_with(".h")) headers.push_back(line.substr(2));
    return headers;
}

// Returns C and C++ that compiles only where the pointer to a function has the type.
std::string same_type(const std::string& name, const std::string& pointer, const std::string& type) {
    return fmt::format(
        "#ifdef __cplusplus\nstatic_assert(std::is_convertible<decltype({1}), {2}>::value, \"{0} has another "
        "type\");\n#else\n_Static_assert(_Generic({1}, {2}: 1, default: 0), \"{0} has another "
        "type\");\n#endif\n",
        name, pointer, type);
}

} // namespace

std::string asserts(const std::string& golden) {
    const bool of_host = golden.starts_with("# The host API ");
    const std::size_t dot = golden.find('.');
    if (dot == std::string::npos) throw std::runtime_error("the layout names no version");
    const std::string minor = golden.substr(dot + 1, golden.find(' ', dot) - dot - 1);
    std::string s = "// Compiles only where the headers have this layout.\n#include <stddef.h>\n";
    if (of_host)
        for (const std::string& header : headers_of(golden)) s += fmt::format("#include \"hekla/{}\"\n", header);
    else
        s += "#include \"hekla/plugin/plugin.h\"\n";
    s += "\n"
         "#ifdef __cplusplus\n"
         "#include <type_traits>\n"
         "#define HOLDS(what, text) static_assert(what, text)\n"
         "#else\n"
         "#define HOLDS(what, text) _Static_assert(what, text)\n"
         "#endif\n"
         "#define AT_OFFSET(structure, member, offset, size) \\\n"
         "    HOLDS(offsetof(structure, member) == (offset) && sizeof(((structure*)0)->member) == (size), \\\n"
         "          #structure \".\" #member \" has another offset\")\n"
         "#define SAME_TEXT(a, b) (sizeof(a) == sizeof(b))\n\n";
    const auto since = [](const std::string& at) {
        return at == "0" ? "" : fmt::format("#if HK_TARGET_ABI_MINOR >= {}\n", at);
    };
    const auto end = [](const std::string& at) { return at == "0" ? "" : "#endif\n"; };
    for (const Entry& entry : entries_of(golden)) {
        std::istringstream head(entry.head), rest(entry.rest);
        std::string kind, name, type, value, at;
        head >> kind >> name;
        if (kind == "constant") {
            rest >> type >> value >> at;
            at.erase(0, 1);
            s += since(at);
            s += type == "text" ? fmt::format("HOLDS(SAME_TEXT({0}, \"{1}\"), \"{0}\");\n", name, value)
                                : fmt::format("HOLDS({0} == {1}, \"{0} is not {1}\");\n", name, value);
            s += end(at);
        } else if (kind == "alias") {
            s += is_function(entry.rest)
                     ? same_type(name, fmt::format("*({}*)0", name), entry.rest)
                     : fmt::format("HOLDS(sizeof({0}) == sizeof({1}) && ({0})-1 > 0, \"{0}\");\n", name, entry.rest);
        } else if (kind == "function") {
            s += same_type(name, "&" + name, entry.rest);
        } else if (kind == "interface") {
            std::string by;
            rest >> value >> type >> by >> at;
            at = at.empty() ? "0" : at.substr(1);
            s += since(at) + fmt::format("HOLDS(SAME_TEXT({0}, \"{1}\"), \"{0}\");\n", name, value) + end(at);
        } else if (kind == "struct") {
            const std::string size =
                fmt::format("HOLDS(sizeof({0}) == {1}, \"{0} has another size\");\n", name, entry.rest);
            s += of_host ? "\n" + size : fmt::format("\n#if HK_TARGET_ABI_MINOR == {}\n{}#endif\n", minor, size);
            for (const std::string& line : entry.members) {
                const Slot slot = slot_of(line);
                s += since(slot.since) +
                     fmt::format("AT_OFFSET({}, {}, {}, {});\n", name, slot.name, slot.offset, slot.size);
                s += fmt::format("#ifdef __cplusplus\nstatic_assert(std::is_same<decltype({0}::{1}), {2}>::value, "
                                 "\"{0}.{1} has another type\");\n"
                                 "#else\n_Static_assert(_Generic(&(({0}*)0)->{1}, {3}: 1, default: 0), \"{0}.{1} has "
                                 "another type\");\n#endif\n",
                                 name, slot.name, slot.type, pointer_to(slot.type));
                s += end(slot.since);
            }
        }
    }
    return s;
}

std::string anchor(const Description& d) {
    std::string s = "// A function for every struct: without one, tools that read libraries do not see what is reached "
                    "through void*.\n"
                    "#include \"hekla/plugin/plugin.h\"\n\n";
    for (const Header& h : d.headers)
        for (const Item& item : h.items)
            if (item.kind == ItemKind::structure || item.kind == ItemKind::table)
                s += fmt::format("#if HK_TARGET_ABI_MINOR >= {1}\nHK_EXPORT const {0}* anchor_{0}(void);\nconst {0}* "
                                 "anchor_{0}(void) {{ return 0; }}\n#endif\n",
                                 item.name, item.since);
    return s;
}

std::string rust_asserts(const std::string& golden) {
    std::string s = "// A test that fails where the Rust binding has not the layout that was released.\n"
                    "use hekla_plugin::raw::*;\nuse std::mem::{size_of, MaybeUninit};\nuse std::ptr::addr_of;\n\n"
                    "fn size<T>(_: *const T) -> usize {\n    size_of::<T>()\n}\n\n"
                    "macro_rules! at_offset {\n    ($structure:ident, $member:ident, $offset:expr, $size:expr) => {\n"
                    "        let memory = MaybeUninit::<$structure>::uninit();\n"
                    "        let member = unsafe { addr_of!((*memory.as_ptr()).$member) };\n"
                    "        let place = (member as usize - memory.as_ptr() as usize, size(member));\n"
                    "        assert_eq!(place, ($offset, $size), concat!(stringify!($structure), \".\", "
                    "stringify!($member)));\n    };\n}\n\n#[test]\nfn layout() {\n";
    for (const Entry& entry : entries_of(golden)) {
        std::istringstream head(entry.head), rest(entry.rest);
        std::string kind, name, type, value;
        head >> kind >> name;
        if (kind == "constant") {
            rest >> type >> value;
            s += type == "text" ? fmt::format("    assert_eq!({}, \"{}\");\n", name, value)
                                : fmt::format("    assert_eq!({}, {});\n", name, value);
        } else if (kind == "interface") {
            rest >> value;
            s += fmt::format("    assert_eq!({}, \"{}\");\n", name, value);
        } else if (kind == "struct") {
            s += fmt::format("    assert!(size_of::<{0}>() >= {1}, \"{0}\");\n", name, entry.rest);
            for (const std::string& line : entry.members) {
                const Slot slot = slot_of(line);
                s += fmt::format("    at_offset!({}, {}, {}, {});\n", name, rust_name(slot.name), slot.offset,
                                 slot.size);
            }
        }
    }
    return s + "}\n";
}

} // namespace hekla::abi
