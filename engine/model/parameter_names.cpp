#include "model/parameter_names.hpp"

#include "base/name_pattern.hpp"
#include "base/nearest_name.hpp"
#include "model/stacked_tensors.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <unordered_map>

namespace hekla::model {
namespace {

constexpr std::size_t kShownProblems = 8;

std::string near_hint(std::string_view name, std::span<const std::string_view> candidates, std::string_view lead) {
    const std::string_view near = nearest_name(name, candidates);
    return near.empty() ? std::string() : fmt::format("; {} {}", lead, in_quotes(near));
}

void apply(const Rename& rule, std::string& name) {
    if (rule.from.empty()) return;
    if (rule.where == Rename::Where::prefix && name.starts_with(rule.from)) {
        name.replace(0, rule.from.size(), rule.to);
    } else if (rule.where == Rename::Where::suffix && name.ends_with(rule.from)) {
        name.replace(name.size() - rule.from.size(), rule.from.size(), rule.to);
    } else if (rule.where == Rename::Where::anywhere) {
        for (std::size_t at = 0; (at = name.find(rule.from, at)) != std::string::npos; at += rule.to.size())
            name.replace(at, rule.from.size(), rule.to);
    }
}

// Returns the parameter names that this tensor may have, most likely first.
std::vector<std::string> spellings(const std::string& stored, const NameRules& rules) {
    std::vector<std::string> all{stored};
    const auto add = [&all](std::string name) {
        if (std::find(all.begin(), all.end(), name) == all.end()) all.push_back(std::move(name));
    };
    // Added after each rule, because a later rule may be for another version of the model.
    const auto add_renamed = [&](std::string name, const std::string& before) {
        for (const Rename& rule : rules.renames) {
            apply(rule, name);
            add(before + name);
        }
    };
    // The prefix is also removed before the renames, so that a rule for the beginning of a name applies to both kinds
    // of file.
    add_renamed(stored, "");
    for (const std::string& prefix : rules.optional_prefixes) {
        if (stored.starts_with(prefix)) {
            add(stored.substr(prefix.size()));
            add_renamed(stored.substr(prefix.size()), "");
        }
        add(prefix + stored);
        add_renamed(prefix + stored, "");
        add_renamed(stored, prefix);
    }
    return all;
}

enum class Kind { floating, integer, boolean };
Kind kind_of(DType dtype) {
    if (dtype == DType::boolean) return Kind::boolean;
    return is_floating(dtype) ? Kind::floating : Kind::integer;
}

bool same_values(const TensorView& a, const TensorView& b) {
    return a.dtype == b.dtype && a.dims == b.dims &&
           std::ranges::equal(a.pieces(), b.pieces(), [](std::span<const std::byte> x, std::span<const std::byte> y) {
               return x.size() == y.size() && (x.empty() || std::memcmp(x.data(), y.data(), x.size()) == 0);
           });
}

bool any_matches(const std::vector<std::string>& patterns, std::string_view name) {
    return std::any_of(patterns.begin(), patterns.end(),
                       [&](const std::string& pattern) { return matches(pattern, name); });
}

class Resolver {
public:
    Resolver(std::span<const ParameterSpec> parameters, std::span<const TensorView> stored, const NameRules& rules)
        : parameters_(parameters), stored_(stored), rules_(rules) {
        result_.tensors.resize(parameters.size(), nullptr);
        for (std::size_t i = 0; i < parameters.size(); ++i) index_.emplace(parameters[i].name, i);
        for (const Tie& tie : rules.ties) ties_.emplace(tie.alias, tie.parameter);
    }

    Result<Resolution> run(const std::string& where) {
        HK_ASSIGN(StackedTensors stacks, stack_tensors(stored_, rules_.stacks, where));
        for (std::size_t i = 0; i < stored_.size(); ++i)
            if (!stacks.stacked[i]) claim(stored_[i]);
        for (const std::shared_ptr<const TensorView>& tensor : stacks.tensors) claim(*tensor);
        result_.stacked = std::move(stacks.tensors);
        for (const auto& [parameter, tensor] : aliases_) join_alias(parameter, *tensor);
        for (std::size_t i = 0; i < parameters_.size(); ++i) check(i);
        for (const TensorView* tensor : unexplained_) report_unexplained(*tensor);
        if (count_ != 0) return failure(where);
        return std::move(result_);
    }

private:
    // Exact spellings take precedence over aliases, aliases over patterns to ignore.
    void claim(const TensorView& tensor) {
        const std::vector<std::string> names = spellings(tensor.name, rules_);
        for (const std::string& name : names) {
            const auto found = index_.find(name);
            if (found == index_.end()) continue;
            const TensorView*& taken = result_.tensors[found->second];
            if (taken == nullptr)
                taken = &tensor;
            else
                problem(fmt::format("{} and {} both match the parameter {}", in_quotes(taken->name),
                                    in_quotes(tensor.name), in_quotes(name)));
            return;
        }
        for (const std::string& name : names) {
            const auto tie = ties_.find(name);
            if (tie == ties_.end()) continue;
            const auto found = index_.find(tie->second);
            if (found == index_.end()) continue;
            aliases_.emplace_back(found->second, &tensor);
            return;
        }
        for (const std::string& name : names) {
            if (!any_matches(rules_.ignorable, name)) continue;
            result_.ignored.push_back(tensor.name);
            return;
        }
        unexplained_.push_back(&tensor);
    }

