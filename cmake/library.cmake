# libhekla, for hosts: everything in one shared library that depends only on the C and C++ runtime and exports only
# hk_*, and the same as one object in a static library, which also exports only hk_*.

# fmt is packaged as a shared library only, under another name in each release of Debian; engine/library/fmt.cpp compiles it
# into these, and into the programs that are installed.
add_library(hekla_fmt OBJECT engine/library/fmt.cpp)
target_link_libraries(hekla_fmt PRIVATE hekla_options fmt::fmt)
set_target_properties(hekla_fmt PROPERTIES HEKLA_OPTIMIZATION 1)
target_compile_options(hekla_fmt PRIVATE -fkeep-inline-functions -fno-inline)

foreach(program hekla hekla-describe)
  if(TARGET ${program})
    target_sources(${program} PRIVATE $<TARGET_OBJECTS:hekla_fmt>)
    target_link_options(${program} PRIVATE -Wl,--as-needed)
  endif()
endforeach()

add_library(hekla_library SHARED $<TARGET_OBJECTS:hekla_fmt>)
set_target_properties(hekla_library PROPERTIES OUTPUT_NAME hekla LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR})
# Treated as an installed library: its headers cause no warnings that the user did not enable.
target_include_directories(hekla_library SYSTEM INTERFACE ${hekla_SOURCE_DIR}/engine/include)
add_library(hekla::hekla ALIAS hekla_library)
target_link_libraries(hekla_library PRIVATE hekla_options $<LINK_LIBRARY:WHOLE_ARCHIVE,hekla_api>)
target_link_options(hekla_library PRIVATE -Wl,--version-script=${hekla_SOURCE_DIR}/engine/library/hekla.map -Wl,--no-undefined
  -Wl,--as-needed $<$<CONFIG:Release>:-s>)
set_property(TARGET hekla_library APPEND PROPERTY LINK_DEPENDS ${hekla_SOURCE_DIR}/engine/library/hekla.map)
add_dependencies(hekla_library hekla_plugins hekla-describe ${HEKLA_MODULES})

# One object of all rooms and of the archives they need, whose other symbols are made local, since a host may have its
# own zlib. COMDAT groups of inline functions are resolved in it; otherwise the linker would discard a local one in
# favor of the host's.
set(hekla_static ${hekla_BINARY_DIR}/lib/libhekla.a)
set(hekla_room_archives)
set(hekla_rooms_of_library api train reward infer batch generate data score program plugin model gpu text graph exchange base)
foreach(room ${hekla_rooms_of_library})
  list(APPEND hekla_room_archives $<TARGET_FILE:hekla_${room}>)
endforeach()
set(hekla_archives)
foreach(name pcre2 utf8proc zstd zlib)
  if(HEKLA_LIBRARY_${name} MATCHES "\\.a$")
    list(APPEND hekla_archives ${HEKLA_LIBRARY_${name}})
  endif()
endforeach()
list(LENGTH hekla_archives count)
if(HEKLA_PACKAGED)
  set(hekla_static "") # it is larger than all the rest together
elseif(count EQUAL 4 AND NOT HEKLA_SANITIZE)
  list(TRANSFORM hekla_rooms_of_library PREPEND hekla_)
  add_custom_command(OUTPUT ${hekla_static}
    COMMAND ${CMAKE_LINKER} -r --force-group-allocation -o hekla_all.o --whole-archive ${hekla_room_archives} --no-whole-archive
            $<TARGET_OBJECTS:hekla_fmt> --start-group ${hekla_archives} --end-group
    COMMAND ${CMAKE_OBJCOPY} --wildcard --keep-global-symbol=hk_* hekla_all.o hekla.o
    COMMAND ${CMAKE_COMMAND} -E rm -f ${hekla_static}
    COMMAND ${CMAKE_AR} crs ${hekla_static} hekla.o
    DEPENDS ${hekla_rooms_of_library} hekla_fmt $<TARGET_OBJECTS:hekla_fmt>
    WORKING_DIRECTORY ${hekla_BINARY_DIR} COMMAND_EXPAND_LISTS VERBATIM)
  add_custom_target(hekla_static_library ALL DEPENDS ${hekla_static})
  add_library(hekla_static INTERFACE)
  add_library(hekla::static ALIAS hekla_static)
  add_dependencies(hekla_static hekla_static_library hekla_plugins hekla-describe ${HEKLA_MODULES})
  target_include_directories(hekla_static SYSTEM INTERFACE ${hekla_SOURCE_DIR}/engine/include)
  target_link_libraries(hekla_static INTERFACE ${hekla_static} ${CMAKE_DL_LIBS} pthread m stdc++)
else()
  set(hekla_static "")
  message(STATUS "libhekla.a is not made: archives of ${count} of the four libraries that it needs were found")
endif()
