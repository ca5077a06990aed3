#include "text/jinja/template.hpp"

#include "text/jinja/deeper.hpp"
#include "text/jinja/operations.hpp"
#include "text/jinja/strings.hpp"
#include "text/jinja/tokens.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <limits>

namespace hekla::text::jinja {
namespace {

using Kind = Expression::Kind;

// Of nodes, expressions, iterations, items of lists, and what takes about as long: 64 bytes of a text that are copied
// or 16 that are looked at one by one, 64 names that are compared.
constexpr std::size_t kStepLimit = 2'000'000;
constexpr std::size_t kCopied = 64, kWalked = 16, kCompared = 64;
constexpr std::size_t kTemplateLimit = std::size_t{4} << 20; // bytes; published ones have less than 50,000
constexpr int kMacroDepthLimit = 50;
constexpr int kLevelLimit = 1000; // of tags and expressions inside each other, those of macros that are called included
constexpr int kPartsLimit = 64;   // of lists and dictionaries inside each other

// How a body ended.
enum class Flow : uint8_t { done, stopped, skipped };

class Renderer {
public:
    Renderer(const Dict& variables, const std::optional<DateTime>& now) : now_(now) {
        frames_.emplace_back();
        for (const auto& [name, value] : variables.entries) frames_.back().set(name, value);
    }

    Result<Rendered> run(const Nodes& nodes) {
        HK_TRY(body(nodes).status());
        return std::move(rendered_);
    }

private:
    static Status at(std::size_t line, const Status& status) {
        return status.message().starts_with("line ") ? status : status.with_context(fmt::format("line {}", line));
    }
    static Status fail(std::size_t line, const std::string& what) { return at(line, invalid_argument(what)); }

    Status count(std::size_t line, std::size_t steps = 1) {
        steps_ += steps;
        if (steps_ > kStepLimit) return fail(line, fmt::format("the template takes more than {} steps", kStepLimit));
        return {};
    }

    // Counts what looking for a name of this length takes.
    Status count_names(std::size_t line, std::size_t names, std::size_t length) {
        return count(line, names * (1 + length / kCopied) / kCompared);
    }
    Status count_names(std::size_t line, const Dict& among, std::size_t length) {
        return count_names(line, among.entries.size(), length);
    }

    // Counts what find() takes.
    Status count_find(std::size_t line, std::string_view name) {
        std::size_t names = frames_.front().entries.size();
        for (std::size_t i = frames_.size(); i > base_; --i) names += 1 + frames_[i - 1].entries.size();
        return count_names(line, names, name.size());
    }

    Status set_variable(std::size_t line, std::string_view name, Value value) {
        HK_TRY(count_names(line, frames_.back(), name.size()));
        frames_.back().set(name, std::move(value));
        return {};
    }

    const Value* find(std::string_view name) const {
        for (std::size_t i = frames_.size(); i > base_; --i)
            if (const Value* found = frames_[i - 1].find(name)) return found;
        return frames_.front().find(name);
    }

    Status print(std::size_t line, std::string_view text) {
        HK_TRY(count(line, text.size() / kCopied));
        rendered_.text += text;
        if (rendered_.text.size() > kTextLimit)
            return fail(line, fmt::format("the text is longer than {} bytes", kTextLimit));
        return {};
    }

    Status check_level(std::size_t line) const {
        if (level_ <= kLevelLimit) return {};
        return fail(line, fmt::format("tags, expressions and macros are nested deeper than {}", kLevelLimit));
    }

    // Counts what looking at all parts of a value takes.
    Status count_parts(std::size_t line, const Value& value) {
        const std::size_t items = value.list() != nullptr   ? value.list()->size()
                                  : value.dict() != nullptr ? value.dict()->entries.size()
                                                            : 0;
        return items > 0 ? count(line, items + value.extent().bytes / kCopied) : Status();
    }

    // The steps of an operation that looks at each character of a value and of its parts.
    static std::size_t walk_of(const Value& value) {
        const std::size_t items = value.list() != nullptr   ? value.list()->size()
                                  : value.dict() != nullptr ? value.dict()->entries.size()
                                                            : 0;
        return items + value.extent().bytes / kWalked;
    }
    static std::size_t walk_of(const Arguments& arguments) {
        std::size_t steps = 0;
        for (const Value& value : arguments.values) steps += walk_of(value);
        for (const auto& [name, value] : arguments.named.entries) steps += walk_of(value);
        return steps;
    }

