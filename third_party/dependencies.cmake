# Finds every library the project uses and gives each one target, hekla::NAME or the library's own.
# `third_party/install` installs them; licenses are in third_party/LICENSES.md. Nothing is vendored and the build
# downloads nothing.

function(hekla_not_found what)
  message(FATAL_ERROR "${what} was not found: run third_party/install, or install the package that holds it and tell "
                      "CMake where it is with -DCMAKE_PREFIX_PATH=FOLDER")
endfunction()

# hekla_package(NAME): a library with its own CMake package.
macro(hekla_package name)
  find_package(${name} QUIET)
  if(NOT ${name}_FOUND)
    hekla_not_found("the CMake package ${name}")
  endif()
endmacro()

# hekla_header_library(NAME HEADER): a header-only library.
function(hekla_header_library name header)
  find_path(HEKLA_INCLUDE_${name} ${header})
  if(NOT HEKLA_INCLUDE_${name})
    hekla_not_found("the header ${header}")
  endif()
  add_library(hekla_third_party_${name} INTERFACE)
  target_include_directories(hekla_third_party_${name} SYSTEM INTERFACE ${HEKLA_INCLUDE_${name}})
  add_library(hekla::${name} ALIAS hekla_third_party_${name})
endfunction()

# hekla_compiled_library(NAME HEADER LIBRARY): a library with code to link; its static archive if there is one, so that
# libhekla does not depend on the host's libraries.
function(hekla_compiled_library name header library)
  hekla_header_library(${name} ${header})
  find_library(HEKLA_LIBRARY_${name} NAMES lib${library}.a ${library})
  if(NOT HEKLA_LIBRARY_${name})
    hekla_not_found("the library ${library}")
  endif()
  target_link_libraries(hekla_third_party_${name} INTERFACE ${HEKLA_LIBRARY_${name}})
endfunction()

hekla_package(Threads)
hekla_package(fmt)
if(HEKLA_TESTS)
  hekla_package(doctest)
endif()
hekla_package(nlohmann_json)
add_library(hekla_third_party_json INTERFACE)
target_link_libraries(hekla_third_party_json INTERFACE nlohmann_json::nlohmann_json)
add_library(hekla::json ALIAS hekla_third_party_json)

hekla_package(Eigen3)
add_library(hekla_third_party_eigen INTERFACE)
target_link_libraries(hekla_third_party_eigen INTERFACE Eigen3::Eigen)
target_compile_definitions(hekla_third_party_eigen INTERFACE EIGEN_MPL2_ONLY)
add_library(hekla::eigen ALIAS hekla_third_party_eigen)

hekla_header_library(xxhash xxhash.h)
if(HEKLA_PROGRAMS)
  hekla_header_library(cli11 CLI/CLI.hpp)
endif()
hekla_header_library(toml toml++/toml.h)
target_compile_definitions(hekla_third_party_toml INTERFACE TOML_HEADER_ONLY=1 TOML_EXCEPTIONS=0)
hekla_compiled_library(pcre2 pcre2.h pcre2-8)
hekla_header_library(zip zip.h) # opened at run time
hekla_compiled_library(zlib zlib.h z)
hekla_compiled_library(zstd zstd.h zstd)
hekla_compiled_library(utf8proc utf8proc.h utf8proc)

# Headers only: the engine loads every Vulkan function itself, through the given vkGetInstanceProcAddr.
hekla_header_library(vulkan vulkan/vulkan.h)
hekla_header_library(vma vk_mem_alloc.h)

# The loader, for test programs that link Vulkan like a host. The engine never links it.
if(HEKLA_TESTS)
  find_library(HEKLA_LIBRARY_vulkan_loader vulkan)
  if(NOT HEKLA_LIBRARY_vulkan_loader)
    hekla_not_found("the Vulkan loader")
  endif()
  add_library(hekla_third_party_vulkan_loader INTERFACE)
  target_link_libraries(hekla_third_party_vulkan_loader INTERFACE hekla_third_party_vulkan ${HEKLA_LIBRARY_vulkan_loader})
  add_library(hekla::vulkan_loader ALIAS hekla_third_party_vulkan_loader)
