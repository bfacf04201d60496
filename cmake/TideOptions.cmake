# How everything is compiled. Targets get these flags by linking tide_options (tide_library does it).
set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")

# Line tables are enough for backtraces and halve the size of objects (style.md section 9).
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")
if(TIDE_SANITIZE)
  set(CMAKE_CXX_FLAGS_DEBUG "-g1")  # compiled once, run once: optimising most of it takes longer than it saves
endif()

# Counting bits in one instruction: every x86-64 server since 2009 (psABI level v2). FreeNodes asks
# for it all the time, and the call of a library function in its place was a fifth of a placement.
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  add_compile_options(-march=x86-64-v2)
endif()

find_program(TIDE_CCACHE ccache)
if(TIDE_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}
      CCACHE_SLOPPINESS=pch_defines,time_macros ${TIDE_CCACHE})
endif()

add_library(tide_options INTERFACE)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(tide_options INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wswitch-enum -Wnon-virtual-dtor
    -Woverloaded-virtual -Wold-style-cast -Werror)
  # g++ 12 reports variants and strings of its own library as maybe uninitialised when it inlines a
  # lot; clang-tidy's analyzer checks for the real thing.
  add_compile_options(-Wno-maybe-uninitialized)
else()
  target_compile_options(tide_options INTERFACE -w)  # clang's warnings are clang-tidy's to give
endif()
target_include_directories(tide_options INTERFACE ${CMAKE_SOURCE_DIR})

find_program(TIDE_MOLD mold)
if(TIDE_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

set(TIDE_SANITIZE "" CACHE STRING "Comma separated list for -fsanitize")
if(TIDE_SANITIZE)
  add_compile_options(-fsanitize=${TIDE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${TIDE_SANITIZE})
  add_compile_definitions(TIDE_SANITIZED)
  if(TIDE_SANITIZE MATCHES "thread")
    add_compile_definitions(TIDE_THREAD_SANITIZED)
  endif()
endif()
