# Hekla inside another program: through the C API in this build, and from an installed tree.
hekla_test_with_plugins(embedding hekla_api hekla_fault_driver)
add_test(NAME embedding_installed COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/embedding/installed.sh ${CMAKE_BINARY_DIR})
set_tests_properties(embedding_installed PROPERTIES TIMEOUT 600)
