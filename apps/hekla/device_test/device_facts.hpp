// What a report has about the device: name, driver, versions, features and limits; nothing about the machine.
#pragma once

#include "report/report_file.hpp"
#include "stages.hpp"

namespace hekla::gpu {
struct Capabilities;
}

namespace hekla::app {

std::string version_text(uint32_t version); // of Vulkan: "1.3.280"
report::Line facts_of(const gpu::Capabilities& device);

// The stage "device": lists what the loader finds, and creates the device. Its result has "devices", and "device" if
// one can be used.
Result<StageOutcome> device_stage(const StageInput& input);

// Returns the storages that a model can be trained in on this device.
std::vector<program::Storage> precisions_of(const program::Runtime& runtime);

// Returns the runtime of a stage, without a message for a CPU.
Result<std::unique_ptr<program::Runtime>> stage_runtime(const StageInput& input, program::RuntimeOptions options = {});

} // namespace hekla::app
