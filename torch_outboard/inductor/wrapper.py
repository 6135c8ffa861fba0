"""Writes the Python code around a graph's kernels: allocations, calls, and the program's build."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch._inductor import config
from torch._inductor.codegen.common import DeviceOpOverrides, IndentedBuffer
from torch._inductor.codegen.wrapper import (
    PythonWrapperCodegen,
    SubgraphPythonWrapperCodegen,
    WrapperLine,
)
from torch._inductor.virtualized import V

from torch_outboard.inductor.launch_merging import BuildLine, GraphKernels, merge_small_kernels
from torch_outboard.state import state


def keep_python(patches: dict[str, Any]) -> None:
    """Turns `cpp_wrapper` off, with a warning: the code around kernels is always Python."""
    if patches.get("cpp_wrapper", config.cpp_wrapper):
        patches["cpp_wrapper"] = False
        warnings.warn(
            f"cpp_wrapper has no effect on kernels of '{state.name}': Inductor writes C++ around "
            "kernels of its own devices only. Where the host shares the device's memory, "
            "OUTBOARD_PLACEMENT=host compiles graphs to C++ code",
            stacklevel=2,
        )


@dataclass
class _StreamLine(WrapperLine):
    """A line of code about streams, in which the device replaces CUDA, which PyTorch writes."""

    line: WrapperLine

    def codegen(self, code: IndentedBuffer) -> None:
        start = len(code._lines)
        self.line.codegen(code)
        for number, line in enumerate(code._lines[start:], start):
            if isinstance(line, str):
                code._lines[number] = line.replace("torch.cuda.", f"torch.{state.name}.")


def _named_streams(line: WrapperLine) -> WrapperLine:
    # PyTorch calls OutboardOperations.current_stream instead from 2.13 on.
    return line if hasattr(DeviceOpOverrides, "current_stream") else _StreamLine(line)


if TYPE_CHECKING:  # the common base class of PyTorch's two wrapper classes
    _Code = PythonWrapperCodegen
else:
    _Code = object


class _OutboardCode(_Code):
    """Changes to PyTorch's wrapper code, for graphs and their subgraphs."""

    graph_kernels: GraphKernels
    lines: list[Any]

    def run_wrapper_ir_passes(self, is_inference: bool) -> None:
        super().run_wrapper_ir_passes(is_inference)
        self.lines = merge_small_kernels(self, self.lines, self.graph_kernels)

    def _generate_kernel_call_helper(
        self,
        kernel_name: str,
        call_args: Any,
        *,
        device: torch.device | None = None,
        triton: bool = True,
        **rest: Any,
    ) -> None:
        if device is not None and device.type == state.name:
            self.writeline(self.wrap_kernel_call(kernel_name, call_args))
            return
        super()._generate_kernel_call_helper(
            kernel_name, call_args, device=device, triton=triton, **rest
        )

    def make_allocation(
        self,
        name: str,
        device: torch.device,
        dtype: torch.dtype,
        shape: Any,
        stride: Any,
        *arguments: Any,
        **rest: Any,
    ) -> str:
        line: str = super().make_allocation(name, device, dtype, shape, stride, *arguments, **rest)
        if device.type != state.name:
            return line
        # PyTorch writes the device type without an index: device 0, or the current device.
        index = device.index or 0
        start, end = f"{name} = empty_strided(", f", device='{device.type}', dtype={dtype})"
        if line.startswith(start) and end in line:
            line = line.replace(start, f"{name} = empty_strided_on({index}, ", 1)
            return line.replace(end, f", {dtype})", 1)
        return line.replace(f"device='{device.type}'", f"device='{device.type}:{index}'")

    def codegen_device_guard_enter(self, *arguments: Any, **rest: Any) -> None:
        super().codegen_device_guard_enter(*arguments, **rest)
        self.lines[-1] = _named_streams(self.lines[-1])

    def codegen_cuda_stream_enter(self, stream_idx: int) -> Any:
        line = super().codegen_cuda_stream_enter(stream_idx)
        self.lines[-1] = _named_streams(self.lines[-1])
        return line


class OutboardWrapper(_OutboardCode, PythonWrapperCodegen):
    """Wrapper code of a graph."""

    def __init__(self) -> None:
        self.graph_kernels = GraphKernels()
        super().__init__()

    @staticmethod
    def create(
        is_subgraph: bool,
        subgraph_name: str | None,
        parent_wrapper: Any,
        partition_signatures: Any = None,
    ) -> PythonWrapperCodegen:
        if is_subgraph:
            assert subgraph_name is not None
            assert parent_wrapper is not None
            return OutboardSubgraphWrapper(subgraph_name, parent_wrapper, partition_signatures)
        return OutboardWrapper()

    def write_async_compile_wait(self) -> None:
        super().write_async_compile_wait()
        self.prefix.writeline(BuildLine(self.graph_kernels))

    def register_alignment_check_inputs(self) -> None:
        # Loads need only the alignment of one element, so PyTorch need not copy unaligned inputs.
        V.graph._defers_input_alignment = True

    def write_header(self) -> None:
        super().write_header()
        self.header.writeline("from torch_outboard.inductor.opencl.program import Program")
        self.header.writeline("from torch_outboard.inductor.device_interface import DeviceGuard")
        self.header.writeline("from torch_outboard._C import empty_strided as empty_strided_on")
        self.header.writeline("program = Program()")


class OutboardSubgraphWrapper(_OutboardCode, SubgraphPythonWrapperCodegen):
    """Wrapper code of a subgraph, such as a branch of torch.cond."""

    @property
    def graph_kernels(self) -> GraphKernels:
        """The root graph's kernels: subgraphs share its kernel names."""
        kernels: GraphKernels = self.get_root_graph().graph_kernels
        return kernels


class OutboardOperations(DeviceOpOverrides):
    """Lines of generated code that name the device."""

    def import_get_raw_stream_as(self, name: str) -> str:
        return (
            "from torch_outboard.inductor.device_interface import OutboardInterface\n"
            f"{name} = OutboardInterface.get_raw_stream"
        )

    def set_device(self, device_idx: int) -> str:
        return "pass"  # the device guard around this line has set the device

    def synchronize(self) -> str:
        return f"torch.{state.name}.synchronize()"

    def device_guard(self, device_idx: int) -> str:
        return f"DeviceGuard({device_idx})"

    def current_stream(self) -> str:
        return f"torch.{state.name}.current_stream()"
