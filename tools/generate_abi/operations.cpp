// The operations as typed calls: C for plugins, C++ on top of it, and the engine's table.
#include "description.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::abi {
namespace {

using nlohmann::json;

std::string number(const json& value) {
    if (value.is_array()) return "{}";
    if (value.is_string()) return fmt::format("\"{}\"", value.get<std::string>());
    return value.dump();
}

// Put around what a revision adds.
std::string revision_begin(const Operation& o, int revision) { return revision > 1 ? since_begin(o.revised) : ""; }
std::string revision_end(const Operation& o, int revision) { return revision > 1 ? since_end(o.revised) : ""; }

// Returns a list of things, by revision, in which what a revision adds is on lines of its own.
template<class Thing, class Text>
std::string listed(const Operation& o, const std::vector<Thing>& things, Text&& text) {
    std::string s;
    bool first = true;
    for (const Thing& thing : things) {
        const std::string one = (first ? "" : ", ") + text(thing);
        first = false;
        if (thing.revision > 1 && !s.ends_with("\n")) s += "\n";
        s += thing.revision == 1 ? one : since_begin(o.revised) + "        " + one + "\n" + since_end(o.revised);
    }
    return s.ends_with("\n") ? s + "    " : s;
}

// Joins neighboring conditions on the target that are the same.
std::string with_joined_conditions(std::string s, const std::vector<Operation>& operations) {
    for (const Operation& o : operations) {
        if (o.revised == 0) continue;
        const std::string between = since_end(o.revised) + since_begin(o.revised);
        for (std::size_t at = 0; (at = s.find(between, at)) != std::string::npos;) s.erase(at, between.size());
    }
    return s;
}

// Declares the constant `revision` that a call emits, if it depends on the target.
std::string chosen_revision(const Operation& o, const char* type) {
    if (o.revision == 1) return "";
    return since_begin(o.revised) +
           fmt::format("    const {} revision = {};\n#else\n    const {} revision = 1;\n", type, o.revision, type) +
           since_end(o.revised);
}
std::string emitted_revision(const Operation& o) { return o.revision == 1 ? "1" : "revision"; }

} // namespace

std::string c_located_operations(const std::vector<Operation>& operations) {
    std::string s = std::string(kOperationsNotice);
    s += "// The calls of operations.h, each with the place of the call: after the first that fails, hk_done() reports "
         "that "
         "place.\n"
         "// Included by hekla_plugin.h.\n"
         "#ifndef HEKLA_PLUGIN_LOCATED_OPERATIONS_H\n#define HEKLA_PLUGIN_LOCATED_OPERATIONS_H\n\n";
    for (const Operation& o : operations)
        if (!o.internal)
            s += fmt::format("#define hk_{0}(...) {1}(hk_{0}(__VA_ARGS__), __FILE__, __LINE__)\n", o.name,
                             o.visible().size() == 1 ? "hk_located" : "hk_located_code");
    return s + "\n#endif\n";
}

