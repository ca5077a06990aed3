// The kernels that a run was compiled with, and the fastest matrix product that was measured for it: kernels.json in
// its folder, and trainer_state.json in checkpoints. A start on the same device, driver and version uses the same
// kernels.
#pragma once

#include "base/status.hpp"

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace hekla::train {

using KernelChoices = std::map<std::string, std::string>; // by key

// Adds a line of Program::kernel_choices().
void add_choice(const std::string& line, KernelChoices& choices);

struct KernelRecord {
    nlohmann::json of;                // identity of device, driver and version
    std::vector<std::string> choices; // lines of Program::kernel_choices()
    double peak_flops = 0.0;          // per second; 0: not measured

    // Reads a file, or the record that rank 0 has sent; one without choices if it is missing, cannot be read or is of
    // another device, driver or version.
    static KernelRecord read(const std::filesystem::path& file, const nlohmann::json& identity);
    static KernelRecord from(const nlohmann::json& stored, const nlohmann::json& identity);
    nlohmann::json json() const;
    KernelChoices by_key() const;
};

inline constexpr const char* kKernelsFile = "kernels.json"; // in the run's folder

} // namespace hekla::train
