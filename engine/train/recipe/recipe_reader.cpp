#include "train/recipe/recipe_reader.hpp"

#include "base/home_folder.hpp"
#include "base/nearest_name.hpp"
#include "train/recipe/foreign_keys.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::train {
namespace {

const char* node_type(const toml::node& node) {
    if (node.is_string()) return "a string";
    if (node.is_integer()) return "an integer";
    if (node.is_floating_point()) return "a number";
    if (node.is_boolean()) return "a boolean";
    if (node.is_array()) return "an array";
    if (node.is_table()) return "a table";
    return "a date or time";
}

// Returns a number, also if it is written without a decimal point.
std::optional<double> number_of(const toml::node& node) {
    if (const auto* real = node.as_floating_point()) return real->get();
    if (const auto* integer = node.as_integer()) return static_cast<double>(integer->get());
    return std::nullopt;
}

// Returns the end of a message about a name that does not exist: the nearest of those that do, or all of them.
std::string nearest(const std::string& name, const std::vector<std::string>& names, const char* form,
                    const char* have) {
    const std::string_view near = nearest_name(name, std::span<const std::string>(names));
    return near.empty() ? fmt::format(" ({} {})", have, fmt::join(names, ", "))
                        : fmt::format("; did you mean {}?", fmt::format(fmt::runtime(form), near));
}

} // namespace

std::string place_of(const toml::node& node, const std::string& file) {
    const toml::source_region& source = node.source();
    if (source.path != nullptr && *source.path != file) return *source.path;
    if (source.begin.line > 0) return fmt::format("{}:{}", file, source.begin.line);
    // A section that an override created has no location, but its first key has.
    if (const toml::table* table = node.as_table(); table != nullptr && !table->empty())
        return place_of(table->begin()->second, file);
    return file;
}

std::string RecipeReader::full_name(std::string_view section, const std::string& name) {
    return fmt::format("{}.{}", section, name);
}

void RecipeReader::begin(std::string name, const toml::node* node) {
    name_ = std::move(name);
    known_.clear();
    value_ = nullptr;
    table_ = node != nullptr ? node->as_table() : nullptr;
    if (node != nullptr && table_ == nullptr)
        fail(*node, "", fmt::format("[{}] is {}, expected a table", name_, node_type(*node)));
}

void RecipeReader::begin_named(std::string name, const toml::node& node, std::string_view shorthand) {
    if (node.is_table() || shorthand.empty()) return begin(std::move(name), &node);
    begin(std::move(name), nullptr);
    value_ = &node;
    shorthand_ = shorthand;
}

const toml::node* RecipeReader::find(const KeyInfo& info) {
    const toml::node* node = table_ != nullptr ? table_->get(info.name) : nullptr;
    if (value_ != nullptr && info.name == shorthand_) node = value_;
    if (node != nullptr && info.rule.plugins_integer && node->is_number()) return nullptr;
    known_.emplace_back(info.name);
    return node;
}

void RecipeReader::other_keys(const KeyInfo&, nlohmann::json& out) {
    if (table_ == nullptr) return;
    for (const auto& [key, node] : *table_) {
        std::string name(key.str());
        if (std::ranges::find(known_, name) != known_.end()) continue;
        out[name] = json_of(node, name);
        known_.push_back(std::move(name));
    }
}

void RecipeReader::refuse_other_keys() {
    if (table_ == nullptr) return;
    for (const auto& [key, node] : *table_) {
        const std::string name(key.str());
        if (std::ranges::find(known_, name) != known_.end()) continue;
        std::string advice = advice_for_foreign_key(name_, name);
        if (advice.empty()) advice = nearest(name, known_, "'{}'", "it has");
        fail(node, "", fmt::format("[{}] has no key '{}'{}", name_, name, advice));
    }
}

Status RecipeReader::finish() {
    for (const auto& [key, node] : root_) {
        const std::string name(key.str());
        if (std::ranges::find(sections_, name) != sections_.end()) continue;
        if (const std::string advice = advice_for_foreign_key("", name); !advice.empty() && !node.is_table())
            return invalid_argument(
                fmt::format("{}: '{}' is not a key of a recipe{}", place_of(node, file_), name, advice));
        return invalid_argument(fmt::format("{}: there is no section [{}]{}", place_of(node, file_), name,
                                            nearest(name, sections_, "[{}]", "there are")));
    }
    return status_;
}