std::string c_operations(const std::vector<Operation>& operations) {
    std::string s = std::string(kOperationsNotice);
    s += "// A typed call for every operation; each is emit() of hekla.graph/1 and nothing else. Optional inputs and "
         "attributes\n"
         "// are in an options struct: start from hk_NAME_defaults(), or pass null for the defaults.\n"
         "#ifndef HEKLA_PLUGIN_OPERATIONS_H\n#define HEKLA_PLUGIN_OPERATIONS_H\n\n#include \"graph.h\"\n\n#include "
         "<string.h>\n\n"
         "static inline hk_string hk_text(const char* text) {\n    hk_string s;\n    s.data = text;\n    s.size = "
         "strlen(text);\n    return s;\n}\n\n"
         "static inline hk_attribute hk_attribute_int(const char* name, int64_t value) {\n    hk_attribute a;\n    "
         "memset(&a, 0, sizeof a);\n"
         "    a.struct_size = (uint32_t)sizeof a;\n    a.type = HK_ATTRIBUTE_INT;\n    a.name = hk_text(name);\n    "
         "a.integer = value;\n    return a;\n}\n\n"
         "static inline hk_attribute hk_attribute_real(const char* name, double value) {\n    hk_attribute a = "
         "hk_attribute_int(name, 0);\n"
         "    a.type = HK_ATTRIBUTE_REAL;\n    a.real = value;\n    return a;\n}\n\n"
         "static inline hk_attribute hk_attribute_text(const char* name, hk_string value) {\n    hk_attribute a = "
         "hk_attribute_int(name, 0);\n"
         "    a.type = HK_ATTRIBUTE_TEXT;\n    a.text = value;\n    return a;\n}\n\n"
         "static inline hk_attribute hk_attribute_ints(const char* name, const int64_t* values, uint64_t count) {\n    "
         "hk_attribute a = hk_attribute_int(name, 0);\n"
         "    a.type = HK_ATTRIBUTE_INTS;\n    a.integers = values;\n    a.count = count;\n    return a;\n}\n";
    for (const Operation& o : operations) {
        if (o.internal) continue;
        s += "\n" + since_begin(o.since);
        if (o.has_options()) {
            s += fmt::format("typedef struct hk_{}_options {{\n", o.name);
            for (const Input& i : o.inputs)
                if (i.optional)
                    s += revision_begin(o, i.revision) + fmt::format("    hk_value {};\n", i.name) +
                         revision_end(o, i.revision);
            for (const Attribute& a : o.attributes) {
                if (a.required()) continue;
                s += revision_begin(o, a.revision);
                if (a.type == "int") s += fmt::format("    int64_t {};\n", a.name);
                if (a.type == "real") s += fmt::format("    double {};\n", a.name);
                if (a.type == "text") s += fmt::format("    hk_string {};\n", a.name);
                if (a.type == "ints") s += fmt::format("    const int64_t* {0};\n    uint64_t {0}_count;\n", a.name);
                s += revision_end(o, a.revision);
            }
            s += fmt::format("}} hk_{0}_options;\n\nstatic inline hk_{0}_options hk_{0}_defaults(void) {{\n    "
                             "hk_{0}_options options;\n    memset(&options, 0, sizeof options);\n",
                             o.name);
            for (const Attribute& a : o.attributes) {
                if (a.required() || a.type == "ints") continue;
                if (a.revision > 1 && a.fallback != json(0) && a.fallback != json(0.0))
                    fail(o.name + "." + a.name, "what a revision adds is 0 if it is left out");
                if (a.type == "text")
                    s += fmt::format("    options.{} = hk_text({});\n", a.name, number(a.fallback));
                else if (a.fallback != json(0) && a.fallback != json(0.0))
                    s += fmt::format("    options.{} = {};\n", a.name, number(a.fallback));
            }
            s += "    return options;\n}\n\n";
        }
        s += wrapped(o.doc, "//");
        const std::vector<std::string> visible = o.visible();
        std::string parameters = "const hk_graph_interface* graph, hk_builder* builder";
        if (o.variadic())
            parameters += fmt::format(", const hk_value* {0}, uint32_t {0}_count", o.inputs[0].name);
        else
            for (const Input& i : o.inputs)
                if (!i.optional) parameters += fmt::format(", hk_value {}", i.name);
        for (const Attribute& a : o.attributes) {
            if (!a.required()) continue;
            if (a.type == "int") parameters += fmt::format(", int64_t {}", a.name);
            if (a.type == "real") parameters += fmt::format(", double {}", a.name);
            if (a.type == "text") parameters += fmt::format(", hk_string {}", a.name);
            if (a.type == "ints") parameters += fmt::format(", const int64_t* {0}, uint64_t {0}_count", a.name);
        }
        if (o.has_options()) parameters += fmt::format(", const hk_{}_options* options", o.name);
        if (visible.size() > 1) parameters += fmt::format(", hk_value outputs[{}]", visible.size());
        s += fmt::format("static inline {} hk_{}({}) {{\n", visible.size() > 1 ? "int32_t" : "hk_value", o.name,
                         parameters);
        if (o.has_options())
            s += fmt::format("    const hk_{0}_options chosen = options ? *options : hk_{0}_defaults();\n", o.name);
        if (!o.inputs.empty() && !o.variadic()) {
            s += "    hk_value inputs[] = {" +
                 listed(o, o.inputs, [](const Input& i) { return (i.optional ? "chosen." : "") + i.name; }) + "};\n";
        }
        if (!o.attributes.empty()) {
            const auto of_first =
                std::ranges::count_if(o.attributes, [](const Attribute& a) { return a.revision == 1; });
            s += revision_begin(o, o.revision) + fmt::format("    hk_attribute attributes[{}];\n", o.attributes.size());
            if (o.revision > 1) s += fmt::format("#else\n    hk_attribute attributes[{}];\n", of_first);
            s += revision_end(o, o.revision);
            for (std::size_t n = 0; n < o.attributes.size(); ++n) {
                const Attribute& a = o.attributes[n];
                const std::string source = (a.required() ? "" : "chosen.") + a.name;
                s += revision_begin(o, a.revision);
                if (a.type == "ints")
                    s += fmt::format("    attributes[{}] = hk_attribute_ints(\"{}\", {}, {}_count);\n", n, a.name,
                                     source, source);
                else
                    s += fmt::format("    attributes[{}] = hk_attribute_{}(\"{}\", {});\n", n, a.type, a.name, source);
                s += revision_end(o, a.revision);
            }
        }
        const std::string inputs = o.variadic()       ? fmt::format("{0}, {0}_count", o.inputs[0].name)
                                   : o.inputs.empty() ? "NULL, 0"
                                   : o.revision > 1   ? "inputs, (uint32_t)(sizeof inputs / sizeof *inputs)"
                                                      : fmt::format("inputs, {}", o.inputs.size());
        const std::string attributes = o.attributes.empty() ? "NULL, 0"
                                       : o.revision > 1
                                           ? "attributes, (uint32_t)(sizeof attributes / sizeof *attributes)"
                                           : fmt::format("attributes, {}", o.attributes.size());
        s += chosen_revision(o, "uint32_t");
        if (visible.size() > 1) {
            s += fmt::format("    return graph->emit(builder, hk_text(\"{}\"), {}, {}, {}, outputs, {});\n}}\n", o.name,
                             emitted_revision(o), inputs, attributes, visible.size());
        } else {
            s += fmt::format("    hk_value output = 0;\n    graph->emit(builder, hk_text(\"{}\"), {}, {}, {}, &output, "
                             "1);\n    return output;\n}}\n",
                             o.name, emitted_revision(o), inputs, attributes);
        }
        s += since_end(o.since);
    }
    return with_joined_conditions(s, operations) + "\n#endif\n";
}

