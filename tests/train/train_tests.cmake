# A plugin whose graph has step scalars.
set(HEKLA_PLUGIN_MAP ${hekla_SOURCE_DIR}/plugins/sdk/plugin.map)
hekla_add_plugin(gated_test_plugin NAME gated FOLDER ${hekla_BINARY_DIR}/tests/train_plugins
  MANIFEST ${CMAKE_CURRENT_SOURCE_DIR}/train/plugins/gated.json ${CMAKE_CURRENT_SOURCE_DIR}/train/plugins/gated.cpp)
add_dependencies(test_train gated_test_plugin)
# And one whose training steps write buffers.
hekla_add_plugin(normed_test_plugin NAME normed FOLDER ${hekla_BINARY_DIR}/tests/train_plugins
  MANIFEST ${CMAKE_CURRENT_SOURCE_DIR}/train/plugins/normed.json ${CMAKE_CURRENT_SOURCE_DIR}/train/plugins/normed.cpp)
add_dependencies(test_train normed_test_plugin)
# A generator and a discriminator, whose losses name their parameters; an objective that sees the step.
foreach(plugin gan paced)
  hekla_add_plugin(${plugin}_test_plugin NAME ${plugin} FOLDER ${hekla_BINARY_DIR}/tests/train_plugins
    MANIFEST ${CMAKE_CURRENT_SOURCE_DIR}/train/plugins/${plugin}.json
    ${CMAKE_CURRENT_SOURCE_DIR}/train/plugins/${plugin}.cpp)
  add_dependencies(test_train ${plugin}_test_plugin)
endforeach()
target_compile_definitions(test_train PRIVATE HEKLA_TRAIN_PLUGINS="${hekla_BINARY_DIR}/tests/train_plugins")
# The gradient of a parameter is compared with differences of the losses that name it.
add_test(NAME check_named_losses COMMAND ${hekla_BINARY_DIR}/bin/hekla --plugin-path ${hekla_BINARY_DIR}/tests/train_plugins
  plugin check ${hekla_BINARY_DIR}/tests/train_plugins/gan.json --patience 3 --only network. --only batch. --only train.gradients)
set_tests_properties(check_named_losses PROPERTIES TIMEOUT 600)