    // Checks a list or a dictionary that was made here. Only so are all values finite: of those that are made of others
    // without end, and of namespaces inside themselves, a template could make one in a few lines.
    static Status check_parts(std::size_t line, const Value& value) {
        if (value.list() == nullptr && value.dict() == nullptr) return {};
        const Extent extent = value.extent();
        bool has_namespace = extent.has_namespace;
        if (value.dict() != nullptr && value.dict()->is_namespace)
            has_namespace = std::ranges::any_of(value.dict()->entries,
                                                [](const auto& entry) { return entry.second.extent().has_namespace; });
        if (has_namespace) return fail(line, "a namespace cannot be a part of a list, a dictionary or a namespace");
        if (extent.depth > kPartsLimit)
            return fail(line, fmt::format("lists and dictionaries are inside each other deeper than {}", kPartsLimit));
        if (extent.bytes > 2 * kTextLimit) // the longest text and whatever is with it
            return fail(line, fmt::format("a list or a dictionary has more than {} bytes", 2 * kTextLimit));
        return {};
    }

    Result<Flow> body(const Nodes& nodes) {
        const Deeper deeper(level_);
        if (!nodes.empty()) HK_TRY(check_level(nodes.front().line));
        for (const Node& node : nodes) {
            HK_ASSIGN(const Flow flow, run_node(node));
            if (flow != Flow::done) return flow;
        }
        return Flow::done;
    }

    Result<Flow> run_node(const Node& node) {
        HK_TRY(count(node.line));
        switch (node.kind) {
        case Node::Kind::text: HK_TRY(print(node.line, node.text)); break;
        case Node::Kind::output: {
            HK_ASSIGN(const Value value, evaluate(*node.expression));
            HK_TRY(print(node.line, value.text()));
            break;
        }
        case Node::Kind::branches:
            for (const Branch& branch : node.branches) {
                bool holds = true;
                if (branch.condition != nullptr) {
                    HK_ASSIGN(const Value value, evaluate(*branch.condition));
                    holds = value.is_true();
                }
                if (holds) return body(branch.body);
            }
            break;
        case Node::Kind::loop: return loop(node);
        case Node::Kind::set: {
            HK_ASSIGN(Value value, evaluate(*node.expression));
            HK_TRY(assign(node, std::move(value)));
            break;
        }
        case Node::Kind::set_block: {
            HK_ASSIGN(std::string text, captured(node.body));
            HK_TRY(set_variable(node.line, node.names[0], std::move(text)));
            break;
        }
        case Node::Kind::macro: HK_TRY(set_variable(node.line, node.macro->name, Value::Held(node.macro.get()))); break;
        case Node::Kind::generation: {
            const std::size_t begin = rendered_.text.size();
            HK_TRY(body(node.body).status());
            if (captures_ == 0) rendered_.generations.emplace_back(begin, rendered_.text.size());
            break;
        }
        case Node::Kind::break_loop: return Flow::stopped;
        case Node::Kind::continue_loop: return Flow::skipped;
        }
        return Flow::done;
    }

    // Returns the text of a body instead of printing it.
    Result<std::string> captured(const Nodes& nodes) {
        std::string outside = std::exchange(rendered_.text, {});
        ++captures_;
        const Status status = body(nodes).status();
        --captures_;
        std::string inside = std::exchange(rendered_.text, std::move(outside));
        if (!status.ok()) return status;
        return inside;
    }

    Status assign(const Node& node, Value value) {
        if (!node.attribute.empty()) {
            const Value* object = find(node.names[0]);
            Dict* dict = object != nullptr ? object->dict() : nullptr;
            if (dict == nullptr || !dict->is_namespace)
                return fail(node.line, fmt::format("'{}' is not a namespace, and only those have attributes to set",
                                                   node.names[0]));
            if (value.extent().has_namespace)
                return fail(node.line, "a namespace cannot be a part of a list, a dictionary or a namespace");
            HK_TRY(count_names(node.line, *dict, node.attribute.size()));
            HK_TRY(count(node.line, dict->entries.size() / kWalked)); // whose sizes are added
            dict->set(node.attribute, std::move(value));
            return check_parts(node.line, *object);
        }
        return bind(node, std::move(value));
    }

