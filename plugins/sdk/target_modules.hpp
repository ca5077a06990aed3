// Which sites an adapter acts at, by PEFT's keys: target_modules, exclude_modules, layers_to_transform, layers_pattern.
// The host reads modules_to_save.
#pragma once

#include "adapter.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace hekla::plugin {

// Limits of lists and patterns in files of others: each is compared with each module, and nothing can interrupt that.
inline constexpr uint64_t kMostNames = 1 << 16, kMostPatterns = 1 << 12, kMostExpressions = 1 << 8;

inline uint64_t count_within(const Config& config, const std::string& key, uint64_t most) {
    const uint64_t count = config.count(key);
    if (count > most)
        throw invalid(key + " has " + std::to_string(count) + " members; expected " + std::to_string(most) +
                      " at most");
    return count;
}

inline std::vector<std::string> texts_of(const Config& config, const std::string& key) {
    std::vector<std::string> texts;
    for (uint64_t i = 0, count = count_within(config, key, kMostNames); i < count; ++i)
        texts.push_back(config.string(key + "." + std::to_string(i)));
    return texts;
}

// '*' in the pattern matches any text.
inline bool matches_pattern(std::string_view pattern, std::string_view name) {
    std::size_t p = 0, n = 0, star = std::string_view::npos, resume = 0;
    while (n < name.size()) {
        if (p < pattern.size() && pattern[p] == '*') {
            star = p++;
            resume = n;
        } else if (p < pattern.size() && pattern[p] == name[n]) {
            ++p;
            ++n;
        } else if (star != std::string_view::npos) { // the last star matches one more character
            p = star + 1;
            n = ++resume;
        } else {
            return false;
        }
    }
    return pattern.find_first_not_of('*', p) == std::string_view::npos;
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

// Returns the number that a text is as a whole.
inline std::optional<int64_t> number_in(std::string_view text) {
    int64_t number = 0;
    const auto [stop, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
    return problem == std::errc() && stop == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

// Returns the number of a module's layer: the number after `list`, eg: "layers"; if that is empty, the last number with
// parts before and after it, which is how PEFT finds it.
inline std::optional<int64_t> layer_of(std::string_view name, const std::vector<std::string>& lists) {
    std::optional<int64_t> found;
    std::string_view before;
    for (std::size_t at = 0; at <= name.size();) {
        const std::size_t end = std::min(name.find('.', at), name.size());
        const std::string_view part = name.substr(at, end - at);
        const bool counts =
            lists.empty() ? !before.empty() && end < name.size() : std::ranges::count(lists, before) > 0;
        if (const std::optional<int64_t> number = number_in(part); number && counts) found = number;
        before = part;
        at = end + 1;
    }
    return found;
}

// Modules that a key names: a list of names, or a regular expression for whole names.
class NamedModules {
public:
    NamedModules() = default;
    NamedModules(const Config& config, const std::string& key) {
        if (config.holds_members(key)) {
            names_ = texts_of(config, key);
            return;
        }
        expression_ = config.string(key);
        matches_expression(expression_, ""); // is refused here if it is none
    }
    bool contain(std::string_view name) const {
        return expression_.empty() ? names_module(names_, name) : matches_expression(expression_, name);
    }
    bool empty() const { return expression_.empty() && names_.empty(); }
    void write(ConfigWriter& out, const char* key) const {
        if (expression_.empty())
            out.set(key, names_);
        else
            out.set(key, expression_);
    }
    void write_or_null(ConfigWriter& out, const char* key) const {
        if (empty())
            out.set_null(key);
        else
            write(out, key);
    }

private:
    std::vector<std::string> names_;
    std::string expression_;
};

// Returns whether a text is a regular expression of letters, digits, '_', '-' and '.' alone, as names of modules are.
inline bool is_simple_expression(std::string_view text) {
    return std::ranges::all_of(text, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
               c == '.';
    });
}

// Returns whether a simple expression, whose '.' is any character, matches the end of a name from a dot on.
inline bool matches_end(std::string_view simple, std::string_view name) {
    if (simple.size() > name.size()) return false;
    const std::size_t from = name.size() - simple.size();
    if (from > 0 && name[from - 1] != '.') return false;
    return std::ranges::equal(simple, name.substr(from),
                              [](char wanted, char c) { return wanted == '.' || wanted == c; });
}

// Numbers by regular expressions for the ends of modules' names, from a dot on: rank_pattern and alpha_pattern.
template<class T>
class NumbersByModule {
public:
    NumbersByModule(const Config& config, const std::string& key) {
        uint64_t expressions = 0;
        if (config.has(key)) count_within(config, key, kMostPatterns);
        for (const std::string& name : members_of(config, key)) {
            std::string path = key;
            path += '.';
            path += name;
            if (!is_simple_expression(name)) {
                if (++expressions > kMostExpressions)
                    throw invalid(key + " has more than " + std::to_string(kMostExpressions) +
                                  " regular expressions; write the names of the modules");
                matches_expression(whole(name), "");
            }
            if constexpr (std::is_integral_v<T>)
                numbers_.emplace_back(name, config.integer(path));
            else
                numbers_.emplace_back(name, config.real(path));
        }
    }
    T of(std::string_view module, T otherwise) const {
        for (const auto& [name, number] : numbers_)
            if (is_simple_expression(name) ? matches_end(name, module) : matches_expression(whole(name), module))
                return number;
        return otherwise;
    }
    auto begin() const { return numbers_.begin(); }
    auto end() const { return numbers_.end(); }

private:
    static std::string whole(const std::string& expression) { return "(.*\\.)?(" + expression + ")"; }
    std::vector<std::pair<std::string, T>> numbers_;
};

class TargetModules {
public:
    explicit TargetModules(const Config& config) : excluded_(config, "exclude_modules") {
        if (!config.holds_members("target_modules") && config.string("target_modules") == "all-linear")
            all_linear_ = true;
        else
            targets_ = NamedModules(config, "target_modules");
        for (uint64_t i = 0, count = count_within(config, "layers_to_transform", kMostNames); i < count; ++i)
            layers_.push_back(config.integer("layers_to_transform." + std::to_string(i)));
        lists_ = texts_of(config, "layers_pattern");
        if (!lists_.empty() && layers_.empty()) throw invalid("layers_pattern needs layers_to_transform");
    }

    bool wants(const Site& site) const {
        if (excluded_.contain(site.name)) return false;
        if (all_linear_ ? !site.linear() || site.of_head : !targets_.contain(site.name)) return false;
        if (layers_.empty()) return true;
        const std::optional<int64_t> layer = layer_of(site.name, lists_);
        return layer && std::ranges::count(layers_, *layer) > 0;
    }

    void write(ConfigWriter& out) const {
        if (all_linear_)
            out.set("target_modules", "all-linear");
        else
            targets_.write(out, "target_modules");
        const auto set_or_null = [&](const char* key, const auto& list) {
            if (list.empty())
                out.set_null(key);
            else
                out.set(key, list);
        };
        excluded_.write_or_null(out, "exclude_modules");
        set_or_null("layers_to_transform", layers_);
        set_or_null("layers_pattern", lists_);
        out.set_null("modules_to_save"); // the host names those that there are
    }

private:
    NamedModules targets_, excluded_;
    std::vector<std::string> lists_;
    std::vector<int64_t> layers_;
    bool all_linear_ = false;
};

} // namespace hekla::plugin
