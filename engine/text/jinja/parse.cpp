#include "base/read_real.hpp"
#include "text/jinja/deeper.hpp"
#include "text/jinja/syntax.hpp"
#include "text/jinja/tokens.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::text::jinja {
namespace {

constexpr int kDepthLimit = 200; // of nested tags and expressions
constexpr int kLinkLimit = 300;  // of operators, attributes, calls and filters in a row

using Kind = Expression::Kind;

class Parser {
public:
    explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

    Result<Nodes> run() {
        HK_ASSIGN(Nodes nodes, body({}));
        return nodes;
    }

private:
    const Token& now() const { return tokens_[at_]; }
    const Token& next() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
    bool is_mark(std::string_view text) const { return now().kind == Token::Kind::mark && now().text == text; }
    bool is_name(std::string_view text) const { return now().kind == Token::Kind::name && now().text == text; }
    bool take_mark(std::string_view text) { return is_mark(text) && ++at_ > 0; }
    bool take_name(std::string_view text) { return is_name(text) && ++at_ > 0; }
    Status fail(const std::string& what) const {
        return invalid_argument(fmt::format("line {}: {}", now().line, what));
    }
    std::string found() const {
        switch (now().kind) {
        case Token::Kind::end: return "the end of the template";
        case Token::Kind::text: return "text";
        case Token::Kind::tag_end: return "the end of the tag";
        case Token::Kind::output_end: return "}}";
        default: return fmt::format("'{}'", now().text);
        }
    }
    Status expect_mark(std::string_view text) {
        if (take_mark(text)) return {};
        return fail(fmt::format("expected '{}', found {}", text, found()));
    }
    Result<std::string> expect_name() {
        if (now().kind != Token::Kind::name) return fail(fmt::format("expected a name, found {}", found()));
        return tokens_[at_++].text;
    }
    Status expect_tag_end() {
        if (now().kind != Token::Kind::tag_end) return fail(fmt::format("expected %}}, found {}", found()));
        ++at_;
        return {};
    }

    // Reads nodes up to one of the tags `ends`, whose name is then the current token; without ends, up to the end.
    Result<Nodes> body(const std::vector<std::string_view>& ends) {
        const Deeper deeper(depth_);
        if (depth_ > kDepthLimit) return fail(fmt::format("tags are nested deeper than {}", kDepthLimit));
        Nodes nodes;
        for (;;) {
            const Token& token = now();
            if (token.kind == Token::Kind::end) {
                if (ends.empty()) return nodes;
                return fail(fmt::format("expected {{% {} %}}, found the end of the template", ends.back()));
            }
            ++at_;
            if (token.kind == Token::Kind::text) {
                nodes.push_back({.kind = Node::Kind::text, .line = token.line, .text = token.text});
                continue;
            }
            if (token.kind == Token::Kind::output_begin) {
                Node node{.kind = Node::Kind::output, .line = token.line};
                HK_ASSIGN(node.expression, expression());
                if (now().kind != Token::Kind::output_end) return fail(fmt::format("expected }}}}, found {}", found()));
                ++at_;
                nodes.push_back(std::move(node));
                continue;
            }
            if (now().kind == Token::Kind::name && std::ranges::find(ends, now().text) != ends.end()) return nodes;
            HK_ASSIGN(Node node, tag());
            nodes.push_back(std::move(node));
        }
    }

    Result<Node> tag() {
        Node node{.line = now().line};
        HK_ASSIGN(const std::string name, expect_name());
        if (name == "if") return branches(std::move(node));
        if (name == "for") return loop(std::move(node));
        if (name == "set") return assignment(std::move(node));
        if (name == "macro") return macro(std::move(node));
        if (name == "generation") {
            node.kind = Node::Kind::generation;
            HK_TRY(expect_tag_end());
            HK_ASSIGN(node.body, body({"endgeneration"}));
            HK_TRY(end_tag());
            return node;
        }
        if (name == "break" || name == "continue") {
            if (loops_ == 0) return fail(fmt::format("'{}' is outside of a loop", name));
            node.kind = name == "break" ? Node::Kind::break_loop : Node::Kind::continue_loop;
            HK_TRY(expect_tag_end());
            return node;
        }
        return fail(fmt::format(
            "the tag '{}' is not supported; expected if, for, set, macro, generation, break or continue", name));
    }

