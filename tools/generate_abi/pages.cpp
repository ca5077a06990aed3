// plugins/reference/NAME.md and draft-NAME.md: the contents of the headers as text, and every rule with what enforces
// it.
#include "description.hpp"

#include <fmt/format.h>
#include <map>

namespace hekla::abi {
namespace {

constexpr const char* kPagesNotice = "<!-- Made by tools/generate_abi from engine/plugin/abi.json and "
                                     "engine/graph/operations.json. Edit those instead. -->\n";

// Turns "[graph.3]" into a link to the rule.
std::string linked(const Description& d, const std::string& text) {
    std::string s = text;
    for (const std::vector<Header>* headers : {&d.headers, &d.drafts})
        for (const Header& h : *headers)
            for (const Rule& r : h.rules) {
                const std::string plain = "[" + r.id + "]", link = fmt::format("[{}]({}#rules)", r.id, page_name(h));
                for (std::size_t at = 0; (at = s.find(plain, at)) != std::string::npos; at += link.size())
                    if (at + plain.size() >= s.size() || s[at + plain.size()] != '(') s.replace(at, plain.size(), link);
            }
    return s;
}

std::string prototype(const Member& m) {
    const Function& f = m.is.function[0];
    std::string parameters;
    for (const Variable& p : f.parameters) parameters += (parameters.empty() ? "" : ", ") + c_variable(p);
    std::string s = fmt::format("{} {}({})", c_type(f.returns), f.name, parameters.empty() ? "void" : parameters);
    for (std::size_t at = 0; (at = s.find("(HK_ABI* ", at)) != std::string::npos;) s.replace(at, 9, "(*");
    return s;
}

std::string since(uint32_t minor) { return minor > 0 ? fmt::format(" Since minor {}.", minor) : ""; }
std::string revised(const Operation& o) {
    return o.revision > 1 ? fmt::format(" Revision {} since minor {}.", o.revision, o.revised) : "";
}

std::string members(const Description& d, const Item& item) {
    std::string data, functions;
    for (const Member& m : item.members) {
        if (!m.is_function()) {
            data += fmt::format("| `{}` | {}{} |\n", c_variable(m.is), cell(linked(d, m.about)), since(m.since));
            continue;
        }
        functions += fmt::format("\n#### {}\n\n    {}\n\n{}{}{} Thread: {}.\n", m.is.name, prototype(m),
                                 linked(d, m.about), since(m.since), m.optional ? " **May be null.**" : "", m.thread);
        for (const std::string& line : m.lines) functions += "\n* " + line;
        if (!m.lines.empty()) functions += "\n";
    }
    return (data.empty() ? "" : "\n| member | |\n| --- | --- |\n" + data) + functions;
}

std::string tests_of(const Rule& r) {
    std::string s;
    for (const std::string& test : r.tests)
        s += (s.empty() ? "" : ", ") + (test.starts_with("none: ") ? cell(test) : "`" + test + "`");
    return s;
}
} // namespace

std::string cell(std::string text) {
    for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
    return text;
}

std::string page_name(const Header& h) { return fmt::format("{}{}.md", h.draft ? "draft-" : "", h.name); }

std::string page(const Description& d, const Header& whole) {
    const Header h = relative(whole);
    std::string s =
        fmt::format("{}# {}{}.h\n\n{}\n", kPagesNotice, h.draft ? "draft/" : "", h.name, linked(d, h.title));
    if (h.since > 0)
        s += fmt::format("\nSince {}.{}{}.\n", d.major, h.since,
                         d.open && h.since == d.minor ? ", which is [not closed yet](README.md#compatibility)" : "");
    for (const std::string& about : h.about) s += "\n" + linked(d, about) + "\n";
    if (!h.rules.empty()) {
        s += "\n## Rules\n\n| | rule | enforced by | traced | tests |\n| --- | --- | --- | --- | --- |\n";
        for (const Rule& r : h.rules)
            s += fmt::format("| {} | {} | {} | {} | {} |\n", r.id, cell(r.text), r.by, r.traced ? "yes" : "",
                             tests_of(r));
    }
    for (const Item& item : h.items) {
        switch (item.kind) {
        case ItemKind::prelude:
        case ItemKind::function: break;
        case ItemKind::constants:
            s += fmt::format("\n## {}\n\n| constant | value | |\n| --- | --- | --- |\n",
                             item.about.empty() ? "Constants" : item.about);
            for (const Constant& c : item.constants)
                s += fmt::format("| `{}` | {} | {}{} |\n", c.name, c.value, cell(linked(d, c.about)), since(c.since));
            break;
        case ItemKind::opaque: s += fmt::format("\n## {}\n\nOpaque. {}\n", item.name, linked(d, item.about)); break;
        case ItemKind::alias:
            s += fmt::format("\n## {}\n\n`{}`. {}\n", item.name, item.alias, linked(d, item.about));
            break;
        case ItemKind::structure:
            s += fmt::format("\n## {}\n\n{}\n{}", item.name, linked(d, item.about), members(d, item));
            break;
        case ItemKind::table:
            s += fmt::format("\n## {}\n\n`{}` (`{}`), given by the {}.{}{}\n{}", item.name, item.id, item.macro,
                             item.by_host ? "host" : "plugin", item.about.empty() ? "" : " ", linked(d, item.about),
                             members(d, item));
            break;
        }
    }
    return s;
}

std::string operations_page(const std::vector<Operation>& operations) {
    std::string s =
        std::string(kPagesNotice) +
        "# Operations\n\nThe operations of graphs. In C `hk_NAME(graph, builder, ...)` of operations.h, in C++ and "
        "Rust "
        "`NAME(...)`. Inputs and attributes in brackets may be left out. `any`: float or int32; `float`: float or "
        "float32; "
        "`int`: int32.\n";
    std::vector<std::pair<std::string, std::string>> groups;
    const auto of_revision = [](int revision) { return revision > 1 ? fmt::format(" (revision {})", revision) : ""; };
    for (const Operation& o : operations) {
        if (o.internal) continue;
        if (groups.empty() || groups.back().first != o.group) groups.emplace_back(o.group, "");
        std::string inputs, attributes, outputs;
        const auto add = [](std::string& to, const std::string& what) { to += (to.empty() ? "" : ", ") + what; };
        for (const Input& i : o.inputs)
            add(inputs, i.optional ? fmt::format("[{}: {}]{}", i.name, i.kind, of_revision(i.revision))
                                   : fmt::format("{}: {}{}", i.name, i.kind, i.variadic ? ", ..." : ""));
        for (const Attribute& a : o.attributes) {
            const std::string doc = a.doc.empty() ? "" : fmt::format(" ({})", a.doc);
            add(attributes, (a.required() ? a.name : fmt::format("[{} = {}]", a.name, a.fallback.dump())) + doc +
                                of_revision(a.revision));
        }
        for (const std::string& output : o.visible()) add(outputs, output);
        groups.back().second +=
            fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", o.name, cell(inputs), cell(attributes), outputs,
                        o.revision, cell(o.doc + since(o.since) + revised(o)));
    }
    for (const auto& [name, rows] : groups)
        s += fmt::format(
            "\n## {}\n\n| | inputs | attributes | outputs | revision | |\n| --- | --- | --- | --- | --- | --- |\n{}",
            name, rows);
    return s;
}

