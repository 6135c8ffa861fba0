"""Merges consecutive small kernels into one launch.

A kernel with one work-item takes less time than its launch. Where the code around a graph calls
several such kernels in a row, they become functions of one kernel. Its only work-item calls them in
that order, so no other work-item reads what one of them writes. Memory was planned before:
allocations between the calls move before the launch, and frees move after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch._inductor.codegen.wrapper import (
    AllocateLine,
    CommentLine,
    FreeIfNotReusedLine,
    FreeLine,
    KernelCallLine,
    KernelDefinitionLine,
    NullLine,
    ReuseLine,
)
from torch._inductor.utils import DeferredLineBase, LineContext
from torch._inductor.virtualized import V

from torch_outboard.inductor.kernel.parameters import (
    FAULT,
    KernelDefinition,
    Parameter,
    Shared,
    shared_parameter,
    source_of_kernel,
)
from torch_outboard.inductor.target import Target, target_of

_SURROUNDINGS = (AllocateLine, CommentLine, KernelDefinitionLine, LineContext, NullLine)
_ONE_ITEM = {"cut": "chunks", "local": 1, "grain": 1, "limit": 1}


@dataclass
class GraphKernels:
    """The kernels of a graph and its subgraphs.

    Attributes:
        definitions: definitions of kernels by name.
        launches: number of launches of each kernel; calls in a merged kernel do not count.
        parts: names of kernels that a merged kernel calls.
    """

    definitions: dict[str, KernelDefinition] = field(default_factory=dict)
    launches: Counter[str] = field(default_factory=Counter)
    parts: set[str] = field(default_factory=set)

    def define(
        self,
        wrapper: Any,
        source: str,
        parameters: Sequence[Parameter],
        properties: dict[str, Any],
        origins: Sequence[str],
        device: int,
    ) -> tuple[str, str]:
        """Name of a kernel, and its registration, which is empty for a known kernel."""
        key = f"{source}{''.join(p.letter for p in parameters)}{properties}"
        if key in wrapper.src_to_kernel:
            return wrapper.src_to_kernel[key], ""
        name = wrapper.src_to_kernel[key] = f"kernel_{wrapper.next_kernel_suffix()}"
        definition = KernelDefinition(name, source, parameters, properties, origins, device)
        self.definitions[name] = definition
        return name, definition.registration()

    def never_launched(self) -> list[str]:
        """Kernels that only merged kernels call."""
        return sorted(name for name in self.parts if not self.launches[name])

    def is_small(self, line: Any) -> bool:
        """Whether a line calls a kernel that always has one work-item."""
        if not isinstance(line, KernelCallLine) or line.kernel_name not in self.definitions:
            return False
        properties = self.definitions[line.kernel_name].properties
        if properties["cut"] != "chunks":
            return False
        if properties["limit"] == 1:
            return True
        units, cost = map(str, line.call_args[-2:])
        if not (units.isdigit() and cost.isdigit()):
            return False
        return int(units) <= 1 or int(cost) <= int(properties["grain"])


class BuildLine(DeferredLineBase):
    """The line that builds the program; written when all launches are known."""

    def __init__(self, kernels: GraphKernels, line: str = "program.build(globals(){})") -> None:
        super().__init__(line)
        self.kernels = kernels

    def __call__(self) -> str:
        parts = self.kernels.never_launched()
        return self.line.format(f", never_launched={parts!r}" if parts else "")

    def _new_line(self, line: str) -> BuildLine:
        return BuildLine(self.kernels, line)


class _Run:
    """Consecutive calls of small kernels, and the lines between them."""

    def __init__(self, first: KernelCallLine, kernels: GraphKernels) -> None:
        self.first = first
        self.kernels = kernels
        self.target: Target = target_of(first.device)
        self.calls: list[str] = []
        self.names: list[str] = []
        self.lines: list[Any] = []  # in the original order, if nothing is merged
        self.before: list[Any] = []
        self.after: list[Any] = []
        self.since: list[Any] = []  # lines after the last call
        self.passed: Shared = {}

    def takes_call(self, line: KernelCallLine) -> bool:
        """Adds a call if the device's limit of parameter bytes allows; returns whether it did."""
        if line.device != self.first.device or _stream(line) != _stream(self.first):
            return False
        passed, names = dict(self.passed), []
        arguments = iter(map(str, line.call_args))
        for parameter in self.kernels.definitions[line.kernel_name].parameters:
            argument = next(arguments) if parameter.argument else ""
            names.append(shared_parameter(passed, parameter, argument).name)
        if sum(p.bytes(self.target) for p in passed.values()) > self.target.parameter_bytes:
            return False
        for between in self.since:
            self._move(between)
        self.lines += [*self.since, line]
        self.since, self.passed = [], passed
        self.calls.append(f"{line.kernel_name}_part({', '.join(names)});")
        self.names.append(line.kernel_name)
        return True

    def takes_line(self, line: Any) -> bool:
        """Adds a line if it can move before or after the launch; returns whether it did."""
        if getattr(line, "comm_buffer", False):
            return False
        if isinstance(line, str):
            movable = line.strip() == "" or line.lstrip().startswith("#")
        else:
            movable = isinstance(line, (*_SURROUNDINGS, ReuseLine, FreeIfNotReusedLine, FreeLine))
        if movable:
            self.since.append(line)
        return movable

    def _move(self, line: Any) -> None:
        if isinstance(line, FreeIfNotReusedLine | FreeLine):
            self.after.append(line)
        elif isinstance(line, ReuseLine):
            # Earlier calls use the old name of the memory.
            self.before.append(replace(line, delete_old=False))
            if line.delete_old and line.node.get_name() not in V.graph.get_output_names():
                self.after.append(FreeLine(line.wrapper, line.node))
        else:
            self.before.append(line)

    def merged(self, wrapper: Any) -> list[Any]:
        """The lines, with one launch in place of several."""
        if len(self.calls) == 1:
            return [*self.lines, *self.since]
        parameters = [p for p in self.passed.values() if p is not FAULT]
        arguments = (*(p.argument for p in parameters), "1", "1")
        if FAULT in self.passed.values():
            parameters.append(FAULT)
        source = source_of_kernel(parameters, "\n".join(self.calls))
        name = self._define(wrapper, source, parameters)
        self.kernels.launches.subtract(self.names)
        self.kernels.launches[name] += 1
        self.kernels.parts.update(self.names)
        call = replace(
            self.first, kernel_name=name, call_args=arguments, arg_types=[""] * len(arguments)
        )
        return [*self.before, call, *self.after, *self.since]

    def _define(self, wrapper: Any, source: str, parameters: Sequence[Parameter]) -> str:
        parts = [self.kernels.definitions[part] for part in self.names]
        origins = tuple(dict.fromkeys(origin for part in parts for origin in part.origins))
        name, registration = self.kernels.define(
            wrapper, source, parameters, _ONE_ITEM, origins, parts[0].device
        )
        if registration:
            self.before.append(KernelDefinitionLine(wrapper, name, registration, gpu=False))
        return name


def merge_small_kernels(wrapper: Any, lines: Sequence[Any], kernels: GraphKernels) -> list[Any]:
    """Merges small kernels in lines of generated code, whose memory is planned."""
    result: list[Any] = []
    run: _Run | None = None
    for line in lines:
        small = kernels.is_small(line)
        if run is not None and (run.takes_call(line) if small else run.takes_line(line)):
            continue
        if run is not None:
            result += run.merged(wrapper)
            run = None
        if small:
            run = _Run(line, kernels)
            if run.takes_call(line):
                continue
            run = None  # its parameters alone exceed the device's limit
        result.append(line)
    return result + (run.merged(wrapper) if run is not None else [])


def _stream(line: KernelCallLine) -> int | None:
    # Compiled graphs have streams from PyTorch 2.12 on.
    return getattr(line, "current_stream_idx", None)
