# `hekla plugin check` against plugins with planted faults.
foreach(name faulty faulty_two_exports faulty_operation)
  set(HEKLA_FAULTY_SOURCE faulty)
  if(name STREQUAL faulty_operation)
    set(HEKLA_FAULTY_SOURCE faulty_operation)
  endif()
  add_library(${name} MODULE EXCLUDE_FROM_ALL ${CMAKE_CURRENT_SOURCE_DIR}/check/${HEKLA_FAULTY_SOURCE}.cpp)
  target_include_directories(${name} PRIVATE ${hekla_SOURCE_DIR}/engine/include)
  target_compile_features(${name} PRIVATE cxx_std_17)
  # Without the project's warnings, since the faults are intended.
  target_compile_options(${name} PRIVATE -O0 -w)

  set_target_properties(${name} PROPERTIES PREFIX "" CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    LIBRARY_OUTPUT_DIRECTORY ${hekla_BINARY_DIR}/faults)
  set(HEKLA_FAULTY_LIBRARY ${name})
  configure_file(${CMAKE_CURRENT_SOURCE_DIR}/check/${HEKLA_FAULTY_SOURCE}.json.in ${hekla_BINARY_DIR}/faults/${name}.json @ONLY)
endforeach()
foreach(name faulty faulty_operation)
  target_link_options(${name} PRIVATE -Wl,--version-script=${hekla_SOURCE_DIR}/plugins/sdk/plugin.map)
endforeach()
target_compile_definitions(faulty_two_exports PRIVATE TWO_EXPORTS)
# The plugins of planted/faults.txt, which are written with the SDK.
set(HEKLA_PLUGIN_MAP ${hekla_SOURCE_DIR}/plugins/sdk/plugin.map)
foreach(name planted_network planted_operation planted_adapter planted_optimizer)
  hekla_add_plugin(${name} FOLDER ${hekla_BINARY_DIR}/faults/planted MANIFEST ${CMAKE_CURRENT_SOURCE_DIR}/check/planted/${name}.json
    ${CMAKE_CURRENT_SOURCE_DIR}/check/planted/${name}.cpp)
  set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
endforeach()
add_custom_target(faults ALL DEPENDS faulty faulty_two_exports faulty_operation faulty_adapter faulty_optimizer planted_network
  planted_operation planted_adapter planted_optimizer)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/check/faulty.json.in
  ${CMAKE_CURRENT_SOURCE_DIR}/check/faulty_operation.json.in)
add_test(NAME check_faults COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/check/faults.sh ${hekla_BINARY_DIR}/bin/hekla ${hekla_BINARY_DIR}/faults)
set_tests_properties(check_faults PROPERTIES TIMEOUT 900)
add_test(NAME check_faults_trained
  COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/check/faults.sh ${hekla_BINARY_DIR}/bin/hekla ${hekla_BINARY_DIR}/faults --trained)
set_tests_properties(check_faults_trained PROPERTIES TIMEOUT 1800 LABELS long)
add_test(NAME check_planted_all COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/check/planted/planted.sh ${hekla_BINARY_DIR}/bin/hekla
  ${hekla_BINARY_DIR}/faults/planted --all)
set_tests_properties(check_planted_all PROPERTIES TIMEOUT 7200 LABELS long)
# Rows of padding count nothing, with virtual tokens either.
add_test(NAME check_virtual_tokens
  COMMAND ${hekla_BINARY_DIR}/bin/hekla plugin check ${hekla_BINARY_DIR}/lib/hekla/plugins/prompt_tuning.json --patience 5 --only network.sums)
set_tests_properties(check_virtual_tokens PROPERTIES TIMEOUT 600)
# The built-in plugins pass.
file(GLOB hekla_manifests RELATIVE ${hekla_SOURCE_DIR}/plugins ${hekla_SOURCE_DIR}/plugins/*/*/manifest.json)
foreach(manifest IN LISTS hekla_manifests)
  get_filename_component(folder ${manifest} DIRECTORY)
  get_filename_component(name ${folder} NAME)
  add_test(NAME check_plugin_${name}
    COMMAND ${hekla_BINARY_DIR}/bin/hekla plugin check ${hekla_BINARY_DIR}/lib/hekla/plugins/${name}.json --patience 3)
  set_tests_properties(check_plugin_${name} PROPERTIES TIMEOUT 3600 LABELS long)
endforeach()
