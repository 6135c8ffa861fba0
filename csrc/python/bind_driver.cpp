// Choice of the driver, devices, streams, waits and random number generators.
//
// Functions that may load the driver, wait or take a lock run without the interpreter lock.
#include <pybind11/stl.h>

#include <array>
#include <utility>

#include "python/bindings.h"
#include "python/python_function.h"
#include "runtime/driver/device.h"
#include "runtime/driver/driver_table.h"
#include "runtime/generator.h"
#include "runtime/hooks.h"
#include "runtime/streams/stream.h"
#include "runtime/streams/wait.h"

namespace py = pybind11;

namespace outboard {
namespace {

const char* kind_name(ob_device_kind kind) {
  static constexpr std::array kNames = {"other", "cpu", "gpu", "accelerator"};
  return kind > 0 && kind <= OB_DEVICE_ACCELERATOR ? kNames[kind] : kNames[0];
}

const char* host_access_name(ob_host_access access) {
  return access == OB_HOST_ACCESS_COHERENT ? "coherent" : "none";
}

void bind_properties(py::module_& m) {
  using Properties = ob_device_properties;
  py::class_<Properties>(m, "_DeviceProperties",
                         "What the driver says about a device; sizes are in bytes.",
                         py::module_local())
      .def_property_readonly("name", [](const Properties& p) { return p.name; })
      .def_property_readonly("vendor", [](const Properties& p) { return p.vendor; })
      .def_property_readonly("driver_version", [](const Properties& p) { return p.driver_version; })
      .def_property_readonly("kind", [](const Properties& p) { return kind_name(p.kind); })
      .def_property_readonly("addressing",
                             [](const Properties& p) {
                               return p.addressing == OB_ADDRESSING_HANDLE ? "handle" : "pointer";
                             })
      .def_property_readonly("host_access",
                             [](const Properties& p) { return host_access_name(p.host_access); })
      .def_property_readonly("dtypes",
                             [](const Properties& p) {
                               std::vector<at::ScalarType> dtypes;
                               for (const at::ScalarType dtype : kContractDtypes) {
                                 if (p.dtypes & contract_dtype(dtype)) dtypes.push_back(dtype);
                               }
                               return dtypes;
                             })
      .def_readonly("features", &Properties::features)
      .def_readonly("total_memory", &Properties::total_memory)
      .def_readonly("max_allocation", &Properties::max_allocation)
      .def_readonly("alignment", &Properties::alignment)
      .def_readonly("multi_processor_count", &Properties::compute_units)
      .def_readonly("preferred_vector_width", &Properties::preferred_vector_width)
      .def_readonly("max_work_group_size", &Properties::max_work_group_size)
      .def_readonly("local_memory", &Properties::local_memory)
      .def_readonly("subgroup_size", &Properties::subgroup_size)
      .def_readonly("least_priority", &Properties::least_priority)
      .def_readonly("greatest_priority", &Properties::greatest_priority)
      .def("__repr__", [](const Properties& p) {
        return c10::str("_DeviceProperties(name='", p.name, "', vendor='", p.vendor, "', kind='",
                        kind_name(p.kind), "', total_memory=", p.total_memory >> 20,
                        "MB, multi_processor_count=", p.compute_units, ", host_access='",
                        host_access_name(p.host_access), "')");
      });
}

// The Python function of use_driver_finder.
struct Finder : py::object {
  static constexpr const char* kFailure = "the driver could not be looked for: ";
};

// The exception of a signal handler in a wait, such as KeyboardInterrupt. Guarded by the
// interpreter lock.
std::optional<py::error_already_set>& raised_by_handler() {
  return global<std::optional<py::error_already_set>>();
}

// For waits that cannot throw: Python raises when it runs next.
int raise_in_python(void*) {
  if (!raised_by_handler().has_value()) return 0;
  raised_by_handler()->restore();
  raised_by_handler().reset();
  return -1;
}

bool handle_signals() {
  const py::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() == 0) return false;
  raised_by_handler().emplace();
  Py_AddPendingCall(&raise_in_python, nullptr);
  return true;
}

void raise_of_handler() {
  const py::gil_scoped_acquire gil;
  if (!raised_by_handler().has_value()) return;
  const py::error_already_set error = *raised_by_handler();
  raised_by_handler().reset();
  throw error;
}

void bind_choice(py::module_& m) {
  m.def("use_driver_library", &use_driver_library, NoGil());
  m.def(
      "use_driver_table",
      [](const std::string& name, uint64_t address) {
        use_driver_table(name, reinterpret_cast<const ob_driver*>(address));
      },
      NoGil());
  m.def("use_no_driver", &use_no_driver, NoGil());
  m.def("use_driver_finder", [](const std::string& name, py::function function) {
    store_function<Finder>(std::move(function));
    py::gil_scoped_release no_gil;
    use_driver_finder(name, &call_stored_function<Finder>);
  });
  m.def("add_driver_layer", &add_driver_layer, NoGil());
  m.def("register_hooks", &register_hooks);
  m.def("register_graphs", &register_graphs);
  m.def("driver_initialized", &driver_initialized);
  m.def("finalize_driver", &finalize_driver, NoGil());
  m.def("in_bad_fork", &in_bad_fork);
  set_signal_handling(&handle_signals, &raise_of_handler);
}

void bind_devices(py::module_& m) {
  m.def("device_count", &device_count, NoGil());
  m.def("check_device_index", &check_device_index, NoGil());
  // A copy.
  m.def("device_properties", &device_properties, py::return_value_policy::copy, NoGil());
  // The values that the driver knows, by name.
  m.def("device_state", [](c10::DeviceIndex device) {
    ob_device_state state = {};
    state.struct_size = sizeof(state);
    {
      py::gil_scoped_release no_gil;
      check_device_index(device);
      OB_CALL(device_state, device, &state);
    }
    py::dict known;
    const auto add = [&](uint32_t bit, const char* name, double value) {
      if ((state.known & bit) != 0) known[name] = value;
    };
    add(OB_STATE_UTILIZATION, "utilization", state.utilization);
    add(OB_STATE_MEMORY_UTILIZATION, "memory_utilization", state.memory_utilization);
    add(OB_STATE_TEMPERATURE, "temperature", state.temperature);
    add(OB_STATE_POWER, "power", state.power);
    add(OB_STATE_CLOCK, "clock", state.clock);
    return known;
  });
  m.def(
      "peer_access",
      [](c10::DeviceIndex device, c10::DeviceIndex peer) {
        check_device_index(device);
        check_device_index(peer);
        int32_t direct = 1;  // of a device to itself
        if (device != peer) OB_CALL(peer_access, device, peer, &direct);
        return direct != 0;
      },
      NoGil());
  m.def("current_device", &current_device);
  m.def(
      "set_device",
      [](c10::DeviceIndex device) {
        check_device_index(device);
        set_device(device);
      },
      NoGil());
  // Negative indices change nothing.
  m.def(
      "exchange_device",
      [](c10::DeviceIndex device) {
        if (device >= 0) check_device_index(device);
        return exchange_device(device);
      },
      NoGil());
  m.def("reset_device", &reset_device, NoGil());
  m.def("shares_host_memory", &shares_host_memory, NoGil());
  m.def("adopts_host_memory", &adopts_host_memory, NoGil());
}

// Streams are passed by their ids.
void bind_streams(py::module_& m) {
  m.def(
      "current_stream", [](c10::DeviceIndex device) { return current_stream(device).id(); },
      NoGil());
  m.def(
      "default_stream", [](c10::DeviceIndex device) { return default_stream(device).id(); },
      NoGil());
  m.def(
      "external_stream",
      [](c10::DeviceIndex device, uint64_t queue) {
        return external_stream(device, reinterpret_cast<ob_queue>(queue)).id();
      },
      NoGil());
  m.def(
      "stream_priority",
      [](c10::DeviceIndex device, c10::StreamId id) {
        return stream_state(c10::Stream(c10::Stream::UNSAFE, device_of(device), id)).priority;
      },
      NoGil());
  m.def(
      "stream_is_capturing",
      [](c10::DeviceIndex device) {
        check_device_index(device);
        return current_stream_state(device).capturing.load(std::memory_order_acquire);
      },
      NoGil());
  m.def(
      "synchronize_device",
      [](c10::DeviceIndex device) {
        const RequestedWait wait("synchronize");
        synchronize_device(device);
      },
      NoGil());
}

void bind_generators(py::module_& m) {
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
}

}  // namespace

void bind_driver(py::module_& m) {
  bind_properties(m);
  bind_choice(m);
  bind_devices(m);
  bind_streams(m);
  bind_generators(m);
}

}  // namespace outboard
