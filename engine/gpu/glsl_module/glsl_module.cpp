// libhekla_glsl: shaderc with a C interface of one function, in a separate module, so that its symbols and its size are
// not in the engine and a machine without it runs everything that is compiled at build time.
#include "gpu/glsl_module.h"

#include <shaderc/shaderc.hpp>

#include <exception>
#include <string>

namespace {

void say(const HeklaGlslResult* result, const std::string& text) {
    if (!text.empty()) result->message(result->user, text.data(), text.size());
}

int32_t compile(const char* source, size_t size, const char* name, int32_t optimize, const HeklaGlslResult* result) {
    try {
        const shaderc::Compiler compiler;
        shaderc::CompileOptions options;
        options.SetTargetEnvironment(shaderc_target_env_vulkan, shaderc_env_version_vulkan_1_2);
        options.SetTargetSpirv(shaderc_spirv_version_1_5);
        options.SetOptimizationLevel(optimize ? shaderc_optimization_level_performance
                                              : shaderc_optimization_level_zero);
        const shaderc::SpvCompilationResult compiled =
            compiler.CompileGlslToSpv(source, size, shaderc_compute_shader, name, options);
        say(result, compiled.GetErrorMessage());
        if (compiled.GetCompilationStatus() != shaderc_compilation_status_success) return 0;
        result->words(result->user, compiled.cbegin(), static_cast<size_t>(compiled.cend() - compiled.cbegin()));
        return 1;
    } catch (const std::exception& error) { say(result, error.what()); } catch (...) {
        say(result, "the compiler failed without saying why");
    }
    return 0;
}

constexpr HeklaGlslInterface kInterface1{sizeof(HeklaGlslInterface), HEKLA_GLSL_VERSION, compile};

} // namespace

extern "C" __attribute__((visibility("default"))) const HeklaGlslInterface* hekla_glsl_interface(uint32_t version) {
    return version == HEKLA_GLSL_VERSION ? &kInterface1 : nullptr;
}
