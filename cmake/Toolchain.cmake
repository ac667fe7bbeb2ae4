# Compiler, warnings, sanitizers, linker, ccache.
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

# Measured with 24 files in 6 rooms, -O2, without ccache: 59 s of processor time without, 37 s with.
option(LOCKSTEP_PRECOMPILE "Precompile the headers that most files include (the presets do)" OFF)
if(LOCKSTEP_PRECOMPILE)
  add_compile_options(-pthread) # for every file alike, since precompiled headers are shared
  # What ccache asks for to cache with precompiled headers: no file uses __TIME__ or depends on their macros.
  set(sloppiness CCACHE_SLOPPINESS=pch_defines,time_macros)
endif()

# Objects are shared between checkouts and build directories: ccache sees paths relative to the source tree.
find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${sloppiness} ${CCACHE})
endif()
find_program(MOLD mold)
if(MOLD)
  add_link_options(-fuse-ld=mold)
endif()

add_library(lockstep_flags INTERFACE)
target_compile_options(lockstep_flags INTERFACE -Wall -Wextra -Wno-missing-field-initializers -Wno-unused-parameter
                                                $<$<BOOL:${LOCKSTEP_WERROR}>:-Werror>)
# g++ 12 reports these for std::string and std::vector code that is right (GCC bugs 105329, 105651, 107852).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(lockstep_flags INTERFACE -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread -Wno-restrict
                                                  -Wno-maybe-uninitialized -Wno-free-nonheap-object -Wno-use-after-free
                                                  -Wno-nonnull)
endif()
# Within the library calls may be inlined: nobody replaces its functions at load time.
target_compile_options(lockstep_flags INTERFACE -fno-semantic-interposition)
# Paths in messages are relative to the source tree, whether the compiler was given them absolute or, by ccache,
# relative to the build directory.
file(RELATIVE_PATH source_from_build ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR})
target_compile_options(lockstep_flags INTERFACE -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=
                                                -ffile-prefix-map=${source_from_build}=)

# A plugin newer than pjrt_c_api.h hands over values that the header's C enumerations lack; g++ gives them no other
# meaning (that would take -fstrict-enums), so -fsanitize=enum is off. The checks of every single access through a
# pointer are off too: they take a third of the build, and AddressSanitizer stops at what they find.
if(LOCKSTEP_SANITIZE)
  add_compile_options(-fsanitize=${LOCKSTEP_SANITIZE} -fno-sanitize=enum,null,alignment,object-size,vptr
                      -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-fno-ipa-cp) # g++ 12.2 crashes in that pass on some files, sanitized
  endif()
  add_link_options(-fsanitize=${LOCKSTEP_SANITIZE})
endif()

# Every file is instrumented for coverage, which guides the fuzzers.
if(LOCKSTEP_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
