// What repeats the structs of the host API in code: members by name, checks and defaults in engine/api/, and the
// options of engine/include/hekla/options.hpp.
#include "host_api.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::abi {
namespace {

constexpr const char* kOptionsBegin =
    R"(// Options of hekla.hpp, with strings and functions of the standard library. Included by hekla.hpp.
//
{}// clang-format off
#ifndef HEKLA_OPTIONS_HPP
#define HEKLA_OPTIONS_HPP

#include "hekla/session.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace hk {{

// Convert between strings; the result borrows.
inline hk_string view(std::string_view s) {{ return {{s.data(), s.size()}}; }}
inline std::string_view view(hk_string s) {{ return {{s.data, static_cast<std::size_t>(s.size)}}; }}

// Arrays of strings for one call. The strings are borrowed.
class Views {{
public:
    const hk_string* of(const std::vector<std::string>& strings) {{
        std::vector<hk_string>& all = arrays_.emplace_back();
        for (const std::string& one : strings) all.push_back(view(one));
        return all.empty() ? nullptr : all.data();
    }}

private:
    std::deque<std::vector<hk_string>> arrays_;
}};
)";

std::vector<const HostItem*> structs_of(const HostApi& api) {
    std::vector<const HostItem*> structs;
    for (const HostHeader& h : api.headers)
        for (const HostItem& item : h.items)
            if (item.kind == HostKind::structure) structs.push_back(&item);
    return structs;
}

bool counts(const HostItem& item, const HostMember& m) {
    return std::ranges::any_of(
        item.members, [&](const HostMember& other) { return other.count == m.name() || other.lengths == m.name(); });
}

// Returns whether the member is data of the host: what a file of captured calls contains.
bool is_data(const HostItem& item, const HostMember& m) {
    if (m.is_function() || m.is_reserved() || m.name() == "struct_size" || counts(item, m)) return false;
    if (m.is.type.pointers == 0) return m.is.array.empty();
    return m.is_text_array() || !m.lengths.empty();
}

bool is_element(const HostApi& api, const HostItem& item);

// Returns the statement that checks one member, or nothing.
std::string check_of(const HostApi& api, const HostMember& m) {
    const std::string n = m.name(), quoted = "\"" + n + "\"";
    const HostItem* pointed = m.is_function() ? nullptr : api.find(m.is.type.base);
    if (m.is_reserved()) return fmt::format(".zero({}, o.{})", quoted, n);
    if (!m.required.empty() && m.is_text()) return fmt::format(".required({}, o.{}, \"{}\")", quoted, n, m.required);
    if (!m.required.empty()) {
        const bool pointer = m.is_function() || m.is.type.pointers > 0 || m.is.type.base.starts_with("hk_");
        const std::string zero = pointer ? "nullptr" : "0";
        const std::string message =
            !m.refusal.empty() ? m.refusal : fmt::format("is {}, expected {}", pointer ? "null" : "0", m.required);
        return fmt::format(".expect(o.{} != {}, {}, \"{}\")", n, zero, quoted, message);
    }
    if (m.is_text_array()) {
        const std::string count = m.separate ? fmt::format("o.{0} != nullptr ? o.{1} : 0", n, m.count) : "o." + m.count;
        return fmt::format(".texts({}, o.{}, \"{}\", {})", quoted, n, m.count, count);
    }
    if (!m.count.empty() && pointed != nullptr && (pointed->by_host || is_element(api, *pointed)))
        return fmt::format(".structs({}, o.{}, \"{}\", o.{})", quoted, n, m.count, m.count);
    if (!m.count.empty()) return fmt::format(".array({}, o.{}, \"{}\", o.{})", quoted, n, m.count, m.count);
    if (m.is_text() && m.is.type.pointers == 0) return fmt::format(".text({}, o.{})", quoted, n);
    if (!m.one_of.empty()) {
        const std::vector<Constant> constants = api.constants(m.one_of);
        return fmt::format(".between({}, o.{}, {}, {})", quoted, n, constants.front().name, constants.back().name);
    }
    if (!m.above.empty()) {
        const std::string most = m.most.empty() ? "std::numeric_limits<double>::max()" : m.most;
        return fmt::format(".above({}, o.{}, {}, {}, \"{}\")", quoted, n, m.above, most, m.refusal);
    }
    if (m.least.empty()) {
        if (pointed == nullptr || !pointed->by_host) return "";
        return m.is.type.pointers > 0 ? fmt::format(".optional(o.{})", n)
                                      : fmt::format(".embedded({0}, o.{1})", quoted, n);
    }
    if (m.most.empty()) return fmt::format(".at_least({}, o.{}, {})", quoted, n, m.least);
    return fmt::format(".{}({}, o.{}, {}, {})", m.is.type.base == "double" ? "real_between" : "between", quoted, n,
                       m.least, m.most);
}

