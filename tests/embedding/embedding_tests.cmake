# Hekla inside another program: through the C API in this build, and from an installed tree.
hekla_test_with_plugins(embedding hekla_api hekla_fault_driver)
add_dependencies(test_embedding gated_test_plugin)
target_compile_definitions(test_embedding PRIVATE HEKLA_TRAIN_PLUGINS="${hekla_BINARY_DIR}/tests/train_plugins")
# Sessions on a wrapped device, with the kernels chosen on a GPU: the same bits with and without budgets.
add_test(NAME embedding_kernels_of_gpus COMMAND test_embedding --test-suite-exclude=long
  "--test-case=a training within budgets*,recorded into the host's command buffers*")
set_tests_properties(embedding_kernels_of_gpus PROPERTIES LABELS "long" TIMEOUT 1800
  ENVIRONMENT "HEKLA_TEST_KERNELS=gpu;LP_NATIVE_VECTOR_WIDTH=256;GALLIVM_PERF=nopt")
# Random calls of all functions on several threads. Build it with the presets asan and tsan too.
add_executable(capi_fuzz ${CMAKE_CURRENT_SOURCE_DIR}/embedding/capi_fuzz.cpp)
target_link_libraries(capi_fuzz PRIVATE hekla_options hekla_api)
target_compile_definitions(capi_fuzz PRIVATE HEKLA_SOURCE_DIR="${hekla_SOURCE_DIR}"
  HEKLA_PLUGIN_FOLDER="${HEKLA_PLUGIN_FOLDER}")
add_dependencies(capi_fuzz hekla_plugins)
add_test(NAME embedding_random_calls COMMAND capi_fuzz 1 2000)
set_tests_properties(embedding_random_calls PROPERTIES TIMEOUT 600)
add_test(NAME embedding_random_calls_long COMMAND capi_fuzz 2 200000 8)
set_tests_properties(embedding_random_calls_long PROPERTIES LABELS long TIMEOUT 7200)
foreach(mode short long)
  add_test(NAME embedding_installed_${mode} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/embedding/installed.sh ${hekla_BINARY_DIR} ${mode})
  set_tests_properties(embedding_installed_${mode} PROPERTIES TIMEOUT 1800)
endforeach()
set_tests_properties(embedding_installed_long PROPERTIES LABELS long)
# As part of another project: configured in the default tests, built in the long ones.
add_test(NAME embedding_subproject COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/embedding/subproject.sh ${hekla_SOURCE_DIR})
add_test(NAME embedding_subproject_long COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/embedding/subproject.sh ${hekla_SOURCE_DIR} --build)
set_tests_properties(embedding_subproject_long PROPERTIES LABELS long TIMEOUT 7200)
