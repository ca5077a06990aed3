#include "text/pipeline/section.hpp"

#include "base/utf8.hpp"
#include "text/files/tokenizer_json_parts.hpp"

#include <fmt/format.h>

namespace hekla::text {

Status Section::damaged(const std::string& what) const {
    return corrupt(fmt::format("{}: {} {}", *name_, place_, what));
}

Result<std::string> Section::type() const {
    if (!json_->is_object() || !member(*json_, "type").is_string()) return damaged("is not an object with a \"type\"");
    return member(*json_, "type").get<std::string>();
}

Status Section::refused(std::string_view what, std::string_view supported) const {
    constexpr std::size_t kLongest = 300; // a file can contain a name of any length
    std::size_t size = std::min(what.size(), kLongest);
    while (size < what.size() && (static_cast<unsigned char>(what[size]) & 0xC0u) == 0x80u) --size; // whole UTF-8
    return unsupported(fmt::format("{}: {} {}{}; supported: {}", *name_, place_, what.substr(0, size),
                                   size < what.size() ? "..." : "", supported));
}

Status Section::check_members(std::initializer_list<const char*> known) const {
    for (const auto& [key, value] : json_->items()) {
        if (key == "type" || value.is_null()) continue;
        bool found = false;
        std::string names;
        for (const char* one : known) {
            found = found || key == one;
            names += (names.empty() ? "" : ", ") + std::string(one);
        }
        if (!found)
            return refused(fmt::format("has the option {}", json_quote(key)), names.empty() ? "no options" : names);
    }
    return {};
}

Result<bool> Section::flag(const char* key, bool otherwise) const {
    return json_bool(*json_, key, otherwise, *name_ + ": " + place_);
}

Result<std::string> Section::text(const char* key, const std::string& otherwise) const {
    return json_string(*json_, key, otherwise, *name_ + ": " + place_);
}

Result<std::size_t> Section::count(const char* key, std::size_t otherwise) const {
    const Json& value = member(*json_, key);
    if (value.is_null()) return otherwise;
    if (!value.is_number_unsigned())
        return damaged(fmt::format("has \"{}\": {}, a count was expected", key, value.dump()));
    return static_cast<std::size_t>(value.get<uint64_t>());
}

Result<char32_t> Section::character(const char* key, char32_t otherwise) const {
    const Json& value = member(*json_, key);
    if (value.is_null()) return otherwise;
    const std::string text = value.is_string() ? value.get<std::string>() : std::string();
    if (text.empty() || first_code_point(text).size != text.size())
        return damaged(fmt::format("has \"{}\": {}, one character was expected", key, value.dump()));
    return first_code_point(text).value;
}

Result<Pattern> Section::pattern() const {
    const Json& pattern = member(*json_, "pattern");
    const Json& text = pattern.is_object() ? member(pattern, "String") : pattern;
    const Json& regex = pattern.is_object() ? member(pattern, "Regex") : pattern;
    if (!pattern.is_object() || pattern.size() != 1 || text.is_string() == regex.is_string())
        return damaged("has no \"pattern\": {\"String\": ...} or {\"Regex\": ...} was expected");
    if (text.is_string()) {
        if (text.get_ref<const std::string&>().empty()) return refused("has an empty \"pattern\"", "any other text");
        return Pattern::of_text(text.get<std::string>());
    }
    Result<Regex> compiled = Regex::compile(regex.get<std::string>());
    if (!compiled.ok()) return compiled.status().with_context(*name_ + ": " + place_);
    return Pattern::of_regex(compiled.take());
}

Result<std::vector<Section>> Section::steps(const char* list) const {
    std::vector<Section> out;
    if (is_null()) return out;
    // A file may nest sequences, up to the depth that the JSON reader accepts.
    HK_ASSIGN(const std::string kind, type());
    if (kind != "Sequence") {
        out.push_back(*this);
        return out;
    }
    HK_TRY(check_members({list}));
    const Json& steps = member(*json_, list);
    if (!steps.is_array()) return damaged(fmt::format("has no list \"{}\"", list));
    for (std::size_t i = 0; i < steps.size(); ++i) {
        HK_ASSIGN(std::vector<Section> inner,
                  Section(steps[i], fmt::format("{}.{}[{}]", place_, list, i), *name_).steps(list));
        if (steps[i].is_null()) return damaged(fmt::format("has no component in \"{}\"[{}]", list, i));
        out.insert(out.end(), inner.begin(), inner.end());
    }
    return out;
}

} // namespace hekla::text
