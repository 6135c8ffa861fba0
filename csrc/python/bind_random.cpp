// Default generators.
#include <pybind11/stl.h>

#include "python/bindings.h"
#include "runtime/fork.h"
#include "runtime/generator.h"

namespace py = pybind11;

namespace outboard {

void bind_random(py::module_& m) {
  m.def(
      "default_generator",
      [](c10::DeviceIndex device) { return at::Generator(default_generator(device)); },
      py::call_guard<py::gil_scoped_release>());
  m.def(
      "seed_default_generators",
      [](uint64_t seed) {
        check_fork();
        seed_default_generators(seed);
      },
      py::call_guard<py::gil_scoped_release>(),
      "Seeds the default generators of all devices, now or when they come into being.");
}

}  // namespace outboard
