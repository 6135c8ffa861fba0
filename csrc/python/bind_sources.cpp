// Descriptions of kernels for the Python functions that write their sources.
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "device_kernels/source_writer.h"
#include "python/bindings.h"
#include "python/python_function.h"

namespace py = pybind11;

namespace outboard {
namespace {

class PythonWriter final : public SourceWriter {
 public:
  // `functions`: the module torch_outboard.ops.sources.
  explicit PythonWriter(py::object functions) : functions_(std::move(functions)) {}

  std::string pointwise(const PointwiseSource& source) const override {
    return call("pointwise", &source);
  }
  std::string reduction(const ReductionSource& source) const override {
    return call("reduction", &source);
  }
  std::string list_norms(const ListNormsSource& source) const override {
    return call("list_norms", &source);
  }
  std::string kernel_template(const TemplateSource& source) const override {
    return call("template", &source);
  }
  std::string product(at::ScalarType dtype, at::ScalarType compute, int width, bool wide,
                      const std::string& definitions, const std::string& kernels) const override {
    return call("product", dtype, compute, width, wide, definitions, kernels);
  }
  std::string fourier(at::ScalarType real, int64_t lanes, bool wide, int64_t dimensions,
                      const std::string& kernels) const override {
    return call("fourier", real, lanes, wide, dimensions, kernels);
  }

 private:
  // Passes structs by address: they outlive the call.
  template <class... Arguments>
  std::string call(const char* name, const Arguments&... arguments) const {
    std::string source;
    const bool done = run_in_interpreter([&] {
      const py::object function = functions_.attr(name);
      source = function(py::cast(arguments, py::return_value_policy::reference)...)
                   .template cast<std::string>();
    });
    TORCH_CHECK(done,
                "no source for a new kernel: the interpreter is ending; finish work on the device "
                "before exit");
    return source;
  }

  const py::object functions_;
};

void bind_pointwise(py::module_& m) {
  using Source = PointwiseSource;
  py::class_<Source::Output>(m, "PointwiseOutput")
      .def_readonly("dtype", &Source::Output::dtype)
      .def_property_readonly("result",
                             [](const Source::Output& output) {
                               constexpr const char* kNames[] = {"value", "mask", "real"};
                               return kNames[static_cast<int>(output.result)];
                             })
      .def_readonly("expression", &Source::Output::expression)
      .def_readonly("in_place", &Source::Output::in_place);
  py::class_<Source::Input>(m, "PointwiseInput")
      .def_readonly("name", &Source::Input::name)
      .def_readonly("dtype", &Source::Input::dtype)
      .def_readonly("mask", &Source::Input::mask)
      .def_readonly("by_value", &Source::Input::by_value)
      .def_readonly("uniform", &Source::Input::uniform)
      .def_readonly("common", &Source::Input::common)
      .def_readonly("single", &Source::Input::single);
  py::class_<Source>(m, "PointwiseSource")
      .def_readonly("outputs", &Source::outputs)
      .def_readonly("inputs", &Source::inputs)
      .def_readonly("scalars", &Source::scalars)
      .def_readonly("listed_scalars", &Source::listed_scalars)
      .def_readonly("divisor", &Source::divisor)
      .def_readonly("condition", &Source::condition)
      .def_readonly("once", &Source::once)
      .def_readonly("compute", &Source::compute)
      .def_readonly("wide_index", &Source::wide_index)
      .def_readonly("crossed", &Source::crossed)
      .def_readonly("calls", &Source::calls)
      .def_property_readonly("width", &Source::width)
      .def_property_readonly("elements", &Source::elements)
      .def_property_readonly("parts", &Source::parts)
      .def_property_readonly("adjacent",
                             [](const Source& source) { return source.shape.chunk == 0; })
      .def_property_readonly("dimensions", [](const Source&) { return kPointwiseDimensions; })
      .def_property_readonly("tile", [](const Source&) { return kCrossedTile; });
}

void bind_reduction(py::module_& m) {
  using Source = ReductionSource;
  const auto of_description = [](auto member) {
    return [member](const Source& source) { return source.description.*member; };
  };
  py::class_<Source>(m, "ReductionSource")
      .def_property_readonly("fields", of_description(&ReductionDescription::fields))
      .def_property_readonly("initial", of_description(&ReductionDescription::initial))
      .def_property_readonly("step", of_description(&ReductionDescription::step))
      .def_property_readonly("merge", of_description(&ReductionDescription::merge))
      .def_property_readonly("results", of_description(&ReductionDescription::results))
      .def_property_readonly("indices", of_description(&ReductionDescription::indices))
      .def_property_readonly("parameters", of_description(&ReductionDescription::parameters))
      .def_readonly("input", &Source::input)
      .def_readonly("compute", &Source::compute)
      .def_readonly("outputs", &Source::outputs)
      .def_readonly("group_lanes", &Source::group_lanes)
      .def_readonly("wide_index", &Source::wide_index)
      .def_property_readonly("width", &Source::width)
      .def_property_readonly("dimensions", [](const Source&) { return kReductionDimensions; })
      .def_property_readonly("columns", [](const Source&) { return kReductionColumns; });
  py::class_<ListNormsSource>(m, "ListNormsSource")
      .def_readonly("order", &ListNormsSource::order)
      .def_readonly("dtype", &ListNormsSource::dtype)
      .def_readonly("calls", &ListNormsSource::calls)
      .def_readonly("width", &ListNormsSource::width)
      .def_readonly("chunk", &ListNormsSource::chunk)
      .def_readonly("parts", &ListNormsSource::parts)
      .def_readonly("local", &ListNormsSource::local)
      .def_readonly("spacing", &ListNormsSource::spacing);
}

void bind_template(py::module_& m) {
  using Source = TemplateSource;
  py::class_<Source::Tensor>(m, "TemplateTensor")
      .def_readonly("name", &Source::Tensor::name)
      .def_property_readonly("dtype",
                             [](const Source::Tensor& tensor) -> std::optional<at::ScalarType> {
                               if (tensor.dtype == at::ScalarType::Undefined) return std::nullopt;
                               return tensor.dtype;
                             })
      .def_readonly("items", &Source::Tensor::items)
      .def_readonly("strided", &Source::Tensor::strided);
  py::class_<Source>(m, "TemplateSource")
      .def_readonly("tensors", &Source::tensors)
      .def_readonly("scalars", &Source::scalars)
      .def_readonly("numbers", &Source::numbers)
      .def_readonly("reals", &Source::reals)
      .def_readonly("lists", &Source::lists)
      .def_readonly("constants", &Source::constants)
      .def_readonly("kernels", &Source::kernels)
      .def_readonly("compute", &Source::compute)
      .def_readonly("moves_items", &Source::moves_items)
      .def_readonly("random", &Source::random)
      .def_readonly("reports", &Source::reports)
      .def_readonly("wide", &Source::wide)
      .def_readonly("gpu", &Source::gpu)
      .def_readonly("width", &Source::width)
      .def_readonly("local", &Source::local)
      .def_property_readonly("dimensions", [](const Source&) { return kTemplateDimensions; })
      .def_property_readonly("list_length", [](const Source&) { return kTemplateList; });
}

}  // namespace

void bind_sources(py::module_& m) {
  bind_pointwise(m);
  bind_reduction(m);
  bind_template(m);
  m.def("set_source_writer", [](py::object functions) {
    run_in_interpreter([] {});  // imports torch._C._dynamo.eval_frame before a kernel needs it
    set_source_writer(std::make_unique<PythonWriter>(std::move(functions)));
  });
}

}  // namespace outboard
