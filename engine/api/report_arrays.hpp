// The arrays that reports of hekla.h point to.
#pragma once

#include "hekla/hekla.h"
#include "train/report/step_record.hpp"

#include <deque>
#include <vector>

namespace hekla::api {

// Arrays of a report, valid as long as the object. Their names are those of what they are made of.
class ReportArrays {
public:
    const hk_score* of(const train::NamedValues& values);
    const hk_tap* of(const std::vector<train::TapStatistics>& taps);

private:
    std::deque<std::vector<hk_score>> scores_;
    std::vector<hk_tap> taps_;
};

} // namespace hekla::api