    // Sets the names of a node to a value, or to its items.
    Status bind(const Node& node, Value value) {
        if (node.names.size() == 1) { return set_variable(node.line, node.names[0], std::move(value)); }
        HK_ASSIGN(List items, items_of(value));
        if (items.size() != node.names.size())
            return fail(node.line, fmt::format("{} names are set to {} items", node.names.size(), items.size()));
        for (std::size_t i = 0; i < items.size(); ++i)
            HK_TRY(set_variable(node.line, node.names[i], std::move(items[i])));
        return {};
    }

    Result<Flow> loop(const Node& node) {
        HK_ASSIGN(const Value iterated, evaluate(*node.expression));
        HK_TRY(count_parts(node.line, iterated));
        if (iterated.string() != nullptr) HK_TRY(count(node.line, walk_of(iterated)));
        Result<List> all = items_of(iterated);
        if (!all.ok()) return at(node.line, all.status());
        frames_.emplace_back();
        const Result<Flow> flow = loop_items(node, all.take());
        frames_.pop_back();
        return flow;
    }

    Result<Flow> loop_items(const Node& node, List items) {
        if (node.condition != nullptr) {
            List kept;
            for (Value& item : items) {
                HK_TRY(bind(node, item));
                HK_ASSIGN(const Value holds, evaluate(*node.condition));
                if (holds.is_true()) kept.push_back(std::move(item));
            }
            items = std::move(kept);
        }
        if (items.empty()) return body(node.otherwise);
        const auto size = static_cast<int64_t>(items.size());
        for (int64_t i = 0; i < size; ++i) {
            const auto item = [&](int64_t n, const char* name) {
                return n >= 0 && n < size ? items[static_cast<std::size_t>(n)] : Value::undefined(name);
            };
            HK_TRY(count(node.line));
            frames_.back().entries.clear();
            HK_TRY(bind(node, items[static_cast<std::size_t>(i)]));
            Dict state;
            state.entries = {{"index0", i},
                             {"index", i + 1},
                             {"revindex0", size - 1 - i},
                             {"revindex", size - i},
                             {"first", i == 0},
                             {"last", i + 1 == size},
                             {"length", size},
                             {"previtem", item(i - 1, "previtem")},
                             {"nextitem", item(i + 1, "nextitem")}};
            frames_.back().set("loop", Value(std::move(state)));
            HK_ASSIGN(const Flow flow, body(node.body));
            if (flow == Flow::stopped) break;
        }
        return Flow::done;
    }

    Result<Value> evaluate(const Expression& e) {
        HK_TRY(count(e.line));
        const Deeper deeper(level_);
        HK_TRY(check_level(e.line));
        Result<Value> value = value_of(e);
        if (!value.ok()) return at(e.line, value.status());
        // Texts are copied; lists are shared, unless they were made here.
        if (const std::string* text = value.value().string()) HK_TRY(count(e.line, text->size() / kCopied));
        if (e.kind == Kind::name || e.kind == Kind::attribute || e.kind == Kind::item) return value;
        HK_TRY(check_parts(e.line, value.value()));
        HK_TRY(count_parts(e.line, value.value()));
        return value;
    }

    Result<Arguments> arguments_of(const Expression& e) {
        Arguments arguments;
        for (std::size_t i = 1; i < e.parts.size(); ++i) {
            HK_ASSIGN(Value value, evaluate(*e.parts[i]));
            arguments.values.push_back(std::move(value));
        }
        for (const auto& [name, part] : e.named) {
            HK_ASSIGN(Value value, evaluate(*part));
            HK_TRY(count_names(e.line, arguments.named, name.size()));
            arguments.named.set(name, std::move(value));
        }
        return arguments;
    }

