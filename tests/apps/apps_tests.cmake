# These tests run the program. hekla_gpu is named because the program needs a device, so these tests are not run under
# the sanitizers.
hekla_test(apps hekla_gpu hekla_model hekla::json)
add_dependencies(test_apps hekla)
target_compile_definitions(test_apps PRIVATE HEKLA_PROGRAM="$<TARGET_FILE:hekla>")
