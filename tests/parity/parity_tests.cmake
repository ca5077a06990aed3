# Parity with the reference implementations: the program on the fixtures, and on real models if a checkout has them. The
# test runs the program too.
hekla_test_with_plugins(parity hekla_train hekla::json)
target_sources(test_parity PRIVATE support/program.cpp)
add_dependencies(test_parity hekla)
target_compile_definitions(test_parity PRIVATE HEKLA_PROGRAM="$<TARGET_FILE:hekla>")
# Every fixture with subgroups of 4, 8 and 16 (lavapipe's subgroup size is its vector width, fixed per process), 16 KB
# of shared memory and no 16-bit storage.
file(GLOB parity_models CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/fixtures/models/*
  ${CMAKE_CURRENT_SOURCE_DIR}/fixtures/models-extra/* ${CMAKE_CURRENT_SOURCE_DIR}/fixtures/families/*)
foreach(width 128 256 512)
  add_test(NAME parity_width_${width}
    COMMAND hekla doctor --test --shared-memory 16384 --disable storage_16bit ${parity_models})
  set_tests_properties(parity_width_${width} PROPERTIES LABELS "long" TIMEOUT 1800
    ENVIRONMENT "LP_NATIVE_VECTOR_WIDTH=${width}")
endforeach()
# Every fixture under the validation layer, without messages.
add_test(NAME parity_validation COMMAND hekla --validate verify ${parity_models})
set_tests_properties(parity_validation PROPERTIES LABELS "long" TIMEOUT 3600 FAIL_REGULAR_EXPRESSION
  "Vulkan validation")
# Every fixture in shaders without 64-bit integers.
add_test(NAME parity_without_int64 COMMAND hekla doctor --test --disable int64 ${parity_models})
set_tests_properties(parity_without_int64 PROPERTIES LABELS "long" TIMEOUT 1800)
# Adapters against PEFT: outputs, gradients, training steps, merged weights.
file(GLOB parity_adapters CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/fixtures/adapters/*)
add_test(NAME parity_adapters COMMAND hekla doctor --test ${parity_adapters})
set_tests_properties(parity_adapters PROPERTIES TIMEOUT 1800)
# Every fixture with the kernels of GPUs, and a training step in 16 bits with the kernels of CPUs and of GPUs.
add_test(NAME parity_kernels_of_gpus COMMAND hekla doctor --test --gpu-kernels --disable uniform_loads ${parity_models})
add_test(NAME parity_float16 COMMAND hekla doctor --test --dtype f16 ${parity_models})
add_test(NAME parity_bfloat16 COMMAND hekla doctor --test --dtype bf16 ${parity_models})
add_test(NAME parity_bfloat16_kernels_of_gpus
  COMMAND hekla doctor --test --dtype bf16 --gpu-kernels --disable uniform_loads ${parity_models})
set_tests_properties(parity_kernels_of_gpus parity_float16 parity_bfloat16 parity_bfloat16_kernels_of_gpus PROPERTIES
  LABELS "long" TIMEOUT 1800)
# lavapipe optimizes the kernels of GPUs, which are long, for half a minute per fixture; without it, for seconds.
set_tests_properties(parity_kernels_of_gpus parity_bfloat16_kernels_of_gpus PROPERTIES
  ENVIRONMENT "LP_NATIVE_VECTOR_WIDTH=256;GALLIVM_PERF=nopt")
# Fixtures on SwiftShader, an implementation of Vulkan that shares no code with Mesa and has no 64-bit integers (Debian:
# chromium-common).
find_file(HEKLA_SWIFTSHADER vk_swiftshader_icd.json PATHS /usr/lib/chromium NO_DEFAULT_PATH)
if(HEKLA_SWIFTSHADER)
  add_test(NAME parity_swiftshader COMMAND hekla doctor --test ${parity_models})
  set_tests_properties(parity_swiftshader PROPERTIES LABELS "long" TIMEOUT 3600
    ENVIRONMENT "VK_ICD_FILENAMES=${HEKLA_SWIFTSHADER};VK_DRIVER_FILES=${HEKLA_SWIFTSHADER}")
endif()
