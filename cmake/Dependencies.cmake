# What the rooms link. Debian packages come from scripts/setup.sh; the pinned wheels lie unpacked in .deps/.
set(LOCKSTEP_DEPS_DIR ${CMAKE_SOURCE_DIR}/.deps CACHE PATH "Where scripts/setup.sh put the pinned wheels' files")
if(NOT EXISTS ${LOCKSTEP_DEPS_DIR}/plugin/pjrt_c_api_cpu_plugin.so)
  message(FATAL_ERROR "The pinned CPU plugin is not in ${LOCKSTEP_DEPS_DIR}: run scripts/setup.sh first.")
endif()
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(Protobuf REQUIRED)
find_package(absl REQUIRED)
find_package(gRPC REQUIRED)
find_package(OpenSSL REQUIRED)

add_library(lockstep_xla_headers INTERFACE)
target_include_directories(lockstep_xla_headers SYSTEM INTERFACE ${LOCKSTEP_DEPS_DIR}/include)

add_library(lockstep_protobuf INTERFACE)
target_link_libraries(lockstep_protobuf INTERFACE protobuf::libprotobuf)

add_library(lockstep_grpc INTERFACE)
target_link_libraries(lockstep_grpc INTERFACE gRPC::grpc++ absl::synchronization protobuf::libprotobuf OpenSSL::Crypto)

find_library(GLOO_LIBRARY gloo REQUIRED)
add_library(lockstep_gloo INTERFACE)
target_link_libraries(lockstep_gloo INTERFACE ${GLOO_LIBRARY})

# For tests and examples of programs that use MPI themselves (lockstep/mpi.h); the library does not.
set(MPI_CXX_SKIP_MPICXX ON)
find_package(MPI COMPONENTS CXX)

# A faster malloc for a program that wants it, and for no other: the library forces none on the process it is part of. XLA's
# compiler spends an eighth of its time in the C library's. A sanitizer brings its own.
find_package(mimalloc REQUIRED)
add_library(lockstep_malloc INTERFACE)
add_library(lockstep::malloc ALIAS lockstep_malloc)
if(NOT LOCKSTEP_SANITIZE)
  # Nothing calls it by name, so the linker has to be told to keep it.
  target_link_libraries(lockstep_malloc INTERFACE -Wl,--push-state,--no-as-needed mimalloc -Wl,--pop-state)
endif()
