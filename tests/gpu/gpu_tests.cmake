# The tests of the room gpu, the fault driver, and the same tests once for each vector width of lavapipe (one per
# process).
find_library(HEKLA_REAL_VULKAN NAMES libvulkan.so.1 vulkan REQUIRED)

add_library(hekla_fault_driver STATIC ${CMAKE_CURRENT_SOURCE_DIR}/fault_driver/fault_driver.cpp)
target_link_libraries(hekla_fault_driver PUBLIC hekla_options hekla_base hekla::vulkan ${CMAKE_DL_LIBS})
target_include_directories(hekla_fault_driver PUBLIC ${CMAKE_CURRENT_SOURCE_DIR}/fault_driver)
target_compile_definitions(hekla_fault_driver PRIVATE HEKLA_REAL_VULKAN_PATH="${HEKLA_REAL_VULKAN}")

# As a loader: build/fault_driver/libvulkan.so.1, for LD_LIBRARY_PATH. Its soname is different, so that the real loader
# can be opened too.
add_library(hekla_fault_loader SHARED ${CMAKE_CURRENT_SOURCE_DIR}/fault_driver/loader.cpp)
target_link_libraries(hekla_fault_loader PRIVATE hekla_fault_driver)
set_target_properties(hekla_fault_loader PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${hekla_BINARY_DIR}/fault_driver
  OUTPUT_NAME vulkan SUFFIX .so.1)
target_link_options(hekla_fault_loader PRIVATE -Wl,-soname,libhekla_fault_driver.so -Wl,--exclude-libs,ALL)

hekla_test(gpu hekla_gpu hekla_fault_driver)
hekla_shaders(test_gpu gpu_tests ${CMAKE_CURRENT_SOURCE_DIR}/gpu/shaders)
if(TARGET hekla_glsl)
  add_dependencies(test_gpu hekla_glsl)
endif()
foreach(width 128 256 512)
  add_test(NAME gpu_width_${width} COMMAND test_gpu --test-suite-exclude=long,no_device)
  set_tests_properties(gpu_width_${width} PROPERTIES TIMEOUT 600 ENVIRONMENT "LP_NATIVE_VECTOR_WIDTH=${width}")
endforeach()

# The fault driver as the loader of a program that does not know it.
add_test(NAME gpu_fault_loader COMMAND test_gpu "--test-case=a dispatch through addresses")
set_tests_properties(gpu_fault_loader PROPERTIES PASS_REGULAR_EXPRESSION "was lost in vkQueueSubmit2" ENVIRONMENT
  "LD_LIBRARY_PATH=${hekla_BINARY_DIR}/fault_driver;HEKLA_FAULTS=vkQueueSubmit2:1:-4")
add_dependencies(test_gpu hekla_fault_loader)
