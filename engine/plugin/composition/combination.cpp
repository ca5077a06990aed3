#include "plugin/composition/combination.hpp"

#include "base/nearest_name.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hekla::plugin {
namespace {

constexpr std::string_view kCombine = "combine";
constexpr int kDeepest = 8;

bool in_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

class Parser {
public:
    Parser(std::string_view text, std::span<const std::string> names) : text_(text), names_(names) {}

    Result<Combination> whole() {
        Combination all;
        HK_TRY(part(all, std::string(kCombine), 0));
        skip_spaces();
        if (at_ < text_.size()) return fail(fmt::format("unexpected '{}'", text_.substr(at_, 8)));
        for (std::size_t i = 0; i < names_.size(); ++i)
            if (std::ranges::find(used_, i) == used_.end())
                return invalid_argument(
                    fmt::format("'{}': the adapter '{}' is not used; add it, or remove the adapter", text_, names_[i]));
        return all;
    }

private:
    Status fail(const std::string& problem) const {
        return invalid_argument(fmt::format("'{}', character {}: {}", text_, at_ + 1, problem));
    }
    void skip_spaces() {
        while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
    }
    bool take(char c) {
        skip_spaces();
        if (at_ >= text_.size() || text_[at_] != c) return false;
        ++at_;
        return true;
    }
    Status part(Combination& into, std::string place, int depth) {
        skip_spaces();
        const std::size_t first = at_;
        while (at_ < text_.size() && in_name(text_[at_])) ++at_;
        const std::string name(text_.substr(first, at_ - first));
        if (name.empty()) return fail("expected the name of an adapter or of a combiner");
        into.place = std::move(place);
        if (!take('(')) {
            const auto found = std::ranges::find(names_, name);
            at_ = first;
            if (found == names_.end()) {
                const std::string_view near = nearest_name(name, names_);
                return fail(fmt::format("'{}' is not an adapter{}; the adapters are {}", name,
                                        near.empty() ? "" : fmt::format(", did you mean '{}'?", near),
                                        fmt::join(names_, ", ")));
            }
            into.adapter = static_cast<std::size_t>(found - names_.begin());
            if (std::ranges::find(used_, into.adapter) != used_.end())
                return fail(fmt::format("the adapter '{}' is used twice", name));
            used_.push_back(into.adapter);
            into.text = name;
            at_ = first + name.size();
            return {};
        }
        if (depth >= kDeepest) return fail(fmt::format("more than {} combiners inside each other", kDeepest));
        into.combiner = name == "fuse" ? "fusion" : name;
        into.text = name + "(";
        do {
            Combination& next = into.parts.emplace_back();
            HK_TRY(part(next, fmt::format("{}.{}", into.place, into.parts.size() - 1), depth + 1));
            into.text += (into.parts.size() > 1 ? "," : "") + next.text;
        } while (take(','));
        if (!take(')')) return fail("expected ',' or ')'");
        into.text += ")";
        return {};
    }

    std::string_view text_;
    std::span<const std::string> names_;
    std::size_t at_ = 0;
    std::vector<std::size_t> used_;
};

void add_combiners(const Combination& from, std::vector<std::string>& ids) {
    if (!from.is_adapter() && from.combiner != kStack && std::ranges::find(ids, from.combiner) == ids.end())
        ids.push_back(from.combiner);
    for (const Combination& part : from.parts) add_combiners(part, ids);
}

} // namespace

std::vector<std::string> Combination::combiners() const {
    std::vector<std::string> ids;
    add_combiners(*this, ids);
    return ids;
}

Result<Combination> parse_combination(std::string_view text, std::span<const std::string> names) {
    constexpr std::size_t kLongest = 4096;
    if (text.size() > kLongest)
        return invalid_argument(fmt::format("has {} characters, expected {} or fewer", text.size(), kLongest));
    return Parser(text, names).whole();
}

Status check_adapter_name(std::string_view name) {
    if (!name.empty() && name != kCombine && std::ranges::all_of(name, in_name)) return {};
    return invalid_argument(fmt::format(
        "'{}' is not the name of an adapter: expected letters, digits, '_' and '-', and another name than \"{}\"", name,
        kCombine));
}

} // namespace hekla::plugin
