#include "train/recipe/recipe_reader.hpp"

#include "base/home_folder.hpp"
#include "base/nearest_name.hpp"
#include "data/text_template.hpp"
#include "train/recipe/foreign_keys.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::train {

using nlohmann::json;

const json& RecipeReader::section_of(const SectionInfo& info) {
    sections_.emplace_back(info.name);
    const auto found = root_.find(info.name);
    return found != root_.end() ? *found : none_;
}

void RecipeReader::begin(std::string name, const json& value, std::string_view shorthand) {
    const bool is_shorthand = !value.is_object() && !shorthand.empty();
    value_ = is_shorthand ? &value : nullptr;
    shorthand_ = shorthand;
    table_.emplace(is_shorthand ? none_ : value, reading_, std::move(name));
}

const json* RecipeReader::find(const KeyInfo& info) {
    if (value_ != nullptr && info.name == shorthand_) return value_;
    const auto found = table_->value().find(info.name);
    if (info.rule.plugins_integer && found != table_->value().end() && found->is_number()) return nullptr;
    return table_->find(info.name);
}

void RecipeReader::other_keys(const KeyInfo&, json& out) {
    for (const std::string& key : table_->unread()) out[key] = *table_->find(key);
}

void RecipeReader::refuse_other_keys() {
    for (const std::string& key : table_->unread())
        table_->refuse_key(key, advice_for_foreign_key(table_->path(), key));
}

Status RecipeReader::finish() {
    for (const auto& [name, value] : root_.items()) {
        if (std::ranges::find(sections_, name) != sections_.end()) continue;
        const std::string& place = reading_.place(value);
        if (const std::string advice = advice_for_foreign_key("", name); !advice.empty() && !value.is_object())
            return invalid_argument(fmt::format("{}: '{}' is not a key of a recipe{}", place, name, advice));
        const std::string_view near = nearest_name(name, sections_);
        return invalid_argument(fmt::format("{}: there is no section [{}]{}", place, name,
                                            near.empty() ? fmt::format(" (there are {})", fmt::join(sections_, ", "))
                                                         : fmt::format("; did you mean [{}]?", near)));
    }
    return reading_.status();
}

void RecipeReader::read(const json& value, const KeyInfo& info, std::string& out) {
    if (table_->take(value, info.name, out, info.rule.choices) && info.rule.is_path) out = from_home(out);
}

void RecipeReader::read(const json& value, const KeyInfo& info, bool& out) { table_->take(value, info.name, out); }

void RecipeReader::read(const json& value, const KeyInfo& info, std::optional<bool>& out) {
    table_->take(value, info.name, out.emplace());
}

void RecipeReader::read(const json& value, const KeyInfo& info, int64_t& out) {
    table_->take(value, info.name, out, {info.rule.low, info.rule.high});
}

void RecipeReader::read(const json& value, const KeyInfo& info, double& out) {
    table_->take(value, info.name, out, {info.rule.low, info.rule.high});
}

void RecipeReader::read(const json& value, const KeyInfo& info, std::vector<std::string>& out) {
    if (!value.is_string() && !value.is_array()) {
        table_->wrong(value, info.name, "a string or an array of strings");
        return;
    }
    out.clear();
    if (value.is_string())
        read(value, info, out.emplace_back());
    else if (table_->take(value, info.name, out, info.rule.choices) && info.rule.is_path)
        for (std::string& path : out) path = from_home(path);
}

void RecipeReader::read(const json& value, const KeyInfo& info, std::vector<int64_t>& out) {
    table_->take(value, info.name, out, {info.rule.low, info.rule.high});
}

void RecipeReader::read(const json& value, const KeyInfo& info, TextMap& out) {
    const std::string expected = fmt::format("a table of strings: {}", info.rule.example_text);
    if (!value.is_object()) table_->wrong(value, info.name, expected);
    out.clear();
    for (const auto& [name, text] : value.items())
        if (text.is_string())
            out[name] = text;
        else
            table_->wrong(text, info.name, expected);
}

void RecipeReader::read(const json& value, const KeyInfo& info, TemplateMap& out) {
    const std::string expected = fmt::format("a table of strings or arrays of strings: {}", info.rule.example_text);
    if (!value.is_object()) table_->wrong(value, info.name, expected);
    out.clear();
    for (const auto& [name, texts] : value.items()) {
        if (!texts.is_string() && (!texts.is_array() || texts.empty())) {
            table_->wrong(texts, info.name, expected);
            return;
        }
        read(texts, info, out[name]);
        for (const std::string& text : out[name])
            if (const auto parsed = data::TextTemplate::parse(text); !parsed.ok())
                table_->fail(texts, info.name, parsed.message());
    }
}

// Reads a table of names or numbers from 1, or an array of names, each for the column at its position ("" skips one).
void RecipeReader::read(const json& value, const KeyInfo& info, ColumnMap& out) {
    const std::string expected =
        fmt::format("an array of names, or a table of names or numbers: {}", info.rule.example_text);
    if (!value.is_array() && !value.is_object()) table_->wrong(value, info.name, expected);
    out.clear();
    std::size_t position = 0;
    for (const auto& [name, source] : value.items()) {
        ++position;
        if (value.is_array() && source == "") continue;
        if (value.is_array() && source.is_string())
            out[source.get<std::string>()] = fmt::format("{}", position);
        else if (value.is_object() && source.is_string())
            out[name] = source;
        else if (value.is_object() && source.is_number_integer() && source > 0)
            out[name] = source.dump();
        else
            table_->wrong(source, info.name, expected);
    }
}

// A table does not keep its order, so patterns are sorted, longest first.
void RecipeReader::read(const json& value, const KeyInfo& info, RateList& out) {
    if (!value.is_object())
        table_->wrong(value, info.name, fmt::format("a table of numbers: {}", info.rule.example_text));
    out.clear();
    for (const auto& [pattern, rate] : value.items()) {
        out.emplace_back(pattern, 0.0);
        read(rate, info, out.back().second);
    }
    std::ranges::stable_sort(out, [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
}

void RecipeReader::read(const json& value, const KeyInfo& info, StepValues& out) {
    const std::string expected = fmt::format("an array of pairs of a step and a number: {}", info.rule.example_text);
    if (!value.is_array()) table_->wrong(value, info.name, expected);
    out.clear();
    for (const auto& [index, pair] : value.items())
        if (pair.is_array() && pair.size() == 2 && pair[0].is_number_integer() && pair[1].is_number() &&
            std::isfinite(pair[1].get<double>()))
            out.emplace_back(pair[0], pair[1]);
        else
            table_->wrong(pair, info.name, expected);
}

} // namespace hekla::train
