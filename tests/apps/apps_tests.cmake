# The tests of the program run it; hekla_gpu is named because it needs a device, and so is none for the sanitizers.
hekla_test(apps hekla_gpu hekla::json)
add_dependencies(test_apps hekla)
target_compile_definitions(test_apps PRIVATE HEKLA_PROGRAM="$<TARGET_FILE:hekla>")