    // Skips the name of the tag that ended a body, and the end of the tag.
    Status end_tag() {
        ++at_;
        return expect_tag_end();
    }

    Result<Node> branches(Node node) {
        node.kind = Node::Kind::branches;
        for (bool is_else = false;;) {
            Branch branch;
            if (!is_else) { HK_ASSIGN(branch.condition, expression()); }
            HK_TRY(expect_tag_end());
            HK_ASSIGN(branch.body, is_else ? body({"endif"}) : body({"elif", "else", "endif"}));
            node.branches.push_back(std::move(branch));
            if (is_name("endif")) {
                HK_TRY(end_tag());
                return node;
            }
            is_else = is_name("else");
            ++at_;
        }
    }

    Result<std::vector<std::string>> targets() {
        std::vector<std::string> names;
        const bool in_brackets = take_mark("(");
        do {
            HK_ASSIGN(std::string name, expect_name());
            names.push_back(std::move(name));
        } while (take_mark(","));
        if (in_brackets) HK_TRY(expect_mark(")"));
        return names;
    }

    Result<Node> loop(Node node) {
        node.kind = Node::Kind::loop;
        HK_ASSIGN(node.names, targets());
        if (!take_name("in")) return fail(fmt::format("expected 'in', found {}", found()));
        HK_ASSIGN(node.expression, tuple(false));
        if (take_name("if")) { HK_ASSIGN(node.condition, expression()); }
        if (is_name("recursive")) return fail("recursive loops are not supported");
        HK_TRY(expect_tag_end());
        ++loops_;
        Result<Nodes> inside = body({"else", "endfor"});
        --loops_;
        if (!inside.ok()) return inside.status();
        node.body = inside.take();
        if (is_name("else")) {
            HK_TRY(end_tag());
            HK_ASSIGN(node.otherwise, body({"endfor"}));
        }
        HK_TRY(end_tag());
        return node;
    }

    Result<Node> assignment(Node node) {
        HK_ASSIGN(node.names, targets());
        if (take_mark(".")) { HK_ASSIGN(node.attribute, expect_name()); }
        if (!node.attribute.empty() && node.names.size() > 1) return fail("an attribute is set alone");
        if (take_mark("=")) {
            node.kind = Node::Kind::set;
            HK_ASSIGN(node.expression, tuple(true));
            HK_TRY(expect_tag_end());
            return node;
        }
        if (node.names.size() > 1 || !node.attribute.empty() || now().kind != Token::Kind::tag_end)
            return fail(fmt::format("expected '=', found {}", found()));
        node.kind = Node::Kind::set_block;
        HK_TRY(expect_tag_end());
        HK_ASSIGN(node.body, body({"endset"}));
        HK_TRY(end_tag());
        return node;
    }

    Result<Node> macro(Node node) {
        node.kind = Node::Kind::macro;
        node.macro = std::make_unique<MacroNode>();
        HK_ASSIGN(node.macro->name, expect_name());
        HK_TRY(expect_mark("("));
        while (!take_mark(")")) {
            HK_ASSIGN(std::string name, expect_name());
            ExpressionPointer otherwise;
            if (take_mark("=")) { HK_ASSIGN(otherwise, expression()); }
            node.macro->parameters.emplace_back(std::move(name), std::move(otherwise));
            if (!is_mark(")")) HK_TRY(expect_mark(","));
        }
        HK_TRY(expect_tag_end());
        const int loops = std::exchange(loops_, 0);
        Result<Nodes> inside = body({"endmacro"});
        loops_ = loops;
        if (!inside.ok()) return inside.status();
        node.macro->body = inside.take();
        HK_TRY(end_tag());
        return node;
    }

