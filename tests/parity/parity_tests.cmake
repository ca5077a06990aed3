# Parity with the reference implementations: the program on the fixtures, and on real models if a checkout has them. The
# test runs the program too.
hekla_test_with_plugins(parity hekla_train hekla::json)
add_dependencies(test_parity hekla)
target_compile_definitions(test_parity PRIVATE HEKLA_PROGRAM="$<TARGET_FILE:hekla>")
# Every fixture with subgroups of 4, 8 and 16 (lavapipe's subgroup size is its vector width, fixed per process), 16 KB
# of shared memory and no 16-bit storage.
file(GLOB parity_models CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/fixtures/models/*
  ${CMAKE_CURRENT_SOURCE_DIR}/fixtures/models-extra/*)
foreach(width 128 256 512)
  add_test(NAME parity_width_${width}
    COMMAND hekla verify --shared-memory 16384 --disable storage_16bit ${parity_models})
  set_tests_properties(parity_width_${width} PROPERTIES LABELS "long" TIMEOUT 1800
    ENVIRONMENT "LP_NATIVE_VECTOR_WIDTH=${width}")
endforeach()
# Every fixture under the validation layer, without messages.
add_test(NAME parity_validation COMMAND hekla --validate verify ${parity_models})
set_tests_properties(parity_validation PROPERTIES LABELS "long" TIMEOUT 3600 FAIL_REGULAR_EXPRESSION
  "Vulkan validation")
