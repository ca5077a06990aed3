// engine/include/hekla/plugin/NAME.h and draft/NAME.h
#include "description.hpp"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>

namespace hekla::abi {
namespace {

constexpr std::size_t kWidth = 120;

// What only C needs: headers, calling convention, versions.
std::string abi_prelude(const Description& d) {
    return fmt::format(
        R"(#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define HK_ABI __cdecl
#define HK_EXPORT __declspec(dllexport)
#else
#define HK_ABI
#define HK_EXPORT __attribute__((visibility("default")))
#endif

// The version of these headers. A plugin that was built for one minor version loads in every later one of its major
// version; the reference lists what a minor version may add, and there is no plan for another major one.{}
#define HK_ABI_MAJOR {}
#define HK_ABI_MINOR {}
#define HK_ABI_OLDEST_MINOR {} // that a plugin can still be built for

// The oldest host minor that can run the plugin; what is newer is not declared. Define it before including any header,
// or on the compiler's command line, to ask for a newer one; hekla_add_plugin takes it from the manifest. [abi.7]
#ifndef HK_TARGET_ABI_MINOR
#define HK_TARGET_ABI_MINOR HK_ABI_OLDEST_MINOR
#endif
#if HK_TARGET_ABI_MINOR < HK_ABI_OLDEST_MINOR || HK_TARGET_ABI_MINOR > HK_ABI_MINOR
#error "HK_TARGET_ABI_MINOR (abi_minor_needed in the manifest) asks for a plugin ABI that these headers do not have"
#endif
)",
        d.open ? fmt::format("\n// {}.{} is open: it is not released yet, and may still be added to.", d.major, d.minor)
               : std::string(),
        d.major, d.minor, d.oldest_minor);
}

std::string function_pointer(const Function& f) {
    return prototype_lines(fmt::format("    {}(HK_ABI* {})", c_type(f.returns), f.name), f);
}

std::string comment_of(const Member& m) {
    std::string s = wrapped(m.about, "    //");
    for (const std::string& line : m.lines) s += fmt::format("    //   {}\n", line);
    if (m.since > 0) s += fmt::format("    // Since minor {}.\n", m.since);
    return s + fmt::format("    // [{}]\n", m.thread);
}

std::string members_of(const Item& item) {
    std::size_t widest = 0; // of declarations with a comment after them
    const auto behind = [](const Member& m) {
        return !m.is_function() && !m.about.empty() && c_variable(m.is).size() + m.about.size() < 100;
    };
    for (const Member& m : item.members)
        if (behind(m)) widest = std::max(widest, c_variable(m.is).size());
    std::string s;
    for (const Member& m : item.members) {
        if (m.is_function()) {
            if (!s.empty()) s += "\n";
            s += since_begin(m.since) + comment_of(m) + function_pointer(m.is.function[0]) + since_end(m.since);
            continue;
        }
        s += since_begin(m.since);
        const std::string declaration = c_variable(m.is) + ";";
        if (behind(m))
            s += fmt::format("    {:<{}} // {}\n", declaration, widest + 1, m.about);
        else
            s += (m.about.empty() ? "" : wrapped(m.about, "    //")) + "    " + declaration + "\n";
        s += since_end(m.since);
    }
    return s;
}

std::string constant_value(const std::string& type, const std::string& value) {
    if (type == "size") return value;
    if (type == "text") return fmt::format("\"{}\"", value);
    return fmt::format("(({}){}{})", type, value, type == "uint32_t" ? "u" : "");
}

std::string item_text(const Description& d, const Item& item) {
    std::string s;
    if (item.kind != ItemKind::prelude && !item.about.empty()) s += wrapped(item.about, "//");
    switch (item.kind) {
    case ItemKind::prelude: return abi_prelude(d);
    case ItemKind::constants:
        for (const Constant& c : item.constants)
            s += since_begin(c.since) + constant_line(item.name, c) + since_end(c.since);
        return s;
    case ItemKind::opaque: return s + fmt::format("typedef struct {0} {0};\n", item.name);
    case ItemKind::alias: return s + fmt::format("typedef {} {};\n", item.alias, item.name);
    case ItemKind::structure:
        return s + fmt::format("typedef struct {0} {{\n{1}}} {0};\n", item.name, members_of(item));
    case ItemKind::table:
    case ItemKind::function: break;
    }
    std::string declared;
    for (const std::string& name : item.declares) declared += fmt::format("struct {};\n", name);
    return fmt::format("#define {} \"{}\"\n{}\n{}typedef struct {} {{\n{}}} {};\n", item.macro, item.id,
                       declared.empty() ? "" : "\n" + declared, s, item.name, members_of(item), item.name);
}

// A struct that refers to itself, or is only declared so far, needs its tag, as in C.
std::string with_struct_tags(std::string text, const Item& item) {
    std::vector<std::string> names = item.declares;
    names.push_back(item.name);
    for (const std::string& name : names)
        for (std::size_t at = 0; (at = text.find("const " + name + "*", at)) != std::string::npos; at += 7)
            text.insert(at + 6, "struct ");
    return text;
}

} // namespace

