# The plugin headers and hekla.h are plain C: each compiles alone, as C and as C++, with every warning an error. What repeats
# the list of operations is what the generator makes.
file(GLOB headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/engine/include/hekla/*.h ${CMAKE_SOURCE_DIR}/engine/include/hekla/plugin/*.h)
foreach(standard c11 c17 c++17 c++20)
  if(standard MATCHES "\\+")
    set(compiler ${CMAKE_CXX_COMPILER})
    set(language c++)
  else()
    set(compiler ${CMAKE_C_COMPILER})
    set(language c)
  endif()
  foreach(header ${headers})
    get_filename_component(name ${header} NAME)
    add_test(NAME abi_${standard}_${name}
      COMMAND ${compiler} -x ${language} -std=${standard} -pedantic -Wall -Wextra -Werror -fsyntax-only
              -I${CMAKE_SOURCE_DIR}/engine/include ${header})
    set_tests_properties(abi_${standard}_${name} PROPERTIES LABELS cpu)
  endforeach()
endforeach()
add_test(NAME abi_generated
  COMMAND ${CMAKE_COMMAND} -DTOOL=$<TARGET_FILE:generate_operations> -DROOT=${CMAKE_SOURCE_DIR}
          -DOUT=${CMAKE_BINARY_DIR}/generated_operations -P ${CMAKE_CURRENT_SOURCE_DIR}/abi/compare_generated.cmake)