    ExpressionPointer made(Kind kind, std::string name = {}) const {
        auto expression = std::make_unique<Expression>();
        expression->kind = kind;
        expression->line = now().line;
        expression->name = std::move(name);
        return expression;
    }
    ExpressionPointer joined(Kind kind, std::string name, ExpressionPointer left, ExpressionPointer right) {
        ExpressionPointer both = made(kind, std::move(name));
        both->line = left->line;
        add_operand(*both, std::move(left));
        if (right != nullptr) add_operand(*both, std::move(right));
        return both;
    }
    void add_operand(Expression& to, ExpressionPointer operand) {
        to.depth = std::max(to.depth, operand->depth + 1);
        deepest_ = std::max(deepest_, to.depth);
        to.parts.push_back(std::move(operand));
    }
    // Operators of a row are not read by recursion, but they are evaluated by it.
    Status check_links() const {
        if (deepest_ <= kLinkLimit) return {};
        return fail(fmt::format("an expression has more than {} operators in a row", kLinkLimit));
    }

    // Expressions with commas between them are a list. conditional: `a if b` is part of an expression, and not of the
    // loop around it.
    Result<ExpressionPointer> tuple(bool conditional) {
        HK_ASSIGN(ExpressionPointer first, conditional ? expression() : disjunction());
        if (!is_mark(",")) return first;
        ExpressionPointer list = made(Kind::list);
        list->parts.push_back(std::move(first));
        while (take_mark(",")) {
            HK_ASSIGN(ExpressionPointer more, conditional ? expression() : disjunction());
            list->parts.push_back(std::move(more));
        }
        return list;
    }

    Result<ExpressionPointer> expression() {
        const Deeper deeper(depth_);
        if (depth_ > kDepthLimit) return fail(fmt::format("expressions are nested deeper than {}", kDepthLimit));
        HK_ASSIGN(ExpressionPointer value, disjunction());
        while (take_name("if")) {
            ExpressionPointer choice = made(Kind::conditional);
            add_operand(*choice, std::move(value));
            HK_ASSIGN(ExpressionPointer condition, disjunction());
            add_operand(*choice, std::move(condition));
            ExpressionPointer otherwise;
            if (take_name("else")) { HK_ASSIGN(otherwise, expression()); }
            choice->parts.push_back(std::move(otherwise));
            value = std::move(choice);
        }
        return value;
    }

    Result<ExpressionPointer> disjunction() {
        HK_ASSIGN(ExpressionPointer left, conjunction());
        while (take_name("or")) {
            HK_ASSIGN(ExpressionPointer right, conjunction());
            left = joined(Kind::binary, "or", std::move(left), std::move(right));
        }
        return left;
    }

    Result<ExpressionPointer> conjunction() {
        HK_ASSIGN(ExpressionPointer left, negation());
        while (take_name("and")) {
            HK_ASSIGN(ExpressionPointer right, negation());
            left = joined(Kind::binary, "and", std::move(left), std::move(right));
        }
        return left;
    }

    Result<ExpressionPointer> negation() {
        const Deeper deeper(depth_);
        if (depth_ > kDepthLimit) return fail(fmt::format("expressions are nested deeper than {}", kDepthLimit));
        if (!take_name("not")) return comparison();
        HK_ASSIGN(ExpressionPointer inside, negation());
        return joined(Kind::invert, "", std::move(inside), nullptr);
    }

    Result<ExpressionPointer> comparison() {
        HK_ASSIGN(ExpressionPointer left, sum());
        std::size_t count = 0;
        for (;;) {
            std::string name;
            for (const char* mark : {"==", "!=", "<=", ">=", "<", ">"})
                if (name.empty() && take_mark(mark)) name = mark;
            if (name.empty() && take_name("in")) name = "in";
            if (name.empty() && is_name("not") && next().kind == Token::Kind::name && next().text == "in") {
                at_ += 2;
                name = "not in";
            }
            if (name.empty()) break;
            if (++count > 1) return fail("comparisons in a chain are not supported; join them with 'and'");
            HK_ASSIGN(ExpressionPointer right, sum());
            left = joined(Kind::binary, name, std::move(left), std::move(right));
        }
        return left;
    }

    Result<ExpressionPointer> sum() {
        HK_ASSIGN(ExpressionPointer left, concatenation());
        while (is_mark("+") || is_mark("-")) {
            const std::string name = tokens_[at_++].text;
            HK_ASSIGN(ExpressionPointer right, concatenation());
            left = joined(Kind::binary, name, std::move(left), std::move(right));
        }
        return left;
    }

