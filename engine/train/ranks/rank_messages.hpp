// JSON objects that ranks tell each other. All ranks call a function of the same name together.
#pragma once

#include "base/status.hpp"
#include "exchange/communicator.hpp"

#include <functional>
#include <nlohmann/json.hpp>
#include <vector>

namespace hekla::train {

// From rank 0 to the others, where tell() does nothing; they call hear().
Status tell(exchange::Communicator& ranks, const nlohmann::json& message);
Result<nlohmann::json> hear(exchange::Communicator& ranks);
// Returns make() of rank 0 on all ranks. ranks: null for one alone.
Result<nlohmann::json> shared(exchange::Communicator* ranks, const std::function<Result<nlohmann::json>()>& make);
// Returns the messages of all ranks, by rank.
Result<std::vector<nlohmann::json>> gather_messages(exchange::Communicator& ranks, const nlohmann::json& own);

} // namespace hekla::train
