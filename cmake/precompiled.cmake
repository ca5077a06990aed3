# Shared compilation: the headers of libraries (precompiled), and with HEKLA_UNITY the common parts of a target's files.
set(HEKLA_PRECOMPILED <algorithm> <array> <chrono> <cmath> <cstdint> <cstring> <filesystem> <functional> <limits> <map>
  <memory> <mutex> <optional> <set> <span> <string> <string_view> <unordered_map> <vector> <fmt/format.h> <nlohmann/json.hpp>)
# Measured on gcc 12, and not used: explicit instantiation of nlohmann::basic_json (its own compilation costs what it saves),
# -Og instead of -O1 (a fifth less for plugin/, nothing for train/), no warnings (a fifth less, but errors would be missed).
option(HEKLA_UNITY "Compile all files of a room at once: 15 instead of 25 minutes of CPU time for a full build, more after a change of one file" ON)

file(CONFIGURE OUTPUT ${hekla_BINARY_DIR}/generated/precompiled.cpp CONTENT "// Stands for headers.\n")

# hekla_headers(KIND HEADERS...): a target with precompiled headers for others, which must have exactly the same
# options.
# The project's own headers are not included, since a change in one would recompile everything.
function(hekla_headers kind)
  add_library(${kind} OBJECT EXCLUDE_FROM_ALL ${hekla_BINARY_DIR}/generated/precompiled.cpp)
  target_precompile_headers(${kind} PRIVATE ${ARGN})
endfunction()

# hekla_compile(TARGET OPTIMIZATION HEADERS...): sets how TARGET's sources are compiled: -O0, -O1 or -O2 in a release (for
# packages -Os in place of the first two), with the usual headers and HEADERS precompiled. A file still includes
# everything that it uses.
function(hekla_compile target optimization)
  if(HEKLA_PACKAGED AND optimization LESS 2)
    set(optimization s)
  endif()
  get_target_property(type ${target} TYPE)
  set(code fPIC)
  if(type STREQUAL "EXECUTABLE")
    set(code fPIE)
  endif()
  string(MAKE_C_IDENTIFIER "hekla_headers_O${optimization}_${code}${ARGN}" kind)
  if(NOT TARGET ${kind})
    hekla_headers(${kind} ${HEKLA_PRECOMPILED} ${ARGN})
    set_target_properties(${kind} PROPERTIES POSITION_INDEPENDENT_CODE OFF HEKLA_OPTIMIZATION ${optimization})
    target_compile_options(${kind} PRIVATE -${code})
    target_link_libraries(${kind} PRIVATE hekla_options fmt::fmt)
  endif()
  set_target_properties(${target} PROPERTIES HEKLA_OPTIMIZATION ${optimization})
  target_precompile_headers(${target} REUSE_FROM ${kind})
endfunction()

# hekla_unite(TARGET): TARGET's files may be compiled together, since they have no conflicting local names.
function(hekla_unite target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${HEKLA_UNITY} UNITY_BUILD_BATCH_SIZE 0)
endfunction()
