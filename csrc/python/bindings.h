// The parts of `torch_outboard._C`.
#pragma once

#include <c10/core/ScalarType.h>
#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device_kernels/expressions/expression.h"

namespace outboard {

using NoGil = pybind11::call_guard<pybind11::gil_scoped_release>;

void bind_driver(pybind11::module_& m);  // choice of driver, devices, streams, waits, generators
void bind_memory(pybind11::module_& m);  // allocator, pools, pinned memory, history, storages
void bind_dispatch(
    pybind11::module_& m);                // policies, reports, placement, kernels, traces, autograd
void bind_kernels(pybind11::module_& m);  // kernels written in Python
void bind_definitions(pybind11::module_& m);  // operator definitions, sources, programs
void bind_compiled(
    pybind11::module_& m);  // kernels of compiled graphs, graphs for the CPU, captures
void bind_distributed(pybind11::module_& m);  // the process group
void bind_testing(pybind11::module_& m);      // _C.testing

// Names of Source (dispatch/router.h) and of Placement, in their order.
inline constexpr const char* kSourceNames[] = {"kit", "library", "vendor", "user"};
inline constexpr const char* kPlacementNames[] = {"device", "host", "copied"};

// The value of an enum by its name. Raises ValueError with the known names for another one.
template <class Enum, size_t N>
Enum parse_name(const std::string& given, const char* const (&names)[N], const char* what) {
  for (size_t i = 0; i < N; ++i) {
    if (given == names[i]) return static_cast<Enum>(i);
  }
  std::string known;
  for (const char* name : names) known += (known.empty() ? "'" : ", '") + std::string(name) + "'";
  throw pybind11::value_error(std::string("unknown ") + what + " '" + given + "'; use one of " +
                              known);
}

// As in Python; None for an undefined dtype.
inline pybind11::object dtype_or_none(at::ScalarType dtype) {
  return dtype == at::ScalarType::Undefined ? pybind11::none() : pybind11::cast(dtype);
}

// The graph of an operator definition: the nodes of torch_outboard.ops.definition.Graph.
std::shared_ptr<const ExpressionGraph> expression_graph(const pybind11::list& nodes);

// The bit mask (device_kernels/kernel_types.h) of some dtypes, or of all.
uint64_t dtype_bits(const std::optional<std::vector<at::ScalarType>>& dtypes);

}  // namespace outboard
