// Parser of graph texts from untrusted sources: every token is checked, and no allocation is larger than the text
// justifies.
#include "base/read_real.hpp"
#include "graph/builder.hpp"
#include "graph/check.hpp"
#include "graph/text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <type_traits>
#include <unordered_map>

namespace hekla::graph {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool in_word(char c) { return is_letter(c) || is_digit(c) || c == '.' || c == '-'; }

// One line, read from left to right.
class Cursor {
public:
    explicit Cursor(std::string_view line) : rest_(line) {}

    void spaces() {
        while (!rest_.empty() && rest_[0] == ' ') rest_.remove_prefix(1);
    }
    bool at_end() {
        spaces();
        return rest_.empty();
    }
    bool take(std::string_view token) {
        spaces();
        if (!rest_.starts_with(token)) return false;
        rest_.remove_prefix(token.size());
        return true;
    }
    // Takes a whole word like `linear`.
    bool take_word(std::string_view word) {
        spaces();
        if (!rest_.starts_with(word) || (rest_.size() > word.size() && in_word(rest_[word.size()]))) return false;
        rest_.remove_prefix(word.size());
        return true;
    }
    Status expect(std::string_view token) {
        if (take(token)) return {};
        return error(fmt::format("'{}'", token));
    }
    std::string_view word() { // empty if there is none
        spaces();
        std::size_t size = 0;
        if (!rest_.empty() && is_letter(rest_[0]))
            while (size < rest_.size() && in_word(rest_[size])) ++size;
        return cut(size);
    }
    // Reads a value's name: %12 or a word.
    std::string_view value() {
        spaces();
        if (rest_.empty() || rest_[0] != '%') return word();
        std::size_t size = 1;
        while (size < rest_.size() && is_digit(rest_[size])) ++size;
        return size == 1 ? std::string_view() : cut(size);
    }
    // Reads a component of a scope path: bare, or quoted.
    Result<std::string> component() {
        spaces();
        if (!rest_.empty() && rest_[0] == '"') return quoted_text();
        std::size_t size = 0;
        while (size < rest_.size() && in_word(rest_[size])) ++size;
        if (size == 0) return error("a scope's name");
        return std::string(cut(size));
    }
    Result<std::string> quoted_text() {
        HK_TRY(expect("\""));
        std::string text;
        while (!rest_.empty() && rest_[0] != '"') {
            char c = cut(1)[0];
            if (c == '\\') {
                if (rest_.empty()) return error("an escape");
                c = cut(1)[0];
                if (c == 'n') {
                    c = '\n';
                } else if (c == 't') {
                    c = '\t';
                } else if (c == 'x') {
                    unsigned byte = 0;
                    const char* end = rest_.data() + std::min<std::size_t>(2, rest_.size());
                    if (rest_.size() < 2 || std::from_chars(rest_.data(), end, byte, 16).ptr != end)
                        return error("two hexadecimal digits");
                    rest_.remove_prefix(2);
                    c = static_cast<char>(byte);
                } else if (c != '"' && c != '\\') {
                    return error("an escape that exists");
                }
            }
            text += c;
        }
        HK_TRY(expect("\""));
        return text;
    }
    template<class T>
    Result<T> number(const char* what) {
        spaces();
        T value{};
        const char* const all = rest_.data() + rest_.size();
        std::from_chars_result read{};
        if constexpr (std::is_floating_point_v<T>)
            read = read_real(rest_.data(), all, value);
        else
            read = std::from_chars(rest_.data(), all, value);
        const auto [end, wrong] = read;
        if (wrong != std::errc()) return error(what);
        rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
        return value;
    }
    template<class T>
    Result<std::vector<T>> list(const char* what) {
        std::vector<T> values;
        HK_TRY(expect("["));
        if (take("]")) return values;
        do {
            HK_ASSIGN(const T value, number<T>(what));
            values.push_back(value);
        } while (take(","));
        HK_TRY(expect("]"));
        return values;
    }
    std::string_view rest() const { return rest_; }
    Status error(std::string_view expected) const {
        constexpr std::size_t kShown = 40;
        const std::string_view found = rest_.substr(0, kShown);
        return invalid_argument(
            fmt::format("expected {}, found {}", expected, found.empty() ? "the end of the line" : quote(found)));
    }

private:
    std::string_view cut(std::size_t size) {
        const std::string_view taken = rest_.substr(0, size);
        rest_.remove_prefix(size);
        return taken;
    }