std::string cpp_operations(const std::vector<Operation>& operations) {
    std::string s = std::string(kOperationsNotice);
    s += "// The operations as C++ functions of Value; included by hekla_plugin.hpp. `at` is never given: it is the "
         "place of "
         "the call.\n#pragma once\n\nnamespace "
         "hekla::plugin {\n";
    for (const Operation& o : operations) {
        if (o.internal) continue;
        s += "\n" + since_begin(o.since);
        const std::string name = camel(o.name);
        if (o.has_options()) {
            s += fmt::format("struct {}Options {{\n", name);
            for (const Input& i : o.inputs)
                if (i.optional)
                    s += revision_begin(o, i.revision) + fmt::format("    Value {}{{}};\n", i.name) +
                         revision_end(o, i.revision);
            for (const Attribute& a : o.attributes) {
                if (a.required()) continue;
                s += revision_begin(o, a.revision);
                if (a.type == "int") s += fmt::format("    int64_t {} = {};\n", a.name, number(a.fallback));
                if (a.type == "real") s += fmt::format("    double {} = {};\n", a.name, number(a.fallback));
                if (a.type == "text") s += fmt::format("    std::string {}{{}};\n", a.name);
                if (a.type == "ints") s += fmt::format("    std::vector<int64_t> {}{{}};\n", a.name);
                s += revision_end(o, a.revision);
            }
            s += "};\n";
        }
        const std::vector<std::string> visible = o.visible();
        std::string result = "Value";
        if (visible.size() > 1) {
            result = name + "Result";
            s += fmt::format("struct {} {{\n", result);
            for (const std::string& v : visible) s += fmt::format("    Value {};\n", v);
            s += "};\n";
        }
        s += wrapped(o.doc, "//");
        std::string parameters, graph;
        const auto add = [&parameters](const std::string& text) {
            parameters += (parameters.empty() ? "" : ", ") + text;
        };
        if (o.variadic()) {
            add(fmt::format("const std::vector<Value>& {}", o.inputs[0].name));
            graph = fmt::format("graph_of({}, at)", o.inputs[0].name);
        } else if (o.inputs.empty()) {
            add("Graph& graph");
            graph = "graph";
        } else {
            for (const Input& i : o.inputs)
                if (!i.optional) add(fmt::format("Value {}", i.name));
            graph = "graph_of({";
            for (std::size_t n = 0; n < o.inputs.size(); ++n)
                if (!o.inputs[n].optional) graph += (n ? ", " : "") + o.inputs[n].name;
            graph += "}, at)";
        }
        for (const Attribute& a : o.attributes) {
            if (!a.required()) continue;
            if (a.type == "int") add(fmt::format("int64_t {}", a.name));
            if (a.type == "real") add(fmt::format("double {}", a.name));
            if (a.type == "text") add(fmt::format("const std::string& {}", a.name));
            if (a.type == "ints") add(fmt::format("const std::vector<int64_t>& {}", a.name));
        }
        if (o.has_options()) add(fmt::format("const {}Options& options = {{}}", name));
        add("Location at = Location::here()");
        s += fmt::format("inline {} {}({}) {{\n", result, o.name, parameters);
        s += chosen_revision(o, "uint32_t");
        const std::string inputs = o.variadic() ? o.inputs[0].name : "{" + listed(o, o.inputs, [](const Input& i) {
                                                                         return (i.optional ? "options." : "") + i.name;
                                                                     }) + "}";
        const std::string attributes =
            "{" +
            listed(o, o.attributes,
                   [](const Attribute& a) {
                       return fmt::format("attribute(\"{}\", {}{})", a.name, a.required() ? "" : "options.", a.name);
                   }) +
            "}";
        if (visible.size() > 1) {
            s += fmt::format(
                "    const std::vector<Value> outputs = {}.emit(\"{}\", {}, {}, {}, {}, at);\n    return {{", graph,
                o.name, emitted_revision(o), inputs, attributes, visible.size());
            for (std::size_t n = 0; n < visible.size(); ++n) s += fmt::format("{}outputs[{}]", n ? ", " : "", n);
            s += "};\n}\n";
        } else {
            s += fmt::format("    return {}.emit(\"{}\", {}, {}, {}, 1, at)[0];\n}}\n", graph, o.name,
                             emitted_revision(o), inputs, attributes);
        }
        s += since_end(o.since);
    }
    return with_joined_conditions(s, operations) + "\n} // namespace hekla::plugin\n";
}