    // Whether an expression takes longer the more parts its first operand has.
    static bool looks_at_parts(const Expression& e) {
        constexpr std::string_view kQuick[] = {"length", "count", "first", "last", "default", "d", "safe"};
        if (e.kind == Kind::filter) return std::ranges::find(kQuick, e.name) == std::end(kQuick);
        if (e.kind == Kind::test) return e.parts.size() > 1;
        return e.kind == Kind::slice || (e.kind == Kind::binary && e.name != "and" && e.name != "or");
    }

    // Counts what a filter, a test or a slice takes besides count_parts().
    Status count_operation(const Expression& e, const Value& first, const Arguments& arguments) {
        constexpr std::string_view kOfItems[] = {"map", "select", "reject", "selectattr", "rejectattr"};
        constexpr std::string_view kOfTexts[] = {"trim",   "upper",    "lower",   "title", "capitalize", "string",
                                                 "tojson", "dictsort", "replace", "map",   "int",        "float"};
        const auto is_one_of = [&](const auto& names) { return std::ranges::find(names, e.name) != std::end(names); };
        // A function of each item looks at the arguments each time.
        const std::size_t items = is_one_of(kOfItems) && first.list() != nullptr ? first.list()->size() : 1;
        const std::size_t steps = walk_of(arguments);
        if (steps > kStepLimit / std::max<std::size_t>(items, 1)) return count(e.line, kStepLimit);
        HK_TRY(count(e.line, items * steps));
        const bool walks = first.string() != nullptr || (e.kind == Kind::filter && is_one_of(kOfTexts));
        return walks && looks_at_parts(e) ? count(e.line, walk_of(first)) : Status();
    }

    Result<Value> value_of(const Expression& e) {
        switch (e.kind) {
        case Kind::constant: return e.value;
        case Kind::name: {
            HK_TRY(count_find(e.line, e.name));
            const Value* found = find(e.name);
            if (found != nullptr) return *found;
            return has_function(e.name) ? Value(Value::Held(Value::Function(nullptr))) : Value::undefined(e.name);
        }
        case Kind::list: {
            List items;
            for (const ExpressionPointer& part : e.parts) {
                HK_ASSIGN(Value item, evaluate(*part));
                items.push_back(std::move(item));
            }
            return Value(std::move(items));
        }
        case Kind::dict: {
            Dict dict;
            for (std::size_t i = 0; i < e.parts.size(); i += 2) {
                HK_ASSIGN(const Value key, evaluate(*e.parts[i]));
                HK_ASSIGN(Value item, evaluate(*e.parts[i + 1]));
                HK_TRY(count_names(e.line, dict, key.extent().bytes));
                dict.set(key.text(), std::move(item));
            }
            return Value(std::move(dict));
        }
        case Kind::call: return call(e);
        case Kind::conditional: {
            HK_ASSIGN(const Value condition, evaluate(*e.parts[1]));
            if (condition.is_true()) return evaluate(*e.parts[0]);
            return e.parts[2] != nullptr ? evaluate(*e.parts[2]) : Value::undefined("else");
        }
        default: break;
        }
        HK_ASSIGN(const Value first, evaluate(*e.parts[0]));
        if (looks_at_parts(e)) HK_TRY(count_parts(e.line, first));
        switch (e.kind) {
        case Kind::attribute:
            if (first.dict() != nullptr) HK_TRY(count_names(e.line, *first.dict(), e.name.size()));
            return attribute_of(first, e.name);
        case Kind::item: {
            HK_ASSIGN(const Value index, evaluate(*e.parts[1]));
            HK_TRY(count(e.line, walk_of(index)));
            if (first.dict() != nullptr) HK_TRY(count_names(e.line, *first.dict(), index.extent().bytes));
            return item_of(first, index);
        }
        case Kind::slice: {
            List bounds;
            for (std::size_t i = 1; i < 4; ++i) {
                Value bound;
                if (e.parts[i] != nullptr) { HK_ASSIGN(bound, evaluate(*e.parts[i])); }
                bounds.push_back(std::move(bound));
            }
            HK_TRY(count_operation(e, first, {}));
            return slice_of(first, bounds[0], bounds[1], bounds[2]);
        }
        case Kind::filter: {
            HK_ASSIGN(const Arguments arguments, arguments_of(e));
            HK_TRY(count_operation(e, first, arguments));
            return apply_filter(e.name, first, arguments);
        }
        case Kind::test: {
            HK_ASSIGN(const Arguments arguments, arguments_of(e));
            HK_TRY(count_operation(e, first, arguments));
            HK_ASSIGN(const bool holds, apply_test(e.name, first, arguments));
            return Value(holds);
        }
        case Kind::negate: return apply_binary("-", Value(int64_t{0}), first);
        case Kind::invert: return Value(!first.is_true());
        default: break; // binary
        }
        if (e.name == "and" || e.name == "or")
            return first.is_true() == (e.name == "or") ? first : evaluate(*e.parts[1]);
        HK_ASSIGN(const Value second, evaluate(*e.parts[1]));
        HK_TRY(count_parts(e.line, second));
        if (second.dict() != nullptr) HK_TRY(count_names(e.line, *second.dict(), first.extent().bytes));
        // Texts are searched, and others compared or copied, which evaluate() counts.
        if (second.string() != nullptr && e.name.ends_with("in")) HK_TRY(count(e.line, walk_of(second)));
        return apply_binary(e.name, first, second);
    }