    Result<ExpressionPointer> concatenation() {
        HK_ASSIGN(ExpressionPointer left, product());
        while (take_mark("~")) {
            HK_ASSIGN(ExpressionPointer right, product());
            left = joined(Kind::binary, "~", std::move(left), std::move(right));
        }
        return left;
    }

    Result<ExpressionPointer> product() {
        HK_ASSIGN(ExpressionPointer left, unary());
        while (is_mark("*") || is_mark("/") || is_mark("//") || is_mark("%")) {
            const std::string name = tokens_[at_++].text;
            HK_ASSIGN(ExpressionPointer right, unary());
            left = joined(Kind::binary, name, std::move(left), std::move(right));
        }
        return left;
    }

    Result<ExpressionPointer> unary(bool filtered = true) {
        const Deeper deeper(depth_);
        if (depth_ > kDepthLimit) return fail(fmt::format("expressions are nested deeper than {}", kDepthLimit));
        HK_TRY(check_links());
        ExpressionPointer value;
        if (take_mark("-")) {
            HK_ASSIGN(ExpressionPointer inside, unary(false));
            value = joined(Kind::negate, "", std::move(inside), nullptr);
        } else if (take_mark("+")) {
            HK_ASSIGN(value, unary(false));
        } else {
            HK_ASSIGN(value, primary());
        }
        HK_ASSIGN(value, postfix(std::move(value)));
        if (filtered) { HK_ASSIGN(value, filters(std::move(value))); }
        return value;
    }

    Result<ExpressionPointer> constant(Value value) {
        ExpressionPointer made_one = made(Kind::constant);
        made_one->value = std::move(value);
        ++at_;
        return made_one;
    }

    Result<ExpressionPointer> primary() {
        const Token& token = now();
        if (token.kind == Token::Kind::string) {
            std::string text;
            while (now().kind == Token::Kind::string) text += tokens_[at_++].text; // neighbors are one string
            --at_;
            return constant(std::move(text));
        }
        if (token.kind == Token::Kind::integer) return constant(static_cast<int64_t>(std::atoll(token.text.c_str())));
        if (token.kind == Token::Kind::real) {
            double number = 0.0;
            read_real(token.text.data(), token.text.data() + token.text.size(), number);
            return constant(number);
        }
        if (token.kind == Token::Kind::name) {
            if (token.text == "true" || token.text == "True") return constant(true);
            if (token.text == "false" || token.text == "False") return constant(false);
            if (token.text == "none" || token.text == "None") return constant(Value::none());
            ExpressionPointer name = made(Kind::name, token.text);
            ++at_;
            return name;
        }
        if (take_mark("(")) {
            if (take_mark(")")) return made(Kind::list);
            HK_ASSIGN(ExpressionPointer first, expression());
            if (take_mark(")")) return first;
            ExpressionPointer list = made(Kind::list);
            list->parts.push_back(std::move(first));
            return items(std::move(list), ")");
        }
        if (take_mark("[")) {
            ExpressionPointer list = made(Kind::list);
            if (take_mark("]")) return list;
            HK_ASSIGN(ExpressionPointer first, expression());
            list->parts.push_back(std::move(first));
            return items(std::move(list), "]");
        }
        if (take_mark("{")) {
            ExpressionPointer dict = made(Kind::dict);
            while (!take_mark("}")) {
                HK_ASSIGN(ExpressionPointer key, expression());
                HK_TRY(expect_mark(":"));
                HK_ASSIGN(ExpressionPointer value, expression());
                dict->parts.push_back(std::move(key));
                dict->parts.push_back(std::move(value));
                if (!is_mark("}")) HK_TRY(expect_mark(","));
            }
            return dict;
        }
        return fail(fmt::format("expected an expression, found {}", found()));
    }

    // Reads the items after the first, and the closing bracket.
    Result<ExpressionPointer> items(ExpressionPointer list, std::string_view close) {
        while (!take_mark(close)) {
            HK_TRY(expect_mark(","));
            if (take_mark(close)) break;
            HK_ASSIGN(ExpressionPointer more, expression());
            list->parts.push_back(std::move(more));
        }
        return list;
    }

