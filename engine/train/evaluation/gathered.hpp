// What ranks have made of their parts of a list, put together.
#pragma once

#include "exchange/communicator.hpp"

#include <nlohmann/json.hpp>

namespace hekla::train {

// Returns the elements of every rank's array, by rank. All ranks call it. Strings need not be valid UTF-8.
Result<nlohmann::json> gathered(exchange::Communicator& ranks, const nlohmann::json& own);

} // namespace hekla::train
