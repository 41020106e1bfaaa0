# Everything that is not ours; fetched by scripts/bootstrap.sh. All of it is linked statically, so that neither the binary
# nor libsyncopate.so needs any of it at run time.
find_package(PkgConfig REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
pkg_check_modules(TREE_SITTER REQUIRED IMPORTED_TARGET tree-sitter)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
find_library(TREE_SITTER_ARCHIVE libtree-sitter.a REQUIRED)
find_library(XXHASH_ARCHIVE libxxhash.a REQUIRED)
set_target_properties(PkgConfig::TREE_SITTER PROPERTIES INTERFACE_LINK_LIBRARIES ${TREE_SITTER_ARCHIVE})
set_target_properties(PkgConfig::XXHASH PROPERTIES INTERFACE_LINK_LIBRARIES ${XXHASH_ARCHIVE})

# Debian has no archives of these two, but their headers hold all of them.
find_path(FMT_HEADERS fmt/format-inl.h REQUIRED)
add_library(fmt_static STATIC ${CMAKE_SOURCE_DIR}/cmake/fmt_static.cpp)
target_include_directories(fmt_static PUBLIC ${FMT_HEADERS})
add_library(fmt::fmt ALIAS fmt_static)
find_path(TOML_HEADERS toml++/toml.h REQUIRED)
add_library(toml_headers INTERFACE)
target_include_directories(toml_headers INTERFACE ${TOML_HEADERS})
target_compile_definitions(toml_headers INTERFACE TOML_HEADER_ONLY=1)
add_library(tomlplusplus::tomlplusplus ALIAS toml_headers)

set(grammar ${CMAKE_SOURCE_DIR}/.deps/tree_sitter_python-0.23.6/src)
set(grammar_headers ${CMAKE_SOURCE_DIR}/.deps/tree-sitter-0.23.2/tree_sitter/core/lib/src)
if(NOT EXISTS ${grammar}/parser.c OR NOT EXISTS ${grammar_headers}/parser.h)
  message(FATAL_ERROR "The Python grammar is missing; run scripts/bootstrap.sh")
endif()
# The grammar includes these as "tree_sitter/..." and its archive does not bring them.
file(COPY ${grammar_headers}/parser.h ${grammar_headers}/array.h ${grammar_headers}/alloc.h ${grammar_headers}/ts_assert.h
     DESTINATION ${CMAKE_BINARY_DIR}/grammar_headers/tree_sitter)
add_library(tree_sitter_python STATIC ${grammar}/parser.c ${grammar}/scanner.c)
target_include_directories(tree_sitter_python PRIVATE ${CMAKE_BINARY_DIR}/grammar_headers)
target_link_libraries(tree_sitter_python PRIVATE PkgConfig::TREE_SITTER)
target_compile_options(tree_sitter_python PRIVATE -w)
