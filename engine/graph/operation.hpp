// The table of operations: their names, inputs, attributes and outputs. Generated from operations.json, which documents
// their meaning.
#pragma once

#include "graph/shape.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace hekla::graph {

enum class Op : uint16_t {
#define HK_OPERATION(name) name,
#include "graph/operation_table.inc"
};

enum class InputKind : uint8_t { any, floating, integer };
enum class AttributeType : int32_t { integer = 0, real = 1, text = 2, ints = 3, reals = 4 }; // the ABI's HK_ATTRIBUTE_*

using AttributeVariant = std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>>;
// Copies by assignment: if an allocation fails, the variant's copy constructor of libstdc++ 12 destroys a member that
// was not constructed. Replace it by the plain std::variant when libstdc++ 13 is the oldest supported one.
class AttributeValue : public AttributeVariant {
public:
    using AttributeVariant::AttributeVariant;
    using AttributeVariant::operator=;
    AttributeValue() = default;
    // NOLINTNEXTLINE(bugprone-copy-constructor-init): see above
    AttributeValue(const AttributeValue& other) : AttributeVariant() { AttributeVariant::operator=(other); }
    AttributeValue(AttributeValue&&) noexcept = default;
    AttributeValue& operator=(const AttributeValue&) = default;
    AttributeValue& operator=(AttributeValue&&) noexcept = default;
    ~AttributeValue() = default;
};

struct InputInfo {
    const char* name;
    InputKind kind;
    bool optional;
    bool variadic;
    uint32_t revision = 1; // of the operation, that added it
};
struct AttributeInfo {
    const char* name;
    AttributeType type;
    std::optional<AttributeValue> fallback; // default; none: the attribute is required
    uint32_t revision = 1;                  // of the operation, that added it
};
struct OutputInfo {
    const char* name;
    bool hidden; // for the engine's gradients only
};
struct OperationInfo {
    Op op;
    const char* name;
    uint32_t revision;
    uint32_t since; // the minor version of the ABI that added it
    bool internal;  // created by the engine only; refused from plugins
    std::vector<InputInfo> inputs;
    std::vector<AttributeInfo> attributes;
    std::vector<OutputInfo> outputs;
};

const std::vector<OperationInfo>& operation_table();
const OperationInfo& info(Op op);
const OperationInfo* find_operation(std::string_view name); // null if unknown
// Returns the minor version of the ABI that has this revision first.
uint32_t since_of(const OperationInfo& operation, uint32_t revision);

// Values of the attribute `relation` of compare.
enum class Relation : int64_t { equal = 0, not_equal = 1, less = 2, less_equal = 3, greater = 4, greater_equal = 5 };

bool is_pointwise(Op op); // computes each element from the elements at the same index, after broadcasting
bool is_leaf(Op op);

} // namespace hekla::graph
