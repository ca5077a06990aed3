// The contents of engine/api/host_api.json: the C API for host programs, validated and in order.
#pragma once

#include "description.hpp"

namespace hekla::abi {

// A member of a struct, with its meaning. The text of its comment is composed of all of them.
struct HostMember {
    Variable is;
    std::string about;
    std::vector<std::string> lines; // paragraphs after the text; those that begin with "* " are items of a list
    std::string unit;               // "bytes"
    std::string nonzero;            // of a flag: what it does. There is no `about` then
    std::string zero;               // what 0 means
    std::string default_value;      // "128", "HK_DEVICE_OWN", "null"; empty: none
    std::string default_means;      // what the default means, where it is not 0
    std::string one_of;             // "HK_DEVICE_": the constants that it is one of
    bool may_be_null = false;
    std::string null, empty;    // what a null pointer or an empty string means
    std::string valid;          // "during the callback", "copied", "static"
    std::string required;       // what is expected of a member that must be set
    std::string refusal;        // message of a check, instead of the usual one; {} is the value
    std::string least, most;    // limits of a number
    std::string above;          // limit that the number is not equal to
    std::string count, lengths; // the member that counts the elements of an array; that with the lengths of its rows
    bool separate = false;      // an array that may be null although another one gives `count` elements
    bool setting = false;       // a setting of generation, under this name
    std::string since;          // the version that added it; empty: the first

    bool is_function() const { return !is.function.empty(); }
    std::string name() const { return is_function() ? is.function[0].name : is.name; }
    bool is_text() const { return is.type.base == "hk_string"; }
    bool is_text_array() const { return is_text() && is.type.pointers == 1 && !count.empty(); }
    bool is_reserved() const { return name().starts_with("reserved"); }
    bool is_flag() const { return !nonzero.empty(); }
};

enum class HostKind { note, constants, handle, pointer, structure, function };

struct HostItem {
    HostKind kind = HostKind::structure;
    std::string name; // of constants: their type
    std::string about;
    std::vector<Constant> constants;
    std::vector<HostMember> members; // of a struct, struct_size included; the type of a pointer
    bool is_sized = false;           // begins with struct_size
    bool by_host = false;            // the host fills it in, and the call that gets it checks it
    bool captured = false, relations = false;
    bool report = false; // filled from a struct of the engine with members of the same names
    // Only for functions.
    Function function;
    std::vector<std::string> may_be_null; // parameters
    std::string errors, valid, thread, since;

    const HostMember* find(const std::string& member) const;
};

struct HostHeader {
    std::string name;
    std::vector<std::string> about, includes; // see HostMember::lines; those that begin with four spaces are code
    std::vector<HostItem> items;
};

// A member of a struct of hekla/options.hpp: that of the C struct, or one with a declaration of its own.
struct CppMember {
    std::string declaration; // "int64_t length = 0"; empty: made of the C member
    std::string about;       // instead of the comment of the C member
    std::string member;      // of the C struct
    bool filled = true;      // copied into the C struct by fill(); otherwise by hand, in hekla.hpp
};
struct CppStruct {
    std::string name, of, about;
    std::vector<CppMember> members;
};

struct HostApi {
    std::string version;
    std::vector<HostHeader> headers;
    std::vector<CppStruct> cpp;

    const HostItem* find(const std::string& structure) const;
    // Returns the constants whose names begin with the prefix.
    std::vector<Constant> constants(const std::string& prefix) const;
};

// Throws std::runtime_error with the location of the error.
HostApi read_host_api(const std::filesystem::path& repository);

// The meaning of a member as a text, with or without what its default means.
std::string meaning(const HostItem& item, const HostMember& member, bool with_default = true);
// The contract of a function as a text.
std::string contract(const HostItem& function);

inline constexpr const char* kHostNotice =
    "// Made by tools/generate_abi from engine/api/host_api.json. Edit that instead.\n";

// The generators. Each returns the text of one file.
std::string host_header(const HostHeader& header);
std::string host_layout(const HostApi& api, const Description& plugins);
std::string host_page(const HostApi& api);
std::string host_cpp_options(const HostApi& api);
std::string host_call_fields(const HostApi& api);
std::string host_report_fields(const HostApi& api);
std::string host_checks_header(const HostApi& api);
std::string host_checks(const HostApi& api);
std::string host_defaults(const HostApi& api);

} // namespace hekla::abi
