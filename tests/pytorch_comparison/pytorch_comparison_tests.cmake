# Random configurations, adapters and tokenizers, and the defaults of configurations, against the reference
# implementations, where a checkout has them.
foreach(case "configs 50" "adapters 50" "defaults 0" "tokenizers 300")
  separate_arguments(case)
  list(GET case 0 kind)
  add_test(NAME random_${kind} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/pytorch_comparison/random_cases ${hekla_BINARY_DIR} ${case})
  set_tests_properties(random_${kind} PROPERTIES LABELS long TIMEOUT 1800 SKIP_RETURN_CODE 77)
endforeach()
