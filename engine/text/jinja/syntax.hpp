// The syntax tree of a Jinja template, and its parser.
#pragma once

#include "base/status.hpp"
#include "text/jinja/value.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hekla::text::jinja {

struct Expression;
using ExpressionPointer = std::unique_ptr<Expression>;

struct Expression {
    enum class Kind : uint8_t {
        constant,    // value
        name,        // name
        list,        // parts
        dict,        // parts: key, value, key, value, ...
        attribute,   // parts[0].name
        item,        // parts[0][parts[1]]
        slice,       // parts[0][parts[1]:parts[2]:parts[3]]; an absent bound is null
        call,        // parts[0](parts[1], ..., named)
        filter,      // parts[0] | name(parts[1], ..., named)
        test,        // parts[0] is name(parts[1], ...)
        negate,      // -parts[0]
        invert,      // not parts[0]
        binary,      // parts[0] name parts[1]: arithmetic, "and", "or", "in", a comparison
        conditional, // parts[0] if parts[1] else parts[2]; without else: null
    };
    Kind kind = Kind::constant;
    std::size_t line = 0;
    int depth = 1; // of the operators in it
    std::string name = {};
    Value value = {};
    std::vector<ExpressionPointer> parts = {};
    std::vector<std::pair<std::string, ExpressionPointer>> named = {};
};

struct Node;
using Nodes = std::vector<Node>;

struct Branch { // a branch of an if; without a condition: else
    ExpressionPointer condition;
    Nodes body;
};

struct MacroNode {
    std::string name;
    std::vector<std::pair<std::string, ExpressionPointer>> parameters; // null: no default
    Nodes body;
};

struct Node {
    enum class Kind : uint8_t {
        text,
        output,    // expression
        branches,  // if, elif, else
        loop,      // for names in expression if condition: body, else otherwise
        set,       // names = expression, or object.attribute = expression
        set_block, // names[0] = the text of body
        macro,
        generation, // body is what the assistant writes
        break_loop,
        continue_loop,
    };
    Kind kind = Kind::text;
    std::size_t line = 0;
    std::string text = {};
    std::vector<std::string> names = {};
    std::string attribute = {};
    ExpressionPointer expression = {}, condition = {};
    std::vector<Branch> branches = {};
    Nodes body = {}, otherwise = {};
    std::unique_ptr<MacroNode> macro = {};
};

// Parses a template as transformers' environment does: trim_blocks, lstrip_blocks, loop controls. Errors contain the
// line: a syntax error, a tag that templates of conversations do not use, nesting that is too deep.
Result<Nodes> parse(std::string_view text);

} // namespace hekla::text::jinja
