// The Python binding: `torch_outboard._C`. One bind_* function per subject, each in its own file.
#include "dispatch/router.h"
#include "python/bindings.h"

PYBIND11_MODULE(_C, m) {
  m.doc() = "The native side of torch_outboard.";
  outboard::bind_driver(m);
  outboard::bind_memory(m);
  outboard::bind_random(m);
  outboard::bind_storage(m);
  outboard::bind_profiler(m);
  outboard::bind_autograd(m);
  outboard::bind_fallback(m);
  outboard::bind_inspection(m);
  outboard::bind_kernels(m);
  outboard::bind_engines(m);
  m.def(
      "bind_distributed", [m]() mutable { outboard::bind_distributed(m); },
      "Adds ProcessGroup, once: PyTorch's own part is imported for it.");
  outboard::register_operators();
}
