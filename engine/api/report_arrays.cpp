#include "api/report_arrays.hpp"

#include "api/report_fields.hpp"

namespace hekla::api {

const hk_score* ReportArrays::of(const train::NamedValues& values) {
    std::vector<hk_score>& scores = scores_.emplace_back();
    for (const auto& [name, value] : values) scores.push_back({view(name), value});
    return scores.data();
}

const hk_tap* ReportArrays::of(const std::vector<train::TapStatistics>& taps) {
    for (const train::TapStatistics& one : taps) fill(taps_.emplace_back(), one);
    return taps_.data();
}

} // namespace hekla::api
