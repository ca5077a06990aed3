#include "harness/filter.hpp"

#include "base/trimmed.hpp"
#include "text/expression.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace hekla::harness {
namespace {

Result<std::string> match_of(const Filter& filter, const std::string& response) {
    HK_ASSIGN(const std::vector<std::string> matches, text::find_matches(filter.pattern, response));
    const auto count = static_cast<int64_t>(matches.size());
    const int64_t place = filter.group_select < 0 ? count + filter.group_select : filter.group_select;
    if (place < 0 || place >= count) return filter.fallback;
    return std::string(trimmed(matches[static_cast<std::size_t>(place)]));
}

std::string most_frequent(const std::vector<std::string>& responses) {
    return *std::ranges::max_element(responses, {},
                                     [&](const std::string& one) { return std::ranges::count(responses, one); });
}

} // namespace

Result<std::string> filtered(const FilterPipeline& pipeline, std::span<const std::string> responses) {
    std::vector<std::string> left(responses.begin(), responses.end());
    for (const Filter& step : pipeline.steps) {
        switch (step.function) {
        case Filter::Function::regex:
            for (std::string& one : left) { HK_ASSIGN(one, match_of(step, one)); }
            break;
        case Filter::Function::take_first: left.resize(1); break;
        case Filter::Function::majority_vote: left = {most_frequent(left)}; break;
        }
    }
    if (left.size() != 1)
        return invalid_argument(fmt::format("the filter '{}' leaves {} responses, expected one: end it with take_first "
                                            "or majority_vote",
                                            pipeline.name, left.size()));
    return std::move(left[0]);
}

} // namespace hekla::harness
