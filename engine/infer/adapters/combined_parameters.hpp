// The parameters of what combines adapters, of which some are computed from the adapters' own: the prototypes of Arrow.
#pragma once

#include "graph/graph.hpp"
#include "model/weights.hpp"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace hekla::infer {

// Returns whether a parameter belongs to what combines adapters.
bool is_of_combiner(const std::string& parameter);

// Checks that no parameter of the combination `how` is trained, so that the adapters' folders are enough to use it, and
// that it acts on all rows. Error: unsupported, with the parameter's name.
Status check_combined(const graph::Graph& described, const std::string& how);

// Evaluates in float64 the initial values that plugins describe by other parameters. described: with
// plugin::BuildRequest::initial. stored: the parameters that are known. wanted: which values to compute. advice: for
// messages, what they need. give: called with each. Errors: a value depends on a parameter that is not stored, or is
// not finite; those of `give`.
Status compute_initial(const graph::Graph& described, const std::map<std::string, const model::TensorView*>& stored,
                       const std::function<bool(const std::string&)>& wanted, const std::string& advice,
                       const std::function<Status(const std::string&, std::vector<float>)>& give);

} // namespace hekla::infer