    std::string_view rest_;
};

Result<AttributeValue> attribute_value(Cursor& line, AttributeType type) {
    switch (type) {
    case AttributeType::integer: {
        HK_ASSIGN(const int64_t value, line.number<int64_t>("an integer"));
        return AttributeValue(value);
    }
    case AttributeType::real: {
        HK_ASSIGN(const double value, line.number<double>("a number"));
        if (std::isnan(value)) return invalid_argument("an attribute is not a number");
        return AttributeValue(value);
    }
    case AttributeType::text: {
        HK_ASSIGN(std::string value, line.quoted_text());
        return AttributeValue(std::move(value));
    }
    case AttributeType::ints: {
        HK_ASSIGN(std::vector<int64_t> value, line.list<int64_t>("an integer"));
        return AttributeValue(std::move(value));
    }
    case AttributeType::reals: {
        HK_ASSIGN(std::vector<double> value, line.list<double>("a number"));
        return AttributeValue(std::move(value));
    }
    }
    return internal_error("an attribute of no type");
}

Result<Graph> parse_text(std::string_view text, bool inside_gradient, const CompleteDeclaration& complete);

// A declaration of an operation, or a gradient, whose lines after a bar are being collected.
struct Block {
    OwnDeclaration operation;
    bool spirv = false;
    uint32_t gradient = 0; // its number; 0: this is an operation
    std::string lines;
    bool any = false;
};

Result<std::vector<uint32_t>> hexadecimal_words(std::string_view text) {
    std::vector<uint32_t> words;
    for (std::size_t at = 0; at < text.size();) {
        if (text[at] == ' ' || text[at] == '\n') {
            ++at;
            continue;
        }
        uint32_t word = 0;
        const char* const end = text.data() + std::min(text.size(), at + 8);
        const auto [stop, wrong] = std::from_chars(text.data() + at, end, word, 16);
        if (wrong != std::errc() || stop != text.data() + at + 8)
            return invalid_argument("SPIR-V is words of eight hexadecimal digits");
        words.push_back(word);
        at += 8;
    }
    return words;
}

class Parser {
public:
    Parser(bool inside_gradient, const CompleteDeclaration& complete)
        : inside_gradient_(inside_gradient), complete_(complete) {}

    Status line(std::string_view text) {
        if (text.starts_with('|')) {
            if (!block_) return invalid_argument("a line that begins with a bar belongs to no operation or gradient");
            text.remove_prefix(text.starts_with("| ") ? 2 : 1);
            if (block_->any) block_->lines += '\n';
            block_->lines += text;
            block_->any = true;
            return {};
        }
        HK_TRY(end_block());
        Cursor cursor(text);
        if (cursor.at_end()) return {};
        if (!headed_) {
            if (!cursor.take("hekla graph 1") || !cursor.at_end())
                return invalid_argument("expected 'hekla graph 1'; is this a graph's text, of this version?");
            headed_ = true;
            return {};
        }
        if (cursor.take_word("scope")) return scope(cursor);
        if (cursor.take_word("operation")) return operation(cursor);
        if (cursor.take_word("gradient")) return gradient(cursor);
        if (cursor.take_word("loss")) return loss(cursor);
        if (cursor.take_word("metric")) return metric(cursor);
        if (cursor.take_word("output")) return output(cursor);
        return node(cursor);
    }

