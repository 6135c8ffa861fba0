// Operator definitions from Python to C++, their programs with the sources, and the cache on disk.
#include <pybind11/stl.h>

#include "device_kernels/defined_kernel.h"
#include "device_kernels/source_writer.h"
#include "dispatch/router.h"
#include "python/bindings.h"
#include "python/python_function.h"
#include "runtime/driver/device.h"
#include "runtime/driver/driver_table.h"
#include "runtime/programs/launch.h"
#include "runtime/programs/private_folder.h"
#include "runtime/programs/program.h"
#include "runtime/programs/program_disk_cache.h"

namespace py = pybind11;

namespace outboard {

std::shared_ptr<const ExpressionGraph> expression_graph(const py::list& nodes) {
  auto graph = std::make_shared<ExpressionGraph>();
  for (const py::handle node : nodes) {
    const auto parts = node.cast<py::tuple>();
    const py::object constant = parts[2];
    ExpressionNumber number;
    std::string string;
    if (py::isinstance<py::str>(constant)) {
      string = constant.cast<std::string>();
    } else if (py::isinstance<py::float_>(constant)) {
      number = constant.cast<double>();
    } else if (!constant.is_none()) {
      number = constant.cast<int64_t>();
    }
    graph->add(parts[0].cast<std::string>(), parts[1].cast<std::vector<int64_t>>(), number,
               std::move(string));
  }
  return graph;
}

namespace {

// The Python function of set_device_kernel_loader.
struct Loader : py::object {
  static constexpr const char* kFailure = "the operator tables could not be loaded: ";
};

Definition::Value to_value(const std::string& key, const py::handle& value) {
  if (py::isinstance<py::function>(value)) {
    return make_decomposition(py::reinterpret_borrow<py::function>(value));
  }
  if (py::isinstance<py::dict>(value)) {
    const auto dictionary = py::reinterpret_borrow<py::dict>(value);
    py::detail::make_caster<std::map<std::string, int64_t>> integers;
    if (!dictionary.empty() && integers.load(dictionary, /*convert=*/false)) {
      Definition::NamedIntegers named;  // in the order of the definition
      for (const auto& [name, number] : dictionary) {
        named.emplace_back(name.cast<std::string>(), number.cast<int64_t>());
      }
      return named;
    }
  }
  using Plain =
      std::variant<std::monostate, bool, int64_t, double, std::string, Definition::Strings,
                   Definition::Integers, Definition::Dictionary, Definition::NamedReals>;
  py::detail::make_caster<Plain> plain;
  if (plain.load(value, /*convert=*/false)) {
    return std::visit([](auto& known) -> Definition::Value { return known; },
                      static_cast<Plain&>(plain));
  }
  throw py::value_error(
      "an operator definition gives '" + key +
      "' a value that is not a flag, number, string, list or dictionary of strings or "
      "of numbers, or function");
}

// `described`: a dataclass derived from torch_outboard.ops.definition.Definition.
Definition to_definition(const py::object& described) {
  Definition definition;
  definition.kind = described.attr("kind").cast<std::string>();
  for (const auto& [key, value] : described.attr("__dict__").cast<py::dict>()) {
    const auto name = key.cast<std::string>();
    if (name == "graph") {
      definition.graph = expression_graph(py::reinterpret_borrow<py::list>(value));
    } else {
      definition.fields[name] = to_value(name, value);
    }
  }
  return definition;
}

// Launches a kernel of any source. Arguments are pairs: ("address", number), ("value", bytes) or
// ("local", number of bytes).
void launch_kernel(c10::DeviceIndex device, const std::string& source, const std::string& name,
                   const std::string& options, const std::vector<uint64_t>& global,
                   const std::vector<uint64_t>& local,
                   const std::vector<std::pair<std::string, py::object>>& arguments) {
  check_device_index(device);
  if (global.empty() || global.size() > 3 || local.size() != global.size()) {
    throw py::value_error("a kernel is launched over 1 to 3 dimensions, with a local size in each");
  }
  Grid grid;
  grid.dimensions = static_cast<uint32_t>(global.size());
  std::copy(global.begin(), global.end(), grid.global);
  std::copy(local.begin(), local.end(), grid.local);
  LaunchArguments launch_arguments;
  for (const auto& [kind, value] : arguments) {
    if (kind == "address") {
      launch_arguments.address(value.cast<uint64_t>());
    } else if (kind == "value") {
      const auto bytes = value.cast<std::string>();
      launch_arguments.bytes(bytes.data(), bytes.size());
    } else if (kind == "local") {
      launch_arguments.local(value.cast<size_t>());
    } else {
      throw py::value_error("'" + kind +
                            "' is not a kind of argument; use address, value or local");
    }
  }
  py::gil_scoped_release no_gil;
  launch(current_stream_state(device), find_kernel(device, source, name, options), grid,
         launch_arguments);
}

// Files that only this user can have written. Each call opens the folder.
void bind_private_folder(py::module_& m) {
  m.def(
      "private_folder_problem",
      [](const std::string& folder, bool shared) {
        return PrivateFolder(folder, shared).problem();
      },
      NoGil(), "Why a folder is refused; '' if it is not, or does not exist.");
  m.def(
      "list_private_folder",
      [](const std::string& folder, bool shared) {
        std::vector<std::tuple<std::string, uint64_t, double>> files;
        for (const FolderEntry& entry : PrivateFolder(folder, shared).list()) {
          files.emplace_back(entry.name, entry.bytes, entry.used);
        }
        return files;
      },
      NoGil(), "Name, bytes and time of the last use of the files.");
  m.def(
      "remove_private_file",
      [](const std::string& folder, const std::string& name, bool shared) {
        return PrivateFolder(folder, shared).remove(name);
      },
      NoGil());
}

void bind_programs(py::module_& m) {
  m.def("launch_kernel", &launch_kernel, py::arg("device"), py::arg("source"), py::arg("name"),
        py::arg("options"), py::arg("global_size"), py::arg("local_size"), py::arg("arguments"));
  m.def("runs_code", &runs_code, NoGil());
  m.def("compiler_failure", &compiler_failure, NoGil());
  m.def(
      "configure_disk_cache",
      [](std::string folder, uint64_t limit, bool shared) {
        return configure_disk_cache({std::move(folder), limit, shared});
      },
      py::arg("folder"), py::arg("limit"), py::arg("shared"), NoGil(),
      "Sets the folder of compiled programs; returns why it is refused, or ''.");
  m.def("is_disk_cache_file", &is_disk_cache_file);
  m.def("flush_disk_cache", [] { flush_disk_cache(/*asked=*/true); }, NoGil());
  m.def("program_counts", []() {
    const ProgramCounts counts = program_counts();
    return py::make_tuple(counts.built, counts.loaded, disk_cache_writes());
  });
}

// ---- Descriptions of kernels for the Python functions that write their sources

// Calls the function or the dataclass that `fields` names in a module.
py::object call_with(const py::object& module, const SourceFields& fields) {
  py::dict keywords;
  for (const auto& [name, value] : fields.values) {
    keywords[name] = std::visit(
        [&]<class T>(const T& known) -> py::object {
          if constexpr (std::is_same_v<T, std::vector<SourceFields>>) {
            py::list list;
            for (const SourceFields& element : known) list.append(call_with(module, element));
            return list;
          } else {
            if constexpr (std::is_same_v<T, at::ScalarType>) {
              return dtype_or_none(known);
            } else {
              return py::cast(known);
            }
          }
        },
        value);
  }
  return module.attr(fields.name)(**keywords);
}

void bind_sources(py::module_& m) {
  // `functions`: the module torch_outboard.ops.sources.
  m.def("set_source_writer", [](const py::object& functions) {
    run_in_interpreter([] {});  // imports torch._C._dynamo.eval_frame before a kernel needs it
    // Leaked: called as long as threads run.
    set_source_writer([module = new py::object(functions)](const SourceFields& fields) {
      std::string source;
      const bool done = run_in_interpreter(
          [&] { source = call_with(*module, fields).template cast<std::string>(); });
      TORCH_CHECK(done,
                  "no source for a new kernel: the interpreter is ending; finish work on the "
                  "device before exit");
      return source;
    });
  });
}

}  // namespace

void bind_definitions(py::module_& m) {
  bind_programs(m);
  bind_private_folder(m);
  bind_sources(m);
  m.def("set_device_kernel_loader", [](py::function function) {
    store_function<Loader>(std::move(function));
    set_device_kernel_loader(&call_stored_function<Loader>);
  });
  m.def(
      "library_functions",
      []() {
        const ob_driver& table = driver();
        std::vector<std::string> names;
        if (table.matrix_product != nullptr) names.emplace_back("matrix_product");
        if (table.convolution != nullptr) names.emplace_back("convolution");
        return names;
      },
      NoGil(), "Names of the driver's library functions that operators use.");
  m.def("load_device_kernels", &ensure_device_kernels, NoGil());
  m.attr("Declined") = declined_in_python();
  m.def("stop_interpreter_calls", &stop_interpreter_calls, NoGil());
  // All definitions in one call. A call of an overload tries its definitions in their order.
  m.def("load_definitions", [](const std::vector<py::object>& descriptions) {
    std::vector<Definition> definitions;
    for (const py::object& description : descriptions)
      definitions.push_back(to_definition(description));
    std::reverse(definitions.begin(), definitions.end());
    py::gil_scoped_release no_gil;
    add_definitions(definitions);
    device_kernels_are_loaded();
  });
  m.def(
      "add_definition",
      [](const std::string& name, const py::object& description,
         const std::optional<std::vector<at::ScalarType>>& dtypes, c10::DeviceIndex device) {
        const Definition definition = to_definition(description);
        RoutedKernel kernel;
        kernel.device_kernel = make_device_kernel(definition, name);
        kernel.source = Source::kUser;
        kernel.device = device;
        kernel.dtypes = dtype_bits(dtypes);
        return add_kernel(name, std::move(kernel));
      },
      py::arg("name"), py::arg("definition"), py::arg("dtypes"), py::arg("device"),
      "A user's kernel, made from a definition.");
}

}  // namespace outboard
