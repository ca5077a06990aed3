# hekla_add_plugin(TARGET [NAME NAME] [FOLDER FOLDER] MANIFEST FILE SOURCES...): builds NAME.so from C or C++ with its
# one export, and NAME.json with its hash, in FOLDER. NAME: default TARGET; FOLDER: default plugins/ in the build
# folder. For the built-in plugins and, when installed, for those of others. Before including this file, set
# HEKLA_PLUGIN_MAP and create the target hekla::plugin.
function(hekla_add_plugin target)
  cmake_parse_arguments(PARSE_ARGV 1 plugin "" "NAME;FOLDER;MANIFEST" "")
  if(NOT plugin_MANIFEST OR NOT plugin_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "hekla_add_plugin(${target}): expected MANIFEST FILE and the sources")
  endif()
  if(NOT plugin_NAME)
    set(plugin_NAME ${target})
  endif()
  if(NOT plugin_FOLDER)
    set(plugin_FOLDER ${CMAKE_BINARY_DIR}/plugins)
  endif()
  get_filename_component(manifest ${plugin_MANIFEST} ABSOLUTE)
  set(write_manifest ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/write_manifest.cmake)
  add_library(${target} MODULE ${plugin_UNPARSED_ARGUMENTS})
  target_link_libraries(${target} PRIVATE hekla::plugin)
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  if(CXX IN_LIST languages)
    target_compile_features(${target} PRIVATE cxx_std_20)
  endif()
  if(C IN_LIST languages)
    target_compile_features(${target} PRIVATE c_std_11)
  endif()
  # The headers declare the ABI version that the manifest requests.
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${manifest})
  file(READ ${manifest} content)
  string(JSON abi_minor GET "${content}" abi_minor_needed)
  target_compile_definitions(${target} PRIVATE HK_TARGET_ABI_MINOR=${abi_minor})
  if(NOT WIN32)
    target_link_libraries(${target} PRIVATE m) # C's math functions are in libm, and undefined symbols are errors
  endif()
  if(NOT APPLE AND NOT WIN32)
    target_link_options(${target} PRIVATE -Wl,--version-script=${HEKLA_PLUGIN_MAP} -Wl,--no-undefined)
  endif()
  set_target_properties(${target} PROPERTIES PREFIX "" OUTPUT_NAME ${plugin_NAME} LIBRARY_OUTPUT_DIRECTORY ${plugin_FOLDER}
    CXX_VISIBILITY_PRESET hidden C_VISIBILITY_PRESET hidden LINK_DEPENDS "${HEKLA_PLUGIN_MAP};${manifest};${write_manifest}")
  add_custom_command(TARGET ${target} POST_BUILD VERBATIM COMMENT ""
    COMMAND ${CMAKE_COMMAND} -DMANIFEST=${manifest} -DLIBRARY=$<TARGET_FILE:${target}> -DOUTPUT=${plugin_FOLDER}/${plugin_NAME}.json
      -P ${write_manifest})
endfunction()
