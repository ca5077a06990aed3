// Which sites an adapter acts at, by PEFT's keys: target_modules, exclude_modules, layers_to_transform, layers_pattern;
// and which are saved whole: modules_to_save.
#pragma once

#include "draft_adapter.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hekla::plugin {

inline std::vector<std::string> texts_of(const Config& config, const std::string& key) {
    std::vector<std::string> texts;
    for (uint64_t i = 0; i < config.count(key); ++i) texts.push_back(config.string(key + "." + std::to_string(i)));
    return texts;
}

// '*' in the pattern matches any text.
inline bool matches_pattern(std::string_view pattern, std::string_view name) {
    const std::size_t star = pattern.find('*');
    if (star == std::string_view::npos) return pattern == name;
    if (name.substr(0, star) != pattern.substr(0, star)) return false;
    const std::string_view rest = pattern.substr(star + 1);
    for (std::size_t at = star; at <= name.size(); ++at)
        if (matches_pattern(rest, name.substr(at))) return true;
    return false;
}

// Returns whether a module is meant by one of these: a pattern with '*' for the whole name, or the end of the name from
// a dot on ("q_proj", "self_attn.q_proj").
inline bool names_module(const std::vector<std::string>& wanted, std::string_view name) {
    return std::ranges::any_of(wanted, [&](std::string_view one) {
        if (one.find('*') != std::string_view::npos) return matches_pattern(one, name);
        return name == one ||
               (name.size() > one.size() && name.ends_with(one) && name[name.size() - one.size() - 1] == '.');
    });
}

// Returns the number of a module's layer: the number after `list`, eg: "layers"; if that is empty, the last number with
// parts before and after it, which is how PEFT finds it.
inline std::optional<int64_t> layer_of(std::string_view name, const std::vector<std::string>& lists) {
    std::optional<int64_t> found;
    std::string_view before;
    for (std::size_t at = 0; at <= name.size();) {
        const std::size_t end = std::min(name.find('.', at), name.size());
        const std::string_view part = name.substr(at, end - at);
        int64_t number = 0;
        const auto [stop, problem] = std::from_chars(part.data(), part.data() + part.size(), number);
        const bool is_number = problem == std::errc() && stop == part.data() + part.size() && !part.empty();
        const bool counts =
            lists.empty() ? !before.empty() && end < name.size() : std::ranges::count(lists, before) > 0;
        if (is_number && counts) found = number;
        before = part;
        at = end + 1;
    }
    return found;
}

class TargetModules {
public:
    explicit TargetModules(const Config& config) {
        if (config.holds_members("target_modules"))
            targets_ = texts_of(config, "target_modules");
        else if (config.string("target_modules") == "all-linear")
            all_linear_ = true;
        else
            throw invalid("target_modules is '" + config.string("target_modules") +
                          "'; expected a list of names of modules, eg: [\"q_proj\", \"v_proj\"], or \"all-linear\"");
        excluded_ = texts_of(config, "exclude_modules");
        for (uint64_t i = 0; i < config.count("layers_to_transform"); ++i)
            layers_.push_back(config.integer("layers_to_transform." + std::to_string(i)));
        lists_ = texts_of(config, "layers_pattern");
        saved_ = texts_of(config, "modules_to_save"); // the host trains and saves these
        if (!lists_.empty() && layers_.empty()) throw invalid("layers_pattern needs layers_to_transform");
    }

    bool wants(const Site& site) const {
        if (names_module(excluded_, site.name)) return false;
        if (all_linear_ ? !site.linear() || site.of_head : !names_module(targets_, site.name)) return false;
        if (layers_.empty()) return true;
        const std::optional<int64_t> layer = layer_of(site.name, lists_);
        return layer && std::ranges::count(layers_, *layer) > 0;
    }

    void write(ConfigWriter& out) const {
        if (all_linear_)
            out.set("target_modules", "all-linear");
        else
            out.set("target_modules", targets_);
        const auto set_or_null = [&](const char* key, const auto& list) {
            if (list.empty())
                out.set_null(key);
            else
                out.set(key, list);
        };
        set_or_null("exclude_modules", excluded_);
        set_or_null("layers_to_transform", layers_);
        set_or_null("layers_pattern", lists_);
        set_or_null("modules_to_save", saved_);
    }

private:
    std::vector<std::string> targets_, excluded_, lists_, saved_;
    std::vector<int64_t> layers_;
    bool all_linear_ = false;
};

} // namespace hekla::plugin
