# lockstep_room(NAME [DEPS room...] [LIBS target...]): an object library of lockstep/NAME/**.cc and lockstep/NAME/*.proto.
# lockstep_library(): liblockstep.so from all rooms, and the plugin where the library looks for it.
# lockstep_test(NAME SOURCES file... [LIBS target...] [ROOM room] [LABELS label...] [TIMEOUT seconds]): a GoogleTest
#   program. With ROOM it links the objects of that room and of the rooms below it alone, so that it builds without the
#   rest and a reference upwards does not link; without, it links liblockstep.so.
# lockstep_script_test(NAME COMMAND word... [LABELS label...] [TIMEOUT seconds]): any other test. It is counted by the
#   "N passed, N failed" line or the unittest summary it prints.
set(LOCKSTEP_ROOMS "" CACHE INTERNAL "")

function(lockstep_room name)
  cmake_parse_arguments(R "" "" "DEPS;LIBS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/lockstep/${name}/*.cc)
  file(GLOB protos CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/lockstep/${name}/*.proto)
  foreach(proto ${protos})
    get_filename_component(base ${proto} NAME_WE)
    set(out ${CMAKE_BINARY_DIR}/lockstep/${name}/${base})
    set(outputs ${out}.pb.cc ${out}.pb.h)
    set(grpc_args "")
    file(STRINGS ${proto} service REGEX "^service ")
    if(service)
      list(APPEND outputs ${out}.grpc.pb.cc ${out}.grpc.pb.h)
      find_program(GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)
      set(grpc_args --grpc_out=${CMAKE_BINARY_DIR} --plugin=protoc-gen-grpc=${GRPC_CPP_PLUGIN})
    endif()
    add_custom_command(OUTPUT ${outputs} DEPENDS ${proto}
      COMMAND protobuf::protoc -I ${CMAKE_SOURCE_DIR} --cpp_out=${CMAKE_BINARY_DIR} ${grpc_args} ${proto})
    set_source_files_properties(${outputs} PROPERTIES GENERATED TRUE)
    set_property(SOURCE ${outputs} APPEND PROPERTY COMPILE_OPTIONS -w)
    list(APPEND sources ${outputs})
  endforeach()
  lockstep_header_checks(${name})
  if(NOT sources)
    set(sources ${CMAKE_BINARY_DIR}/empty_${name}.cc)
    file(CONFIGURE OUTPUT ${sources} CONTENT "")
  endif()
  add_library(lockstep_${name} OBJECT ${sources})
  target_include_directories(lockstep_${name} PUBLIC ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
  target_link_libraries(lockstep_${name} PRIVATE lockstep_flags PUBLIC fmt::fmt Threads::Threads ${R_LIBS})
  set(closure "")
  foreach(dep ${R_DEPS})
    if(NOT TARGET lockstep_${dep})
      message(FATAL_ERROR "The room ${name} depends on ${dep}, which must be declared above it.")
    endif()
    target_link_libraries(lockstep_${name} PUBLIC lockstep_${dep})
    list(APPEND closure ${LOCKSTEP_ROOM_CLOSURE_${dep}})
  endforeach()
  list(APPEND closure ${name})
  list(REMOVE_DUPLICATES closure)
  set(LOCKSTEP_ROOM_CLOSURE_${name} "${closure}" CACHE INTERNAL "The room and all below it")
  set(LOCKSTEP_ROOMS ${LOCKSTEP_ROOMS} ${name} CACHE INTERNAL "")
  set(LOCKSTEP_ROOM_LIBS_${name} "${R_LIBS}" CACHE INTERNAL "")
endfunction()

# A header is self-contained if it compiles alone. Where x.cc lies beside x.h it includes it first
# (scripts/check_includes.py), which shows it; the other headers get a file of their own in the target header_checks.
function(lockstep_header_checks room)
  if(NOT TARGET header_checks)
    add_library(header_checks OBJECT EXCLUDE_FROM_ALL)
    target_link_libraries(header_checks PRIVATE lockstep_flags fmt::fmt)
  endif()
  set(glob GLOB_RECURSE)
  if(room STREQUAL ".") # the headers above the rooms
    set(glob GLOB)
  endif()
  file(${glob} headers CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/lockstep/${room}/*.h)
  foreach(header ${headers})
    string(REGEX REPLACE "\\.h$" ".cc" source ${header})
    if(NOT EXISTS ${CMAKE_SOURCE_DIR}/${source})
      file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/header_checks/${source} CONTENT "#include \"${header}\"\n")
      target_sources(header_checks PRIVATE ${CMAKE_BINARY_DIR}/header_checks/${source})
    endif()
  endforeach()
endfunction()

function(lockstep_library)
  add_library(lockstep SHARED)
  add_library(lockstep::lockstep ALIAS lockstep)
  foreach(room ${LOCKSTEP_ROOMS})
    target_sources(lockstep PRIVATE $<TARGET_OBJECTS:lockstep_${room}>)
    target_link_libraries(lockstep PRIVATE ${LOCKSTEP_ROOM_LIBS_${room}})
  endforeach()
  target_link_libraries(lockstep PRIVATE Threads::Threads ${CMAKE_DL_LIBS} PUBLIC fmt::fmt)
  target_include_directories(lockstep PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>)
  target_compile_features(lockstep PUBLIC cxx_std_20)
  set_target_properties(lockstep PROPERTIES SOVERSION ${PROJECT_VERSION_MAJOR} VERSION ${PROJECT_VERSION})
  foreach(room ${LOCKSTEP_ROOMS})
    target_link_libraries(header_checks PRIVATE lockstep_${room})
  endforeach()
  lockstep_header_checks(.)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/lockstep)
  file(CREATE_LINK ${LOCKSTEP_DEPS_DIR}/plugin ${CMAKE_BINARY_DIR}/lockstep/plugins SYMBOLIC)
endfunction()

# What sanitized programs are told. Suppressions are for uninstrumented libraries only; each states its reason.
set(LOCKSTEP_TEST_ENVIRONMENT
    ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
    LSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/lsan.supp:print_suppressions=0
    UBSAN_OPTIONS=print_stacktrace=1
    TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/tsan.supp:second_deadlock_stack=1)

function(lockstep_test name)
  cmake_parse_arguments(T "" "ROOM;TIMEOUT" "SOURCES;LIBS;LABELS" ${ARGN})
  add_executable(${name} ${T_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
  if(T_ROOM)
    list(TRANSFORM LOCKSTEP_ROOM_CLOSURE_${T_ROOM} PREPEND lockstep_ OUTPUT_VARIABLE linked)
  else()
    set(linked lockstep)
  endif()
  target_link_libraries(${name} PRIVATE lockstep_flags ${linked} fmt::fmt GTest::gtest GTest::gmock ${T_LIBS}
                                        ${CMAKE_DL_LIBS})
  lockstep_script_test(${name} COMMAND ${name} TIMEOUT ${T_TIMEOUT} LABELS ${T_LABELS})
  set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT GTEST_OUTPUT=json:${CMAKE_BINARY_DIR}/test-results/)
endfunction()

function(lockstep_script_test name)
  cmake_parse_arguments(T "" "TIMEOUT" "COMMAND;LABELS" ${ARGN})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 300)
  endif()
  add_test(NAME ${name} COMMAND ${T_COMMAND})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${T_TIMEOUT} LABELS "${T_LABELS}"
                                          ENVIRONMENT "${LOCKSTEP_TEST_ENVIRONMENT}")
endfunction()
