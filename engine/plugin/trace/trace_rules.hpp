// Checks of arguments that both directions of a trace share. Violations are reported, and the call continues.
#pragma once

#include "plugin/host/argument_rules.hpp"
#include "plugin/trace/trace_log.hpp"

#include "hekla/plugin/operation.h"

namespace hekla::plugin::trace {

void report(const Broken& broken);
void check_text(hk_string s);
template<class T>
void check_text(const T&) {}

// Returns the state of a builder in use. Reports a violation and returns null if its build call has ended.
BuilderState* state_of(const hk_builder* builder, std::string_view function);
void check_value(const BuilderState& state, hk_value value, std::string_view function);
void check_not_in_gradient(const BuilderState& state, const char* function);

// Returns the local size of the description; 0 if the description is invalid.
uint32_t check_description(const hk_operation_description* description);

} // namespace hekla::plugin::trace
