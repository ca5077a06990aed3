# The module that exchanges bytes between the processes of an MPI job. Not found: the ranks of a training are threads only.
find_package(MPI QUIET COMPONENTS C)
if(MPI_C_FOUND)
  add_library(hekla_mpi SHARED "${hekla_SOURCE_DIR}/engine/exchange/mpi_module/hekla_mpi.c")
  target_include_directories(hekla_mpi PRIVATE "${hekla_SOURCE_DIR}/engine/include")
  target_link_libraries(hekla_mpi PRIVATE hekla_options MPI::MPI_C Threads::Threads)
else()
  message(STATUS "MPI was not found: trainings use the devices of one machine (third_party/install --distributed)")
endif()
