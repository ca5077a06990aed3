// Creates a runtime when it is first needed, so that everything that can be checked without a device is checked before
// one is created.
#pragma once

#include "base/status.hpp"

#include <functional>
#include <memory_resource>

namespace hekla::program {

class Runtime;

class RuntimeSource {
public:
    using Create = std::function<Result<Runtime*>()>;

    // No device: the float64 interpreter is used.
    RuntimeSource() = default;
    // An existing runtime, which outlives this. Null: no device.
    RuntimeSource(Runtime* runtime);                             // NOLINT: a runtime is a source of itself
    RuntimeSource(Runtime& runtime) : RuntimeSource(&runtime) {} // NOLINT
    // `create` is called when the device is needed, and returns the same runtime on every call. `memory` is the memory
    // resource that the device will use for host memory.
    RuntimeSource(Create create, std::pmr::memory_resource* memory) : create_(std::move(create)), memory_(memory) {}

    bool has_device() const { return static_cast<bool>(create_); }
    // Returns null without a device. Errors: those of creating the device.
    Result<Runtime*> get() const { return create_ ? create_() : Result<Runtime*>(static_cast<Runtime*>(nullptr)); }
    std::pmr::memory_resource* host_memory() const { return memory_; }

private:
    Create create_;
    std::pmr::memory_resource* memory_ = std::pmr::new_delete_resource();
};

} // namespace hekla::program
