// plugins/sdk/rust/raw.rs and operations.rs; hekla_plugin.rs, which includes them, is written by hand.
#include "description.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>

namespace hekla::abi {
std::string rust_name(const std::string& name) {
    static const std::set<std::string> kWords{"type", "where", "in", "ref", "match", "loop", "move", "use", "box"};
    if (name == "self") return "this";
    return kWords.contains(name) ? "r#" + name : name;
}

namespace {

std::string rust_base(const std::string& base) {
    static const std::map<std::string, std::string> kNames{{"uint8_t", "u8"},  {"int32_t", "i32"},  {"uint32_t", "u32"},
                                                           {"int64_t", "i64"}, {"uint64_t", "u64"}, {"double", "f64"},
                                                           {"float", "f32"},   {"char", "c_char"},  {"void", "c_void"}};
    const auto found = kNames.find(base);
    return found != kNames.end() ? found->second : base;
}

std::string rust_plain(const Type& t) {
    std::string s;
    for (int i = 0; i < t.pointers; ++i) s += i + 1 == t.pointers && t.is_const ? "*const " : "*mut ";
    return s + rust_base(t.base);
}

std::string rust_type(const Variable& v) {
    if (v.function.empty())
        return v.array.empty() ? rust_plain(v.type) : fmt::format("[{}; {}]", rust_plain(v.type), v.array);
    const Function& f = v.function[0];
    std::string parameters;
    for (const Variable& p : f.parameters)
        parameters += fmt::format("{}{}: {}", parameters.empty() ? "" : ", ", rust_name(p.name), rust_type(p));
    const bool nothing = f.returns.pointers == 0 && f.returns.base == "void";
    return fmt::format("Option<unsafe extern \"C\" fn({}){}>", parameters,
                       nothing ? "" : " -> " + rust_plain(f.returns));
}

// Items newer than the target do not exist, as in C. cfg cannot compare numbers, so every newer version is listed.
std::string since(const Description& d, uint32_t minor, const char* indent) {
    if (minor == 0) return "";
    std::string any;
    for (uint32_t m = minor; m <= d.minor; ++m)
        any += fmt::format("{}hekla_minor = \"{}\"", any.empty() ? "" : ", ", m);
    return fmt::format("{}#[cfg(any({}))]\n", indent, any);
}

} // namespace

std::string rust_bindings(const Description& d) {
    std::string s = fmt::format("// The plugin ABI {}.{}, as the headers in hekla/plugin/ say it.\n{}\nuse "
                                "std::os::raw::{{c_char, c_void}};\n\n"
                                "pub const HK_ABI_MAJOR: u32 = {};\npub const HK_ABI_MINOR: u32 = {};\n\n"
                                "/// The oldest host minor that can run the plugin: rustc --cfg 'hekla_minor=\"N\"'.\n",
                                d.major, d.minor, kAbiNotice, d.major, d.minor);
    for (uint32_t m = d.oldest_minor; m <= d.minor; ++m) {
        const std::string chosen = fmt::format("hekla_minor = \"{}\"", m);
        std::string others;
        for (uint32_t n = d.oldest_minor; m == d.oldest_minor && n <= d.minor; ++n)
            if (n != m) others += fmt::format("{}hekla_minor = \"{}\"", others.empty() ? "" : ", ", n);
        s += m == d.oldest_minor ? fmt::format("#[cfg(not(any({})))]\n", others) : fmt::format("#[cfg({})]\n", chosen);
        s += fmt::format("pub const HK_TARGET_ABI_MINOR: u32 = {};\n", m);
    }
    s += "\n// since_N! { items }: there where the target is N or newer.\n";
    for (uint32_t m = d.oldest_minor + 1; m <= d.minor; ++m) {
        const std::string newer = since(d, m, "").substr(6); // after "#[cfg("
        const std::string condition = newer.substr(0, newer.rfind(")]"));
        s += fmt::format(
            "#[cfg({0})]\n#[allow(unused_macros)]\nmacro_rules! since_{1} {{\n    ($($item:tt)*) => {{ $($item)* "
            "}};\n}}\n#[cfg(not({0}))]\n#[allow(unused_macros)]\nmacro_rules! since_{1} {{\n    ($($item:tt)*) => "
            "{{}};\n}}\n",
            condition, m);
    }
    std::vector<Header> headers = d.headers;
    headers.insert(headers.end(), d.drafts.begin(), d.drafts.end());
    for (const Header& h : headers) {
        s += fmt::format("\n// ---- {}{}.h\n", h.draft ? "draft/" : "", h.name);
        const Header shown = relative(h);
        for (const Item& item : shown.items) {
            if (item.kind != ItemKind::prelude) s += "\n";
            if (!item.about.empty()) s += wrapped(item.about, item.kind == ItemKind::constants ? "//" : "///");
            switch (item.kind) {
            case ItemKind::prelude:
            case ItemKind::function: break;
            case ItemKind::constants:
                for (const Constant& c : item.constants) {
                    const std::string type = item.name == "size"   ? "usize"
                                             : item.name == "text" ? "&str"
                                                                   : rust_base(item.name);
                    s += (c.about.empty() ? "" : wrapped(c.about, "///")) + since(d, std::max(c.since, h.since), "");
                    s += fmt::format("pub const {}: {} = {};\n", c.name, type,
                                     item.name == "text" ? fmt::format("\"{}\"", c.value) : c.value);
                }
                break;
            case ItemKind::opaque:
                s += since(d, h.since, "");
                s += fmt::format("#[repr(C)]\npub struct {} {{\n    _private: [u8; 0],\n}}\n", item.name);
                break;
            case ItemKind::alias: s += fmt::format("pub type {} = {};\n", item.name, rust_base(item.alias)); break;
            case ItemKind::table:
                s += since(d, h.since, "");
                s += fmt::format("pub const {}: &str = \"{}\";\n\n", item.macro, item.id);
                [[fallthrough]];
            case ItemKind::structure:
                s += since(d, h.since, "");
                s += fmt::format("#[repr(C)]\n#[derive(Clone, Copy)]\npub struct {} {{\n", item.name);
                for (const Member& m : item.members) {
                    if (!m.about.empty()) s += wrapped(m.about, "    ///");
                    if (m.is_function())
                        s += fmt::format("    /// {}Thread: {}.\n",
                                         m.since > 0 ? fmt::format("Since minor {}. ", m.since) : "", m.thread);
                    s += since(d, m.since, "    ") +
                         fmt::format("    pub {}: {},\n", rust_name(m.is.name), rust_type(m.is));
                }
                s += "}\n";
                break;
            }
        }
    }
    return s;
}

namespace {

std::string rust_fallback(const Attribute& a) {
    if (a.type == "text") return fmt::format("String::from({})", a.fallback.dump());
    if (a.type == "ints") return "Vec::new()";
    return a.fallback.dump();
}

// The types of an option's field and of its setter's parameter, and the conversion between them.
std::string option_type(const std::string& type) {
    return type == "int" ? "i64" : type == "real" ? "f64" : type == "text" ? "String" : "Vec<i64>";
}
std::string setter_type(const std::string& type) {
    return type == "int" ? "impl Into<i64>" : type == "real" ? "f64" : type == "text" ? "&str" : "&[i64]";
}
std::string setter_value(const Attribute& a) {
    if (a.type == "int") return rust_name(a.name) + ".into()";
    if (a.type == "real") return rust_name(a.name);
    return rust_name(a.name) + (a.type == "text" ? ".to_string()" : ".to_vec()");
}
std::string attribute_value(const Attribute& a, const std::string& source) {
    if (a.type == "int") return fmt::format("Attribute::Int({})", source);
    if (a.type == "real") return fmt::format("Attribute::Real({})", source);
    if (a.type == "text") return fmt::format("Attribute::Text(&{})", source);
    return fmt::format("Attribute::Ints(&{})", source);
}

// Put before an element of a list that a revision adds.
std::string of_revision(const Description& d, const Operation& o, int revision) {
    if (revision == 1) return "";
    std::string condition = since(d, o.revised, "");
    condition.back() = ' ';
    return condition;
}

std::string options_struct(const Description& d, const Operation& o, const std::string& name) {
    const bool values = std::any_of(o.inputs.begin(), o.inputs.end(), [](const Input& i) { return i.optional; });
    const std::string lifetime = values ? "<'g>" : "";
    std::string fields, defaults, setters;
    for (const Input& i : o.inputs) {
        if (!i.optional) continue;
        const std::string n = rust_name(i.name);
        const std::string newer = i.revision > 1 ? since(d, o.revised, "    ") : "";
        fields += newer + fmt::format("    pub {}: Option<Value<'g>>,\n", n);
        defaults += of_revision(d, o, i.revision) + fmt::format("{}: None, ", n);
        setters +=
            newer + fmt::format("    pub fn {0}(mut self, {0}: impl Into<Option<Value<'g>>>) -> Self {{\n        "
                                "self.{0} = {0}.into();\n        self\n    }}\n",
                                n);
    }
    for (const Attribute& a : o.attributes) {
        if (a.required()) continue;
        const std::string n = rust_name(a.name);
        const std::string newer = a.revision > 1 ? since(d, o.revised, "    ") : "";
        const std::size_t before = fields.size();
        fields += newer + fmt::format("    pub {}: {},\n", n, option_type(a.type));
        defaults += of_revision(d, o, a.revision) + fmt::format("{}: {}, ", n, rust_fallback(a));
        setters += newer +
                   fmt::format(
                       "    pub fn {0}(mut self, {0}: {1}) -> Self {{\n        self.{0} = {2};\n        self\n    }}\n",
                       n, setter_type(a.type), setter_value(a));
        if (!a.doc.empty()) fields.insert(before, wrapped(a.doc, "    ///"));
    }
    return fmt::format("#[derive(Clone)]\npub struct {0}{1} {{\n{2}}}\nimpl{1} Default for {0}{1} {{\n    fn default() "
                       "-> Self {{\n        {0} {{ {3}}}\n    }}\n}}\n"
                       "impl{1} {0}{1} {{\n    pub fn new() -> Self {{\n        Self::default()\n    }}\n{4}}}\n",
                       name, lifetime, fields, defaults, setters);
}

} // namespace

std::string rust_operations(const Description& d) {
    std::string all = fmt::format("// The operations as functions of Value: NAME(...), and NAME_with(..., "
                                  "NAMEOptions::new().key(value)) where there are options.\n{}\n"
                                  "use super::{{Attribute, Graph, Value}};\n",
                                  kOperationsNotice);
    std::map<uint32_t, std::string> by_version;
    for (const Operation& o : d.operations) {
        if (o.internal) continue;
        std::string& s = by_version[o.since];
        const std::string name = camel(o.name), options = name + "Options";
        const bool optional_values =
            std::any_of(o.inputs.begin(), o.inputs.end(), [](const Input& i) { return i.optional; });
        const std::vector<std::string> visible = o.visible();
        s += "\n";
        if (o.has_options()) s += options_struct(d, o, options) + "\n";
        std::string result = "Value<'g>";
        if (visible.size() > 1) {
            result = name + "Result<'g>";
            s += fmt::format("#[derive(Clone, Copy)]\npub struct {} {{\n", result);
            for (const std::string& v : visible) s += fmt::format("    pub {}: Value<'g>,\n", rust_name(v));
            s += "}\n";
        }
        std::string parameters, arguments, graph, inputs;
        const auto add = [&](const std::string& n, const std::string& type) {
            parameters += fmt::format("{}{}: {}", parameters.empty() ? "" : ", ", n, type);
            arguments += (arguments.empty() ? "" : ", ") + n;
        };
        if (o.variadic()) {
            const std::string n = rust_name(o.inputs[0].name);
            add(n, "&[Value<'g>]");
            graph = fmt::format("Graph::of({})", n);
            inputs = fmt::format("&Value::ids({})", n);
        } else if (o.inputs.empty()) {
            add("graph", "&'g Graph");
            graph = "graph";
            inputs = "&[]";
        } else {
            for (const Input& i : o.inputs) {
                const std::string n = rust_name(i.name);
                if (!i.optional) add(n, "Value<'g>");
                if (graph.empty() && !i.optional) graph = n + ".graph()";
                inputs += fmt::format("{}{}{}", inputs.empty() ? "&[" : ", ", of_revision(d, o, i.revision),
                                      i.optional ? fmt::format("Value::id_or_none(options.{})", n) : n + ".id()");
            }
            inputs += "]";
        }
        std::string attributes;
        for (const Attribute& a : o.attributes) {
            const std::string n = rust_name(a.name);
            if (a.required())
                add(n, a.type == "int" ? "i64" : a.type == "real" ? "f64" : a.type == "text" ? "&str" : "&[i64]");
            attributes +=
                fmt::format("{}{}(\"{}\", {})", attributes.empty() ? "" : ", ", of_revision(d, o, a.revision), a.name,
                            a.required() && (a.type == "text" || a.type == "ints")
                                ? fmt::format("Attribute::{}({})", a.type == "text" ? "Text" : "Ints", n)
                                : attribute_value(a, (a.required() ? "" : "options.") + n));
        }
        const std::string doc = wrapped(o.doc, "///");
        const std::string own = o.name == "where" ? "where_" : rust_name(o.name);
        std::string revision = "1", body;
        if (o.revision > 1) {
            const std::string newer = since(d, o.revised, ""); // #[cfg(...)]
            revision =
                fmt::format("if cfg!({}) {{ {} }} else {{ 1 }}", newer.substr(6, newer.rfind(")]") - 6), o.revision);
        }
        if (visible.size() > 1) {
            body = fmt::format("    let outputs = {}.emit(\"{}\", {}, {}, &[{}], {});\n    {}Result {{ ", graph, o.name,
                               revision, inputs, attributes, visible.size(), name);
            for (std::size_t i = 0; i < visible.size(); ++i)
                body += fmt::format("{}: outputs[{}], ", rust_name(visible[i]), i);
            body += "}\n";
        } else {
            body =
                fmt::format("    {}.emit(\"{}\", {}, {}, &[{}], 1)[0]\n", graph, o.name, revision, inputs, attributes);
        }
        if (o.has_options()) {
            s += fmt::format("{}#[track_caller]\npub fn {}<'g>({}) -> {} {{\n    {}_with({}, {}::default())\n}}\n", doc,
                             own, parameters, result, o.name, arguments, options);
            s += fmt::format("#[track_caller]\npub fn {}_with<'g>({}, options: {}{}) -> {} {{\n{}}}\n", o.name,
                             parameters, options, optional_values ? "<'g>" : "", result, body);
        } else {
            s += fmt::format("{}#[track_caller]\npub fn {}<'g>({}) -> {} {{\n{}}}\n", doc, own, parameters, result,
                             body);
        }
    }
    for (const auto& [minor, text] : by_version) {
        const std::string condition = since(d, minor, "");
        all += minor == 0 ? text
                          : fmt::format("\n{0}mod since_{1} {{\nuse super::*;\n{2}}}\n{0}pub use since_{1}::*;\n",
                                        condition, minor, text);
    }
    return all;
}

} // namespace hekla::abi
