// Matches stored tensors with parameters: older spellings, optional prefixes, tensors to ignore, tied parameters. A
// tensor without a parameter, a missing one and a wrong shape are errors, each with the name.
#pragma once

#include "model/tensor.hpp"

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hekla::model {

// A spelling in files and the parameter's spelling: {suffix, ".gamma", ".weight"}.
struct Rename {
    enum class Where { prefix, suffix, anywhere };
    Where where = Where::suffix;
    std::string from;
    std::string to;
};

// `alias` is another name of `parameter`'s values (a decoder tied to the embedding). A file may contain either, or both
// if equal.
struct Tie {
    std::string alias;
    std::string parameter;
};

// An architecture's rules for names. Patterns are whole names in which '*' matches any characters, including dots.
struct NameRules {
    std::vector<Rename> renames; // each applied once to a file's name, in this order
    std::vector<std::string>
        optional_prefixes; // "transformer.": may be in the file and not in the parameter's name, or the reverse
    std::vector<std::string> ignorable; // in files, not parameters: "*.attn.bias"
    std::vector<Tie> ties;
    std::vector<std::string>
        may_be_missing; // parameters that a file need not contain: a head that will be trained from scratch
    // For a vocabulary that has grown: a stored tensor with `first` where the parameter has `second` along one axis is
    // accepted; the caller that loads it fills the rest.
    std::pair<int64_t, int64_t> grown{0, 0};
    std::vector<std::string> stacks{}; // patterns of stored tensors that are stacked (stacked_tensors.hpp)
};

// A parameter of a graph. A floating `dtype` accepts a tensor of any floating type, an integer one any integer type,
// bool only bool.
using ParameterSpec = TensorInfo;

struct Resolution {
    std::vector<const TensorView*> tensors; // one for each parameter, in order; null for one that is missing and may be
    std::vector<std::shared_ptr<const TensorView>> stacked; // those of `tensors` that are not in `stored`
    std::vector<std::string> missing;                       // their names
    std::vector<std::string> ignored;                       // tensors in the file that are not read
};

// Maps every parameter to a tensor of `stored`, or a stack of some (which must outlive the result). `where` begins the
// message: a line with the number of problems, then a line for each of the first few, with the nearest name if there is
// one.
Result<Resolution> resolve_names(std::span<const ParameterSpec> parameters, std::span<const TensorView> stored,
                                 const NameRules& rules, const std::string& where);

// Returns the axis along which `stored` differs from `wanted` only by the growth; -1: none.
int grown_axis(const std::vector<int64_t>& stored, const std::vector<int64_t>& wanted,
               const std::pair<int64_t, int64_t>& grown);

// Returns not_found: "path: has no tensor "x"; the nearest is "y"".
Status missing_tensor(const std::string& where, std::string_view name, std::span<const TensorView> stored);

} // namespace hekla::model
