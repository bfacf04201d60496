# Helpers so that a folder's CMakeLists.txt reads as a list of what it holds.

# tide_library(NAME [COLD|WORLDS] SOURCES a.cc … DEPS tide_base …): a static library with the project's
# flags. COLD: it waits for people, processes or disks, so -O1 is enough and compiles a quarter faster.
# WORLDS: tests run it through thousands of worlds, or gigabytes, so optimising pays with sanitizers, too.
function(tide_library name)
  cmake_parse_arguments(ARG "COLD;WORLDS" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC ${ARG_DEPS} PRIVATE tide_options)
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR})
  if(ARG_COLD)
    target_compile_options(${name} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O1>)
  elseif(ARG_WORLDS AND TIDE_SANITIZE)
    target_compile_options(${name} PRIVATE -O1)
  endif()
endfunction()

# tide_program(NAME SOURCES main.cc … DEPS …): an executable in build/<preset>/bin. What it
# adds to its libraries reads flags and puts parts together: -O1.
function(tide_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} tide_options)
  target_compile_options(${name} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O1>)
endfunction()

# What is tested keeps its own level; the tests themselves are compiled more often than they run.
set(TIDE_TEST_OPTIMIZATION -O0)

# Seconds, of every test but the longest: far above what it takes on a slow machine beside others, for what hangs.
set(TIDE_TEST_TIMEOUT 1200)
# Places of what works all the time. scripts/test fills three a processor: one with what mostly waits.
set(TIDE_BUSY 2)

# tide_test(NAME [TSAN] [MEMORY] [WAITS] SOURCES a_test.cc … DEPS …): a Catch2 program registered with
# ctest under NAME. TSAN: it has threads of ours and also runs under the thread sanitizer. MEMORY: what it
# tests reads bytes of others or owns memory by hand, so each change runs it under the address sanitizer
# (.ci/run; .ci/nightly does it with all, also those that take minutes to compile). WAITS: it waits for processes and disks more than it computes.
function(tide_test name)
  cmake_parse_arguments(ARG "TSAN;MEMORY;WAITS" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} tide_catch_main tide_options)
  target_compile_options(${name} PRIVATE ${TIDE_TEST_OPTIMIZATION})
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  target_precompile_headers(${name} REUSE_FROM tide_catch_pch)
  add_test(NAME ${name} COMMAND ${name})
  set(labels unit)
  set_property(GLOBAL APPEND PROPERTY TIDE_UNIT_TESTS ${name})
  if(ARG_TSAN)
    list(APPEND labels tsan)
    set_property(GLOBAL APPEND PROPERTY TIDE_TSAN_TESTS ${name})
  endif()
  if(ARG_MEMORY)
    list(APPEND labels memory)
    set_property(GLOBAL APPEND PROPERTY TIDE_MEMORY_TESTS ${name})
  endif()
  set(places ${TIDE_BUSY})
  if(ARG_WAITS)
    set(places 1)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT ${TIDE_TEST_TIMEOUT}
    PROCESSORS ${places})
endfunction()

# tide_crun_test(NAME): the tide_test NAME once more, with containers by crun; skipped where there is
# no crun that works.
function(tide_crun_test name)
  add_test(NAME ${name}_crun
    COMMAND /usr/bin/python3 -B ${CMAKE_SOURCE_DIR}/tests/with_crun.py $<TARGET_FILE:${name}>)
  set_tests_properties(${name}_crun PROPERTIES
    LABELS unit TIMEOUT ${TIDE_TEST_TIMEOUT} SKIP_RETURN_CODE 77)
endfunction()
