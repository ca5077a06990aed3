# The kernels, compiled at build time, and the GLSL at the beginning of generated kernels, as text.
include(${hekla_SOURCE_DIR}/cmake/texts.cmake)
hekla_shaders(hekla_program kernels ${hekla_SOURCE_DIR}/shaders)
hekla_texts(hekla_program kernels ${hekla_SOURCE_DIR}/shaders
  common.glsl common.h divide.glsl fours.glsl group.glsl half.glsl lanes.glsl math.glsl philox.glsl record.glsl runtime.h
  attention/cached.comp attention/forward.comp attention/options.glsl attention/record.h attention/scores.glsl
  embedding/lookup.comp embedding/record.h generate/choose.comp generate/record.h matmul/direct.comp matmul/dot.comp matmul/record.h matmul/tile.glsl matmul/uniform.comp
  norm/forward.comp norm/record.h pointwise/copy.comp pointwise/copy_rows.comp pointwise/record.h position/record.h
  position/rotary.comp position/rotary_row.glsl reduce/record.h reduce/rows.comp softmax/forward.comp softmax/record.h
  pointwise/elements.glsl pointwise/operations.glsl pointwise/dropout.glsl own/frame.glsl own/storage16.glsl)
# These files use the constants of their kernels' records without a qualifier, or have names that others have, so they are
# compiled one by one.
foreach(name attention attention_cached chain glsl_record matmul own pointwise_codegen record recurrent reduce)
  set_source_files_properties(${hekla_SOURCE_DIR}/engine/program/lowering/${name}.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endforeach()
# So is program.cpp: Program::State, a class with linkage, has members of types that only this file knows.
set_source_files_properties(${hekla_SOURCE_DIR}/engine/program/program.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
