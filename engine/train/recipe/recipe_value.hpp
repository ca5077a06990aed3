// The types of recipe keys: their names for users, and their values as TOML.
#pragma once

#include "train/recipe/recipe.hpp"

namespace hekla::train {

std::string quoted(const std::string& text); // as TOML

// Formats a value on one line, such that reading it gives the same value.
std::string toml_text(const std::string& value);
std::string toml_text(int64_t value);
std::string toml_text(double value);
std::string toml_text(bool value);
std::string toml_text(const std::optional<bool>& value); // "" if unset
std::string toml_text(const std::vector<std::string>& values);
std::string toml_text(const std::vector<int64_t>& values);
std::string toml_text(const TextMap& values);
std::string toml_text(const TemplateMap& values);
std::string toml_text(const RateList& values);
std::string toml_text(const StepValues& values);
std::string toml_text(const nlohmann::json& value);

// Returns the name of the type for users.
inline const char* type_text(const std::string&) { return "string"; }
inline const char* type_text(const int64_t&) { return "integer"; }
inline const char* type_text(const double&) { return "number"; }
inline const char* type_text(const bool&) { return "boolean"; }
inline const char* type_text(const std::optional<bool>&) { return "boolean"; }
inline const char* type_text(const std::vector<std::string>&) { return "string or array of strings"; }
inline const char* type_text(const std::vector<int64_t>&) { return "array of integers"; }
inline const char* type_text(const TextMap&) { return "table of strings"; }
inline const char* type_text(const ColumnMap&) { return "table, or array of names"; }
inline const char* type_text(const TemplateMap&) { return "table of strings or arrays of strings"; }
inline const char* type_text(const RateList&) { return "table of numbers"; }
inline const char* type_text(const StepValues&) { return "array of [step, number]"; }

template<class T>
bool is_empty(const T& value) {
    if constexpr (requires { value.has_value(); })
        return !value.has_value();
    else if constexpr (requires { value.empty(); })
        return value.empty();
    else
        return false;
}

} // namespace hekla::train