std::string engine_table(const std::vector<Operation>& operations) {
    std::string s = std::string(kOperationsNotice);
    s += "// HK_OPERATION(name): define it, include this file for the list. HK_OPERATION_TABLE: the "
         "descriptions. HK_REVISED(name, minor): those that have a second revision, and since when.\n"
         "#ifdef HK_OPERATION\n";
    for (const Operation& o : operations) s += fmt::format("HK_OPERATION({})\n", o.name);
    s += "#undef HK_OPERATION\n#endif\n#ifdef HK_REVISED\n";
    for (const Operation& o : operations)
        if (o.revised > 0) s += fmt::format("HK_REVISED({}, {})\n", o.name, o.revised);
    s += "#undef HK_REVISED\n#endif\n#ifdef HK_OPERATION_TABLE\n";
    const auto kind = [](const std::string& k) { return k == "any" ? "any" : k == "int" ? "integer" : "floating"; };
    const auto later = [](int revision) { return revision > 1 ? fmt::format(", {}", revision) : ""; };
    for (const Operation& o : operations) {
        s += fmt::format("{{Op::{0}, \"{0}\", {1}, {2}, {3}, {{", o.name, o.revision, o.since, o.internal);
        for (const Input& i : o.inputs)
            s += fmt::format("{{\"{}\", InputKind::{}, {}, {}{}}}, ", i.name, kind(i.kind), i.optional, i.variadic,
                             later(i.revision));
        s += "}, {";
        for (const Attribute& a : o.attributes) {
            std::string fallback = "std::nullopt";
            if (!a.required()) {
                if (a.type == "int") fallback = fmt::format("AttributeValue(int64_t{{{}}})", number(a.fallback));
                if (a.type == "real") fallback = fmt::format("AttributeValue(double{{{}}})", number(a.fallback));
                if (a.type == "text") fallback = fmt::format("AttributeValue(std::string({}))", number(a.fallback));
                if (a.type == "ints") fallback = "AttributeValue(std::vector<int64_t>())";
                if (a.type == "reals") fallback = "AttributeValue(std::vector<double>())";
            }
            const std::string type = a.type == "int" ? "integer" : a.type;
            s += fmt::format("{{\"{}\", AttributeType::{}, {}{}}}, ", a.name, type, fallback, later(a.revision));
        }
        s += "}, {";
        for (const Output& p : o.outputs) s += fmt::format("{{\"{}\", {}}}, ", p.name, p.hidden);
        s += "}},\n";
    }
    return s + "#undef HK_OPERATION_TABLE\n#endif\n";
}

} // namespace hekla::abi
