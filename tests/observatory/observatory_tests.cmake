# The Observatory, if it is built.
if(TARGET observatory)
  set(observatory_folder ${hekla_SOURCE_DIR}/apps/observatory)
  add_executable(test_observatory $<TARGET_OBJECTS:test_main> ${CMAKE_CURRENT_SOURCE_DIR}/observatory/log_reader_test.cpp
    ${observatory_folder}/models/log_reader.cpp)
  target_include_directories(test_observatory PRIVATE ${observatory_folder} ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(test_observatory PRIVATE hekla_options doctest::doctest hekla_base hekla::json hekla::vulkan)
  add_test(NAME observatory_log COMMAND test_observatory)
  set_tests_properties(observatory_log PROPERTIES TIMEOUT 60 LABELS cpu)
  add_dependencies(cpu_tests test_observatory)
  # What the panel Adapters displays, on a device of the Observatory, without a window.
  set(parts vulkan/device vulkan/window models/adapters models/adapter_writing models/engine models/hekla_program models/jobs
    models/model models/routing models/word_difference)
  list(TRANSFORM parts PREPEND ${observatory_folder}/)
  list(TRANSFORM parts APPEND .cpp)
  add_executable(test_observatory_adapters $<TARGET_OBJECTS:test_main>
    ${CMAKE_CURRENT_SOURCE_DIR}/observatory/adapters_test.cpp ${parts})
  target_include_directories(test_observatory_adapters PRIVATE ${observatory_folder} ${CMAKE_CURRENT_SOURCE_DIR} ${hekla_SOURCE_DIR}/engine/include)
  target_compile_definitions(test_observatory_adapters PRIVATE HEKLA_PLUGIN_FOLDER="${HEKLA_PLUGIN_FOLDER}")
  target_link_libraries(test_observatory_adapters PRIVATE hekla_options doctest::doctest hekla_library hekla_base hekla::vulkan_loader
    hekla::glfw hekla::json)
  add_dependencies(test_observatory_adapters hekla hekla_plugins)
  add_test(NAME observatory_adapters COMMAND test_observatory_adapters)
  set_tests_properties(observatory_adapters PROPERTIES TIMEOUT 1800)
  add_test(NAME observatory_headless COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/observatory/headless.sh ${hekla_BINARY_DIR})
  set_tests_properties(observatory_headless PROPERTIES TIMEOUT 900 LABELS long)
  add_test(NAME observatory_window COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/observatory/window.sh ${hekla_BINARY_DIR})
  set_tests_properties(observatory_window PROPERTIES TIMEOUT 1800 LABELS long SKIP_RETURN_CODE 77)
endif()