std::string checks_of(const HostApi& api, const HostItem& item) {
    std::string s;
    for (const HostMember& m : item.members)
        if (const std::string check = check_of(api, m); !check.empty()) s += "\n        " + check;
    return s;
}

// Returns whether it is checked as an element of an array: it has no struct_size.
bool is_element(const HostApi& api, const HostItem& item) {
    if (item.is_sized || checks_of(api, item).empty()) return false;
    for (const HostItem* other : structs_of(api))
        for (const HostMember& m : other->members)
            if (other->by_host && !m.count.empty() && m.is.type.base == item.name) return true;
    return false;
}

std::string cpp_parameter(const Variable& v) {
    if (!v.function.empty()) return c_variable(v);
    if (v.type.base == "hk_string" && v.type.pointers == 0) return "std::string_view " + v.name;
    if (v.type.pointers == 1 && v.type.is_const) return fmt::format("const {}& {}", v.type.base, v.name);
    return c_variable(v);
}

// Returns the arguments of the C++ function: those of the C function without `user`.
std::string cpp_arguments(const Function& f) {
    std::string s;
    for (const Variable& v : f.parameters) {
        if (v.name == "user") continue;
        const std::string& name = v.function.empty() ? v.name : v.function[0].name;
        s += s.empty() ? "" : ", ";
        if (v.type.base == "hk_string" && v.type.pointers == 0)
            s += fmt::format("view({})", name);
        else
            s += (v.type.pointers == 1 && v.type.is_const ? "*" : "") + name;
    }
    return s;
}

std::string cpp_declaration(const CppMember& given, const HostMember& m) {
    if (!given.declaration.empty()) return given.declaration;
    if (m.is_function()) {
        const Function& f = m.is.function[0];
        std::string parameters;
        for (const Variable& v : f.parameters)
            if (v.name != "user") parameters += (parameters.empty() ? "" : ", ") + cpp_parameter(v);
        return fmt::format("std::function<{}({})> {}", c_type(f.returns), parameters, m.name());
    }
    if (m.is_text_array()) return "std::vector<std::string> " + m.name();
    if (m.is_text()) return "std::string " + m.name();
    if (m.is.type.pointers > 0) return c_variable(m.is) + " = nullptr";
    if (m.is_flag()) return fmt::format("bool {} = {}", m.name(), m.default_value == "1" ? "true" : "false");
    std::string value = m.default_value.empty() ? "0" : m.default_value;
    if (m.is.type.base == "double" && value.find('.') == std::string::npos) value += ".0";
    return fmt::format("{} = {}", c_variable(m.is), value);
}

std::string cpp_fill(const CppStruct& s, const HostMember& m) {
    const std::string n = m.name();
    if (m.is_function()) {
        const Function& f = m.is.function[0];
        std::string parameters;
        for (const Variable& v : f.parameters) parameters += (parameters.empty() ? "" : ", ") + c_variable(v);
        return fmt::format("    if (o.{0})\n        c.{0} = []({1}) {{ static_cast<const {2}*>(user)->{0}({3}); }};\n",
                           n, parameters, s.name, cpp_arguments(f));
    }
    if (m.is_text_array()) return fmt::format("    c.{0} = views.of(o.{0});\n    c.{1} = o.{0}.size();\n", n, m.count);
    if (m.is_text()) return fmt::format("    c.{0} = view(o.{0});\n", n);
    if (m.is_flag()) return fmt::format("    c.{0} = o.{0} ? 1 : 0;\n", n);
    return fmt::format("    c.{0} = o.{0};\n", n);
}

} // namespace