std::string prototype_lines(const std::string& begin, const Function& f) {
    std::string line = begin + "(", result;
    const std::string indent(line.size(), ' ');
    if (f.parameters.empty()) return line + "void);\n";
    for (std::size_t i = 0; i < f.parameters.size(); ++i) {
        const bool last = i + 1 == f.parameters.size();
        const std::string next = c_variable(f.parameters[i]) + (last ? ");" : ",");
        if (i > 0 && line.size() + next.size() + 1 > kWidth) {
            result += line + "\n";
            line = indent + next;
        } else {
            line += (i > 0 ? " " : "") + next;
        }
    }
    return result + line + "\n";
}

std::string constant_line(const std::string& type, const Constant& c) {
    const std::string line = fmt::format("#define {} {}", c.name, constant_value(type, c.value));
    if (c.about.empty()) return line + "\n";
    if (line.size() + c.about.size() + 4 <= kWidth) return fmt::format("{} // {}\n", line, c.about);
    return wrapped(c.about, "//") + line + "\n";
}

std::string since_begin(uint32_t since) {
    return since > 0 ? fmt::format("#if HK_TARGET_ABI_MINOR >= {}\n", since) : "";
}
std::string since_end(uint32_t since) { return since > 0 ? "#endif\n" : ""; }

std::string c_header(const Description& d, const Header& h) {
    std::string guard = fmt::format("HEKLA_PLUGIN_{}{}_H", h.draft ? "DRAFT_" : "", h.name);
    std::transform(guard.begin(), guard.end(), guard.begin(),
                   [](char c) { return static_cast<char>(std::toupper(static_cast<unsigned char>(c))); });
    std::string s = wrapped(h.title, "//");
    if (h.since > 0) s += fmt::format("// Since minor {}.\n", h.since);
    if (!h.about.empty()) s += "//\n";
    for (const std::string& about : h.about) s += wrapped(about, "//");
    if (!h.rules.empty()) s += "//\n";
    for (const Rule& rule : h.rules) {
        std::string text = wrapped(fmt::format("{} [{}]", rule.text, rule.id), "//  ");
        text.replace(2, 2, " -"); // the first line begins with a dash
        s += text;
    }
    s += fmt::format("//\n// Made by tools/generate_abi from engine/plugin/abi.json. Edit that instead.\n"
                     "// clang-format off\n#ifndef {0}\n#define {0}\n",
                     guard);
    if (!h.includes.empty()) s += "\n";
    for (const std::string& include : h.includes) {
        const bool of_draft = std::ranges::any_of(d.drafts, [&](const Header& one) { return one.name == include; });
        s += fmt::format("#include \"{}{}.h\"\n", h.draft && !of_draft ? "../" : "", include);
    }
    if (h.since > 0) s += "\n" + since_begin(h.since);
    for (const Item& item : relative(h).items) s += "\n" + with_struct_tags(item_text(d, item), item);
    if (h.since > 0) s += "\n" + since_end(h.since);
    return s + "\n#endif\n";
}

std::string rule_table(const Description& d) {
    std::string s = kAbiNotice;
    s += "// The rules: number, whether a trace can see it broken, text.\n";
    for (const std::vector<Header>* headers : {&d.headers, &d.drafts})
        for (const Header& h : *headers)
            for (const Rule& r : h.rules) s += fmt::format("HK_RULE(\"{}\", {}, R\"({})\")\n", r.id, r.traced, r.text);
    return s;
}

std::string traced_functions(const Description& d) {
    std::string s = kAbiNotice;
    s += "// Every function of every struct of functions: struct, function, names of its parameters, first minor "
         "version.\n";
    std::vector<Header> headers = d.headers;
    headers.insert(headers.end(), d.drafts.begin(), d.drafts.end());
    for (const Header& h : headers)
        for (const Item& item : h.items) {
            if (item.kind != ItemKind::table) continue;
            for (const Member& m : item.members) {
                std::string names;
                for (const Variable& p : m.is.function[0].parameters)
                    names += (names.empty() ? "" : " ") + (p.function.empty() ? p.name : p.function[0].name);
                s += fmt::format("HK_TRACED_{}({}, {}, \"{}\", {})\n", item.by_host ? "HOST" : "PLUGIN", item.name,
                                 m.is.name, names, m.since);
            }
        }
    return s;
}

std::string table_slots(const Description& d) {
    std::string s = kAbiNotice;
    s += "// The functions of every struct that a plugin gives: interface, struct, function, whether it may be null, "
         "first minor "
         "version.\n";
    for (const std::vector<Header>* headers : {&d.headers, &d.drafts})
        for (const Header& h : *headers)
            for (const Item& item : h.items) {
                if (item.kind != ItemKind::table || item.by_host) continue;
                for (const Member& m : item.members)
                    if (m.is_function())
                        s += fmt::format("HK_SLOT({}, {}, {}, {}, {})\n", item.macro, item.name, m.is.name, m.optional,
                                         item.since);
            }
    return s;
}

} // namespace hekla::abi
