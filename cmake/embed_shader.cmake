# Run by the build: compiles one GLSL compute shader with one set of definitions to SPIR-V, compressed, as text for C++ to
# include.
#   cmake -DGLSLC= -DSOURCE= -DOUTPUT= -DDEPFILE= -DINCLUDE= -DCOMMON= -DDEFINITIONS=a,b=1 -DSPIRV=1.5 -DVULKAN=1.2
#   -DOPTIMIZE=ON -DVALIDATE= -DCOMPILED= -DLIKE= -DZSTD= -P embed_shader.cmake
# COMPILED: empty, or a module that is embedded in place of what glslc would make; COMPILED.source has its source's hash.
# LIKE: empty, or a module that is like this one and whose words are the prefix of the frame (zstd --patch-from).
# OUTPUT: comma-separated bytes of a Zstandard frame with a checksum. OUTPUT.hash: SHA-256 of the preprocessed source. OUTPUT.spv: the module, for spirv-val.
function(write_bytes)
  set(like)
  if(LIKE)
    set(like "--patch-from=${LIKE}")
  endif()
  execute_process(COMMAND "${ZSTD}" ${like} -19 --check --no-progress -q -f -o "${OUTPUT}.zst" "${OUTPUT}.spv"
    RESULT_VARIABLE failed ERROR_VARIABLE problem) # which also gets advice
  if(failed)
    message(FATAL_ERROR "zstd failed on ${OUTPUT}.spv: ${problem}")
  endif()
  file(READ "${OUTPUT}.zst" bytes HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  file(WRITE "${OUTPUT}" "${bytes}\n")
endfunction()

if(COMPILED)
  configure_file("${COMPILED}" "${OUTPUT}.spv" COPYONLY)
  file(STRINGS "${COMPILED}.source" hash)
  file(WRITE "${OUTPUT}.hash" "\"${hash}\"\n")
  file(WRITE "${DEPFILE}" "${OUTPUT}: ${COMPILED}\n")
  write_bytes()
  return()
endif()

string(REPLACE "," ";" definitions "${DEFINITIONS}")
set(flags -fshader-stage=compute --target-env=vulkan${VULKAN} --target-spv=spv${SPIRV} -Werror -I "${INCLUDE}" -I "${COMMON}")
foreach(definition IN LISTS definitions)
  list(APPEND flags "-D${definition}")
endforeach()
set(optimize)
if(OPTIMIZE)
  set(optimize -O)
endif()

execute_process(COMMAND "${GLSLC}" ${flags} ${optimize} -MD -MF "${DEPFILE}" -MT "${OUTPUT}" -o "${OUTPUT}.spv" "${SOURCE}"
  RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "glslc failed on ${SOURCE} [${DEFINITIONS}]")
endif()
# The compiler's output is validated during the build, since drivers do not check it.
if(VALIDATE)
  execute_process(COMMAND "${VALIDATE}" --target-env vulkan${VULKAN} --scalar-block-layout "${OUTPUT}.spv" RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "spirv-val refuses what glslc made of ${SOURCE} [${DEFINITIONS}]")
  endif()
endif()
write_bytes()
execute_process(COMMAND "${GLSLC}" ${flags} -E "${SOURCE}" OUTPUT_VARIABLE text RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "glslc -E failed on ${SOURCE} [${DEFINITIONS}]")
endif()
# #line contains this checkout's path, which does not affect the code.
string(REGEX REPLACE "#line [^\n]*\n" "" text "${text}")
string(SHA256 hash "${text}")
file(WRITE "${OUTPUT}.hash" "\"${hash}\"\n")
