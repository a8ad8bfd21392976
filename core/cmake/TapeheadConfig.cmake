# SPDX-License-Identifier: MIT
# Targets Tapehead::tapehead (everything) and Tapehead::core (tensors, tape, optimizers; no layers).
include(CMakeFindDependencyMacro)
list(APPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR})
find_dependency(fmt CONFIG)
find_dependency(hwy CONFIG)
find_dependency(TapeheadOpenBLAS)
find_dependency(Threads)
list(REMOVE_ITEM CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR})
include(${CMAKE_CURRENT_LIST_DIR}/TapeheadTargets.cmake)
