// Values of Jinja expressions: those of Python that templates of conversations use.
#pragma once

#include "base/json.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace hekla::text::jinja {

class Value;
struct MacroNode;

struct Undefined {
    std::string name; // for messages
};
struct None {};
using List = std::vector<Value>;

// What bounds the work that a value makes when it is printed, compared or copied.
struct Extent {
    std::size_t bytes = 0;      // of its parts, about; a part that is shared counts as often as it is printed
    int depth = 0;              // of the lists and dictionaries in it, itself included
    bool has_namespace = false; // it is one, or has one as a part

    void add(const Extent& part);
};
// Keys in the order of insertion. Of a namespace(), the entries can change.
struct Dict {
    std::vector<std::pair<std::string, Value>> entries;
    bool is_namespace = false;
    Extent parts = {}; // of a value that is not a namespace

    const Value* find(std::string_view key) const;
    void set(std::string_view key, Value value);
};

struct ListNode {
    List items;
    Extent parts;
};

struct Separators { // between items, and between a key and its value
    std::string item = ", ", key = ": ";
};

class Value {
public:
    using Function = const MacroNode*; // owned by the template; null: a function that every template has
    using Held = std::variant<Undefined, None, bool, int64_t, double, std::string, std::shared_ptr<const ListNode>,
                              std::shared_ptr<Dict>, Function>;

    Value() = default; // undefined
    Value(Held held) : held_(std::move(held)) {}
    Value(bool value) : held_(value) {}
    Value(int64_t value) : held_(value) {}
    Value(double value) : held_(value) {}
    Value(std::string value) : held_(std::move(value)) {}
    Value(std::string_view value) : held_(std::string(value)) {}
    Value(const char* value) : held_(std::string(value)) {}
    Value(List value);
    Value(Dict value);
    static Value undefined(std::string_view name) { return Held(Undefined{std::string(name)}); }
    static Value none() { return Held(None{}); }
    // Objects keep the order of their keys.
    static Value from_json(const nlohmann::ordered_json& json);

    const Held& held() const { return held_; }
    bool is_undefined() const { return std::holds_alternative<Undefined>(held_); }
    bool is_none() const { return std::holds_alternative<None>(held_); }
    bool is_number() const; // an integer, a real number or a boolean, which counts as 0 or 1
    const int64_t* integer() const { return std::get_if<int64_t>(&held_); }
    const std::string* string() const { return std::get_if<std::string>(&held_); }
    const List* list() const;
    Dict* dict() const;
    double real() const; // of a number
    // In constant time, except for a namespace, whose entries are added.
    Extent extent() const;

    bool is_true() const;
    // Returns Python's str(): what a template prints. Undefined is empty.
    std::string text() const;
    // Returns Python's repr(), the form inside lists and dictionaries.
    std::string quoted() const;
    const char* type_name() const; // "a list"
    // Returns Python's json.dumps(), with characters as they are. indent: below 0 for a single line.
    std::string json(int indent, const Separators& separators, int depth = 0) const;

private:
    Held held_;
};

bool equal(const Value& a, const Value& b);

} // namespace hekla::text::jinja
