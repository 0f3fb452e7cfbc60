# What is installed, how others find it, and the package of Debian and Ubuntu.
include(CMakePackageConfigHelpers)

install(TARGETS bitmma EXPORT bitmma-targets)
if(BITMMA_BUILD_SHARED)
  install(TARGETS bitmma_shared EXPORT bitmma-targets)
endif()
install(DIRECTORY include/bitmma DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES include/bitmma.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT bitmma-targets NAMESPACE bitmma:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/bitmma)
write_basic_package_version_file(bitmma-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES cmake/bitmma-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/bitmma-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/bitmma)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
install(FILES README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN *.md)

# pkg-config finds the prefix from where its file lies, so that the installed tree may be moved.
set(BITMMA_PC_LIBDIR "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
set(BITMMA_PC_INCLUDEDIR "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  set(BITMMA_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
  set(BITMMA_PC_LIBDIR ${CMAKE_INSTALL_FULL_LIBDIR})
  set(BITMMA_PC_INCLUDEDIR ${CMAKE_INSTALL_FULL_INCLUDEDIR})
else()
  file(RELATIVE_PATH up /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  string(REGEX REPLACE "/$" "" up "${up}")
  set(BITMMA_PC_PREFIX "\${pcfiledir}/${up}")
endif()
# What the static library needs besides: pkg-config --static says it, and without a shared one always.
set(BITMMA_PC_LIBS "-L\${libdir} -lbitmma")
set(BITMMA_PC_LIBS_PRIVATE "-lstdc++ -lm -lpthread -ldl")
if(NOT BITMMA_BUILD_SHARED)
  string(APPEND BITMMA_PC_LIBS " ${BITMMA_PC_LIBS_PRIVATE}")
  set(BITMMA_PC_LIBS_PRIVATE "")
endif()
configure_file(cmake/bitmma.pc.in bitmma.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/bitmma.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# cpack, in the build folder, makes bitmma_VERSION_ARCHITECTURE.deb: the program, both libraries and what is above.
if(PROJECT_IS_TOP_LEVEL)
  set(CPACK_GENERATOR DEB)
  set(CPACK_PACKAGE_NAME bitmma)
  set(CPACK_PACKAGE_CONTACT "bitmma developers <bitmma@localhost>")
  set(CPACK_PACKAGE_DESCRIPTION "The program bitmma, and libraries for C and C++, compute what mma.sync, wgmma and tcgen05 give
on a GPU, bit for bit, on any CPU.")
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(CPACK_STRIP_FILES ON)
  # Not the Python module, which is a component of its own: pip installs it.
  set(CPACK_INSTALL_CMAKE_PROJECTS ${CMAKE_CURRENT_BINARY_DIR} bitmma Unspecified /)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
  # Which package has the library of this name; with it come scripts that tell the loader's cache.
  set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ${BITMMA_BUILD_SHARED})
  set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
  include(CPack)
endif()
