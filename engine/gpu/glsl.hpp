// GLSL at run time: generated pointwise kernels and plugins' own operations. The compiler is a module of its own,
// libhekla_glsl.so, opened (privately) only when a text is not in the cache; the engine works without it.
#pragma once

#include "base/cache.hpp"
#include "base/log.hpp"
#include "base/module.hpp"
#include "gpu/shader.hpp"

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>

struct HeklaGlslInterface;

namespace hekla::gpu {

struct GlslOptions {
    Log log;
    std::filesystem::path module; // empty: libhekla_glsl.so next to this binary or library, then as dlopen finds it
    std::shared_ptr<Cache> cache; // null: none
    bool optimize = true;         // spirv-opt; off for cooperative-matrix and bfloat16 shaders
};

// Thread: any.
class GlslCompiler {
public:
    explicit GlslCompiler(GlslOptions options) : options_(std::move(options)) {}
    GlslCompiler(const GlslCompiler&) = delete;
    GlslCompiler& operator=(const GlslCompiler&) = delete;

    // Opens the module if it is not yet; unsupported, with the reason, where there is none.
    Status available();

    // A compute shader, #version and all (no #include), to SPIR-V 1.5. A file of the cache is taken when its hashes
    // match, otherwise written again. invalid_argument carries the compiler's messages.
    Result<Shader> compile(const std::string& name, const std::string& source);

private:
    GlslOptions options_;
    std::mutex mutex_;
    Module<HeklaGlslInterface> module_; // none until it is needed
};

} // namespace hekla::gpu
