// The rules of the ABI about what plugins give (engine/plugin/abi.json), each checked in one place: the host refuses
// what breaks one, and a trace reports it with the text of the rule.
#pragma once

#include "hekla/plugin/objective.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hekla::plugin {

// A rule and what breaks it: "parameter 'w': dimension 1 is -1, ...".
struct BrokenRule {
    const char* rule;
    std::string what;
};
using Broken = std::optional<BrokenRule>;

// Each returns the first rule that is broken. what: the beginning of the message: "fill".
Broken broken_by_shape(std::string_view what, const int64_t* dims, uint32_t rank); // [graph.4]
Broken broken_by_name(std::string_view what, std::string_view name);               // [graph.5]
Broken broken_by_parameter(std::string_view name, const int64_t* dims, uint32_t rank, double first, double second,
                           uint32_t flags);
// values: null, or one for each element of the shape.
Broken broken_by_numbers(std::string_view what, const int64_t* dims, uint32_t rank, const double* values);
Broken broken_by_buffer(std::string_view name, const int64_t* dims, uint32_t rank, const double* values);
Broken broken_by_weight(double weight); // of a loss
Broken broken_by_field(const hk_field* field);
Broken broken_by_column(const hk_column_need* need);

} // namespace hekla::plugin
