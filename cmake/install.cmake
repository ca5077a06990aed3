# cmake --install build --prefix /opt/hekla: the program with its plugins and modules, the recipes, the library for
# hosts with examples, and the files for plugin authors: headers, the C and C++ layers, the Rust and Zig ones, their
# reference, a CMake package and pkg-config files.
#     bin/hekla   libexec/hekla-describe   lib/libhekla.so   lib/hekla/plugins/   lib/libhekla_*.so   include/hekla/
#     include/hekla/sdk/   lib/cmake/hekla/   lib/pkgconfig/   share/hekla/   share/hekla/examples/   share/hekla/rust/   share/hekla/zig/
#     share/hekla/plugins/ (the sources of the built-in plugins)
#     share/hekla/recipes/   share/hekla/tasks/   share/hekla/fixtures/ (for doctor --test)
#     share/doc/hekla/ (the documents, in the repository's folders; for packages the licenses of what is inside)
#     share/man/man1/   completions for bash, zsh and fish
# The folders are named `lib` and `bin` everywhere: the program finds plugins and modules relative to itself.

# cmake --build BUILD --target installable builds only what is installed.
add_custom_target(installable)
add_dependencies(installable hekla hekla-describe hekla_plugins hekla_library ${HEKLA_MODULES})
set(installed_targets hekla hekla-describe hekla_library ${HEKLA_MODULES})
set(installed_files)
foreach(target ${installed_targets})
  list(APPEND installed_files $<TARGET_FILE:${target}>)
endforeach()
if(hekla_static)
  add_dependencies(installable hekla_static_library)
  list(APPEND installed_files ${hekla_static})
