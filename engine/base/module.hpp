// Modules: parts of the engine that use third-party libraries. They are loaded when needed, hidden from other
// libraries, and the engine works without them.
#pragma once

#include "base/shared_library.hpp"
#include "base/status.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>

namespace hekla {

// Returns the folder of the program or library that contains this engine; empty if the system does not report it.
std::filesystem::path own_folder();

struct ModuleName {
    const char* file;  // "libhekla_glsl.so"
    const char* entry; // exported function that returns the interface of a version, or null
    uint32_t version;  // of the interface
    const char* what;  // "a shader compiler"; for the message about a file with another interface
    const char* lack;  // message if no file is usable: what is missing, and which features need it
};

// Loads `path`, or, if that is empty, name.file: from own_folder(), from own_folder()/../lib, then by the system's
// search. Takes the first for which `accept(entry)` returns true. Error: unsupported, with all attempts.
Result<SharedLibrary> open_library(const ModuleName& name, const std::filesystem::path& path,
                                   const std::function<bool(void* entry)>& accept);

// A loaded module, which stays in the process. Interface: a C struct that begins with its size, uint32_t struct_size.
template<class Interface>
class Module {
public:
    Module() = default; // none
    static Result<Module> open(const ModuleName& name, const std::filesystem::path& path = {}) {
        Module module;
        HK_ASSIGN(module.library_, open_library(name, path, [&](void* symbol) {
                      const auto entry = reinterpret_cast<const Interface* (*)(uint32_t version)>(symbol);
                      module.interface_ = entry(name.version);
                      return module.interface_ != nullptr && module.interface_->struct_size >= sizeof(Interface);
                  }));
        return module;
    }
    explicit operator bool() const { return static_cast<bool>(library_); }
    const Interface* operator->() const { return interface_; }

private:
    SharedLibrary library_;
    const Interface* interface_ = nullptr;
};

} // namespace hekla
