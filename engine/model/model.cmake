# Additional sources of the room model: the module with the zip library.
add_library(hekla_zip SHARED "${hekla_SOURCE_DIR}/engine/model/zip_module/zip_module.cpp")
target_link_libraries(hekla_zip PRIVATE hekla_options hekla::zip)
target_link_options(hekla_zip PRIVATE -Wl,--no-undefined $<$<CONFIG:Release>:-s>)