endif()
# Before copying, checks that everything was built. A component has fewer files.
install(CODE "
if(NOT CMAKE_INSTALL_COMPONENT OR CMAKE_INSTALL_COMPONENT STREQUAL \"Unspecified\")
  foreach(file ${installed_files})
    if(NOT EXISTS \"\${file}\")
      message(FATAL_ERROR \"\${file} is not built, and nothing was installed. Build first: cmake --build ${hekla_BINARY_DIR} --target installable\")
    endif()
  endforeach()
endif()" ALL_COMPONENTS)

install(TARGETS hekla RUNTIME DESTINATION bin)
install(TARGETS hekla-describe RUNTIME DESTINATION libexec)
# Without the MPI module, which belongs to one MPI library: a package has its source.
set(modules ${HEKLA_MODULES})
list(REMOVE_ITEM modules hekla_mpi)
install(TARGETS ${modules} LIBRARY DESTINATION lib)
install(FILES engine/exchange/mpi_module/hekla_mpi.c engine/exchange/mpi_module/mpi_module.h DESTINATION share/hekla/mpi)
install(TARGETS hekla_library LIBRARY DESTINATION lib)
if(hekla_static)
  install(FILES ${hekla_static} DESTINATION lib)
endif()
install(FILES engine/include/hekla/hekla.h engine/include/hekla/device.h engine/include/hekla/session.h engine/include/hekla/model.h engine/include/hekla/plan.h engine/include/hekla/capture.h
  engine/include/hekla/communicator.h   engine/include/hekla/hekla.hpp engine/include/hekla/options.hpp DESTINATION include/hekla)
install(DIRECTORY ${hekla_SOURCE_DIR}/apps/examples DESTINATION share/hekla FILES_MATCHING PATTERN "*.c" PATTERN "*.cpp" PATTERN "README.md")
install(DIRECTORY ${HEKLA_PLUGIN_FOLDER}/ DESTINATION lib/hekla/plugins USE_SOURCE_PERMISSIONS FILES_MATCHING PATTERN "*.so" PATTERN "*.json")
# Recipes with the scripts of their data, and tasks. Their comments name paths of the repository, and here those of share/hekla.
install(DIRECTORY ${hekla_SOURCE_DIR}/apps/recipes ${hekla_SOURCE_DIR}/apps/tasks DESTINATION share/hekla USE_SOURCE_PERMISSIONS
  PATTERN "*.md" EXCLUDE PATTERN pictures EXCLUDE)
install(CODE "
file(GLOB files \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share/hekla/recipes/*\" \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share/hekla/tasks/*\")
foreach(file \${files})
  file(READ \"\${file}\" text)
  string(REPLACE \"build/bin/hekla\" \"hekla\" text \"\${text}\")
  string(REPLACE \"apps/recipes\" \"recipes\" text \"\${text}\")
  string(REPLACE \"apps/tasks\" \"tasks\" text \"\${text}\")
  file(WRITE \"\${file}\" \"\${text}\")
endforeach()")
# The models of `hekla doctor --test`, and the other side of comparisons of `--lab`.
install(FILES ${hekla_SOURCE_DIR}/apps/compare_pytorch.py DESTINATION share/hekla)
install(DIRECTORY ${hekla_BINARY_DIR}/share/hekla/fixtures DESTINATION share/hekla)
# The documents, in the repository's folders, since they refer to each other.
install(FILES ${hekla_SOURCE_DIR}/README.md ${hekla_SOURCE_DIR}/CHANGELOG.md ${hekla_SOURCE_DIR}/CONTRIBUTING.md ${hekla_SOURCE_DIR}/SECURITY.md
  ${hekla_SOURCE_DIR}/LICENSE DESTINATION share/doc/hekla)
install(FILES ${hekla_SOURCE_DIR}/third_party/LICENSES.md DESTINATION share/doc/hekla/third_party)
install(DIRECTORY ${hekla_SOURCE_DIR}/docs DESTINATION share/doc/hekla)
if(HEKLA_PACKAGED)
  # The licenses of the libraries whose code is in the binaries, by the first table of LICENSES.md, and the texts that they
  # refer to.
  file(READ ${hekla_SOURCE_DIR}/third_party/LICENSES.md rows)
  string(REGEX REPLACE "\n\\*\\*Linked or opened at run time.*" "" rows "${rows}")
  string(REPLACE ";" "," rows "${rows}")
  string(REGEX MATCHALL "\n\\| [^\n]*" rows "${rows}")
  list(FILTER rows EXCLUDE REGEX "apps/observatory")
  set(licenses)
  set(common)
  foreach(row IN LISTS rows)
    if(row MATCHES "^\n\\| [^|]+ \\| ([a-z0-9-]+) [0-9]")
      set(license /usr/share/doc/${CMAKE_MATCH_1}/copyright)
      if(NOT EXISTS ${license})
        message(FATAL_ERROR "${license} was not found, and packages hold the licenses of their libraries: run third_party/install")
      endif()
      install(FILES ${license} DESTINATION share/doc/hekla/licenses RENAME ${CMAKE_MATCH_1})
      list(APPEND licenses ${license})
      file(STRINGS ${license} references REGEX "/usr/share/common-licenses/")
      foreach(reference IN LISTS references)
        string(REGEX MATCH "/usr/share/common-licenses/[A-Za-z0-9]+-[0-9.]*[0-9]" reference "${reference}")
        list(APPEND common ${reference})
      endforeach()
    endif()
  endforeach()
  list(LENGTH licenses count)
  if(count LESS 10)
    message(FATAL_ERROR "third_party/LICENSES.md: the first table has ${count} libraries, expected 10 or more")
  endif()
  list(REMOVE_DUPLICATES common)
  install(FILES ${common} DESTINATION share/doc/hekla/licenses/common-licenses)
  install(FILES ${hekla_SOURCE_DIR}/LICENSE DESTINATION share/doc/hekla RENAME copyright) # where Debian expects it
endif()
foreach(app examples observatory recipes)
  install(DIRECTORY ${hekla_SOURCE_DIR}/apps/${app} DESTINATION share/doc/hekla/apps FILES_MATCHING
    PATTERN "README.md" PATTERN "*.svg" PATTERN "*.png" PATTERN "*.c" PATTERN "*.cpp"
    PATTERN gui EXCLUDE PATTERN models EXCLUDE PATTERN panels EXCLUDE PATTERN shaders EXCLUDE PATTERN views EXCLUDE PATTERN vulkan EXCLUDE)
endforeach()

install(DIRECTORY ${hekla_SOURCE_DIR}/engine/include/hekla/plugin DESTINATION include/hekla FILES_MATCHING PATTERN "*.h")
file(GLOB sdk_headers CONFIGURE_DEPENDS ${hekla_SOURCE_DIR}/plugins/sdk/*.h ${hekla_SOURCE_DIR}/plugins/sdk/*.hpp)
install(FILES ${sdk_headers} DESTINATION include/hekla/sdk)
install(DIRECTORY ${hekla_SOURCE_DIR}/plugins/sdk/rust ${hekla_SOURCE_DIR}/plugins/sdk/zig DESTINATION share/hekla)
# The sources of the built-in plugins, to be read and copied.
foreach(kind adapters architectures combiners heads objectives optimizers)
  install(DIRECTORY ${hekla_SOURCE_DIR}/plugins/${kind} DESTINATION share/hekla/plugins FILES_MATCHING PATTERN "*.cpp" PATTERN "*.hpp" PATTERN "*.json")
endforeach()
# Examples in every language, with their recipes.
install(DIRECTORY ${hekla_SOURCE_DIR}/plugins/examples DESTINATION share/hekla/plugins)
install(DIRECTORY ${hekla_SOURCE_DIR}/plugins/reference DESTINATION share/doc/hekla/plugins)
install(FILES ${hekla_SOURCE_DIR}/plugins/README.md ${hekla_SOURCE_DIR}/plugins/GRAPHS.md ${hekla_SOURCE_DIR}/plugins/EXAMPLES.md ${hekla_SOURCE_DIR}/plugins/DEBUGGING.md DESTINATION share/doc/hekla/plugins)
install(FILES ${hekla_SOURCE_DIR}/plugins/sdk/plugin.map DESTINATION share/hekla)
# The manual page and shell completions, which the program generates from its own options.
set(generated share/bash-completion/completions/hekla:completion:bash share/zsh/site-functions/_hekla:completion:zsh
  share/fish/vendor_completions.d/hekla.fish:completion:fish share/man/man1/hekla.1:reference:man)
foreach(row ${generated})
  string(REPLACE ":" ";" row ${row})
  list(GET row 0 file)
  list(GET row 1 verb)
  list(GET row 2 format)
  get_filename_component(folder ${file} DIRECTORY)
  install(CODE "
set(file \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${file}\")
message(STATUS \"Installing: \${file}\")
file(MAKE_DIRECTORY \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${folder}\")
execute_process(COMMAND \"$<TARGET_FILE:hekla>\" ${verb} ${format} OUTPUT_FILE \"\${file}\" COMMAND_ERROR_IS_FATAL ANY)
list(APPEND CMAKE_INSTALL_MANIFEST_FILES \"\${CMAKE_INSTALL_PREFIX}/${file}\")")
endforeach()

include(CMakePackageConfigHelpers)
configure_package_config_file(${hekla_SOURCE_DIR}/cmake/hekla-config.cmake.in ${hekla_BINARY_DIR}/hekla-config.cmake
  INSTALL_DESTINATION lib/cmake/hekla)
write_basic_package_version_file(${hekla_BINARY_DIR}/hekla-config-version.cmake COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES ${hekla_BINARY_DIR}/hekla-config.cmake ${hekla_BINARY_DIR}/hekla-config-version.cmake
  ${hekla_SOURCE_DIR}/cmake/add_plugin.cmake ${hekla_SOURCE_DIR}/cmake/write_manifest.cmake DESTINATION lib/cmake/hekla)
set(HEKLA_STATIC_LIBRARIES "") # for pkg-config --static
if(hekla_static)
  set(HEKLA_STATIC_LIBRARIES "\${libdir}/libhekla.a -lstdc++ -lm -ldl -pthread")
endif()
foreach(package hekla hekla-shared hekla-plugin)
  configure_file(${hekla_SOURCE_DIR}/cmake/${package}.pc.in ${hekla_BINARY_DIR}/${package}.pc @ONLY)
  install(FILES ${hekla_BINARY_DIR}/${package}.pc DESTINATION lib/pkgconfig)
endforeach()

# cpack: a Debian package of the installed files, in /usr. tools/release makes the one that is published.
set(CPACK_PACKAGE_NAME hekla)
set(CPACK_PACKAGE_VENDOR "Hekla")
set(CPACK_PACKAGE_CONTACT "the authors of Hekla <hekla@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "trains and runs transformers on any Vulkan device, alone or inside another program")
set(CPACK_RESOURCE_FILE_LICENSE ${hekla_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
# What is linked; dpkg-shlibdeps would add what modules need that are opened on demand. A package built on one release
# installs on it and on later ones.
set(depends)
foreach(library libc6 libgcc-s1 libstdc++6)
  execute_process(COMMAND dpkg-query -W -f "\${Version}" ${library} OUTPUT_VARIABLE version RESULT_VARIABLE failed ERROR_QUIET)
  if(failed)
    list(APPEND depends "${library}")
  else()
    string(REGEX REPLACE "-.*" "" version "${version}")
    list(APPEND depends "${library} (>= ${version})")
  endif()
endforeach()
list(JOIN depends ", " CPACK_DEBIAN_PACKAGE_DEPENDS)
# Not in every release: the zip library has another name in each (engine/model/zip_archive.cpp opens both).
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libvulkan1, mesa-vulkan-drivers, libsentencepiece0, libzip5 | libzip4t64 | libzip4")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
file(CONFIGURE OUTPUT ${hekla_BINARY_DIR}/generated/triggers CONTENT "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${hekla_BINARY_DIR}/generated/triggers)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_GENERATOR DEB)
include(CPack)