    Result<Value> call(const Expression& e) {
        const Expression& callee = *e.parts[0];
        HK_ASSIGN(const Arguments arguments, arguments_of(e));
        if (callee.kind == Kind::attribute) {
            HK_ASSIGN(const Value object, evaluate(*callee.parts[0]));
            HK_TRY(count(e.line, walk_of(arguments)));
            if (object.string() != nullptr) HK_TRY(count(e.line, walk_of(object)));
            if (object.dict() != nullptr) // get(), keys(), items()
                HK_TRY(count(e.line, object.dict()->entries.size() * (1 + walk_of(arguments) / kCompared)));
            return call_method(object, callee.name, arguments);
        }
        if (callee.kind != Kind::name) return unsupported("only a name or a method can be called");
        HK_TRY(count_find(e.line, callee.name));
        HK_TRY(count(e.line, walk_of(arguments)));
        if (const Value* held = find(callee.name)) {
            const auto* macro = std::get_if<Value::Function>(&held->held());
            if (macro != nullptr && *macro != nullptr) return call_macro(e.line, **macro, arguments);
            if (macro != nullptr) return unsupported(fmt::format("'{}' is another name of a function", callee.name));
            return invalid_argument(fmt::format("'{}' is {} and cannot be called", callee.name, held->type_name()));
        }
        return call_function(callee.name, arguments);
    }

    bool has_function(std::string_view name) const {
        if (name == "strftime_now") return now_.has_value();
        return name == "raise_exception" || name == "namespace" || name == "dict" || name == "range";
    }

    Result<Value> call_function(std::string_view name, const Arguments& arguments) const {
        if (name == "raise_exception") {
            const Value* message = arguments.get(0, "message");
            return invalid_argument(
                fmt::format("the template refuses these messages: {}", message != nullptr ? message->text() : ""));
        }
        if (name == "namespace" || name == "dict") {
            Dict made = arguments.named;
            made.is_namespace = name == "namespace";
            return Value(std::move(made));
        }
        if (name == "range") {
            int64_t bounds[3] = {0, 0, 1};
            const std::size_t given = arguments.values.size();
            for (std::size_t i = 0; i < given && i < 3; ++i) {
                if (arguments.values[i].integer() == nullptr) return invalid_argument("'range' needs integers");
                bounds[given == 1 ? 1 : i] = *arguments.values[i].integer();
            }
            if (given == 0 || given > 3 || bounds[2] == 0)
                return invalid_argument("'range' needs one to three integers, the last of three not 0");
            List all;
            constexpr int64_t kLast = std::numeric_limits<int64_t>::max();
            for (int64_t at = bounds[0]; bounds[2] > 0 ? at < bounds[1] : at > bounds[1]; at += bounds[2]) {
                if (all.size() == kListLimit)
                    return invalid_argument(fmt::format("a list has more than {} items", kListLimit));
                all.emplace_back(at);
                if (bounds[2] > 0 ? at > kLast - bounds[2] : at < -kLast - bounds[2]) break;
            }
            return Value(std::move(all));
        }
        if (name == "strftime_now") {
            const Value* format = arguments.get(0, "format");
            if (!now_) return invalid_argument("the template prints the date, and none was given");
            if (format == nullptr || format->string() == nullptr)
                return invalid_argument("'strftime_now' needs a format, such as \"%d %b %Y\"");
            HK_ASSIGN(std::string text, now_->formatted(*format->string()));
            return Value(std::move(text));
        }
        return invalid_argument(fmt::format("there is no function '{}' here", name));
    }

