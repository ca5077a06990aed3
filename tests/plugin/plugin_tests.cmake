# refused.c once for every way in which a library can be wrong: NAME.so in the folder refused/.
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

# Plugins in a process of their own: the built-in ones, and the one with planted faults.
add_dependencies(test_plugin hekla-describe hekla_plugins faulty)
target_compile_definitions(test_plugin PRIVATE HEKLA_PLUGIN_FOLDER="${HEKLA_PLUGIN_FOLDER}"
  HEKLA_FAULTS_FOLDER="${hekla_BINARY_DIR}/faults" HEKLA_DESCRIBE_PROGRAM="$<TARGET_FILE:hekla-describe>")
