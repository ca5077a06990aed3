// Plugins' own operations, which are not in the table, as data. Their nodes (Op::own) hold a use, which is shared and
// never changes, so that passes can copy them like other nodes.
#pragma once

#include "graph/operation.hpp"

#include "base/status.hpp"

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace hekla::graph {

struct Attribute;
struct Graph;
struct Tensor;

// Computes the outputs in double precision. They have their kinds and shapes and are initialized to zeros.
using OwnReference = std::function<Status(std::span<const Tensor* const> inputs, std::span<const Attribute> attributes,
                                          std::span<Tensor> outputs)>;

// The constant part of a revision; hekla/plugin/operation.h documents the members.
struct OwnDeclaration {
    struct Input {
        std::string name;
        bool integer = false;
    };
    struct Attribute {
        std::string name;
        AttributeType type = AttributeType::integer;
        std::optional<AttributeValue> fallback = {};
    };
    std::string name; // "acme.swish_gate"
    uint32_t revision = 1;
    std::vector<Input> inputs;
    std::vector<Attribute> attributes;
    std::vector<std::string> outputs;
    uint32_t local_size = 0;
    std::string glsl; // or empty, with spirv
    std::vector<uint32_t> spirv;
    // Not part of the graph's text and hash:
    std::string glsl_file;
    uint32_t glsl_line = 0;
    OwnReference reference; // null in a graph that was read from text
};

class OwnOperation {
public:
    // Checks names, counts and the kernel (its text is not compiled). Errors name the operation.
    static Result<std::shared_ptr<const OwnOperation>> create(OwnDeclaration declaration);
    OwnOperation(const OwnOperation&) = delete;
    OwnOperation& operator=(const OwnOperation&) = delete;

    const OwnDeclaration& declaration() const { return declaration_; }
    const OperationInfo& info() const { return info_; } // as a row of the table; points into this
    std::string label() const;                          // "acme.swish_gate/1"
    bool same(const OwnOperation& other) const;         // in everything that is part of the graph's text

private:
    explicit OwnOperation(OwnDeclaration declaration);
    OwnDeclaration declaration_;
    OperationInfo info_;
};

// One use of an operation, for certain shapes.
struct OwnUse {
    std::shared_ptr<const OwnOperation> operation;
    std::vector<Shape> inputs;
    std::vector<std::pair<Kind, Shape>> outputs;
    int64_t invocations = 0;
    double flops = 0, bytes = 0;
    // See own_gradient.hpp. Null: the operation has no gradient.
    std::shared_ptr<const Graph> gradient;
};

// Checks counts, kinds, sizes and the cost of a use.
Status check_own_use(const OwnUse& use);

} // namespace hekla::graph
