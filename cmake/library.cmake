# libhekla, for hosts: everything in one shared library that needs nothing but the C and C++ runtime and shows nothing but
# hk_*, and the same as one object in a static one, whose own symbols are not seen either.

# fmt comes as a shared library alone; engine/library/fmt.cpp says how this one does without.
add_library(hekla_library SHARED engine/library/fmt.cpp)
set_source_files_properties(engine/library/fmt.cpp PROPERTIES COMPILE_OPTIONS "-fkeep-inline-functions;-fno-inline")
set_target_properties(hekla_library PROPERTIES OUTPUT_NAME hekla VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
target_link_libraries(hekla_library PRIVATE hekla_options $<LINK_LIBRARY:WHOLE_ARCHIVE,hekla_api>)
target_link_options(hekla_library PRIVATE -Wl,--version-script=${CMAKE_SOURCE_DIR}/engine/library/hekla.map -Wl,--no-undefined
  -Wl,--as-needed $<$<CONFIG:Release>:-s>)
set_property(TARGET hekla_library APPEND PROPERTY LINK_DEPENDS ${CMAKE_SOURCE_DIR}/engine/library/hekla.map)
add_dependencies(hekla_library hekla_plugins hekla-describe ${HEKLA_MODULES})
