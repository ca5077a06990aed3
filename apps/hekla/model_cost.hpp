// The memory and operations of a pass and of a training step, planned before anything runs.
#pragma once

#include "described.hpp"

#include <filesystem>
#include <optional>

namespace hekla::app {

class DeviceOnDemand;

struct ModelCost {
    int64_t parameters = 0;
    int64_t batch = 0, length = 0;
    Planned inference;
    std::optional<Planned> training; // if the model's class has an objective

    double tokens() const { return static_cast<double>(batch * length); }
    std::string text() const;
    nlohmann::ordered_json json() const;
};

// The device is created when the model is described.
Result<ModelCost> cost_of(DeviceOnDemand& device, const plugin::Registry& registry, const std::filesystem::path& folder,
                          int64_t batch, int64_t length, const Log& log);

} // namespace hekla::app