endif()

# The GLSL compiler for the build: compiles shaders/ to SPIR-V that is embedded.
find_program(HEKLA_GLSLC glslc)
if(NOT HEKLA_GLSLC)
  hekla_not_found("the program glslc")
endif()
# Compresses them.
find_program(HEKLA_ZSTD zstd)
if(NOT HEKLA_ZSTD)
  hekla_not_found("the program zstd")
endif()

# The GLSL compiler at run time, linked statically: Debian 12's shared shaderc lacks its own dependencies, and a module
# that contains it completely shares no symbol with a host's copy. glslang's components differ by version (Debian 13 has
# no HLSL and no OGLCompiler), so all existing ones are used; the archives depend on each other, hence the group.
hekla_header_library(shaderc shaderc/shaderc.h)
set(hekla_shaderc_archives)
foreach(archive shaderc_combined SPIRV-Tools-opt SPIRV-Tools)
  find_library(HEKLA_LIBRARY_${archive} lib${archive}.a)
  if(NOT HEKLA_LIBRARY_${archive})
    hekla_not_found("the static library lib${archive}.a")
  endif()
  list(APPEND hekla_shaderc_archives ${HEKLA_LIBRARY_${archive}})
endforeach()
foreach(archive glslang SPIRV MachineIndependent GenericCodeGen OGLCompiler OSDependent HLSL)
  find_library(HEKLA_LIBRARY_${archive} lib${archive}.a)
  if(HEKLA_LIBRARY_${archive})
    list(APPEND hekla_shaderc_archives ${HEKLA_LIBRARY_${archive}})
  endif()
endforeach()
target_link_libraries(hekla_third_party_shaderc INTERFACE -Wl,--start-group ${hekla_shaderc_archives} -Wl,--end-group
                                                          Threads::Threads)

# For the window of apps/observatory only, so missing ones are listed in HEKLA_OBSERVATORY_MISSING.
set(HEKLA_OBSERVATORY_MISSING)
find_package(glfw3 QUIET)
if(glfw3_FOUND)
  add_library(hekla_third_party_glfw INTERFACE)
  target_link_libraries(hekla_third_party_glfw INTERFACE glfw)
  add_library(hekla::glfw ALIAS hekla_third_party_glfw)
else()
  list(APPEND HEKLA_OBSERVATORY_MISSING GLFW)
endif()
# With its backends for GLFW and Vulkan. stb reads ImGui's fonts and writes PNG files.
find_path(HEKLA_INCLUDE_imgui backends/imgui_impl_vulkan.h PATH_SUFFIXES imgui)
find_library(HEKLA_LIBRARY_imgui imgui)
find_library(HEKLA_LIBRARY_stb NAMES libstb.a stb)
find_path(HEKLA_INCLUDE_stb stb_image_write.h PATH_SUFFIXES stb)
if(HEKLA_INCLUDE_imgui AND HEKLA_LIBRARY_imgui AND HEKLA_LIBRARY_stb AND HEKLA_INCLUDE_stb)
  add_library(hekla_third_party_imgui INTERFACE)
  target_include_directories(hekla_third_party_imgui SYSTEM INTERFACE ${HEKLA_INCLUDE_imgui} ${HEKLA_INCLUDE_stb})
  target_link_libraries(hekla_third_party_imgui INTERFACE ${HEKLA_LIBRARY_imgui} ${HEKLA_LIBRARY_stb} ${CMAKE_DL_LIBS} m)
  add_library(hekla::imgui ALIAS hekla_third_party_imgui)
else()
  list(APPEND HEKLA_OBSERVATORY_MISSING "Dear ImGui")
endif()
find_path(HEKLA_INCLUDE_glm glm/glm.hpp)
if(HEKLA_INCLUDE_glm)
  hekla_header_library(glm glm/glm.hpp)
else()
  list(APPEND HEKLA_OBSERVATORY_MISSING glm)
endif()