    void join_alias(std::size_t parameter, const TensorView& tensor) {
        const TensorView*& taken = result_.tensors[parameter];
        if (taken == nullptr) {
            taken = &tensor;
            return;
        }
        if (same_values(*taken, tensor))
            result_.ignored.push_back(tensor.name);
        else
            problem(fmt::format("{} and {} hold different values, but the model ties them: one tensor was expected; "
                                "if the output layer is one of its own, set tie_word_embeddings = false in config.json",
                                in_quotes(taken->name), in_quotes(tensor.name)));
    }

    void check(std::size_t i) {
        const ParameterSpec& wanted = parameters_[i];
        const TensorView* found = result_.tensors[i];
        if (found == nullptr) {
            if (any_matches(rules_.may_be_missing, wanted.name)) {
                result_.missing.push_back(wanted.name);
                return;
            }
            if (count_ >= kShownProblems) return problem("");
            std::vector<std::string_view> free;
            for (const TensorView* tensor : unexplained_) free.push_back(tensor->name);
            return problem(fmt::format("missing {} {}{}", in_quotes(wanted.name), format_dims(wanted.dims),
                                       near_hint(wanted.name, free, "the file has")));
        }
        const std::string name = found->name == wanted.name ? in_quotes(found->name)
                                                            : in_quotes(found->name) + " for " + in_quotes(wanted.name);
        if (!found->parts.empty() && found->dims.size() == wanted.dims.size() && found->dims[0] != wanted.dims[0])
            problem(fmt::format("{} is stacked of {} stored tensors, {} were expected", name, found->dims[0],
                                wanted.dims[0]));
        else if (found->dims != wanted.dims && grown_axis(found->dims, wanted.dims, rules_.grown) < 0)
            problem(fmt::format("{} is {}, {} was expected", name, format_dims(found->dims), format_dims(wanted.dims)));
        else if (kind_of(found->dtype) != kind_of(wanted.dtype))
            problem(fmt::format("{} is stored as {}, which cannot be read as {}", name, name_of(found->dtype),
                                name_of(wanted.dtype)));
    }

    void report_unexplained(const TensorView& tensor) {
        if (count_ >= kShownProblems) return problem("");
        std::vector<std::string_view> names;
        for (const ParameterSpec& parameter : parameters_) names.push_back(parameter.name);
        problem(fmt::format("tensor {} {} matches no model parameter{}", in_quotes(tensor.name),
                            format_dims(tensor.dims), near_hint(tensor.name, names, "the nearest is")));
    }

    void problem(std::string text) {
        if (count_++ < kShownProblems) problems_.push_back(std::move(text));
    }

    Status failure(const std::string& where) const {
        if (count_ == 1) return invalid_argument(fmt::format("{}: {}", where, problems_.front()));
        std::string text = fmt::format("{}: {} tensors do not fit the model:", where, count_);
        for (const std::string& line : problems_) text += "\n  " + line;
        if (count_ > problems_.size()) text += fmt::format("\n  ... and {} more", count_ - problems_.size());
        return invalid_argument(std::move(text));
    }

    std::span<const ParameterSpec> parameters_;
    std::span<const TensorView> stored_;
    const NameRules& rules_;
    std::unordered_map<std::string, std::size_t> index_;
    std::unordered_map<std::string, std::string> ties_;
    std::vector<std::pair<std::size_t, const TensorView*>> aliases_;
    std::vector<const TensorView*> unexplained_;
    Resolution result_;
    std::vector<std::string> problems_;
    std::size_t count_ = 0;
};

} // namespace

Result<Resolution> resolve_names(std::span<const ParameterSpec> parameters, std::span<const TensorView> stored,
                                 const NameRules& rules, const std::string& where) {
    return Resolver(parameters, stored, rules).run(where);
}

int grown_axis(const std::vector<int64_t>& stored, const std::vector<int64_t>& wanted,
               const std::pair<int64_t, int64_t>& grown) {
    int axis = -1;
    if (stored.size() != wanted.size() || grown.first == grown.second) return -1;
    for (std::size_t i = 0; i < stored.size(); ++i) {
        if (stored[i] == wanted[i]) continue;
        if (axis >= 0 || stored[i] != grown.first || wanted[i] != grown.second) return -1;
        axis = static_cast<int>(i);
    }
    return axis;
}

Status missing_tensor(const std::string& where, std::string_view name, std::span<const TensorView> stored) {
    std::vector<std::string_view> names;
    for (const TensorView& tensor : stored) names.push_back(tensor.name);
    return not_found(
        fmt::format("{}: has no tensor {}{}", where, in_quotes(name), near_hint(name, names, "the nearest is")));
}

} // namespace hekla::model
