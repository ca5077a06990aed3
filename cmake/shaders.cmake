# hekla_shaders(TARGET NAME FOLDER [AS_WRITTEN]): compiles every FOLDER/**/*.comp (GLSL, SPIR-V 1.5 unless stated) and adds to TARGET a table
#     #include "NAME_shaders.hpp"      std::span<const hekla::gpu::EmbeddedShader> hekla::embedded::NAME();
# Each module is compressed (Zstandard). A row is named by its path under FOLDER without ".comp": "matmul/tiled". #include
# searches the file's folder, FOLDER and shaders/.
# Variants that change SPIR-V's types or capabilities are declared in the source, one comment line each:
#     //! variant f16 STORAGE=float16_t HALF    -> the row "matmul/tiled.f16", with -DSTORAGE=float16_t -DHALF
# A file with variants has no plain row unless it has the line //! variant plain. Values contain no comma and no space.
#     //! no-optimizer                          -> without spirv-opt (cooperative matrix, bfloat16)
#     //! needs GL_KHR_cooperative_matrix        -> the variants after this line need these extensions, and no others; for
#                                                  a glslc that does not know one, FOLDER/compiled has their modules
#     //! spirv-1.6                             -> the variants after this line are SPIR-V 1.6, for Vulkan 1.3
# AS_WRITTEN: without spirv-opt for all of them.
#
# FOLDER/compiled/ROW.spv is a module for older compilers, and ROW.spv.source what it was compiled from: the SHA-256 of
# hekla_shader_source(). A module of another source is left out, a status message names it, and the test
# compiled_shaders fails. The target hekla_compile_shaders writes them all, with a glslc that knows the extensions.
find_program(HEKLA_GLSLC glslc REQUIRED)
find_program(HEKLA_SPIRV_VAL spirv-val)
if(NOT HEKLA_SPIRV_VAL)
  set(HEKLA_SPIRV_VAL "")
endif()

