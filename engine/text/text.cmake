# Additional sources of the room text: the module with the SentencePiece library.
find_path(HEKLA_INCLUDE_sentencepiece sentencepiece_processor.h)
find_library(HEKLA_LIBRARY_sentencepiece sentencepiece)
find_library(HEKLA_LIBRARY_sentencepiece_train sentencepiece_train)
if(HEKLA_INCLUDE_sentencepiece AND HEKLA_LIBRARY_sentencepiece AND HEKLA_LIBRARY_sentencepiece_train)
  add_library(hekla_sentencepiece SHARED "${hekla_SOURCE_DIR}/engine/text/sentencepiece_module/sentencepiece_module.cpp")
  target_include_directories(hekla_sentencepiece SYSTEM PRIVATE "${HEKLA_INCLUDE_sentencepiece}")
  target_link_libraries(hekla_sentencepiece PRIVATE hekla_options ${HEKLA_LIBRARY_sentencepiece_train}
                        ${HEKLA_LIBRARY_sentencepiece})
  target_link_options(hekla_sentencepiece PRIVATE -Wl,--no-undefined $<$<CONFIG:Release>:-s>)
else()
  message(STATUS "libsentencepiece was not found: SentencePiece models cannot be opened or trained")
endif()
