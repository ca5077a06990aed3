// GLSL at run time: generated pointwise kernels and plugins' own operations. The compiler is a separate module,
// libhekla_glsl.so, opened with RTLD_LOCAL only when a text is not in the cache; the engine works without it.
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
    std::filesystem::path module; // empty: libhekla_glsl.so next to this binary or library, then by dlopen's search
    std::shared_ptr<Cache> cache; // null: none
    bool optimize = true;         // spirv-opt
};

// A compiler from GLSL to SPIR-V. Thread: any.
class GlslCompiler {
public:
    explicit GlslCompiler(GlslOptions options) : options_(std::move(options)) {}
    GlslCompiler(const GlslCompiler&) = delete;
    GlslCompiler& operator=(const GlslCompiler&) = delete;

    // Opens the module if needed; unsupported, with the reason, if it does not exist.
    Status available();

    // Compiles a complete compute shader, including #version (no #include), to SPIR-V 1.5. A cached file is used if its
    // hashes match, otherwise it is rewritten. A line `//! no-optimizer` in the source leaves out spirv-opt.
    // invalid_argument contains the compiler's messages.
    Result<Shader> compile(const std::string& name, const std::string& source);

private:
    GlslOptions options_;
    std::mutex mutex_;
    Module<HeklaGlslInterface> module_; // opened when needed
};

} // namespace hekla::gpu