    Result<Graph> finish() {
        HK_TRY(end_block());
        if (!headed_) return invalid_argument("the text is empty; expected 'hekla graph 1'");
        HK_TRY(check(graph_));
        // The builder checks losses, metrics and outputs.
        Builder builder(std::move(graph_));
        for (const LossTerm& l : losses_) builder.loss(l.name, l.sum, l.count, l.weight);
        for (const Metric& m : metrics_) builder.metric(m.name, m.sum, m.count);
        for (const auto& [name, value] : outputs_) builder.output(name, value);
        return builder.finish();
    }

private:
    // operation NAME/REVISION(KIND INPUT, ...; TYPE ATTRIBUTE = DEFAULT, ...) -> OUTPUT, ... local N glsl
    Status operation(Cursor& cursor) {
        constexpr std::string_view kTypes[] = {"int", "real", "text", "ints", "reals"};
        Block block;
        OwnDeclaration& d = block.operation;
        d.name = cursor.word();
        HK_TRY(cursor.expect("/"));
        HK_ASSIGN(d.revision, cursor.number<uint32_t>("a revision"));
        HK_TRY(cursor.expect("("));
        bool attributes = cursor.take(";"), more = !attributes && !cursor.take(")");
        while (more && !attributes) {
            const Cursor before = cursor;
            const std::string_view kind = cursor.word();
            if (kind != "float" && kind != "int") return before.error("float or int, and an input's name");
            d.inputs.push_back({std::string(cursor.word()), kind == "int"});
            if (cursor.take(",")) continue;
            attributes = cursor.take(";");
            if (!attributes) HK_TRY(cursor.expect(")"));
            more = false;
        }
        while (attributes) {
            const Cursor before = cursor;
            const auto* const type = std::ranges::find(kTypes, cursor.word());
            if (type == std::end(kTypes))
                return before.error("int, real, text, ints or reals, and an attribute's name");
            OwnDeclaration::Attribute a{std::string(cursor.word()), static_cast<AttributeType>(type - kTypes), {}};
            if (cursor.take("=")) { HK_ASSIGN(a.fallback, attribute_value(cursor, a.type)); }
            d.attributes.push_back(std::move(a));
            if (cursor.take(",")) continue;
            HK_TRY(cursor.expect(")"));
            attributes = false;
        }
        HK_TRY(cursor.expect("->"));
        do d.outputs.emplace_back(cursor.word());
        while (cursor.take(","));
        if (!cursor.take_word("local")) return cursor.error("'local' and a size");
        HK_ASSIGN(d.local_size, cursor.number<uint32_t>("a size"));
        block.spirv = cursor.take_word("spirv");
        if (!block.spirv && !cursor.take_word("glsl")) return cursor.error("glsl or spirv");
        block_ = std::move(block);
        return end(cursor);
    }

    Status gradient(Cursor& cursor) {
        if (inside_gradient_) return invalid_argument("a gradient in a gradient");
        Block block;
        HK_ASSIGN(block.gradient, cursor.number<uint32_t>("a number"));
        if (block.gradient == 0) return invalid_argument("gradients are numbered from 1");
        block_ = std::move(block);
        return end(cursor);
    }

    // Completes a block at the first line without a bar, or at the end of the text.
    Status end_block() {
        if (!block_) return {};
        Block block = std::move(*block_);
        block_.reset();
        if (block.gradient != 0) {
            HK_ASSIGN(Graph graph, parse_text(block.lines, true, complete_));
            if (!gradients_.emplace(block.gradient, std::make_shared<const Graph>(std::move(graph))).second)
                return invalid_argument(fmt::format("there is a gradient {} already", block.gradient));
            return {};
        }
        if (block.spirv) {
            HK_ASSIGN(block.operation.spirv, hexadecimal_words(block.lines));
        } else {
            block.operation.glsl = std::move(block.lines);
        }
        if (complete_) complete_(block.operation);
        HK_ASSIGN(std::shared_ptr<const OwnOperation> made, OwnOperation::create(std::move(block.operation)));
        const std::string label = made->label();
        if (!operations_.emplace(label, std::move(made)).second)
            return invalid_argument(fmt::format("there is an operation {} already", label));
        return {};
    }

