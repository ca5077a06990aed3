# The kernels without spirv-opt, for GPU-assisted validation (harness.hpp has the reason).
hekla_shaders(test_program kernels_as_written ${hekla_SOURCE_DIR}/shaders AS_WRITTEN)
target_compile_definitions(test_program PRIVATE HEKLA_KERNELS_AS_WRITTEN)
# The same tests with subgroups of 4, 8 and 16: lavapipe's subgroup size is its vector width, fixed per process.
foreach(width 128 256 512)
  math(EXPR lanes "${width} / 32")
  add_test(NAME program_subgroups_of_${lanes} COMMAND test_program --test-suite-exclude=long)
  set_tests_properties(program_subgroups_of_${lanes} PROPERTIES LABELS "long" TIMEOUT 1800
    ENVIRONMENT "LP_NATIVE_VECTOR_WIDTH=${width};HEKLA_TEST_SUBGROUPS=${lanes}")
endforeach()
# A smaller device: the minimum of shared memory that Vulkan guarantees, and no 16-bit storage.
add_test(NAME program_shared_memory_of_16_kib COMMAND test_program --test-suite-exclude=long)
set_tests_properties(program_shared_memory_of_16_kib PROPERTIES LABELS "long" TIMEOUT 1800
  ENVIRONMENT "HEKLA_TEST_SHARED_MEMORY=16384")
add_test(NAME program_without_16_bit COMMAND test_program --test-suite-exclude=long)
set_tests_properties(program_without_16_bit PROPERTIES LABELS "long" TIMEOUT 1800
  ENVIRONMENT "HEKLA_TEST_DISABLE=storage_16bit")
# Shaders rewritten for devices without 64-bit integers.
add_test(NAME program_without_int64 COMMAND test_program --test-suite-exclude=long)
set_tests_properties(program_without_int64 PROPERTIES LABELS "long" TIMEOUT 1800
  ENVIRONMENT "HEKLA_TEST_DISABLE=int64")
# The kernels chosen on a GPU, also if the tests run on a CPU.
add_test(NAME program_kernels_of_gpus COMMAND test_program --test-suite-exclude=long)
set_tests_properties(program_kernels_of_gpus PROPERTIES LABELS "long" TIMEOUT 1800
  ENVIRONMENT "HEKLA_TEST_KERNELS=gpu;HEKLA_TEST_DISABLE=uniform_loads")
# The same on the smallest GPU that Vulkan allows, without tests that ask for a kernel by name.
add_test(NAME program_smallest_gpu COMMAND test_program --test-suite-exclude=long
  --source-file=*/model_test.cpp,*/row_test.cpp,*/optimizer_test.cpp)
set_tests_properties(program_smallest_gpu PROPERTIES LABELS "long" TIMEOUT 1800
  ENVIRONMENT "HEKLA_TEST_KERNELS=gpu;HEKLA_TEST_DISABLE=uniform_loads;HEKLA_TEST_SHARED_MEMORY=16384;HEKLA_TEST_INVOCATIONS=128;LP_NATIVE_VECTOR_WIDTH=256;GALLIVM_PERF=nopt")
# The kernels' own tests with shaders instrumented by GPU-assisted validation: none accesses memory outside of its
# buffers. The driver compiles instrumented shaders slowly, but faster with vectors of 4 and without optimization.
foreach(kernels attention attention_cached convolution gradient_of math matmul optimizer recurrent row row_linear scan)
  add_test(NAME program_gpu_assisted_${kernels}
    COMMAND test_program --test-suite-exclude=long --source-file=*/${kernels}_test.cpp)
  set_tests_properties(program_gpu_assisted_${kernels} PROPERTIES LABELS "long" TIMEOUT 7200
    ENVIRONMENT "HEKLA_TEST_VALIDATION=gpu;LP_NATIVE_VECTOR_WIDTH=128;GALLIVM_PERF=nopt")
endforeach()
