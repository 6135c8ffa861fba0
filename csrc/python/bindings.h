// The parts of `torch_outboard._C`.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/ScalarType.h>
#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device_kernels/expressions/expression.h"

namespace outboard {

void bind_driver(pybind11::module_& m);       // choice of driver, devices, streams, synchronization
void bind_memory(pybind11::module_& m);       // allocator statistics, pools, pinned memory
void bind_random(pybind11::module_& m);       // generators
void bind_fallback(pybind11::module_& m);     // policies and reports of the router
void bind_inspection(pybind11::module_& m);   // kernels of an operator, traces of dispatch
void bind_kernels(pybind11::module_& m);      // kernels written in Python
void bind_definitions(pybind11::module_& m);  // operator tables, programs, placement
void bind_sources(pybind11::module_& m);      // what the sources of kernels are written from
void bind_compiled(pybind11::module_& m);     // kernels of compiled graphs
void bind_host_graphs(pybind11::module_& m);  // graphs compiled for the CPU
void bind_captures(pybind11::module_& m);     // captured graphs that were compiled
void bind_autograd(pybind11::module_& m);     // autograd's threads at exit
void bind_distributed(pybind11::module_& m);  // the process group
void bind_profiler(pybind11::module_& m);     // history of memory
void bind_storage(pybind11::module_& m);      // sharing storages with CPU, other processes, DLPack
void bind_testing(pybind11::module_& m);      // _C.testing

// Names of Source (dispatch/router.h) and of Placement, in their order.
inline constexpr const char* kSourceNames[] = {"kit", "library", "vendor", "user"};
inline constexpr const char* kPlacementNames[] = {"device", "host", "copied"};

// The value of an enum by its name; ValueError for another name, with the known ones.
template <class Enum, size_t N>
Enum parse_name(const std::string& given, const char* const (&names)[N], const char* what) {
  for (size_t i = 0; i < N; ++i) {
    if (given == names[i]) return static_cast<Enum>(i);
  }
  std::string known;
  for (const char* name : names) known += (known.empty() ? "'" : ", '") + std::string(name) + "'";
  throw pybind11::value_error("'" + given + "' is no " + what + "; use one of " + known);
}

// A segment with the keys of torch.cuda.memory_snapshot.
pybind11::dict segment_to_dict(const c10::CachingDeviceAllocator::SegmentInfo& segment);

// The graph of an operator definition: the nodes of torch_outboard.ops.symbolic.Graph.
std::shared_ptr<const ExpressionGraph> expression_graph(const pybind11::list& nodes);

// The bits (device_kernels/kernel_types.h) of some dtypes, or of all.
uint64_t dtype_bits(const std::optional<std::vector<at::ScalarType>>& dtypes);

}  // namespace outboard