std::string host_cpp_options(const HostApi& api) {
    std::string s = fmt::format(kOptionsBegin, kHostNotice);
    for (const CppStruct& one : api.cpp) {
        const HostItem& of = *api.find(one.of);
        std::string members, filled;
        bool called = false;
        for (const CppMember& given : one.members) {
            const HostMember* m = of.find(given.member);
            members += wrapped(given.about.empty() ? meaning(of, *m, false) : given.about, "    //") + "    " +
                       cpp_declaration(given, m != nullptr ? *m : HostMember()) + ";\n";
            if (m == nullptr || !given.filled) continue;
            filled += cpp_fill(one, *m);
            called = called || m->is_function();
        }
        s += fmt::format("\n{}struct {} {{\n{}}};\n\n", wrapped(one.about, "//"), one.name, members);
        const bool viewed = filled.find("views.") != std::string::npos;
        s += fmt::format(
            "// Sets the members of the C struct that have the same name. They borrow from `o` and the views.\n"
            "inline void fill({}& c, {}{}& o, Views&{}) {{\n{}{}}}\n",
            one.of, called ? "" : "const ", one.name, viewed ? " views" : "", called ? "    c.user = &o;\n" : "",
            filled);
    }
    return s + "\n} // namespace hk\n\n#endif\n";
}

std::string host_call_fields(const HostApi& api) {
    std::string s =
        std::string(
            "// The members of option structs by name, without callbacks: for capturing calls, replaying them and "
            "keeping copies.\n"
            "// A visitor takes (name, member) for numbers and strings, list(name, strings, count), and "
            "rows(name, rows, lengths,\n// count).\n//\n") +
        kHostNotice +
        "#pragma once\n\n#include \"hekla/plan.h\"\n#include \"hekla/session.h\"\n\n"
        "// clang-format off\nnamespace hekla::api {\n";
    std::string settings;
    for (const HostItem* item : structs_of(api)) {
        if (!item->captured) continue;
        s += fmt::format("\ntemplate<class V>\nvoid visit_fields(V& v, {}& o) {{\n", item->name);
        std::string of_item;
        for (const HostMember& m : item->members) {
            const std::string n = m.name();
            if (m.setting) of_item += fmt::format("    v(\"{0}\", o.{0});\n", n);
            if (!is_data(*item, m)) continue;
            if (!m.lengths.empty())
                s += fmt::format("    v.rows(\"{0}\", o.{0}, o.{1}, o.{2});\n", n, m.lengths, m.count);
            else if (m.is_text_array())
                s += fmt::format("    {1}v.list(\"{0}\", o.{0}, o.{2});\n", n,
                                 m.separate ? fmt::format("if (o.{} != nullptr || v.reads()) ", n) : "", m.count);
            else
                s += fmt::format("    v(\"{0}\", o.{0});\n", n);
        }
        s += "}\n";
        if (!of_item.empty())
            settings += fmt::format("\n// The members that are settings of the same name in generate::options_from().\n"
                                    "template<class V>\nvoid visit_settings(V&& v, const {}& o) {{\n{}}}\n",
                                    item->name, of_item);
    }
    return s + settings + "\n} // namespace hekla::api\n";
}

