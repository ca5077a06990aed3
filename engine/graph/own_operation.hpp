// Operations that are not of the table: a plugin's own, as data. A graph's node of one (Op::own) carries its use, which
// is shared and never changes, so that passes copy nodes without knowing more.
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

// Computes the outputs (of their kinds and shapes, full of zeros) in double precision.
using OwnReference = std::function<Status(std::span<const Tensor* const> inputs, std::span<const Attribute> attributes,
                                          std::span<Tensor> outputs)>;

// What never changes within a revision; hekla/plugin/operation.h says what each member means.
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
    // Of this process and these sources alone, not of the graph's text and hash:
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
    bool same(const OwnOperation& other) const;         // in all that the graph's text says

private:
    explicit OwnOperation(OwnDeclaration declaration);
    OwnDeclaration declaration_;
    OperationInfo info_;
};

// One use, for the shapes that it was described for.
struct OwnUse {
    std::shared_ptr<const OwnOperation> operation;
    std::vector<Shape> inputs;
    std::vector<std::pair<Kind, Shape>> outputs;
    int64_t invocations = 0;
    double flops = 0, bytes = 0;
    // Leaves are inputs "x.NAME", "y.NAME", "dy.NAME" of inputs, outputs and their gradients; outputs are "dx.NAME" of
    // those inputs that one reaches. Null: the operation has no gradient.
    std::shared_ptr<const Graph> gradient;
};

inline constexpr const char* kOwnInput = "x.";
inline constexpr const char* kOwnOutput = "y.";
inline constexpr const char* kOwnOutputGradient = "dy.";
inline constexpr const char* kOwnInputGradient = "dx.";

// Counts, kinds, sizes and the cost of a use.
Status check_own_use(const OwnUse& use);

// Whether a graph may be the gradient of this use: its leaves and outputs are those above, with these kinds and shapes,
// and it has nothing else that comes from outside, draws random numbers, or lives across steps.
Status check_own_gradient(const OwnUse& use, const Graph& gradient);

} // namespace hekla::graph