void RecipeReader::fail(const toml::node& node, std::string_view key, const std::string& what) {
    if (!status_.ok()) return;
    const std::string place = place_of(node, file_);
    status_ = invalid_argument(key.empty() ? fmt::format("{}: {}", place, what)
                                           : fmt::format("{}: {}.{}: {}", place, name_, key, what));
}

void RecipeReader::wrong(const toml::node& node, const KeyInfo& info, std::string_view expected) {
    fail(node, info.name, fmt::format("is {}, expected {}", node_type(node), expected));
}

void RecipeReader::read(const toml::node& node, const KeyInfo& info, std::string& out) {
    const auto* text = node.as_string();
    if (text == nullptr) return wrong(node, info, "a string");
    const std::vector<std::string>& choices = info.rule.choices;
    if (!choices.empty() && std::ranges::find(choices, text->get()) == choices.end())
        return fail(node, info.name, fmt::format("'{}' is not one of {}", text->get(), fmt::join(choices, ", ")));
    out = info.rule.is_path ? from_home(text->get()) : text->get();
}

void RecipeReader::read(const toml::node& node, const KeyInfo& info, bool& out) {
    const auto* value = node.as_boolean();
    if (value == nullptr) return wrong(node, info, "true or false");
    out = value->get();
}

void RecipeReader::read(const toml::node& node, const KeyInfo& info, std::optional<bool>& out) {
    bool value = false;
    read(node, info, value);
    out = value;
}

void RecipeReader::read(const toml::node& node, const KeyInfo& info, int64_t& out) {
    const auto* value = node.as_integer();
    if (value == nullptr) return wrong(node, info, "an integer");
    const auto real = static_cast<double>(value->get());
    if (real < info.rule.low || real > info.rule.high)
        return fail(node, info.name,
                    std::isfinite(info.rule.high)
                        ? fmt::format("{} is outside {} to {}", value->get(), info.rule.low, info.rule.high)
                        : fmt::format("{} is too small, expected {} or more", value->get(), info.rule.low));
    out = value->get();
}

void RecipeReader::read(const toml::node& node, const KeyInfo& info, double& out) {
    const std::optional<double> value = number_of(node);
    if (!value) return wrong(node, info, "a number");
    if (!std::isfinite(*value)) return fail(node, info.name, fmt::format("{} is not a finite number", *value));
    if (*value < info.rule.low || *value > info.rule.high)
        return fail(node, info.name,
                    std::isfinite(info.rule.high)
                        ? fmt::format("{} is outside {} to {}", *value, info.rule.low, info.rule.high)
                        : fmt::format("{} is too small, expected {} or more", *value, info.rule.low));
    out = *value;
}

void RecipeReader::read(const toml::node& node, const KeyInfo& info, std::vector<std::string>& out) {
    out.clear();
    if (node.is_string()) return read(node, info, out.emplace_back());
    const auto* array = node.as_array();
    if (array == nullptr) return wrong(node, info, "a string or an array of strings");
    for (const toml::node& element : *array) {
        if (!element.is_string()) return wrong(element, info, "an array of strings");
        read(element, info, out.emplace_back());
    }
}

void RecipeReader::read(const toml::node& node, const KeyInfo& info, std::vector<int64_t>& out) {
    const auto* array = node.as_array();
    if (array == nullptr) return wrong(node, info, "an array of integers");
    out.clear();
    for (const toml::node& element : *array) {
        const auto* number = element.as_integer();
        if (number == nullptr || static_cast<double>(number->get()) < info.rule.low)
            return fail(element, info.name, fmt::format("expected integers of {} or more", info.rule.low));
        out.push_back(number->get());
    }
}

void RecipeReader::read(const toml::node& node, const KeyInfo& info, TextMap& out) {
    const std::string expected = fmt::format("a table of strings: {}", info.rule.example_text);
    const auto* table = node.as_table();
    if (table == nullptr) return wrong(node, info, expected);
    out.clear();
    for (const auto& [name, value] : *table) {
        const auto* text = value.as_string();
        if (text == nullptr) return wrong(value, info, expected);
        out[std::string(name.str())] = text->get();
    }
}

