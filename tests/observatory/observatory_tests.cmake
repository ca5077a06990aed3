# The Observatory, where it is built.
if(TARGET observatory)
  add_test(NAME observatory COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/observatory/headless.sh ${CMAKE_BINARY_DIR})
  set_tests_properties(observatory PROPERTIES TIMEOUT 900)
  add_test(NAME observatory_window COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/observatory/window.sh ${CMAKE_BINARY_DIR})
  set_tests_properties(observatory_window PROPERTIES TIMEOUT 1800 LABELS long SKIP_RETURN_CODE 77)
endif()
