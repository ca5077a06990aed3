# The same tests with subgroups of 4, 8 and 16: lavapipe takes their size from the width of its vectors, once a process.
foreach(width 128 256 512)
  math(EXPR lanes "${width} / 32")
  add_test(NAME program_subgroups_of_${lanes} COMMAND test_program --test-suite-exclude=long)
  set_tests_properties(program_subgroups_of_${lanes} PROPERTIES LABELS "long" TIMEOUT 1800
    ENVIRONMENT "LP_NATIVE_VECTOR_WIDTH=${width};HEKLA_TEST_SUBGROUPS=${lanes}")
endforeach()
