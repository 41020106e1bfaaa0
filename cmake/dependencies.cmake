# Everything that is not ours; fetched by scripts/bootstrap.sh.
find_package(PkgConfig REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(CLI11 REQUIRED)
pkg_check_modules(TREE_SITTER REQUIRED IMPORTED_TARGET tree-sitter)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)

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
