# A plugin that provides a reward.
hekla_add_plugin(brevity_test_plugin NAME brevity FOLDER ${hekla_BINARY_DIR}/tests/reward_plugins
  MANIFEST ${CMAKE_CURRENT_SOURCE_DIR}/reward/plugins/brevity.json ${CMAKE_CURRENT_SOURCE_DIR}/reward/plugins/brevity.cpp)
add_dependencies(test_reward brevity_test_plugin)
target_compile_definitions(test_reward PRIVATE HEKLA_REWARD_PLUGINS="${hekla_BINARY_DIR}/tests/reward_plugins")
