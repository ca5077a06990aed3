# The release: made twice with the same bytes, installed in bare systems, run on a processor without AVX. The first test
# makes what the others use, in build/release.
set(folder ${CMAKE_CURRENT_SOURCE_DIR}/release)
add_test(NAME release_twice COMMAND ${folder}/twice.sh ${hekla_BINARY_DIR}/release)
foreach(system debian-12 debian-13 ubuntu-24.04)
  add_test(NAME release_${system} COMMAND ${folder}/roots.sh ${hekla_BINARY_DIR}/release ${system})
  list(APPEND users release_${system})
endforeach()
add_test(NAME release_old_processor COMMAND ${folder}/old_processor.sh ${hekla_BINARY_DIR}/release)
set_tests_properties(release_twice PROPERTIES FIXTURES_SETUP release)
set_tests_properties(${users} release_old_processor PROPERTIES FIXTURES_REQUIRED release)
set_tests_properties(release_twice ${users} release_old_processor PROPERTIES LABELS long TIMEOUT 7200 SKIP_RETURN_CODE 77)
