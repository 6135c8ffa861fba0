// Tensors: storages over shared memory, metadata, generators, and autograd.
#include <pybind11/stl.h>
#include <torch/csrc/autograd/engine.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "autograd/autograd.h"
#include "python/bindings.h"
#include "runtime/generator.h"
#include "runtime/process.h"
#include "tensors/serialization.h"
#include "tensors/shared_storage.h"

namespace py = pybind11;

namespace outboard {
namespace {

// Ends autograd's device threads while the interpreter runs. PyTorch ends them in static
// destructors, where they take the interpreter lock a last time: Python before 3.12 unwinds such a
// thread, which aborts the process.
void stop_autograd_threads() {
  if (in_bad_fork()) return;
  torch::autograd::Engine::get_default_engine().stop();
  // stop() returns when the threads are about to take the interpreter lock a last time. Nothing
  // tells when they have done so.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

}  // namespace

void bind_tensors(py::module_& m) {
  m.def("adopt_cpu_storage", &adopt_cpu_storage, NoGil());
  m.def("adopted_cpu_storage", &adopted_cpu_storage);
  m.def("move_to_cpu_storage", &move_to_cpu_storage, NoGil());
  m.def("host_storage", &exported_host_storage, NoGil());
  m.def("shares_with_processes", &shares_with_processes, NoGil());
  m.def("export_storage", [](const c10::Storage& storage) {
    ExportedMemory exported;
    {
      py::gil_scoped_release no_gil;
      exported = export_storage(storage);
    }
    return std::make_pair(exported.descriptor, py::bytes(exported.data));
  });
  m.def("import_storage",
        [](c10::DeviceIndex device, int descriptor, uint64_t size, const py::bytes& data) {
          const std::string text = data;
          py::gil_scoped_release no_gil;
          return import_storage(device, descriptor, size, text);
        });

  m.def("set_tensor_metadata", &set_tensor_metadata);
  m.def("tensor_metadata", &tensor_metadata);
  m.def("take_metadata_slot", &take_metadata_slot);

  m.def(
      "default_generator",
      [](c10::DeviceIndex device) { return at::Generator(default_generator(device)); }, NoGil());
  m.def(
      "seed_default_generators",
      [](uint64_t seed) {
        check_fork();
        seed_default_generators(seed);
      },
      NoGil(), "Seeds the default generators of all devices, also those made later.");

  m.def("stop_autograd_threads", &stop_autograd_threads, NoGil());
  m.def("register_autocast", &register_autocast);
  m.def("set_autocast_policy", &set_autocast_policy);
}

}  // namespace outboard
