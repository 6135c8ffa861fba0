// Descriptions of kernels for the Python functions that write their sources.
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "device_kernels/source_writer.h"
#include "python/bindings.h"
#include "python/python_function.h"

namespace py = pybind11;

namespace outboard {
namespace {

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

}  // namespace

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

}  // namespace outboard
