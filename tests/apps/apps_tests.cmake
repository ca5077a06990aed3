# These tests run the program. hekla_gpu is named because the program needs a device, so these tests are not run under
# the sanitizers.
# In two parts, which run at the same time: adapters, and the rest.
set(of_adapters "*/adapter*_test.cpp,*/combination_test.cpp,*/mixed_rows_test.cpp,*/virtual_tokens_test.cpp")
set(apps_filter "--source-file-exclude=${of_adapters}")
hekla_test(apps hekla_gpu hekla_model hekla::json)
add_test(NAME apps_adapters COMMAND test_apps --duration=true --test-suite-exclude=long "--source-file=${of_adapters}")
set_tests_properties(apps_adapters PROPERTIES TIMEOUT 1800)
target_sources(test_apps PRIVATE support/program.cpp ${hekla_SOURCE_DIR}/apps/hekla/progress_line.cpp)
target_include_directories(test_apps PRIVATE ${hekla_SOURCE_DIR}/apps/hekla)
add_dependencies(test_apps hekla)
target_compile_definitions(test_apps PRIVATE HEKLA_PROGRAM="$<TARGET_FILE:hekla>"
  HEKLA_TRAIN_PLUGINS="${hekla_BINARY_DIR}/tests/train_plugins")
add_dependencies(test_apps gan_test_plugin)
