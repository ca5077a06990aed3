#include "graph/text.hpp"

#include "base/line_difference.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <set>

namespace hekla::graph {
namespace {

bool is_word(std::string_view text) {
    const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
    const auto follows = [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '-'; };
    return !text.empty() && letter(text[0]) && std::ranges::all_of(text, follows);
}

// Quotes a component of a scope path; it may also begin with a digit or sign: "block/3".
std::string component(std::string_view name) {
    return is_word("_" + std::string(name)) && !name.empty() ? std::string(name) : quote(name);
}

std::string attribute_text(const AttributeValue& value) {
    if (const auto* integer = std::get_if<int64_t>(&value)) return fmt::format("{}", *integer);
    if (const auto* real = std::get_if<double>(&value)) return fmt::format("{}", *real); // shortest that reads back
    if (const auto* text = std::get_if<std::string>(&value)) return quote(*text);
    if (const auto* ints = std::get_if<std::vector<int64_t>>(&value))
        return fmt::format("[{}]", fmt::join(*ints, ", "));
    return fmt::format("[{}]", fmt::join(std::get<std::vector<double>>(value), ", "));
}

// Returns the name of each value: leaves use their own names if these are words and unique.
std::vector<std::string> value_names(const Graph& graph) {
    std::map<std::string, int> uses;
    for (const Node& node : graph.nodes)
        if (const char* attribute = leaf_name_attribute(node.op)) ++uses[node.text(attribute)];
    std::vector<std::string> names(graph.values.size());
    std::size_t number = 0;
    for (const Node& node : graph.nodes) {
        for (const ValueId output : node.outputs) names[output] = fmt::format("%{}", ++number);
        const char* attribute = leaf_name_attribute(node.op);
        if (attribute == nullptr) continue;
        const std::string& name = node.text(attribute);
        if (is_word(name) && name != "_" && name != "scope" && name != "loss" && name != "metric" && name != "output" &&
            name != "operation" && name != "gradient" && uses[name] == 1)
            names[node.outputs[0]] = name;
    }
    return names;
}

std::string arguments(const Node& node, const std::vector<std::string>& names) {
    const OperationInfo& o = info(node);
    std::string text;
    const auto put = [&](const std::string& argument) {
        if (!text.empty()) text += ", ";
        text += argument;
    };
    bool gap = false;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i] == kNone)
            gap = true;
        else
            put(gap ? fmt::format("{}={}", o.inputs[i].name, names[node.inputs[i]]) : names[node.inputs[i]]);
    }
    for (std::size_t i = 0; i < node.attributes.size(); ++i)
        if (!o.attributes[i].fallback || *o.attributes[i].fallback != node.attributes[i].value)
            put(fmt::format("{}={}", node.attributes[i].name, attribute_text(node.attributes[i].value)));
    return text;
}

// Prefixes every line of a text with a bar.
std::string barred(std::string_view text) {
    std::string out;
    for (;;) {
        const std::size_t end = text.find('\n');
        out += fmt::format("| {}\n", text.substr(0, end));
        if (end == std::string_view::npos) return out;
        text.remove_prefix(end + 1);
    }
}

std::string declaration_text(const OwnOperation& operation) {
    constexpr const char* kTypes[] = {"int", "real", "text", "ints", "reals"};
    const OwnDeclaration& d = operation.declaration();
    std::vector<std::string> inputs, attributes;
    for (const OwnDeclaration::Input& input : d.inputs)
        inputs.push_back(fmt::format("{} {}", input.integer ? "int" : "float", input.name));
    for (const OwnDeclaration::Attribute& a : d.attributes)
        attributes.push_back(
            fmt::format("{} {}{}", kTypes[static_cast<std::size_t>(a.type)], a.name,
                        a.fallback ? fmt::format(" = {}", attribute_text(*a.fallback)) : std::string()));
    std::string text = fmt::format("operation {}({}{}{}) -> {} local {} {}\n", operation.label(),
                                   fmt::join(inputs, ", "), attributes.empty() ? "" : "; ", fmt::join(attributes, ", "),
                                   fmt::join(d.outputs, ", "), d.local_size, d.glsl.empty() ? "spirv" : "glsl");
    if (!d.glsl.empty()) return text + barred(d.glsl);
    for (std::size_t i = 0; i < d.spirv.size(); ++i)
        text += fmt::format("{}{:08x}{}", i % 8 == 0 ? "| " : " ", d.spirv[i],
                            i % 8 == 7 || i + 1 == d.spirv.size() ? "\n" : "");
    return text;
}

