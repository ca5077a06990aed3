# Additional sources of the room gpu: the quirk table as a string, and the run-time shader compiler's module.
set(quirks "${hekla_SOURCE_DIR}/engine/gpu/quirks.json")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${quirks}")
file(READ "${quirks}" quirks_text)
file(CONFIGURE OUTPUT "${hekla_BINARY_DIR}/generated/quirks_file.cpp" @ONLY CONTENT [[
// Generated from engine/gpu/quirks.json.
#include <string_view>
namespace hekla::gpu {
std::string_view quirks_file();
std::string_view quirks_file() { return R"quirks(@quirks_text@)quirks"; }
} // namespace hekla::gpu
]])
target_sources(hekla_gpu PRIVATE "${hekla_BINARY_DIR}/generated/quirks_file.cpp")

# shaderc, statically, in a shared library that exports one function. The distribution's libshaderc.so lacks its own
# dependencies; its static library works together with glslang's and SPIRV-Tools'.
find_path(HEKLA_INCLUDE_shaderc shaderc/shaderc.hpp)
set(shaderc_libraries)
foreach(name shaderc_combined glslang SPIRV MachineIndependent GenericCodeGen OGLCompiler OSDependent HLSL
             SPIRV-Tools-opt SPIRV-Tools)
  find_library(HEKLA_LIBRARY_${name} "lib${name}.a")
  if(HEKLA_LIBRARY_${name})
    list(APPEND shaderc_libraries "${HEKLA_LIBRARY_${name}}")
  endif()
endforeach()
if(HEKLA_INCLUDE_shaderc AND HEKLA_LIBRARY_shaderc_combined)
  add_library(hekla_glsl SHARED "${hekla_SOURCE_DIR}/engine/gpu/glsl_module/glsl_module.cpp")
  target_include_directories(hekla_glsl SYSTEM PRIVATE "${HEKLA_INCLUDE_shaderc}")
  find_package(Threads REQUIRED)
  target_link_libraries(hekla_glsl PRIVATE hekla_options -Wl,--start-group ${shaderc_libraries} -Wl,--end-group
                        Threads::Threads)
  target_link_options(hekla_glsl PRIVATE -Wl,--exclude-libs,ALL -Wl,--no-undefined $<$<CONFIG:Release>:-s>)
else()
  message(STATUS "libshaderc was not found: no run-time shader compiler is built; generated kernels run unfused")
endif()
