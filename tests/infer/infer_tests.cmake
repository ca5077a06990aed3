# Exported models with the kernels chosen on a GPU: the same bits as their folders. Likelihoods: the same bits in any batch.
add_test(NAME infer_kernels_of_gpus COMMAND test_infer --source-file=*/export_test.cpp
  "--test-case=an exported model generates*,features of an exported model*,a network whose graph*")
set_tests_properties(infer_kernels_of_gpus PROPERTIES LABELS "long" TIMEOUT 1800 ENVIRONMENT "HEKLA_TEST_KERNELS=gpu;LP_NATIVE_VECTOR_WIDTH=256;GALLIVM_PERF=nopt")
add_test(NAME infer_likelihood_of_gpus COMMAND test_infer "--source-file=*/likelihood_test.cpp" "--test-case=a row has the same bits*")
set_tests_properties(infer_likelihood_of_gpus PROPERTIES LABELS "long" TIMEOUT 1800 ENVIRONMENT "HEKLA_TEST_KERNELS=gpu;LP_NATIVE_VECTOR_WIDTH=256;GALLIVM_PERF=nopt")
# The ids of every family of tokenizers, use and writer against transformers and llama.cpp.
add_test(NAME infer_ids_table COMMAND ${hekla_SOURCE_DIR}/tests/pytorch_comparison/ids_table
  $<TARGET_FILE:hekla> $<TARGET_FILE:test_infer>)
set_tests_properties(infer_ids_table PROPERTIES LABELS "long" TIMEOUT 1800 SKIP_RETURN_CODE 77)
