// Fitted laws as JSON.
#pragma once

#include "base/status.hpp"
#include "scaling/fit.hpp"

#include <nlohmann/json.hpp>
#include <string>

namespace hekla::scaling {

// Returns a fit with all that predictions need: {"law", "without_embeddings", "constants": {NAME: {"value", "low",
// "high"}}, "objective", "cost", "fitted", "residuals", "resampled"}.
nlohmann::ordered_json fit_json(const Fit& fit);

// Reads it. where: the file, for the message. corrupt: anything else.
Result<Fit> fit_of_json(const nlohmann::json& json, const std::string& where);

} // namespace hekla::scaling
