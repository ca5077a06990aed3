# The program with invalid input, kills and faults. Needs a device, and the fault driver as the loader.
add_subdirectory(reliability/plugins)
hekla_test(reliability hekla_gpu hekla::json)
target_sources(test_reliability PRIVATE reliability/process.cpp)
add_dependencies(test_reliability hekla hekla_broken_plugins faulty hekla_fault_loader)
target_compile_definitions(test_reliability PRIVATE HEKLA_PROGRAM="$<TARGET_FILE:hekla>"
  HEKLA_BROKEN_PLUGINS="${hekla_BINARY_DIR}/tests/broken_plugins" HEKLA_FAULT_FOLDER="${hekla_BINARY_DIR}/fault_driver"
  HEKLA_FAULTS_FOLDER="${hekla_BINARY_DIR}/faults")
