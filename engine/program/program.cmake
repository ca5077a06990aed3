# The kernels, compiled at build time, and the GLSL that generated kernels begin with, as text.
include(${CMAKE_SOURCE_DIR}/cmake/texts.cmake)
hekla_shaders(hekla_program kernels ${CMAKE_SOURCE_DIR}/shaders)
hekla_texts(hekla_program kernels ${CMAKE_SOURCE_DIR}/shaders
  divide.glsl group.glsl runtime.glsl math.glsl philox.glsl
  pointwise/elements.glsl pointwise/operations.glsl pointwise/dropout.glsl)
# Both kinds of attention number the inputs of their operations by the same names.
set_source_files_properties(${CMAKE_SOURCE_DIR}/engine/program/lower_attention_cached.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
