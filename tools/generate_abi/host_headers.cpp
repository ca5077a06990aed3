// engine/include/hekla/NAME.h, the layout of these headers, and docs/host_api.md
#include "host_api.hpp"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>

namespace hekla::abi {
namespace {

// Returns paragraphs as a comment: those that begin with "* " are items of a list, with four spaces code.
std::string comment(const std::vector<std::string>& paragraphs, const std::string& prefix) {
    std::string s;
    for (const std::string& one : paragraphs) {
        if (one.empty()) {
            s += prefix + "\n";
        } else if (one.starts_with("    ")) {
            s += fmt::format("{} {}\n", prefix, one);
        } else if (one.starts_with("* ")) {
            std::string item = wrapped(one.substr(2), prefix + "   ");
            s += item.replace(prefix.size() + 2, 1, "*");
        } else {
            s += wrapped(one, prefix);
        }
    }
    return s;
}

std::string host_members(const HostItem& item) {
    std::string s;
    for (const HostMember& m : item.members) {
        s += wrapped(meaning(item, m), "    //") + comment(m.lines, "    //");
        if (m.is_function())
            s += prototype_lines(fmt::format("    {}(HK_ABI* {})", c_type(m.is.function[0].returns), m.name()),
                                 m.is.function[0]);
        else
            s += fmt::format("    {};\n", c_variable(m.is));
    }
    return s;
}

std::string host_item(const HostItem& item) {
    switch (item.kind) {
    case HostKind::note: return wrapped(item.about, "//");
    case HostKind::constants: {
        std::string s = wrapped(item.about, "//");
        for (const Constant& c : item.constants) s += constant_line(item.name, c);
        return s;
    }
    case HostKind::pointer:
        return fmt::format("{}typedef {};\n", wrapped(item.about, "//"), c_variable(item.members[0].is));
    case HostKind::function:
        return wrapped(contract(item), "//") +
               prototype_lines(fmt::format("HK_EXPORT {} {}", c_type(item.function.returns), item.name), item.function);
    case HostKind::handle:
    case HostKind::structure: break;
    }
    return fmt::format("{0}typedef struct {1} {{\n{2}}} {1};\n", wrapped(item.about, "//"), item.name,
                       host_members(item));
}

// Returns the header for layout_of(), which knows no meanings.
Header without_meanings(const HostHeader& h) {
    Header plain;
    plain.name = h.name;
    for (const HostItem& item : h.items) {
        Item one;
        one.name = item.name;
        switch (item.kind) {
        case HostKind::note: continue;
        case HostKind::constants:
            one.kind = ItemKind::constants;
            one.constants = item.constants;
            break;
        case HostKind::pointer:
            one.kind = ItemKind::alias;
            one.alias = c_type_of(item.members[0].is);
            break;
        case HostKind::function:
            one.kind = ItemKind::function;
            one.alias = c_type_of({{}, item.name, {}, {item.function}});
            break;
        case HostKind::handle:
        case HostKind::structure:
            one.kind = ItemKind::structure;
            for (const HostMember& m : item.members) one.members.push_back({m.is, {}, {}, {}, 0, false});
            break;
        }
        plain.items.push_back(std::move(one));
    }
    return plain;
}

// Returns the declaration as people write it, without what only the compiler needs.
std::string readable(std::string declaration) {
    for (std::size_t at = 0; (at = declaration.find("(HK_ABI* ", at)) != std::string::npos;)
        declaration.replace(at, 9, "(*");
    return declaration;
}

std::string page_of(const HostItem& item) {
    switch (item.kind) {
    case HostKind::note: return "\n" + item.about + "\n";
    case HostKind::constants: {
        std::string s = fmt::format("\n{}\n\n| constant | value | |\n| --- | --- | --- |\n", item.about);
        for (const Constant& c : item.constants)
            s += fmt::format("| `{}` | {} | {} |\n", c.name, c.value, cell(c.about));
        return s;
    }
    case HostKind::pointer:
        return fmt::format("\n### {}\n\n```c\n{}\n```\n\n{}\n", item.name, readable(c_variable(item.members[0].is)),
                           item.about);
    case HostKind::function:
        return fmt::format(
            "\n### {}\n\n```c\n{}```\n\n{}\n", item.name,
            readable(prototype_lines(fmt::format("{} {}", c_type(item.function.returns), item.name), item.function)),
            contract(item));
    case HostKind::handle: return fmt::format("\n### {}\n\nA handle. {}\n", item.name, item.about);
    case HostKind::structure: break;
    }
    std::string s = fmt::format("\n### {}\n\n{}{}\n\n| member | |\n| --- | --- |\n", item.name, item.about,
                                item.by_host ? " Given by the host." : "");
    for (const HostMember& m : item.members) {
        if (m.is_reserved() || m.name() == "struct_size") continue;
        std::string text = meaning(item, m);
        for (const std::string& line : m.lines) text += " " + (line.starts_with("* ") ? line.substr(2) + ";" : line);
        s += fmt::format("| `{}` | {} |\n", cell(readable(c_variable(m.is))), cell(text));
    }
    return s;
}

} // namespace

std::string host_header(const HostHeader& h) {
    std::string guard = fmt::format("HEKLA_{}_H", h.name);
    std::ranges::transform(guard, guard.begin(),
                           [](char c) { return static_cast<char>(std::toupper(static_cast<unsigned char>(c))); });
    std::string s = comment(h.about, "//") + "//\n" + kHostNotice +
                    fmt::format("// clang-format off\n#ifndef {0}\n#define {0}\n\n", guard);
    for (const std::string& include : h.includes) s += fmt::format("#include \"{}\"\n", include);
    s += "\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n";
    for (const HostItem& item : h.items) s += "\n" + host_item(item);
    return s + "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n";
}

std::string host_layout(const HostApi& api, const Description& plugins) {
    std::vector<Header> headers;
    for (const HostHeader& h : api.headers) headers.push_back(without_meanings(h));
    return layout_of("The host API " + api.version, "engine/api/host_api.json.", plugins.headers, headers);
}

std::string host_page(const HostApi& api) {
    std::string s =
        fmt::format("<!-- Made by tools/generate_abi from engine/api/host_api.json. Edit that instead. -->\n"
                    "# The C API for host programs\n\n"
                    "Every function, struct and constant of `hekla/*.h`, version {}. [Embedding](embedding.md) "
                    "explains how they work "
                    "together. Not listed: `struct_size`, the first member of most structs, and members named "
                    "`reserved`, which are "
                    "zero.\n\n| header | |\n| --- | --- |\n",
                    api.version);
    for (const HostHeader& h : api.headers) {
        const std::string& about = h.about.at(0); // its first sentence
        s += fmt::format("| [{0}.h](#{0}h) | {1} |\n", h.name,
                         cell(about.substr(0, std::min(about.find(". "), about.size() - 1) + 1)));
    }
    for (const HostHeader& h : api.headers) {
        s += fmt::format("\n## {}.h\n", h.name);
        bool code = false, list = false;
        for (const std::string& one : h.about) {
            if (one.empty()) continue;
            const bool is_code = one.starts_with("    "), is_item = one.starts_with("* ");
            if (code && !is_code) s += "```\n";
            if (!(is_code && code) && !(is_item && list)) s += "\n";
            if (is_code && !code) s += "```c\n";
            s += (is_code ? one.substr(4) : one) + "\n";
            code = is_code;
            list = is_item;
        }
        if (code) s += "```\n";
        for (const HostItem& item : h.items) s += page_of(item);
    }
    return s;
}

} // namespace hekla::abi
