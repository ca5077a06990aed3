# What the compiler reads once instead of once a file: libraries' headers (precompiled), and with HEKLA_UNITY what the files
# of a target share.
set(HEKLA_PRECOMPILED <algorithm> <array> <chrono> <cmath> <cstdint> <cstring> <filesystem> <functional> <limits> <map>
  <memory> <optional> <set> <span> <string> <string_view> <unordered_map> <vector> <fmt/format.h>)
option(HEKLA_UNITY "Compile all files of a room at once: a third of the work for a full build, more after a change of one file" ON)

file(CONFIGURE OUTPUT ${hekla_BINARY_DIR}/generated/precompiled.cpp CONTENT "// Stands for headers.\n")

# hekla_headers(KIND HEADERS...): a target that holds precompiled headers for others, whose very options it has to have.
# The project's own headers are no such: with one changed, everything would be compiled again.
function(hekla_headers kind)
  add_library(${kind} OBJECT EXCLUDE_FROM_ALL ${hekla_BINARY_DIR}/generated/precompiled.cpp)
  target_precompile_headers(${kind} PRIVATE ${ARGN})
endfunction()

# hekla_compile(TARGET OPTIMIZATION HEADERS...): how TARGET's sources are compiled: -O0, -O1 or -O2 in a release, with the
# usual headers and HEADERS precompiled. A file still includes all that it uses.
function(hekla_compile target optimization)
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

# hekla_unite(TARGET): TARGET's files have no two names of their own alike, and may be compiled together.
function(hekla_unite target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${HEKLA_UNITY} UNITY_BUILD_BATCH_SIZE 0)
endfunction()