std::string index_page(const Description& d) {
    std::string s = fmt::format("{}# The plugin ABI {}.{}\n\nOne page per header of `hekla/plugin/`. A plugin runs on "
                                "every host of the same major version whose minor version is at least its "
                                "`abi_minor_needed`.\n\n| header | |\n| --- | --- |\n",
                                kPagesNotice, d.major, d.minor);
    for (const Header& h : d.headers)
        s += fmt::format("| [{0}.h]({0}.md) | {1}{2} |\n", h.name, cell(h.title),
                         h.since > 0 ? fmt::format(" Since {}.{}.", d.major, h.since) : "");
    s += "| [operations.h](operations.md) | A typed call for every operation. |\n";
    for (const Header& h : d.drafts)
        s += fmt::format("| [draft/{}.h]({}) | {} |\n", h.name, page_name(h), cell(h.title));
    s += "\n## Threads\n\n| tag | the function may be called |\n| --- | --- |\n";
    for (const auto& [name, about] : d.threads) s += fmt::format("| {} | {} |\n", name, about);
    s += "\n## What enforces a rule\n\n| | |\n| --- | --- |\n"
         "| host | the host refuses a violation with an error |\n"
         "| compiler | a violation does not compile |\n"
         "| build | `hekla_add_plugin` and the flags of pkg-config |\n"
         "| author | it cannot be enforced |\n"
         "\n## Compatibility\n\n"
         "Everything here is stable from 1.0 on, except drafts ([drafts.h](drafts.md)).\n\n" +
         (d.open
              ? fmt::format("Version {0}.{1} is open: it is not released. Until it is closed, data structs of {0}.{1} "
                            "may grow at their end, structs that the host gives may get more functions, and "
                            "interfaces, constants and operations may be added; what exists stays. A plugin that "
                            "asks for {0}.{1} needs a Hekla that is at least as new as the headers it was built "
                            "with.\n\n",
                            d.major, d.minor)
              : std::string()) +
         "* A plugin that was built for 1.N runs on every host of 1.N and later, unchanged. A host of an older minor "
         "version refuses it with an error that tells what to do.\n"
         "* A minor version may add: a function at the end of a struct that the host gives; a member at the end of a "
         "data struct; a constant; an interface; an operation, or another revision of one; a rule for what is new. Its "
         "name is declared from that `HK_TARGET_ABI_MINOR` on.\n"
         "* It never removes, reorders, retypes or renames anything, nor changes its meaning. An improved interface "
         "gets another id, and the old one still works.\n"
         "* A struct of functions that plugins give never grows. Limits are raised, never lowered.\n"
         "* Not promised: texts of messages, names of kernels, speed, and bits of results, which depend on the "
         "device, driver and choice of kernels. The values of constants are promised, their number is not.\n"
         "* The layout of every released version is kept in `tests/abi/golden/`, with plugins that were built for it; "
         "both are tested at every change.\n"
         "\n## Rules\n\n"
         "Traced: `hekla plugin trace` reports a violation. Tests: what fails if the rule is broken: "
         "`check NAME` is a test of `hekla plugin check`, the others are files of `tests/`.\n\n"
         "| | rule | enforced by | traced | tests |\n| --- | --- | --- | --- | --- |\n";
    for (const std::vector<Header>* headers : {&d.headers, &d.drafts})
        for (const Header& h : *headers)
            for (const Rule& r : h.rules)
                s += fmt::format("| [{}]({}#rules) | {} | {} | {} | {} |\n", r.id, page_name(h), cell(r.text), r.by,
                                 r.traced ? "yes" : "", tests_of(r));
    return s;
}

} // namespace hekla::abi
