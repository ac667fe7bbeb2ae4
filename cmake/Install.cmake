# The relocatable tree: lib/liblockstep.so, lib/lockstep/plugins/, include/lockstep/, bin/lockstep, and the package config
# for find_package(lockstep). Only headers that the public ones need are installed.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set_target_properties(lockstep PROPERTIES INSTALL_RPATH "$ORIGIN" EXPORT_NAME lockstep)
install(TARGETS lockstep EXPORT lockstepTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TARGET lockstep_tool)
  file(RELATIVE_PATH lib_from_bin ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
  set_target_properties(lockstep_tool PROPERTIES INSTALL_RPATH "$ORIGIN/${lib_from_bin}")
  install(TARGETS lockstep_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY ${LOCKSTEP_DEPS_DIR}/plugin/ DESTINATION ${CMAKE_INSTALL_LIBDIR}/lockstep/plugins
        USE_SOURCE_PERMISSIONS)
install(DIRECTORY ${LOCKSTEP_DEPS_DIR}/licenses/xla-cpu-plugin DESTINATION ${CMAKE_INSTALL_DOCDIR}/licenses)

set(LOCKSTEP_PUBLIC_HEADERS lockstep/lockstep.h lockstep/mpi.h)
install(CODE "set(roots \"${LOCKSTEP_PUBLIC_HEADERS}\")\nset(source \"${CMAKE_SOURCE_DIR}\")
set(include \"${CMAKE_INSTALL_INCLUDEDIR}\")")
install(SCRIPT ${CMAKE_SOURCE_DIR}/cmake/InstallHeaders.cmake)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)
install(EXPORT lockstepTargets NAMESPACE lockstep:: DESTINATION ${config_dir})
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/lockstepConfig.cmake.in
  ${CMAKE_BINARY_DIR}/lockstepConfig.cmake INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/lockstepConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/lockstepConfig.cmake ${CMAKE_BINARY_DIR}/lockstepConfigVersion.cmake
        DESTINATION ${config_dir})
