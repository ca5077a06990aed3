# Finds every library the project uses and gives each one target. `third_party/install` installs them; licences are
# listed in third_party/LICENCES.md. Nothing is vendored and nothing is downloaded by the build.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(doctest REQUIRED)
find_package(nlohmann_json REQUIRED)

function(hekla_header_library name header)
  find_path(HEKLA_INCLUDE_${name} ${header})
  if(NOT HEKLA_INCLUDE_${name})
    message(FATAL_ERROR "${header} was not found: run third_party/install, or install the package that holds it")
  endif()
  add_library(hekla_third_party_${name} INTERFACE)
  target_include_directories(hekla_third_party_${name} SYSTEM INTERFACE ${HEKLA_INCLUDE_${name}})
  add_library(hekla::${name} ALIAS hekla_third_party_${name})
endfunction()

hekla_header_library(xxhash xxhash.h)
hekla_header_library(vulkan vulkan/vulkan.h)
hekla_header_library(cli11 CLI/CLI.hpp)
hekla_header_library(toml toml++/toml.h)
hekla_header_library(vma vk_mem_alloc.h)
target_compile_definitions(hekla_third_party_toml INTERFACE TOML_HEADER_ONLY=1 TOML_EXCEPTIONS=0)

add_library(hekla_third_party_json INTERFACE)
target_link_libraries(hekla_third_party_json INTERFACE nlohmann_json::nlohmann_json)
add_library(hekla::json ALIAS hekla_third_party_json)

find_path(HEKLA_INCLUDE_pcre2 pcre2.h REQUIRED)
find_library(HEKLA_LIBRARY_pcre2 pcre2-8 REQUIRED)
add_library(hekla_third_party_pcre2 INTERFACE)
target_include_directories(hekla_third_party_pcre2 SYSTEM INTERFACE ${HEKLA_INCLUDE_pcre2})
target_link_libraries(hekla_third_party_pcre2 INTERFACE ${HEKLA_LIBRARY_pcre2})
add_library(hekla::pcre2 ALIAS hekla_third_party_pcre2)
