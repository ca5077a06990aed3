# The program with invalid input, kills and faults. Needs a device, and the fault driver as the loader.
add_subdirectory(reliability/plugins)
hekla_test(reliability hekla_gpu hekla::json)
target_sources(test_reliability PRIVATE support/program.cpp)
add_dependencies(test_reliability hekla hekla_broken_plugins faulty hekla_fault_loader)
target_compile_definitions(test_reliability PRIVATE HEKLA_PROGRAM="$<TARGET_FILE:hekla>"
  HEKLA_BROKEN_PLUGINS="${hekla_BINARY_DIR}/tests/broken_plugins" HEKLA_FAULT_FOLDER="${hekla_BINARY_DIR}/fault_driver"
  HEKLA_FAULTS_FOLDER="${hekla_BINARY_DIR}/faults")
# Ranks as processes of MPI: of the MPI library that the module is built with, and of MPICH, if it is installed too.
find_program(HEKLA_MPIRUN_OPENMPI mpirun.openmpi)
find_program(HEKLA_MPIRUN_MPICH mpirun.mpich)
find_program(HEKLA_MPICC_MPICH mpicc.mpich)
if(TARGET hekla_mpi AND HEKLA_MPIRUN_OPENMPI)
  add_dependencies(test_reliability hekla_mpi)
  target_compile_definitions(test_reliability PRIVATE HEKLA_OPENMPI="${HEKLA_MPIRUN_OPENMPI}")
endif()
if(HEKLA_MPIRUN_MPICH AND HEKLA_MPICC_MPICH)
  # As on a cluster: the C file alone, with the MPI's own compiler.
  set(module ${hekla_BINARY_DIR}/tests/mpich/libhekla_mpi.so)
  set(source ${hekla_SOURCE_DIR}/engine/exchange/mpi_module/hekla_mpi.c)
  add_custom_command(OUTPUT ${module}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${hekla_BINARY_DIR}/tests/mpich
    COMMAND ${HEKLA_MPICC_MPICH} -O2 -fPIC -shared -I ${hekla_SOURCE_DIR}/engine/include ${source} -o ${module}
    DEPENDS ${source} VERBATIM)
  add_custom_target(hekla_mpich_module DEPENDS ${module})
  add_dependencies(test_reliability hekla_mpich_module)
  target_compile_definitions(test_reliability PRIVATE HEKLA_MPICH="${HEKLA_MPIRUN_MPICH}" HEKLA_MPICH_MODULE="${module}")
endif()
