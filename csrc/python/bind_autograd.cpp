// Autograd's device threads at exit, and autocast.
#include <torch/csrc/autograd/engine.h>

#include <chrono>
#include <thread>

#include "autograd/autocast.h"
#include "python/bindings.h"
#include "runtime/fork.h"

namespace outboard {
namespace {

// Ends autograd's device threads while the interpreter still runs. Left to PyTorch they end in
// static destructors, and take the interpreter lock last of all: Python before 3.12 answers that by
// unwinding the thread, which aborts the process.
void stop_autograd_threads() {
  if (in_bad_fork()) return;
  torch::autograd::Engine::get_default_engine().stop();
  // stop() returns when the threads are about to take the interpreter lock a last time; there is
  // nothing to wait for but time.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

}  // namespace

void bind_autograd(pybind11::module_& m) {
  m.def("stop_autograd_threads", &stop_autograd_threads,
        pybind11::call_guard<pybind11::gil_scoped_release>());
  m.def("register_autocast", &register_autocast);
  m.def("set_autocast_policy", &set_autocast_policy);
}

}  // namespace outboard
