// What most files of the library read, in the order of its cost: setup.py compiles it once where
// the compiler is GCC. No file relies on it; each includes what it uses.
#include <torch/library.h>

#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>
