# The workflow of a plugin author, from an installed tree.
add_test(NAME sdk_new_plugins COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/sdk/new_plugins.sh ${hekla_BINARY_DIR})
set_tests_properties(sdk_new_plugins PROPERTIES TIMEOUT 2400)
add_test(NAME sdk_guide COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/sdk/guide.sh ${hekla_BINARY_DIR})
set_tests_properties(sdk_guide PROPERTIES TIMEOUT 1200)
add_test(NAME sdk_plugin_dev COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/sdk/plugin_dev.sh ${hekla_BINARY_DIR})
set_tests_properties(sdk_plugin_dev PROPERTIES TIMEOUT 1200)
add_test(NAME sdk_plugin_install COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/sdk/plugin_install.sh ${hekla_BINARY_DIR})
set_tests_properties(sdk_plugin_install PROPERTIES TIMEOUT 1200)
