# Builds refused.c once for every kind of invalid library: NAME.so in the folder refused/.
set(refused_folder ${CMAKE_CURRENT_BINARY_DIR}/refused)
foreach(wrong nothing magic size no_init newer other_major fork init_fails no_table no_destroy no_instance drafts)
  add_library(refused_${wrong} MODULE ${CMAKE_CURRENT_SOURCE_DIR}/plugin/refused.c)
  string(TOUPPER ${wrong} name)
  target_compile_definitions(refused_${wrong} PRIVATE WRONG=${name})
  target_include_directories(refused_${wrong} PRIVATE ${hekla_SOURCE_DIR}/engine/include)
  set_target_properties(refused_${wrong} PROPERTIES PREFIX "" OUTPUT_NAME ${wrong} LIBRARY_OUTPUT_DIRECTORY ${refused_folder} C_STANDARD 11)
  add_dependencies(test_plugin refused_${wrong})
endforeach()
target_compile_definitions(test_plugin PRIVATE HEKLA_REFUSED_FOLDER="${refused_folder}")

# An adapter and an optimizer that are correct unless HEKLA_FAULT names a fault.
foreach(faulty faulty_adapter faulty_optimizer)
  add_library(${faulty} MODULE EXCLUDE_FROM_ALL ${CMAKE_CURRENT_SOURCE_DIR}/plugin/${faulty}.cpp)
  target_link_libraries(${faulty} PRIVATE hekla::plugin)
  target_compile_features(${faulty} PRIVATE cxx_std_20)
  target_compile_definitions(${faulty} PRIVATE HK_TARGET_ABI_MINOR=1)
  set_target_properties(${faulty} PROPERTIES PREFIX "" CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    LIBRARY_OUTPUT_DIRECTORY ${hekla_BINARY_DIR}/adapters)
  target_link_options(${faulty} PRIVATE -Wl,--version-script=${hekla_SOURCE_DIR}/plugins/sdk/plugin.map)
  configure_file(${CMAKE_CURRENT_SOURCE_DIR}/plugin/${faulty}.json ${hekla_BINARY_DIR}/adapters/${faulty}.json COPYONLY)
  add_dependencies(test_plugin ${faulty})
endforeach()
target_compile_definitions(test_plugin PRIVATE HEKLA_ADAPTERS_FOLDER="${hekla_BINARY_DIR}/adapters")

# Out-of-process plugins: the built-in ones, and the one with planted faults.
add_dependencies(test_plugin hekla-describe hekla_plugins faulty)
target_compile_definitions(test_plugin PRIVATE HEKLA_PLUGIN_FOLDER="${HEKLA_PLUGIN_FOLDER}"
  HEKLA_FAULTS_FOLDER="${hekla_BINARY_DIR}/faults" HEKLA_DESCRIBE_PROGRAM="$<TARGET_FILE:hekla-describe>")
