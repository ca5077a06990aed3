# Mesa's drivers of GPUs, on devices that are not there: a shim answers for the kernel's driver, every pipeline is
# compiled by the driver's own compiler, and nothing is executed. third_party/install --drivers installs the shims, and
# --shims builds those that have no package. A target is tested if its shim and its driver are installed; the first of
# each driver by default. The others, and those that --shims is for, which take minutes, have the label `long`.
set(HEKLA_DRIVERS # name, shim, driver, what chooses the device
  "navi31 amdgpu radeon AMDGPU_GPU_ID=navi31"
  "ada nouveau nouveau NOUVEAU_CHIPSET=192"
  "a740 freedreno freedreno FD_GPU_ID=740"
  "navi21 amdgpu radeon AMDGPU_GPU_ID=navi21"
  "gfx1201 amdgpu radeon AMDGPU_GPU_ID=gfx1201"
  "navi10 amdgpu radeon AMDGPU_GPU_ID=navi10"
  "navi33 amdgpu radeon AMDGPU_GPU_ID=navi33"
  "turing nouveau nouveau NOUVEAU_CHIPSET=162"
  "ampere nouveau nouveau NOUVEAU_CHIPSET=172"
  "blackwell nouveau nouveau NOUVEAU_CHIPSET=1b2"
  "a630 freedreno freedreno FD_GPU_ID=630"
  "m1 asahi asahi ASAHI_UNUSED=1"
  "a770 intel intel INTEL_STUB_GPU_DEVICE_ID=56a0"
  "b580 intel intel INTEL_STUB_GPU_DEVICE_ID=e20b"
  "lnl intel intel INTEL_STUB_GPU_DEVICE_ID=64a0"
  "tgl intel intel INTEL_STUB_GPU_DEVICE_ID=9a49"
  "mtl intel intel INTEL_STUB_GPU_DEVICE_ID=7d55"
  # PanVK 25.0 has what Hekla needs of Vulkan 1.3, but reports 1.0. Its compiler prints its numbers.
  "g610 panfrost panfrost PAN_GPU_ID=a867 PAN_I_WANT_A_BROKEN_VULKAN_DRIVER=1 MESA_VK_VERSION_OVERRIDE=1.3 \
BIFROST_MESA_DEBUG=shaderdb MESA_SHADER_CACHE_DISABLE=1")
set(shims $ENV{XDG_CACHE_HOME})
if(NOT shims)
  set(shims $ENV{HOME}/.cache)
endif()
string(APPEND shims /hekla-shims)
execute_process(COMMAND ${HEKLA_GLSLC} --version OUTPUT_VARIABLE shader_compiler)
string(REGEX REPLACE "\n.*" "" shader_compiler "${shader_compiler}")
add_executable(test_drivers $<TARGET_OBJECTS:test_main> ${CMAKE_CURRENT_SOURCE_DIR}/drivers/assembly.cpp
  ${CMAKE_CURRENT_SOURCE_DIR}/drivers/rules.cpp ${CMAKE_CURRENT_SOURCE_DIR}/drivers/rules_test.cpp
  ${CMAKE_CURRENT_SOURCE_DIR}/drivers/tables.cpp ${CMAKE_CURRENT_SOURCE_DIR}/drivers/tables_test.cpp
  ${CMAKE_CURRENT_SOURCE_DIR}/drivers/simulation.cpp ${CMAKE_CURRENT_SOURCE_DIR}/drivers/simulation_test.cpp
  ${CMAKE_CURRENT_SOURCE_DIR}/drivers/drivers_test.cpp ${CMAKE_CURRENT_SOURCE_DIR}/support/program.cpp)
target_link_libraries(test_drivers PRIVATE hekla_options doctest::doctest hekla::json fmt::fmt)
hekla_compile(test_drivers 0 <doctest/doctest.h>)
target_include_directories(test_drivers PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_definitions(test_drivers PRIVATE HEKLA_SOURCE_DIR="${hekla_SOURCE_DIR}"
  HEKLA_PROGRAM="${hekla_BINARY_DIR}/bin/hekla" HEKLA_SHADER_COMPILER="${shader_compiler}")
add_dependencies(test_drivers hekla)
add_test(NAME drivers_rules COMMAND test_drivers --source-file=*/rules_test.cpp,*/tables_test.cpp)
add_test(NAME drivers_simulation COMMAND test_drivers --source-file=*/simulation_test.cpp)
set(by_default)
set(not_tested)
foreach(row IN LISTS HEKLA_DRIVERS)
  separate_arguments(row)
  list(GET row 0 name)
  list(GET row 1 shim)
  list(GET row 2 driver)
  list(SUBLIST row 3 -1 choice)
  find_file(HEKLA_SHIM_${shim} lib${shim}_noop_drm_shim.so PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE} ${shims}
    NO_DEFAULT_PATH)
  set(icd /usr/share/vulkan/icd.d/${driver}_icd.json)
  if(EXISTS ${shims}/${driver}_icd.json)
    set(icd ${shims}/${driver}_icd.json)
  endif()
  if(NOT EXISTS ${icd})
    set(icd /usr/share/vulkan/icd.d/${driver}_icd.${CMAKE_SYSTEM_PROCESSOR}.json)
  endif()
  if(NOT HEKLA_SHIM_${shim} OR NOT EXISTS ${icd})
    list(APPEND not_tested ${name})
    continue()
  endif()
  if(shim STREQUAL "amdgpu") # it knows its devices by name, older ones fewer
    file(STRINGS ${HEKLA_SHIM_${shim}} known REGEX "^${name}$")
    if(NOT known)
      continue()
    endif()
  endif()
  add_test(NAME drivers_${name} COMMAND test_drivers --source-file=*/drivers_test.cpp)
  set(labels)
  if(driver IN_LIST by_default OR shim MATCHES "^(intel|panfrost)$") # minutes
    set(labels long)
  endif()
  list(APPEND by_default ${driver})
  set_tests_properties(drivers_${name} PROPERTIES LABELS "${labels}" TIMEOUT 1800 SKIP_RETURN_CODE 77
    ENVIRONMENT "HEKLA_TEST_DRIVER=${name};LD_PRELOAD=${HEKLA_SHIM_${shim}};VK_ICD_FILENAMES=${icd};${choice}")
endforeach()
if(NOT by_default)
  message(STATUS "tests/drivers compiles nothing, for lack of Mesa's shims: third_party/install --drivers installs them")
elseif(not_tested)
  list(JOIN not_tested ", " not_tested)
  message(STATUS "tests/drivers does not test ${not_tested}: their shims or drivers are not installed "
    "(third_party/install --drivers --shims)")
endif()