    // Reads the rest of a node of a plugin's own operation: the results of its shape rule are only in the text.
    Status own_node(Cursor& cursor, Node& node, std::shared_ptr<const OwnOperation> operation,
                    const std::vector<std::string>& names) {
        OwnUse use;
        use.operation = std::move(operation);
        for (const ValueId input : node.inputs) use.inputs.push_back(graph_.shape(input));
        HK_TRY(cursor.expect(":"));
        for (std::size_t i = 0; i < names.size(); ++i) {
            if (i != 0) HK_TRY(cursor.expect(","));
            const Cursor before = cursor;
            const std::string_view word = cursor.word();
            const auto kind = std::ranges::find_if(kKinds, [&](Kind k) { return word == kind_name(k); });
            if (kind == std::end(kKinds)) return before.error("float, float32 or int32");
            HK_ASSIGN(const std::vector<int64_t> dims, cursor.list<int64_t>("a dimension"));
            if (dims.size() > static_cast<std::size_t>(kMaxRank)) return before.error("six dimensions at most");
            use.outputs.emplace_back(*kind, Shape(dims));
        }
        if (!cursor.take_word("invocations")) return cursor.error("'invocations'");
        HK_ASSIGN(use.invocations, cursor.number<int64_t>("an integer"));
        if (!cursor.take_word("flops")) return cursor.error("'flops'");
        HK_ASSIGN(use.flops, cursor.number<double>("a number"));
        if (!cursor.take_word("bytes")) return cursor.error("'bytes'");
        HK_ASSIGN(use.bytes, cursor.number<double>("a number"));
        if (cursor.take_word("gradient")) {
            HK_ASSIGN(const uint32_t number, cursor.number<uint32_t>("a gradient's number"));
            const auto found = gradients_.find(number);
            if (found == gradients_.end()) return invalid_argument(fmt::format("there is no gradient {} yet", number));
            use.gradient = found->second;
        }
        HK_TRY(check_own_use(use));
        node.own = std::make_shared<const OwnUse>(std::move(use));
        return {};
    }

    Status scope(Cursor& cursor) {
        cursor.spaces();
        const std::string_view label = cursor.rest();
        std::string name;
        std::string_view parent;
        for (;;) {
            const std::size_t before = label.size() - cursor.rest().size();
            HK_ASSIGN(name, cursor.component());
            if (cursor.take("~")) HK_TRY(cursor.number<int64_t>("a number").status()); // only makes labels unique
            if (cursor.rest().empty()) {
                parent = before == 0 ? std::string_view() : label.substr(0, before - 1);
                break;
            }
            HK_TRY(cursor.expect("/"));
        }
        Scope scope;
        scope.name = std::move(name);
        if (!parent.empty()) {
            const auto found = scopes_.find(std::string(parent));
            if (found == scopes_.end())
                return invalid_argument(fmt::format("scope {} is in no scope that was opened", quote(label)));
            scope.parent = found->second;
        }
        graph_.scopes.push_back(std::move(scope));
        if (!scopes_.emplace(std::string(label), static_cast<ScopeId>(graph_.scopes.size() - 1)).second)
            return invalid_argument(fmt::format("scope {} was opened before", quote(label)));
        return {};
    }

    Result<ValueId> value(Cursor& cursor) {
        const Cursor before = cursor;
        const std::string_view name = cursor.value();
        const auto found = values_.find(std::string(name));
        if (found == values_.end()) {
            if (name.empty()) return before.error("a value");
            return invalid_argument(fmt::format("there is no value {} yet", name));
        }
        return found->second;
    }

