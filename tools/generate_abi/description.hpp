// The contents of engine/plugin/abi.json and engine/graph/operations.json, validated and in order.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::abi {

// "const hk_config*": a name, whether it is const, and its pointers.
struct Type {
    std::string base;
    bool is_const = false;
    int pointers = 0;
    bool const_pointer = false; // "const int32_t* const*": the pointer that the last one points to is const
};

struct Function;

// A member or parameter. If it is a function, `function` is set and there is no type.
struct Variable {
    Type type;
    std::string name;
    std::string array;              // "HK_MAX_RANK", or empty
    std::vector<Function> function; // one or none
};

struct Function {
    std::string name;
    Type returns;
    std::vector<Variable> parameters;
};

// One member of a struct: data, or a function pointer, which then has a thread.
struct Member {
    Variable is;
    std::string about, thread;
    std::vector<std::string> lines; // list items after the text
    uint32_t since = 0;             // the minor version that added it; 0: the first
    bool optional = false;          // a function that may be null
    bool is_function() const { return !is.function.empty(); }
};

struct Constant {
    std::string name, value, about;
    uint32_t since = 0;
};

enum class ItemKind { prelude, constants, opaque, alias, structure, table, function };

struct Item {
    ItemKind kind = ItemKind::structure;
    std::string name; // of a type; of constants: their type ("int32_t", "uint32_t", "size", "text")
    std::string about;
    std::string alias; // the type that an alias refers to
    std::vector<Constant> constants;
    std::vector<Member> members;
    // Only for tables.
    std::string id, macro; // "hekla.graph/1", "HK_GRAPH_INTERFACE"
    bool by_host = false;
    std::vector<std::string> declares; // structs named before their header
    uint32_t since = 0;                // that of the header
};

struct Rule {
    std::string id, text, by;
    std::vector<std::string> tests; // "check file.ids", "plugin/library_test.cpp", "none: why"
    bool traced = false;            // reported by `hekla plugin trace` when broken
};

struct Header {
    std::string name, title;
    uint32_t since = 0; // the minor version that added it; all of it is at least as new
    bool draft = false; // in draft/: not part of the layout and the umbrella header
    std::vector<std::string> about, includes;
    std::vector<Rule> rules;
    std::vector<Item> items;
};

struct Input {
    std::string name, kind;
    bool optional = false, variadic = false;
    int revision = 1; // of the operation, that added it
};
struct Attribute {
    std::string name, type, doc;
    nlohmann::json fallback; // null: must be given
    int revision = 1;        // of the operation, that added it
    bool required() const { return fallback.is_null(); }
};
struct Output {
    std::string name;
    bool hidden = false;
};
struct Operation {
    std::string name, doc, group;
    int revision = 1;
    uint32_t since = 0;   // minor version of the ABI
    uint32_t revised = 0; // the minor version that has its newest revision first, if there are two
    bool internal = false;
    std::vector<Input> inputs;
    std::vector<Attribute> attributes;
    std::vector<Output> outputs;

    std::vector<std::string> visible() const;
    bool variadic() const { return !inputs.empty() && inputs[0].variadic; }
    bool has_options() const;
};

struct Description {
    uint32_t major = 0, minor = 0, oldest_minor = 0;
    bool open = false; // the newest minor version is not released yet
    std::vector<std::pair<std::string, std::string>> threads;
    std::vector<Header> headers, drafts;
    std::vector<Operation> operations;
};

// Reads one declaration: TYPE NAME, TYPE NAME[SIZE], TYPE NAME(PARAMETERS). Throws as read_description() does.
Variable declaration_of(std::string_view text);
[[noreturn]] void fail(const std::string& where, const std::string& what);
// Return a key of an object: fail() without it, or nothing.
const nlohmann::json& need(const nlohmann::json& object, const char* key, const std::string& where);
std::string text_of(const nlohmann::json& object, const char* key);
std::vector<std::string> texts(const nlohmann::json& object, const char* key);
nlohmann::json read_json(const std::filesystem::path& path);

// Throws std::runtime_error with the location of the error.
Description read_description(const std::filesystem::path& repository);

// Returns the header without the version that holds for all of it: only what is newer has one.
Header relative(Header header);

// Wraps "a b c" into lines of at most `width` characters, each beginning with `prefix`.
std::string wrapped(std::string_view text, const std::string& prefix, std::size_t width = 118);
// "top_k" -> "TopK"
std::string camel(std::string_view name);
// Returns the C declaration: "const hk_field* field", "int64_t dims[HK_MAX_RANK]", "void(HK_ABI* push)(...)".
std::string c_type(const Type& type);
std::string c_variable(const Variable& variable);
// Returns the C type without names: "void(HK_ABI*)(void*, hk_string)".
std::string c_type_of(const Variable& variable);
// Returns "BEGIN(a, b,\n      c);", with no line longer than 120 characters where that is possible.
std::string prototype_lines(const std::string& begin, const Function& function);
// Return the text of a define, and a text as a cell of a table of a page.
std::string constant_line(const std::string& type, const Constant& constant);
std::string cell(std::string text);
// Return the lines around what C and C++ declare from a minor version on; nothing for 0.
std::string since_begin(uint32_t since);
std::string since_end(uint32_t since);

inline constexpr const char* kAbiNotice =
    "// Made by tools/generate_abi from engine/plugin/abi.json. Edit that instead.\n";
inline constexpr const char* kOperationsNotice =
    "// Made by tools/generate_abi from engine/graph/operations.json. Edit that instead.\n";

// The generators. Each returns the text of one file.
std::string c_header(const Description& description, const Header& header);
std::string c_operations(const std::vector<Operation>& operations);
std::string c_located_operations(const std::vector<Operation>& operations);
std::string cpp_operations(const std::vector<Operation>& operations);
std::string engine_table(const std::vector<Operation>& operations);
std::string table_slots(const Description& description);
// The size of every data struct at its first release; a smaller size is invalid.
std::string first_sizes(const Description& description);
// Functions and rules as data for `hekla plugin trace`.
std::string traced_functions(const Description& description);
std::string rule_table(const Description& description);
std::string rust_bindings(const Description& description);
std::string rust_name(const std::string& name); // quotes the words of the language
std::string rust_operations(const Description& description);
std::string zig_bindings(const Description& description);
std::string zig_operations(const Description& description);
std::string page(const Description& description, const Header& header);
std::string page_name(const Header& header); // "graph.md", "draft-adapter.md"
std::string operations_page(const std::vector<Operation>& operations);
std::string index_page(const Description& description);

// The layout for 64-bit pointers: every constant, struct, member, slot and function on a line.
std::string layout(const Description& description);
// The same of `headers`, which use the types of `basis`. `api` and `origin` are parts of the first lines.
std::string layout_of(const std::string& api, const std::string& origin, const std::vector<Header>& basis,
                      const std::vector<Header>& headers);
// Returns the incompatible changes from `golden` to `current`, one per line; empty if everything released is unchanged.
std::string broken(const std::string& golden, const std::string& current);
// C and C++ that compiles only where the headers of that API have this layout.
std::string asserts(const std::string& golden);
// The same for the Rust binding with the newest minor.
std::string rust_asserts(const std::string& golden);
// A library with a function for every struct, so that ABI tools see them all.
std::string anchor(const Description& description);

} // namespace hekla::abi
