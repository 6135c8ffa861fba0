# Makes the target torch_outboard::torch_outboard. Find PyTorch first:
#
#   find_package(Torch REQUIRED)
#   find_package(torch_outboard REQUIRED PATHS ${path})
#
# where ${path} is what `python -c "import torch_outboard; print(torch_outboard.cmake_path())"`
# prints. A driver needs only the headers: link torch_outboard::driver.
get_filename_component(_torch_outboard_root "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)

if(NOT TARGET torch_outboard::driver)
  add_library(torch_outboard::driver INTERFACE IMPORTED)
  set_target_properties(torch_outboard::driver PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${_torch_outboard_root}/include")
endif()

if(NOT TARGET torch_outboard::torch_outboard)
  add_library(torch_outboard::torch_outboard SHARED IMPORTED)
  set_target_properties(torch_outboard::torch_outboard PROPERTIES
    IMPORTED_LOCATION "${_torch_outboard_root}/lib/libtorch_outboard.so"
    INTERFACE_INCLUDE_DIRECTORIES "${_torch_outboard_root}/include")
endif()