    Status node(Cursor& cursor) {
        std::vector<std::string> names;
        do {
            const Cursor before = cursor;
            names.emplace_back(cursor.value());
            if (names.back().empty()) return before.error("a value's name, or scope, loss, metric or output");
        } while (cursor.take(","));
        HK_TRY(cursor.expect("="));
        const std::string_view operation = cursor.word();
        const OperationInfo* o = find_operation(operation);
        std::shared_ptr<const OwnOperation> own;
        if (cursor.take("/")) {
            HK_ASSIGN(const uint32_t revision, cursor.number<uint32_t>("a revision"));
            const auto found = operations_.find(fmt::format("{}/{}", operation, revision));
            o = found == operations_.end() ? nullptr : &found->second->info();
            if (o != nullptr) own = found->second;
        }
        if (o == nullptr || (o->op == Op::own && own == nullptr))
            return invalid_argument(fmt::format("there is no operation '{}'", operation));
        Node node;
        node.op = o->op;
        HK_TRY(cursor.expect("("));
        HK_TRY(arguments(cursor, *o, node));
        if (const char* attribute = leaf_name_attribute(node.op))
            if (!leaves_.emplace(node.op, node.text(attribute)).second)
                return invalid_argument(fmt::format("{} {} is there already", o->name, quote(node.text(attribute))));
        if (own != nullptr) {
            if (names.size() != o->outputs.size())
                return invalid_argument(
                    fmt::format("{} has {} outputs, {} are named", o->name, o->outputs.size(), names.size()));
            HK_TRY(own_node(cursor, node, own, names));
        }
        Result<std::vector<std::pair<Kind, Shape>>> outputs = infer_outputs(graph_, node);
        if (!outputs.ok()) return outputs.status();
        if (outputs.value().size() != names.size())
            return invalid_argument(
                fmt::format("{} has {} outputs, {} are named", o->name, outputs.value().size(), names.size()));
        if (own == nullptr) {
            HK_TRY(cursor.expect(":"));
            for (std::size_t i = 0; i < names.size(); ++i) {
                const auto& [kind, shape] = outputs.value()[i];
                if (i != 0) HK_TRY(cursor.expect(","));
                const std::string_view given_kind = cursor.word();
                HK_ASSIGN(const std::vector<int64_t> given_shape, cursor.list<int64_t>("a dimension"));
                if (given_kind != kind_name(kind) || given_shape != shape.vector())
                    return invalid_argument(fmt::format("{} is {} {} by the operation, {} [{}] by the text", names[i],
                                                        kind_name(kind), shape.text(), given_kind,
                                                        fmt::join(given_shape, ", ")));
            }
        }
        if (cursor.take_word("recompute")) { HK_ASSIGN(node.region, cursor.number<uint32_t>("a region's number")); }
        if (cursor.take("#")) {
            cursor.spaces();
            const auto found = scopes_.find(std::string(cursor.rest()));
            if (found == scopes_.end())
                return invalid_argument(fmt::format("scope {} was not opened", quote(cursor.rest())));
            node.scope = found->second;
        } else if (!cursor.at_end()) {
            return cursor.error("the end of the line");
        }
        for (std::size_t i = 0; i < names.size(); ++i) {
            const auto id = static_cast<ValueId>(graph_.values.size());
            if (!values_.emplace(names[i], id).second)
                return invalid_argument(fmt::format("there is a value {} already", names[i]));
            node.outputs.push_back(id);
            graph_.values.push_back({static_cast<NodeId>(graph_.nodes.size()), static_cast<uint32_t>(i),
                                     outputs.value()[i].first, outputs.value()[i].second});
        }
        graph_.nodes.push_back(std::move(node));
        return {};
    }

    // Reads inputs and attributes up to the closing bracket.
    Status arguments(Cursor& cursor, const OperationInfo& o, Node& node) {
        const bool variadic = !o.inputs.empty() && o.inputs[0].variadic;
        if (!variadic) node.inputs.assign(o.inputs.size(), kNone);
        std::vector<std::optional<AttributeValue>> given(o.attributes.size());
        std::size_t next = 0;
        for (bool first = true; !cursor.take(")"); first = false) {
            if (!first) HK_TRY(cursor.expect(","));
            Cursor ahead = cursor;
            const std::string_view name = ahead.word();
            if (name.empty() || !ahead.take("=")) {
                HK_ASSIGN(const ValueId input, value(cursor));
                if (variadic)
                    node.inputs.push_back(input);
                else if (next < node.inputs.size())
                    node.inputs[next++] = input;
                else
                    return invalid_argument(fmt::format("{} has too many inputs", o.name));
                continue;
            }
            cursor = ahead;
            const auto attribute = std::ranges::find_if(o.attributes, [&](const auto& a) { return a.name == name; });
            const auto input = std::ranges::find_if(o.inputs, [&](const auto& in) { return in.name == name; });
            if (attribute != o.attributes.end()) {
                auto& place = given[static_cast<std::size_t>(attribute - o.attributes.begin())];
                if (place) return invalid_argument(fmt::format("attribute {} is given twice", name));
                HK_ASSIGN(place, attribute_value(cursor, attribute->type));
            } else if (input != o.inputs.end() && !variadic) {
                ValueId& place = node.inputs[static_cast<std::size_t>(input - o.inputs.begin())];
                if (place != kNone) return invalid_argument(fmt::format("input {} is given twice", name));
                HK_ASSIGN(place, value(cursor));
            } else {
                return invalid_argument(fmt::format("{} has no input or attribute '{}'", o.name, name));
            }
        }
        if (variadic && node.inputs.empty()) return invalid_argument(fmt::format("{} needs an input", o.name));
        for (std::size_t i = 0; i < node.inputs.size() && !variadic; ++i)
            if (node.inputs[i] == kNone && !o.inputs[i].optional)
                return invalid_argument(fmt::format("{}: input {} is missing", o.name, o.inputs[i].name));
        for (std::size_t i = 0; i < o.attributes.size(); ++i) {
            const AttributeInfo& a = o.attributes[i];
            if (!given[i] && !a.fallback)
                return invalid_argument(fmt::format("{}: attribute {} is missing", o.name, a.name));
            node.attributes.push_back({a.name, given[i] ? *given[i] : *a.fallback});
        }
        return {};
    }

