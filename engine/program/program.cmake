# The kernels, compiled at build time, and the GLSL at the beginning of generated kernels, as text.
include(${hekla_SOURCE_DIR}/cmake/texts.cmake)
hekla_shaders(hekla_program kernels ${hekla_SOURCE_DIR}/shaders)
hekla_texts(hekla_program kernels ${hekla_SOURCE_DIR}/shaders
  common.h divide.glsl group.glsl half.glsl math.glsl philox.glsl record.glsl runtime.h
  pointwise/elements.glsl pointwise/operations.glsl pointwise/dropout.glsl own/frame.glsl own/storage16.glsl)
# These files use the constants of their kernels' records without a qualifier, or have names that others have, so they are
# compiled one by one.
foreach(name attention attention_cached glsl_record matmul own pointwise_codegen recurrent reduce)
  set_source_files_properties(${hekla_SOURCE_DIR}/engine/program/lowering/${name}.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endforeach()
# So is program.cpp: Program::State, a class with linkage, has members of types that only this file knows.
set_source_files_properties(${hekla_SOURCE_DIR}/engine/program/program.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
