# cmake -DMANIFEST=FILE -DLIBRARY=FILE -DOUTPUT=FILE -P write_manifest.cmake: writes the manifest with the library's
# hash, which Hekla compares before it loads the library.
file(READ ${MANIFEST} content)
file(SHA256 ${LIBRARY} hash)
if(content MATCHES "\"sha256\"")
  message(FATAL_ERROR "${MANIFEST}: \"sha256\" is written by the build: take it out")
endif()
string(REGEX REPLACE "(\"library\"[ \t\r\n]*:[ \t\r\n]*\"[^\"]*\")" "\\1, \"sha256\": \"${hash}\"" with_hash "${content}")
if(with_hash STREQUAL content)
  message(FATAL_ERROR "${MANIFEST}: expected \"library\": \"NAME.so\"")
endif()
file(WRITE ${OUTPUT} "${with_hash}")
