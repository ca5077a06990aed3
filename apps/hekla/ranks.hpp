// Trains on several devices: one rank per device, each a thread with a context of its own.
#pragma once

#include "command.hpp"
#include "slow_link.hpp"
#include "training_progress.hpp"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace hekla::app {

// Returns the devices that --devices names: "0,2", or "all" (every usable device; CPU drivers only if there is nothing
// else). Errors: a number without a device, with the devices that there are.
Result<std::vector<std::string>> named_devices(const Globals& globals, const std::string& devices);

// Trains with a device for each of these communicators. The first reports to `progress` on this thread. Returns as
// train_once(); MpiJob::kTold where rank 0 is not among them and they were only told of an error.
int train_ranks(const Globals& globals, const std::vector<std::string>& devices,
                std::span<const hk_communicator* const> communicators, const hk_train_options& options,
                Progress& progress, hk_train_result& result);

// The same with threads of this process alone. link: exchanges take as long as over that.
int train_on(const Globals& globals, const std::vector<std::string>& devices, const std::optional<Link>& link,
             const hk_train_options& options, Progress& progress, hk_train_result& result);

} // namespace hekla::app
