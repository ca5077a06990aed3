// A recipe: one TOML file that describes a run. Its keys are the rows of recipe_keys.inc.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hekla::train {

using TextMap = std::map<std::string, std::string>;
// Column of the objective -> column of the files: a name, a number from 1, or (parallel) the number of a file.
struct ColumnMap : TextMap {};
// Texts by name, one or several.
struct TemplateMap : std::map<std::string, std::vector<std::string>> {};
using RateList = std::vector<std::pair<std::string, double>>; // pattern of names -> learning rate, longest first
using StepValues = std::vector<std::pair<int64_t, double>>;   // step from 1 -> value from there on, ascending
template<class Section>
using NamedSections = std::map<std::string, Section, std::less<>>;

// struct ModelSection { std::string architecture = ""; ... }, and so on for every section.
#define HK_RECIPE_SECTION(name, type, meaning) struct type {
#define HK_RECIPE_NAMED_SECTIONS(name, type, shorthand, meaning) struct type {
#define HK_RECIPE_KEY(type, key, fallback, resume, rule, meaning) type key = fallback;
#define HK_RECIPE_OTHER_KEYS(member, resume, meaning) nlohmann::json member = nlohmann::json::object();
#define HK_RECIPE_END(name)                                                                                            \
    }                                                                                                                  \
    ;
#include "train/recipe/recipe_keys.inc"

struct Recipe {
    std::filesystem::path file; // for messages; empty for a recipe created in memory
#define HK_RECIPE_SECTION(name, type, meaning) type name;
#define HK_RECIPE_NAMED_SECTIONS(name, type, shorthand, meaning) NamedSections<type> name;
#include "train/recipe/recipe_keys.inc"
};

// Whether rows of the training hold several examples.
inline bool packs_rows(const DataSection& data) { return data.packing == "rows"; }

} // namespace hekla::train
