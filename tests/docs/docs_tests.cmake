# The commands of the documents, as printed. The build's own program, plugins and modules run them.
foreach(mode short long)
  add_test(NAME docs_commands_${mode} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/docs/commands.sh ${hekla_BINARY_DIR} ${mode})
endforeach()
set_tests_properties(docs_commands_short PROPERTIES TIMEOUT 1200)
set_tests_properties(docs_commands_long PROPERTIES TIMEOUT 7200 LABELS long)
add_test(NAME docs_pictures COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/docs/pictures.sh)
set_tests_properties(docs_pictures PROPERTIES SKIP_RETURN_CODE 77)
# The commands that recipes print: short reads them all, long runs them with small data.
foreach(mode short long)
  add_test(NAME docs_recipe_commands_${mode} COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/docs/recipe_commands.py ${hekla_BINARY_DIR} ${mode})
endforeach()
set_tests_properties(docs_recipe_commands_short PROPERTIES TIMEOUT 600)
set_tests_properties(docs_recipe_commands_long PROPERTIES TIMEOUT 7200 LABELS long)
add_test(NAME docs_installed_paths COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/docs/installed_paths.sh ${hekla_BINARY_DIR})
set_tests_properties(docs_installed_paths PROPERTIES TIMEOUT 600)
# The table of cards is that of the reports, and wrong reports are errors.
add_test(NAME docs_gpus COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/docs/merge_reports.sh)
set_tests_properties(docs_gpus PROPERTIES LABELS cpu)
