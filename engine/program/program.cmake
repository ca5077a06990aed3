# The kernels, compiled at build time, and the GLSL at the beginning of generated kernels, as text.
include(${hekla_SOURCE_DIR}/cmake/texts.cmake)
hekla_shaders(hekla_program kernels ${hekla_SOURCE_DIR}/shaders)
hekla_texts(hekla_program kernels ${hekla_SOURCE_DIR}/shaders
  common.h divide.glsl group.glsl half.glsl math.glsl philox.glsl record.glsl runtime.h
  pointwise/elements.glsl pointwise/operations.glsl pointwise/dropout.glsl own/frame.glsl own/storage16.glsl)
# The families of operations have a `forward` and a `gradient` each, so they are compiled one by one.
file(GLOB lowerings ${hekla_SOURCE_DIR}/engine/program/lowering/*.cpp)
set_source_files_properties(${lowerings} ${hekla_SOURCE_DIR}/engine/program/program.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