std::string host_report_fields(const HostApi& api) {
    std::string s =
        std::string(
            "// Fill reports of hekla.h from structs of the engine that have members of the same names, which must "
            "outlive them.\n// arrays: makes the arrays that they point to (report_arrays.hpp).\n//\n") +
        kHostNotice +
        "#pragma once\n\n#include \"api/boundary.hpp\"\n\n"
        "// clang-format off\nnamespace hekla::api {\n";
    for (const HostItem* item : structs_of(api)) {
        if (!item->report) continue;
        std::string filled;
        bool has_arrays = false;
        for (const HostMember& m : item->members) {
            const std::string n = m.name();
            if (m.is_reserved() || n == "struct_size" || counts(*item, m)) continue;
            has_arrays = has_arrays || !m.count.empty();
            if (!m.count.empty())
                filled += fmt::format("    to.{0} = arrays.of(from.{0});\n    to.{1} = from.{0}.size();\n", n, m.count);
            else if (m.is_text())
                filled += fmt::format("    to.{0} = view(from.{0});\n", n);
            else if (m.is.type.base == "int32_t") // also of a flag or an enumeration
                filled += fmt::format("    to.{0} = static_cast<int32_t>(from.{0});\n", n);
            else
                filled += fmt::format("    to.{0} = from.{0};\n", n);
        }
        s += fmt::format(
            "\ntemplate<class R{}>\nvoid fill({}& to, const R& from{}) {{\n    to.struct_size = sizeof to;\n{}}}\n",
            has_arrays ? ", class A" : "", item->name, has_arrays ? ", A& arrays" : "", filled);
    }
    return s + "\n} // namespace hekla::api\n";
}

std::string host_checks_header(const HostApi& api) {
    std::string s = std::string("// Checks of the structs that a host fills in, with everything that they point to. "
                                "Null is an error.\n//\n") +
                    kHostNotice + "#pragma once\n\n#include \"base/status.hpp\"\n";
    for (const HostHeader& h : api.headers) s += fmt::format("#include \"hekla/{}.h\"\n", h.name);
    s += "\nnamespace hekla::api {\n\n";
    std::string elements, relations;
    for (const HostItem* item : structs_of(api)) {
        if (is_element(api, *item))
            elements += fmt::format("Status check_element(const std::string& place, const {}& o);\n", item->name);
        if (!item->by_host) continue;
        s += fmt::format("Status check(const {}* given);\n", item->name);
        if (item->relations) relations += fmt::format("Status check_relations(const {}& o);\n", item->name);
    }
    return s + "\n// Check an element of an array; `place` is its name in messages.\n" + elements +
           "\n// Check what depends on several members, at the end of check().\n" + relations +
           "\n} // namespace hekla::api\n";
}

std::string host_checks(const HostApi& api) {
    std::string s =
        std::string(kHostNotice) + "#include \"api/members.hpp\"\n\n// clang-format off\nnamespace hekla::api {\n";
    for (const HostItem* item : structs_of(api)) {
        const std::string checks = checks_of(api, *item);
        if (is_element(api, *item))
            s += fmt::format("\nStatus check_element(const std::string& place, const {}& o) {{\n    return "
                             "Members(place){}\n        "
                             ".status();\n}}\n",
                             item->name, checks);
        if (!item->by_host) continue;
        const std::string whole = fmt::format("Members(\"{}\"){}\n        .status()", item->name, checks);
        s += fmt::format("\nStatus check(const {0}* given) {{\n    HK_TRY(complete_input(given, \"{0}\"));\n"
                         "    const {0}& o = *given;\n    {1}\n}}\n",
                         item->name,
                         item->relations ? fmt::format("HK_TRY({});\n    return check_relations(o);", whole)
                                         : fmt::format("return {};", whole));
    }
    return s + "\n} // namespace hekla::api\n";
}

std::string host_defaults(const HostApi& api) {
    std::string s = std::string(kHostNotice) + "#include \"hekla/hekla.h\"\n\nextern \"C\" {\n";
    for (const HostHeader& h : api.headers)
        for (const HostItem& f : h.items) {
            if (f.kind != HostKind::function || !f.name.ends_with("_defaults")) continue;
            const std::string type = f.function.parameters.at(0).type.base;
            s += fmt::format(
                "\nvoid {0}({1}* options) {{\n    if (options == nullptr) return;\n    *options = {1}{{}};\n"
                "    options->struct_size = sizeof *options;\n",
                f.name, type);
            const HostItem* item = api.find(type);
            if (item == nullptr) fail(f.name, "the struct is not described");
            for (const HostMember& m : item->members)
                if (!m.default_value.empty() && m.default_value != "0" && m.default_value != "null")
                    s += fmt::format("    options->{} = {};\n", m.name(), m.default_value);
            s += "}\n";
        }
    return s + "\n} // extern \"C\"\n";
}

} // namespace hekla::abi