void RecipeReader::read(const toml::node& node, const KeyInfo& info, TemplateMap& out) {
    const std::string expected = fmt::format("a table of strings or arrays of strings: {}", info.rule.example_text);
    const auto* table = node.as_table();
    if (table == nullptr) return wrong(node, info, expected);
    out.clear();
    for (const auto& [name, value] : *table) {
        std::vector<std::string>& texts = out[std::string(name.str())];
        if (!value.is_string() && (!value.is_array() || value.as_array()->empty())) return wrong(value, info, expected);
        read(value, info, texts);
        for (const std::string& text : texts)
            if (const auto parsed = data::TextTemplate::parse(text); !parsed.ok())
                return fail(value, info.name, parsed.message());
    }
}

// Reads a table of names or numbers from 1, or an array of names, each for the column at its position ("" skips one).
void RecipeReader::read(const toml::node& node, const KeyInfo& info, ColumnMap& out) {
    const std::string expected =
        fmt::format("an array of names, or a table of names or numbers: {}", info.rule.example_text);
    out.clear();
    if (const auto* array = node.as_array()) {
        for (std::size_t i = 0; i < array->size(); ++i) {
            const auto* name = (*array)[i].as_string();
            if (name == nullptr) return wrong((*array)[i], info, expected);
            if (!name->get().empty()) out[name->get()] = fmt::format("{}", i + 1);
        }
        return;
    }
    const auto* table = node.as_table();
    if (table == nullptr) return wrong(node, info, expected);
    for (const auto& [name, source] : *table) {
        const std::string column(name.str());
        if (const auto* text = source.as_string())
            out[column] = text->get();
        else if (const auto* number = source.as_integer(); number != nullptr && number->get() > 0)
            out[column] = fmt::format("{}", number->get());
        else
            return wrong(source, info, expected);
    }
}

// A table does not keep its order, so patterns are sorted, longest first.
void RecipeReader::read(const toml::node& node, const KeyInfo& info, RateList& out) {
    const auto* table = node.as_table();
    if (table == nullptr) return wrong(node, info, fmt::format("a table of numbers: {}", info.rule.example_text));
    out.clear();
    for (const auto& [pattern, rate] : *table) {
        double value = 0.0;
        read(rate, info, value);
        out.emplace_back(pattern.str(), value);
    }
    std::ranges::stable_sort(out, [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
}

void RecipeReader::read(const toml::node& node, const KeyInfo& info, StepValues& out) {
    const std::string expected = fmt::format("an array of pairs of a step and a number: {}", info.rule.example_text);
    const auto* array = node.as_array();
    if (array == nullptr) return wrong(node, info, expected);
    out.clear();
    for (const toml::node& element : *array) {
        const auto* pair = element.as_array();
        const auto* step = pair != nullptr && pair->size() == 2 ? (*pair)[0].as_integer() : nullptr;
        const std::optional<double> value = step != nullptr ? number_of((*pair)[1]) : std::nullopt;
        if (!value || !std::isfinite(*value)) return wrong(element, info, expected);
        out.emplace_back(step->get(), *value);
    }
}

nlohmann::json RecipeReader::json_of(const toml::node& node, std::string_view key) {
    using nlohmann::json;
    if (const auto* text = node.as_string()) return text->get();
    if (const auto* integer = node.as_integer()) return integer->get();
    if (const auto* real = node.as_floating_point()) return real->get();
    if (const auto* flag = node.as_boolean()) return flag->get();
    if (const auto* array = node.as_array()) {
        json result = json::array();
        for (const toml::node& element : *array) result.push_back(json_of(element, key));
        return result;
    }
    if (const auto* table = node.as_table()) {
        json result = json::object();
        for (const auto& [name, element] : *table) result[std::string(name.str())] = json_of(element, key);
        return result;
    }
    fail(node, key, "a date or time cannot be used here; write it as a string");
    return nullptr;
}

} // namespace hekla::train