    Result<ExpressionPointer> postfix(ExpressionPointer value) {
        for (;;) {
            HK_TRY(check_links());
            if (take_mark(".")) {
                if (now().kind == Token::Kind::integer) {
                    HK_ASSIGN(ExpressionPointer index, constant(static_cast<int64_t>(std::atoll(now().text.c_str()))));
                    value = joined(Kind::item, "", std::move(value), std::move(index));
                    continue;
                }
                HK_ASSIGN(std::string name, expect_name());
                value = joined(Kind::attribute, std::move(name), std::move(value), nullptr);
            } else if (take_mark("[")) {
                HK_ASSIGN(value, subscript(std::move(value)));
            } else if (take_mark("(")) {
                value = joined(Kind::call, "", std::move(value), nullptr);
                HK_TRY(arguments(*value));
            } else {
                return value;
            }
        }
    }

    Result<ExpressionPointer> subscript(ExpressionPointer value) {
        std::array<ExpressionPointer, 3> bounds;
        std::size_t count = 0;
        bool is_slice = false;
        while (!take_mark("]")) {
            if (take_mark(":")) {
                is_slice = true;
                if (++count > 2) return fail("a slice has at most three parts");
                continue;
            }
            if (bounds[count] != nullptr) return fail(fmt::format("expected ']', found {}", found()));
            HK_ASSIGN(bounds[count], expression());
        }
        if (!is_slice) {
            if (bounds[0] == nullptr) return fail("expected an index in []");
            return joined(Kind::item, "", std::move(value), std::move(bounds[0]));
        }
        ExpressionPointer slice = joined(Kind::slice, "", std::move(value), nullptr);
        for (ExpressionPointer& bound : bounds) slice->parts.push_back(std::move(bound));
        return slice;
    }

    // Reads arguments and the closing bracket.
    Status arguments(Expression& call) {
        while (!take_mark(")")) {
            if (now().kind == Token::Kind::name && next().kind == Token::Kind::mark && next().text == "=") {
                const std::string name = now().text;
                at_ += 2;
                HK_ASSIGN(ExpressionPointer value, expression());
                call.named.emplace_back(name, std::move(value));
            } else {
                if (is_mark("*") || is_mark("**")) return fail("arguments with * are not supported");
                HK_ASSIGN(ExpressionPointer value, expression());
                call.parts.push_back(std::move(value));
            }
            if (!is_mark(")")) HK_TRY(expect_mark(","));
        }
        return {};
    }

    Result<ExpressionPointer> filters(ExpressionPointer value) {
        for (;;) {
            HK_TRY(check_links());
            if (take_mark("|")) {
                HK_ASSIGN(std::string name, expect_name());
                value = joined(Kind::filter, std::move(name), std::move(value), nullptr);
                if (take_mark("(")) HK_TRY(arguments(*value));
                HK_ASSIGN(value, postfix(std::move(value)));
            } else if (take_name("is")) {
                const bool inverted = take_name("not");
                HK_ASSIGN(std::string name, expect_name());
                value = joined(Kind::test, std::move(name), std::move(value), nullptr);
                if (take_mark("(")) {
                    HK_TRY(arguments(*value));
                } else if (takes_argument(value->name)) { // `is eq "x"`
                    HK_ASSIGN(ExpressionPointer argument, primary());
                    HK_ASSIGN(argument, postfix(std::move(argument)));
                    value->parts.push_back(std::move(argument));
                }
                if (inverted) value = joined(Kind::invert, "", std::move(value), nullptr);
            } else {
                return value;
            }
        }
    }

    static bool takes_argument(std::string_view test) {
        constexpr std::array<std::string_view, 6> kNames{"eq", "equalto", "ne", "in", "divisibleby", "sameas"};
        return std::ranges::find(kNames, test) != kNames.end();
    }

    std::vector<Token> tokens_;
    std::size_t at_ = 0;
    int depth_ = 0, deepest_ = 0, loops_ = 0;
};

} // namespace

Result<Nodes> parse(std::string_view text) {
    HK_ASSIGN(std::vector<Token> tokens, tokens_of(text));
    return Parser(std::move(tokens)).run();
}

} // namespace hekla::text::jinja
