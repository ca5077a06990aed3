# The Observatory, if it is built.
if(TARGET observatory)
  add_executable(test_observatory $<TARGET_OBJECTS:test_main> ${CMAKE_CURRENT_SOURCE_DIR}/observatory/log_reader_test.cpp
    ${hekla_SOURCE_DIR}/apps/observatory/models/log_reader.cpp)
  target_include_directories(test_observatory PRIVATE ${hekla_SOURCE_DIR}/apps/observatory)
  target_link_libraries(test_observatory PRIVATE hekla_options doctest::doctest hekla::json hekla::vulkan)
  add_test(NAME observatory_log COMMAND test_observatory)
  set_tests_properties(observatory_log PROPERTIES TIMEOUT 60 LABELS cpu)
  add_dependencies(cpu_tests test_observatory)
  add_test(NAME observatory_headless COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/observatory/headless.sh ${hekla_BINARY_DIR})
  set_tests_properties(observatory_headless PROPERTIES TIMEOUT 900)
  add_test(NAME observatory_window COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/observatory/window.sh ${hekla_BINARY_DIR})
  set_tests_properties(observatory_window PROPERTIES TIMEOUT 1800 LABELS long SKIP_RETURN_CODE 77)
endif()
