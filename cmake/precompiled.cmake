# hekla_compile(TARGET OPTIMIZATION HEADERS...): how TARGET's sources are compiled in a release: -O0, -O1 or -O2, and the
# standard library and HEADERS (libraries' own) read once for all targets of a kind instead of once a file, which was half
# of what compiling cost. The project's own headers stay out: with one changed, everything would be compiled again. A file
# still includes all that it uses.
set(HEKLA_PRECOMPILED <algorithm> <array> <chrono> <cmath> <cstdint> <cstring> <filesystem> <functional> <limits> <map>
  <memory> <optional> <set> <span> <string> <string_view> <unordered_map> <vector> <fmt/format.h>)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/precompiled.cpp CONTENT "// Stands for headers.\n")

# hekla_headers(KIND): a target that holds precompiled headers for others, whose very options it has to have.
function(hekla_headers kind)
  add_library(${kind} OBJECT EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/generated/precompiled.cpp)
  target_precompile_headers(${kind} PRIVATE ${ARGN})
endfunction()

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