    Status loss(Cursor& cursor) {
        LossTerm term;
        HK_ASSIGN(term.name, cursor.quoted_text());
        HK_TRY(cursor.expect("="));
        HK_ASSIGN(term.weight, cursor.number<double>("a weight"));
        if (!std::isfinite(term.weight)) return invalid_argument("a loss's weight is not finite");
        HK_TRY(cursor.expect("*"));
        HK_ASSIGN(term.sum, value(cursor));
        HK_TRY(cursor.expect("/"));
        HK_ASSIGN(term.count, value(cursor));
        losses_.push_back(std::move(term));
        return end(cursor);
    }

    Status metric(Cursor& cursor) {
        Metric metric;
        HK_ASSIGN(metric.name, cursor.quoted_text());
        HK_TRY(cursor.expect("="));
        HK_ASSIGN(metric.sum, value(cursor));
        HK_TRY(cursor.expect("/"));
        HK_ASSIGN(metric.count, value(cursor));
        metrics_.push_back(std::move(metric));
        return end(cursor);
    }

    Status output(Cursor& cursor) {
        HK_ASSIGN(std::string name, cursor.quoted_text());
        HK_TRY(cursor.expect("="));
        HK_ASSIGN(const ValueId id, value(cursor));
        if (!outputs_.emplace(name, id).second)
            return invalid_argument(fmt::format("output {} is there already", quote(name)));
        return end(cursor);
    }

    static Status end(Cursor& cursor) { return cursor.at_end() ? Status() : cursor.error("the end of the line"); }

    static constexpr Kind kKinds[] = {Kind::float_, Kind::float32, Kind::int32};

    Graph graph_;
    bool headed_ = false;
    bool inside_gradient_;
    const CompleteDeclaration& complete_;
    std::optional<Block> block_;
    std::map<std::string, std::shared_ptr<const OwnOperation>> operations_; // by label
    std::map<uint32_t, std::shared_ptr<const Graph>> gradients_;
    std::unordered_map<std::string, ScopeId> scopes_;
    std::unordered_map<std::string, ValueId> values_;
    std::set<std::pair<Op, std::string>> leaves_;
    std::vector<LossTerm> losses_;
    std::vector<Metric> metrics_;
    std::map<std::string, ValueId> outputs_;
};

Result<Graph> parse_text(std::string_view text, bool inside_gradient, const CompleteDeclaration& complete) {
    Parser parser(inside_gradient, complete);
    std::size_t number = 0;
    while (!text.empty()) {
        ++number;
        const std::size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (line.ends_with('\r')) line.remove_suffix(1);
        const Status status = parser.line(line);
        if (!status.ok()) return status.with_context(fmt::format("graph text, line {}", number));
    }
    Result<Graph> graph = parser.finish();
    if (!graph.ok()) return graph.status().with_context("graph text");
    return graph;
}

} // namespace

Result<Graph> parse(std::string_view text, const CompleteDeclaration& complete) {
    return parse_text(text, false, complete);
}

} // namespace hekla::graph
