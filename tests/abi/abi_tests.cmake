# The plugin ABI and the C API for hosts. Their headers are plain C: each compiles alone, as C and as C++, with every
# warning an error. The generated files match the descriptions. The released layouts hold, for C, C++ and Rust, on Linux and
# Windows, and as libabigail and bindgen see them. A test whose tool is not installed is skipped with a message.
file(GLOB c_headers CONFIGURE_DEPENDS ${hekla_SOURCE_DIR}/engine/include/hekla/*.h ${hekla_SOURCE_DIR}/engine/include/hekla/plugin/*.h)
file(GLOB cpp_headers CONFIGURE_DEPENDS ${hekla_SOURCE_DIR}/engine/include/hekla/*.hpp)
foreach(standard c11 c17 c++17 c++20)
  if(standard MATCHES "\\+")
    set(compiler ${CMAKE_CXX_COMPILER})
    set(language c++)
    set(headers ${c_headers} ${cpp_headers})
  else()
    set(compiler ${CMAKE_C_COMPILER})
    set(language c)
    set(headers ${c_headers})
  endif()
  foreach(header ${headers})
    file(RELATIVE_PATH name ${hekla_SOURCE_DIR}/engine/include/hekla ${header})
    string(REGEX REPLACE "^plugin/" "" name ${name})
    string(REPLACE "/" "_" name ${name})
    add_test(NAME abi_${standard}_${name}
      COMMAND ${compiler} -x ${language} -std=${standard} -pedantic -Wall -Wextra -Werror -fsyntax-only
              -I${hekla_SOURCE_DIR}/engine/include ${header})
    set_tests_properties(abi_${standard}_${name} PROPERTIES LABELS cpu)
  endforeach()
endforeach()
add_test(NAME abi_generated
  COMMAND ${CMAKE_COMMAND} -DTOOL=$<TARGET_FILE:generate_abi> -DROOT=${hekla_SOURCE_DIR}
          -DOUT=${hekla_BINARY_DIR}/generated_abi -P ${CMAKE_CURRENT_SOURCE_DIR}/abi/compare_generated.cmake)
set(abi ${CMAKE_CURRENT_SOURCE_DIR}/abi)
set(generate $<TARGET_FILE:generate_abi>)
add_test(NAME abi_layout COMMAND ${abi}/layout.sh ${hekla_SOURCE_DIR} ${generate} ${CMAKE_C_COMPILER} ${CMAKE_CXX_COMPILER})
add_test(NAME abi_host_layout COMMAND ${abi}/host_layout.sh ${hekla_SOURCE_DIR} ${generate} ${CMAKE_C_COMPILER} ${CMAKE_CXX_COMPILER})
add_test(NAME abi_abidiff COMMAND ${abi}/abidiff.sh ${hekla_SOURCE_DIR} ${generate} ${CMAKE_C_COMPILER})
add_test(NAME abi_bindgen COMMAND ${abi}/bindgen.sh ${hekla_SOURCE_DIR})
add_test(NAME abi_rust COMMAND ${abi}/rust.sh ${hekla_SOURCE_DIR} ${generate} ${CMAKE_C_COMPILER})
add_test(NAME abi_mingw COMMAND ${abi}/mingw.sh ${hekla_SOURCE_DIR} ${generate})
set_tests_properties(abi_layout abi_host_layout abi_abidiff abi_bindgen abi_rust abi_mingw PROPERTIES TIMEOUT 600 SKIP_RETURN_CODE 77)
# Guarantees for plugin authors: a plugin built for a released version continues to work, however it was built, and will
# with the next version too.
add_test(NAME abi_golden COMMAND ${abi}/golden.sh ${hekla_SOURCE_DIR} ${hekla_BINARY_DIR}/bin/hekla ${CMAKE_C_COMPILER})
add_test(NAME abi_next_minor COMMAND ${abi}/next_minor.sh ${hekla_SOURCE_DIR} ${generate} ${CMAKE_C_COMPILER})
add_test(NAME abi_variants COMMAND ${abi}/variants.sh ${hekla_SOURCE_DIR} ${hekla_BINARY_DIR}/bin/hekla)
add_test(NAME abi_rules COMMAND ${abi}/rules.sh ${hekla_SOURCE_DIR} ${hekla_BINARY_DIR}/bin/hekla)
set_tests_properties(abi_golden abi_variants PROPERTIES TIMEOUT 1200 SKIP_RETURN_CODE 77)
find_program(HEKLA_OTHER_COMPILER NAMES clang++-19 clang++)
if(HEKLA_OTHER_COMPILER)
  add_test(NAME abi_other_host COMMAND ${abi}/other_host.sh ${hekla_SOURCE_DIR} ${hekla_BINARY_DIR}/bin/hekla
    ${HEKLA_OTHER_COMPILER} -stdlib=libc++)
  set_tests_properties(abi_other_host PROPERTIES TIMEOUT 3600 SKIP_RETURN_CODE 77 LABELS long)
endif()
set_tests_properties(abi_next_minor abi_rules PROPERTIES TIMEOUT 300)