# Sets `result` to whether glslc knows a GLSL extension.
function(hekla_glslc_knows extension result)
  string(MD5 key "${HEKLA_GLSLC} ${extension}")
  if(NOT DEFINED HEKLA_GLSLC_KNOWS_${key})
    set(probe "${CMAKE_CURRENT_BINARY_DIR}/shaders/probe.comp")
    file(WRITE "${probe}" "#version 450\n#extension ${extension} : require\nvoid main() {}\n")
    execute_process(COMMAND ${HEKLA_GLSLC} -fshader-stage=compute --target-env=vulkan1.3 -o "${probe}.spv" "${probe}"
      RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
    if(failed)
      set(HEKLA_GLSLC_KNOWS_${key} OFF CACHE INTERNAL "")
    else()
      set(HEKLA_GLSLC_KNOWS_${key} ON CACHE INTERNAL "")
    endif()
  endif()
  set(${result} ${HEKLA_GLSLC_KNOWS_${key}} PARENT_SCOPE)
endfunction()

# Sets `text` to a shader's source, its #include lines replaced by the files, once each; `files` to these files.
function(hekla_shader_source file folder text files)
  set(all "")
  set(waiting "${file}")
  set(seen "${file}")
  while(waiting)
    list(POP_FRONT waiting next)
    file(READ "${next}" content)
    string(APPEND all "${content}")
    get_filename_component(beside "${next}" DIRECTORY)
    string(REGEX MATCHALL "#include \"[^\"]+\"" includes "${content}")
    foreach(include IN LISTS includes)
      string(REGEX REPLACE "#include \"([^\"]+)\"" "\\1" include "${include}")
      foreach(place IN ITEMS "${beside}" "${folder}" "${hekla_SOURCE_DIR}/shaders")
        if(EXISTS "${place}/${include}")
          get_filename_component(found "${place}/${include}" ABSOLUTE)
          if(NOT found IN_LIST seen)
            list(APPEND seen "${found}")
            list(APPEND waiting "${found}")
          endif()
          break()
        endif()
      endforeach()
    endforeach()
  endwhile()
  set(${text} "${all}" PARENT_SCOPE)
  set(${files} "${seen}" PARENT_SCOPE)
endfunction()

function(hekla_shaders target name folder)
  cmake_parse_arguments(PARSE_ARGV 3 arguments "AS_WRITTEN" "" "")
  get_filename_component(folder "${folder}" ABSOLUTE)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS RELATIVE "${folder}" "${folder}/*.comp")
  list(SORT sources)
  set(out "${CMAKE_CURRENT_BINARY_DIR}/shaders/${name}")
  set(modules)
  set(arrays)
  set(rows)
  foreach(source IN LISTS sources)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${folder}/${source}")
    string(REGEX REPLACE "\\.comp$" "" stem "${source}")
    get_filename_component(stem_folder "${out}/${stem}" DIRECTORY)
    file(MAKE_DIRECTORY "${stem_folder}")
    file(STRINGS "${folder}/${source}" marks REGEX "^//! ")
    set(optimize ON)
    if(arguments_AS_WRITTEN)
      set(optimize OFF)
    endif()
    set(variants)
    set(has_variants OFF)
    set(unknown "") # extensions that the next variants need and glslc does not know
    set(needs OFF)
    set(versions "1.5:1.2") # of SPIR-V and Vulkan
    foreach(mark IN LISTS marks)
      if(mark STREQUAL "//! no-optimizer")
        set(optimize OFF)
      elseif(mark MATCHES "^//! variant ([A-Za-z0-9_]+)(.*)$")
        set(variant "${CMAKE_MATCH_1}")
        string(STRIP "${CMAKE_MATCH_2}" definitions)
        string(REGEX REPLACE " +" "," definitions "${definitions}")
        set(has_variants ON)
        set(compiled)
        if(needs)
          set(compiled "${folder}/compiled/${stem}.${variant}.spv")
          string(SHA256 hash "${text}\n${versions} ${definitions}")
          set_property(GLOBAL APPEND PROPERTY HEKLA_SHADERS_TO_COMPILE "${compiled}=${hash}=${out}/${stem}.${variant}.inc.spv")
          if(unknown)
            set_property(GLOBAL PROPERTY HEKLA_SHADERS_UNKNOWN ON)
            set(of)
            if(EXISTS "${compiled}" AND EXISTS "${compiled}.source")
              file(STRINGS "${compiled}.source" of)
            endif()
            if(NOT of STREQUAL hash)
              set_property(GLOBAL APPEND PROPERTY HEKLA_SHADERS_LEFT_OUT "${stem}.${variant} (${unknown})")
              continue()
            endif()
          else()
            set(compiled)
          endif()
        endif()
        list(APPEND variants "${versions}:${variant}:${definitions}:${compiled}")
      elseif(mark STREQUAL "//! spirv-1.6")
        set(versions "1.6:1.3")
      elseif(mark MATCHES "^//! needs ([A-Za-z0-9_ ]+)$")
        string(REPLACE " " ";" extensions "${CMAKE_MATCH_1}")
        if(NOT needs)
          set(needs ON)
          hekla_shader_source("${folder}/${source}" "${folder}" text files)
          set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${files})
        endif()
        set(unknown "")
        foreach(extension IN LISTS extensions)
          hekla_glslc_knows(${extension} known)
          if(NOT known)
            set(unknown "${extension}")
          endif()
        endforeach()
      else()
        message(FATAL_ERROR "${folder}/${source}: not understood: ${mark}")
      endif()
    endforeach()
    if(NOT has_variants)
      set(variants "${versions}:plain::")
    endif()
    set(like) # the first variant's module, which the others are compressed after
    set(like_array)
    foreach(entry IN LISTS variants)
      string(REGEX MATCH "^([^:]*):([^:]*):([^:]*):([^:]*):(.*)$" entry "${entry}")
      set(spirv "${CMAKE_MATCH_1}")
      set(vulkan "${CMAKE_MATCH_2}")
      set(variant "${CMAKE_MATCH_3}")
      set(definitions "${CMAKE_MATCH_4}")
      set(compiled "${CMAKE_MATCH_5}")
      set(row "${stem}")
      if(NOT variant STREQUAL "plain")
        set(row "${stem}.${variant}")
      endif()
      set(module "${out}/${row}.inc")
      add_custom_command(OUTPUT "${module}" "${module}.hash" "${module}.spv"
        COMMAND ${CMAKE_COMMAND} "-DGLSLC=${HEKLA_GLSLC}" "-DSOURCE=${folder}/${source}" "-DOUTPUT=${module}"
                "-DDEPFILE=${module}.d" "-DINCLUDE=${folder}" "-DCOMMON=${hekla_SOURCE_DIR}/shaders" "-DDEFINITIONS=${definitions}" -DSPIRV=${spirv} -DVULKAN=${vulkan} -DOPTIMIZE=${optimize}
                "-DVALIDATE=${HEKLA_SPIRV_VAL}" "-DCOMPILED=${compiled}" "-DLIKE=${like}" "-DZSTD=${HEKLA_ZSTD}"
                -P ${hekla_SOURCE_DIR}/cmake/embed_shader.cmake
        DEPENDS "${folder}/${source}" ${compiled} ${like} "${hekla_SOURCE_DIR}/cmake/embed_shader.cmake"
        DEPFILE "${module}.d" COMMENT "Shader ${row}" VERBATIM)
      list(APPEND modules "${module}")
      string(MAKE_C_IDENTIFIER "${row}" identifier)
      string(APPEND arrays "constexpr uint8_t ${identifier}[] = {\n#include \"${module}\"\n};\n")
      string(APPEND rows "    {\"${row}\", ${identifier}, {${like_array}},\n#include \"${module}.hash\"\n    },\n")
      if(NOT like)
        set(like "${module}.spv")
        set(like_array "${identifier}")
      endif()
    endforeach()
  endforeach()
  file(CONFIGURE OUTPUT "${out}/${name}_shaders.hpp" @ONLY CONTENT [[
// Generated by cmake/shaders.cmake.
#pragma once
#include "gpu/shader.hpp"
namespace hekla::embedded {
std::span<const gpu::EmbeddedShader> @name@();
} // namespace hekla::embedded
]])
  file(CONFIGURE OUTPUT "${out}/${name}_shaders.cpp" @ONLY CONTENT [[
// Generated by cmake/shaders.cmake.
#include "@name@_shaders.hpp"
namespace hekla::embedded {
namespace {
@arrays@
constexpr gpu::EmbeddedShader table[] = {
@rows@};
} // namespace
std::span<const gpu::EmbeddedShader> @name@() { return table; }
} // namespace hekla::embedded
]])
  set_source_files_properties("${out}/${name}_shaders.cpp" PROPERTIES OBJECT_DEPENDS "${modules}" GENERATED TRUE)
  target_sources(${target} PRIVATE "${out}/${name}_shaders.cpp" ${modules})
  target_include_directories(${target} PUBLIC "${out}")
endfunction()

# Adds the target hekla_compile_shaders. To be called after all hekla_shaders().
function(hekla_compiled_shaders)
  get_property(modules GLOBAL PROPERTY HEKLA_SHADERS_TO_COMPILE)
  string(REPLACE ";" "\n" lines "${modules}")
  file(CONFIGURE OUTPUT "${hekla_BINARY_DIR}/shaders/compiled.txt" CONTENT "${lines}\n" @ONLY)
  get_property(left_out GLOBAL PROPERTY HEKLA_SHADERS_UNKNOWN)
  if(left_out)
    set(command ${CMAKE_COMMAND} -E false "this glslc does not know an extension that they need: give a newer one as -DHEKLA_GLSLC=PATH")
  else()
    set(command ${CMAKE_COMMAND} "-DLIST=${hekla_BINARY_DIR}/shaders/compiled.txt" -DWRITE=ON -P "${hekla_SOURCE_DIR}/cmake/compiled_shaders.cmake")
  endif()
  add_custom_target(hekla_compile_shaders COMMAND ${command} COMMENT "Writing shaders/compiled" VERBATIM)
  add_dependencies(hekla_compile_shaders hekla_program)
endfunction()
