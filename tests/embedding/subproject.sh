#!/usr/bin/env bash
# Hekla as part of another project: subproject.sh SOURCE [--build]. Added by add_subdirectory and by FetchContent, it
# does not change the project's flags, folders, tests and installation; with --build a program of the project is built
# with both libraries, under warnings that Hekla's own code does not enable, and run.
set -euo pipefail
source=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { printf 'subproject.sh: %s\n' "$*" >&2; exit 1; }
cd "$work"
cat >app.cpp <<'APP'
#include <cstdio>
#include <hekla/hekla.hpp>
int main() {
    hk::Error error;
    hk::ContextOptions options;
    options.without_device = true;
    const hk::Context context = hk::Context::create(options, error);
    std::printf("%d %d\n", context ? 1 : 0, hk_plugin_folder().size > 0 ? 1 : 0);
    return context ? 0 : 1;
}
APP
for way in add_subdirectory FetchContent; do
  rm -rf project && mkdir project
  if [ $way = add_subdirectory ]; then
    add="add_subdirectory($source hekla EXCLUDE_FROM_ALL)"
  else
    add="include(FetchContent)
FetchContent_Declare(hekla SOURCE_DIR $source)
FetchContent_MakeAvailable(hekla)"
  fi
  cat >project/CMakeLists.txt <<PROJECT
cmake_minimum_required(VERSION 3.25)
project(app C CXX)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_BUILD_TYPE Debug)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY \${CMAKE_BINARY_DIR}/mine)
set(CMAKE_CXX_FLAGS "-Wshadow -Wold-style-cast -Wuseless-cast -Werror")
add_compile_definitions(OF_THE_PROJECT=1)
enable_testing()
add_test(NAME mine COMMAND true)
function(state result)
  set(all "")
  foreach(name CMAKE_C_FLAGS CMAKE_CXX_FLAGS CMAKE_CXX_STANDARD CMAKE_CXX_EXTENSIONS CMAKE_BUILD_TYPE CMAKE_MODULE_PATH
      CMAKE_RUNTIME_OUTPUT_DIRECTORY CMAKE_LIBRARY_OUTPUT_DIRECTORY CMAKE_POSITION_INDEPENDENT_CODE CMAKE_UNITY_BUILD
      CMAKE_CXX_VISIBILITY_PRESET CMAKE_CXX_COMPILER_LAUNCHER CMAKE_EXPORT_COMPILE_COMMANDS BUILD_SHARED_LIBS CPACK_GENERATOR)
    string(APPEND all "\${name}=\${\${name}};")
  endforeach()
  foreach(property COMPILE_OPTIONS COMPILE_DEFINITIONS LINK_OPTIONS INCLUDE_DIRECTORIES TESTS)
    get_directory_property(value \${property})
    string(APPEND all "\${property}=\${value};")
  endforeach()
  set(\${result} "\${all}" PARENT_SCOPE)
endfunction()
state(before)
$add
state(after)
if(NOT before STREQUAL after)
  message(FATAL_ERROR "it changed\n\${before}\nto\n\${after}")
endif()
foreach(kind hekla static)
  add_executable(with_\${kind} ../app.cpp)
  target_link_libraries(with_\${kind} PRIVATE hekla::\${kind})
endforeach()
install(TARGETS with_hekla DESTINATION bin)
PROJECT
  cmake -G Ninja -S project -B project/build >cmake.log 2>&1 || fail "$way: $(cat cmake.log)"
  [ -z "$(find project/build/hekla project/build/_deps -name CTestTestfile.cmake -exec grep -l add_test {} + 2>/dev/null)" ] ||
    fail "$way: its tests are the project's"
  wanted=$(ninja -C project/build -t commands with_hekla)
  [[ $wanted != *bin/hekla\ * && $wanted != *test_* ]] || fail "$way: the command line or a test is built"
  [[ $(ninja -C project/build -t query mine/with_hekla) == *libhekla.so* ]] || fail "$way: the program does not link libhekla.so"
done
[ "${2:-}" = --build ] || exit 0
cmake --build project/build --target with_hekla with_static >build.log 2>&1 || fail "$(tail -n 30 build.log)"
# Plugins are found next to libhekla.so; a program that links the static library is elsewhere, and sets their folder.
for said in "with_hekla 1 1" "with_static 1 0"; do
  program=${said%% *}
  [ "$(project/build/mine/$program)" = "${said#* }" ] || fail "$program says $(project/build/mine/$program)"
done
grep -q OF_THE_PROJECT project/build/build.ninja || fail "the project's definitions are gone"
cmake --install project/build --prefix "$work/installed" --component Unspecified >install.log 2>&1 || fail "$(cat install.log)"
[ ! -e "$work/installed/bin/hekla" ] || fail "the command line is installed with the project"