    Result<Value> call_macro(std::size_t line, const MacroNode& macro, const Arguments& arguments) {
        if (depth_ == kMacroDepthLimit)
            return invalid_argument(fmt::format("macros call each other deeper than {}", kMacroDepthLimit));
        if (arguments.values.size() > macro.parameters.size())
            return invalid_argument(fmt::format("'{}' takes {} arguments and was given {}", macro.name,
                                                macro.parameters.size(), arguments.values.size()));
        HK_TRY(count(line, macro.parameters.size() * (1 + arguments.named.entries.size() / kCompared)));
        for (const auto& [name, value] : arguments.named.entries)
            if (std::ranges::none_of(macro.parameters, [&](const auto& p) { return p.first == name; }))
                return invalid_argument(fmt::format("'{}' has no argument '{}'", macro.name, name));
        const std::size_t base = std::exchange(base_, frames_.size());
        frames_.emplace_back();
        ++depth_;
        const Result<std::string> text = macro_text(line, macro, arguments);
        --depth_;
        frames_.pop_back();
        base_ = base;
        if (!text.ok()) return text.status();
        return Value(text.value());
    }

    Result<std::string> macro_text(std::size_t line, const MacroNode& macro, const Arguments& arguments) {
        for (std::size_t i = 0; i < macro.parameters.size(); ++i) {
            const auto& [name, otherwise] = macro.parameters[i];
            Value value = Value::undefined(name);
            if (const Value* given = arguments.get(i, name)) {
                value = *given;
            } else if (otherwise != nullptr) {
                HK_ASSIGN(value, evaluate(*otherwise));
            }
            HK_TRY(set_variable(line, name, std::move(value)));
        }
        return captured(macro.body);
    }

    std::optional<DateTime> now_; // what strftime_now() prints
    std::vector<Dict> frames_;    // variables: of the template, then of loops and macros
    std::size_t base_ = 0;        // the first frame that is seen, besides that of the template
    Rendered rendered_;
    std::size_t steps_ = 0;
    int depth_ = 0, level_ = 0, captures_ = 0;
};

// Errors contain texts of templates and messages, which may be long and of several lines.
Status in_one_line(const Status& status) {
    constexpr std::size_t kLongest = 500;
    std::string text;
    for (std::string_view rest = status.message(); !rest.empty();) {
        if (text.size() >= kLongest) return {status.code(), text + "..."};
        const std::string_view one = take_character(rest);
        text += one.size() == 1 && (static_cast<unsigned char>(one[0]) < ' ' || one[0] == '\x7F') ? " " : one;
    }
    return {status.code(), text};
}

} // namespace

Result<Template> Template::parse(std::string_view text) {
    if (text.size() > kTemplateLimit)
        return invalid_argument(
            fmt::format("the template has {} bytes; expected {} at most", text.size(), kTemplateLimit));
    Result<Nodes> nodes = jinja::parse(text);
    if (!nodes.ok()) return in_one_line(nodes.status());
    Template made;
    made.nodes_ = std::make_shared<const Nodes>(nodes.take());
    HK_ASSIGN(const std::vector<Token> tokens, tokens_of(text));
    made.reads_date_ = std::ranges::any_of(
        tokens, [](const Token& one) { return one.kind == Token::Kind::name && one.text == "strftime_now"; });
    return made;
}

Result<Rendered> Template::render(const Dict& variables, const std::optional<DateTime>& now) const {
    Result<Rendered> rendered = Renderer(variables, now).run(*nodes_);
    if (!rendered.ok()) return in_one_line(rendered.status());
    return rendered;
}

} // namespace hekla::text::jinja
