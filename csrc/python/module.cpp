// The Python binding: `torch_outboard._C`. One bind_* function per subject, each in its own file.
#include "dispatch/router.h"
#include "python/bindings.h"

PYBIND11_MODULE(_C, m) {
  m.doc() = "The native side of torch_outboard.";
  outboard::bind_driver(m);
  outboard::bind_memory(m);
  outboard::bind_dispatch(m);
  outboard::bind_kernels(m);
  outboard::bind_definitions(m);
  outboard::bind_compiled(m);
  outboard::bind_testing(m);
#ifndef OUTBOARD_NO_DISTRIBUTED  // a PyTorch without torch.distributed, see setup.py
  outboard::bind_distributed(m);
#endif
  outboard::register_operators();
}
