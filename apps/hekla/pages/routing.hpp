// Pictures of how a combiner weighs adapters.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace hekla::app {

// Returns a part of an HTML page for what hk_evaluate_options.routing gets: the mean weights by site, and those of some
// rows by token. Empty for null.
std::string routing_section(const nlohmann::ordered_json& routing);

} // namespace hekla::app
