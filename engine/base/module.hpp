// Modules: parts of the engine that stand on libraries of others, opened (privately) when they are needed. The engine
// works without them.
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>

namespace hekla {

// Where the program or library lies that this engine is part of; empty where the system does not say.
std::filesystem::path own_folder();

struct ModuleName {
    const char* file;  // "libhekla_glsl.so"
    const char* entry; // its function that gives the interface of a version, or null
    uint32_t version;
    const char* what; // "a shader compiler": what a file with another interface is not
    const char* lack; // what is said where no file serves: what it is and who needs it
};

struct CloseLibrary {
    void operator()(void* library) const;
};
using OpenLibrary = std::unique_ptr<void, CloseLibrary>;

// Opens `path`, or, where that is empty, name.file: beside this binary or library, in lib/ beside its folder, then as
// dlopen finds it. The first is taken whose `accept(entry)` says so. Error: unsupported, with all that was tried.
Result<OpenLibrary> open_library(const ModuleName& name, const std::filesystem::path& path,
                                 const std::function<bool(void* entry)>& accept);

// A module; what was opened once stays in the process. Interface: a C struct that begins with its size, uint32_t
// struct_size.
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
    explicit operator bool() const { return library_ != nullptr; }
    const Interface* operator->() const { return interface_; }

private:
    OpenLibrary library_;
    const Interface* interface_ = nullptr;
};

} // namespace hekla
