# SPDX-License-Identifier: MIT
# Defines Tapehead::openblas. The packages of different systems agree on little: some have a CMake config that
# sets variables, some one with a target, some only a pkg-config file, some only the library. The build and the
# installed package both search with this file, so that no path is stored.
find_package(OpenBLAS QUIET CONFIG HINTS /opt/homebrew/opt/openblas /usr/local/opt/openblas)
if(TARGET OpenBLAS::OpenBLAS)
  set(OpenBLAS_LIBRARIES OpenBLAS::OpenBLAS)
endif()
if(NOT OpenBLAS_LIBRARIES)
  find_package(PkgConfig QUIET)
  if(PkgConfig_FOUND)
    pkg_check_modules(OpenBLAS QUIET IMPORTED_TARGET openblas)
  endif()
  if(TARGET PkgConfig::OpenBLAS)
    set(OpenBLAS_LIBRARIES PkgConfig::OpenBLAS)
  else()
    set(BLA_VENDOR OpenBLAS)
    find_package(BLAS QUIET)
    set(OpenBLAS_LIBRARIES ${BLAS_LIBRARIES})
    unset(BLA_VENDOR)
  endif()
endif()
find_path(TapeheadOpenBLAS_INCLUDE_DIR cblas.h HINTS ${OpenBLAS_INCLUDE_DIRS} PATH_SUFFIXES openblas openblas-pthread)
mark_as_advanced(TapeheadOpenBLAS_INCLUDE_DIR)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(TapeheadOpenBLAS
  REQUIRED_VARS OpenBLAS_LIBRARIES TapeheadOpenBLAS_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "OpenBLAS with its header cblas.h is missing. Install it with one of
  apt-get install libopenblas-dev
  dnf install openblas-devel
  pacman -S openblas
  zypper install openblas-devel
  apk add openblas-dev
  brew install openblas
")
if(TapeheadOpenBLAS_FOUND AND NOT TARGET Tapehead::openblas)
  add_library(Tapehead::openblas INTERFACE IMPORTED)
  target_link_libraries(Tapehead::openblas INTERFACE ${OpenBLAS_LIBRARIES})
  target_include_directories(Tapehead::openblas INTERFACE ${TapeheadOpenBLAS_INCLUDE_DIR})
endif()