// Own operations that were already printed.
struct OwnTexts {
    std::set<std::string> operations;
    std::map<const Graph*, std::size_t> known;
    std::map<std::string, std::size_t> gradients; // by text
    // Appends the declarations that must precede the node; returns the number of its gradient, 0 for none.
    std::size_t introduce(const OwnUse& use, std::string& text) {
        if (operations.insert(use.operation->label()).second) text += declaration_text(*use.operation);
        if (use.gradient == nullptr) return 0;
        std::size_t& number = known[use.gradient.get()];
        if (number != 0) return number;
        const std::string printed = print(*use.gradient);
        const auto [found, inserted] = gradients.try_emplace(printed, gradients.size() + 1);
        number = found->second;
        if (inserted)
            text +=
                fmt::format("gradient {}\n{}", number, barred(std::string_view(printed).substr(0, printed.size() - 1)));
        return number;
    }
};

} // namespace

std::string quote(std::string_view text) {
    std::string result = "\"";
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\')
            result += std::string("\\") + c;
        else if (c == '\n')
            result += "\\n";
        else if (c == '\t')
            result += "\\t";
        else if (byte < 0x20 || byte == 0x7f)
            result += fmt::format("\\x{:02x}", byte);
        else
            result += c;
    }
    return result + "\"";
}

std::vector<std::string> scope_labels(const Graph& graph) {
    std::vector<std::string> labels(graph.scopes.size());
    std::set<std::string> taken;
    for (std::size_t i = 1; i < graph.scopes.size(); ++i) {
        const std::string& parent = labels[graph.scopes[i].parent];
        const std::string plain = (parent.empty() ? "" : parent + "/") + component(graph.scopes[i].name);
        labels[i] = plain;
        for (int n = 2; !taken.insert(labels[i]).second; ++n) labels[i] = fmt::format("{}~{}", plain, n);
    }
    return labels;
}

std::string print(const Graph& graph, std::vector<std::size_t>* ends) {
    std::string text = "hekla graph 1\n";
    const std::vector<std::string> names = value_names(graph);
    const std::vector<std::string> labels = scope_labels(graph);
    std::size_t opened = 0; // scopes are declared in order, each before the first node that needs it
    const auto open_to = [&](std::size_t last) {
        while (opened < last) text += fmt::format("scope {}\n", labels[++opened]);
    };
    OwnTexts own;
    for (const Node& node : graph.nodes) {
        open_to(node.scope);
        const std::size_t gradient = node.own != nullptr ? own.introduce(*node.own, text) : 0;
        for (std::size_t i = 0; i < node.outputs.size(); ++i) text += (i == 0 ? "" : ", ") + names[node.outputs[i]];
        text += fmt::format(" = {}({}) : ", node.own != nullptr ? node.own->operation->label() : info(node.op).name,
                            arguments(node, names));
        for (std::size_t i = 0; i < node.outputs.size(); ++i) {
            const Value& value = graph.value(node.outputs[i]);
            text += fmt::format("{}{} {}", i == 0 ? "" : ", ", kind_name(value.kind), value.shape.text());
        }
        if (node.own != nullptr) {
            text += fmt::format(" invocations {} flops {} bytes {}", node.own->invocations, node.own->flops,
                                node.own->bytes);
            if (gradient != 0) text += fmt::format(" gradient {}", gradient);
        }
        if (node.region != 0) text += fmt::format(" recompute {}", node.region);
        if (node.scope != 0) text += "  # " + labels[node.scope];
        text += '\n';
        if (ends != nullptr) ends->push_back(text.size());
    }
    open_to(graph.scopes.size() - 1);
    for (const LossTerm& loss : graph.losses)
        text +=
            fmt::format("loss {} = {} * {} / {}\n", quote(loss.name), loss.weight, names[loss.sum], names[loss.count]);
    for (const Metric& metric : graph.metrics)
        text += fmt::format("metric {} = {} / {}\n", quote(metric.name), names[metric.sum], names[metric.count]);
    for (const auto& [name, value] : graph.outputs) text += fmt::format("output {} = {}\n", quote(name), names[value]);
    return text;
}

std::string text_difference(const std::string& before, const std::string& after) {
    if (before == after) return {};
    // Turns "%12 = add(%10, %11)" into "% = add(%, %)".
    const auto without_numbers = [](const std::string& line) {
        std::string out;
        for (std::size_t i = 0; i < line.size();) {
            out += line[i];
            if (line[i++] != '%') continue;
            while (i < line.size() && line[i] >= '0' && line[i] <= '9') ++i;
        }
        return out;
    };
    const std::string difference = line_difference(before, after, without_numbers);
    return difference.empty() ? line_difference(before, after) : difference; // differs only in value numbers
}

Hash128 hash(const Graph& graph) { return hash128(print(graph)); }

} // namespace hekla::graph
