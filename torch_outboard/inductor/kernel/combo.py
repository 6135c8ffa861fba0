"""Combo kernels: several kernels in one launch, of torch._foreach_ operators or independent nodes.

Each *piece* has its own loop body, loops and units. Pieces whose sources differ only in names, such
as for the parameters of an optimizer, share one source: sizes are variables in it, and a switch
assigns the pointers and sizes of a piece. The units of all pieces are numbered consecutively, so
that large pieces are spread over processors, and small ones share a work-item or work-group.

A device limits the bytes of parameters: further pieces go into another launch.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy
from torch._inductor.codegen.common import IndentedBuffer
from torch._inductor.utils import sympy_subs
from torch._inductor.virtualized import V

from torch_outboard.inductor.kernel.body import OpenCLKernel, call_kernel
from torch_outboard.inductor.kernel.parameters import (
    FAULT,
    Parameter,
    Shared,
    shared_parameter,
    source_of_kernel,
)
from torch_outboard.inductor.kernel.units import launch_properties, numel_name
from torch_outboard.inductor.opencl.printer import print_expression
from torch_outboard.inductor.target import Target


class Piece:
    """A kernel whose body is generated, in source with canonical names of parameters.

    Attributes:
        kernel: the kernel, with `shares_source`.
        before: statements that are hoisted before all units.
        source: statements of one unit. Both name parameters arg0, arg1 ... in order of occurrence.
        parameters: the parameters arg0, arg1 ...
        others: parameters that only sizes of loops need.
        sizes: sizes of the loops, by the names of their variables.
        units: number of units.
    """

    def __init__(self, kernel: OpenCLKernel) -> None:
        self.kernel = kernel
        with V.set_kernel_handler(kernel):
            kernel.codegen_body()
            code = IndentedBuffer()
            before = kernel.write_unit(code)
            source = code.getvalue()
            simplify = V.graph.sizevars.simplify
            self.sizes = {
                numel_name(tree): kernel.rename_indexing(simplify(tree.numel))
                for tree in kernel.range_trees
                if re.search(rf"\b{numel_name(tree)}\b", source)
            }
            self.units = kernel.rename_indexing(simplify(kernel.units()))
            by_name = {p.name: p for p in kernel.parameters() if p.letter != "F"}
        self.parameters: list[Parameter] = []
        renamed: dict[str, str] = {}

        def rename(found: re.Match[str]) -> str:
            name = found[0]
            if name in by_name and name not in renamed:
                renamed[name] = f"arg{len(renamed)}"
                self.parameters.append(by_name[name])
            return renamed.get(name, name)

        self.before, self.source = (re.sub(r"\b[a-z]\w*\b", rename, t) for t in (before, source))
        self.others = [p for name, p in by_name.items() if name not in renamed]

    @property
    def shared(self) -> tuple[Any, ...]:
        """Key of pieces that can share one source."""
        kinds = tuple((p.letter, p.kind) for p in self.parameters)
        kernel = self.kernel
        return self.before, self.source, kinds, tuple(self.sizes), kernel.index_type, kernel.grouped


@dataclass
class ComboKernel:
    """The kernel of one launch.

    Attributes:
        target: the device's properties.
        pieces: its pieces; a unit is a work-group for all or none of them.
        names: parameters by letter, type and argument.
    """

    target: Target
    pieces: list[Piece] = field(default_factory=list)
    names: Shared = field(default_factory=dict)

    # ---- Parameters

    def takes(self, piece: Piece) -> bool:
        """Adds a piece if its parameters fit and its units have the same kind; returns whether."""
        names = dict(self.names)
        for parameter in (*piece.parameters, *piece.others):
            shared_parameter(names, parameter, parameter.argument)
        room = self.target.parameter_bytes - FAULT.bytes(self.target)
        if self.pieces and (
            sum(p.bytes(self.target) for p in names.values()) > room
            or self.pieces[0].kernel.grouped != piece.kernel.grouped
        ):
            return False
        self.names = names
        self.pieces.append(piece)
        return True

    def parameters(self) -> list[Parameter]:
        reports = any(piece.kernel.reports for piece in self.pieces)
        return [*self.names.values(), *([FAULT] if reports else [])]

    def _name(self, parameter: Parameter) -> str:
        return self.names[parameter.letter, parameter.kind, parameter.argument].name

    def _size(self, piece: Piece, expression: sympy.Expr) -> str:
        """Source of a size of a piece, in the names of this kernel's parameters."""
        names = {p.name: self._name(p) for p in (*piece.parameters, *piece.others)}
        symbols = {
            symbol: sympy.Symbol(names[symbol.name], integer=True, nonnegative=True)
            for symbol in expression.free_symbols
        }
        return str(print_expression(sympy_subs(expression, symbols)))

    # ---- Source

    def codegen_kernel(self) -> str:
        bodies = _by_source(self.pieces)
        code = IndentedBuffer()
        if self.target.group == 1:
            self._write_for_processor(code, bodies)
        else:
            self._write_for_groups(code, bodies)
        return source_of_kernel(self.parameters(), code.getvalue())

    def _write_for_processor(self, code: IndentedBuffer, bodies: list[list[Piece]]) -> None:
        """Each work-item takes a run of units, which may cross pieces."""
        units = [self._size(p, p.units) for body in bodies for p in body]
        code.writelines(
            [
                f"const long total = {' + '.join(map(_long, units))};",
                "const long part = (total + get_global_size(0) - 1) / get_global_size(0);",
                "const long first = get_global_id(0) * part;",
                "const long last = first + part < total ? first + part : total;",
                "long begin = 0;",
            ]
        )
        for body in bodies:
            kind = body[0].kernel.index_type
            code.writeline("{")
            with code.indent():
                self._declare(code, body[0])
                code.writeline(f"{kind} units;")
                code.writeline(
                    f"for (int piece = 0; piece < {len(body)} && begin < last;"
                    " ++piece, begin += units) {"
                )
                with code.indent():
                    cases = [[*self._values(p), f"units = {self._size(p, p.units)};"] for p in body]
                    _write_switch(code, "piece", cases)
                    code.writeline("if (units == 0 || begin + units <= first) continue;")
                    code.splice(body[0].before)
                    code.writelines(
                        [
                            f"const {kind} stop = last - begin < units ? last - begin : units;",
                            f"for ({kind} unit = first > begin ? first - begin : 0; unit < stop;"
                            " ++unit) {",
                        ]
                    )
                    with code.indent():
                        code.splice(body[0].source)
                    code.writeline("}")
                code.writeline("}")
            code.writeline("}")

    def _write_for_groups(self, code: IndentedBuffer, bodies: list[list[Piece]]) -> None:
        """Each work-item, or work-group, finds the piece of its unit."""
        pieces = [piece for body in bodies for piece in body]
        starts = ["0"]
        for i, piece in enumerate(pieces):
            units = self._size(piece, piece.units)
            code.writeline(f"const long end{i} = {starts[-1]} + {_long(units)};")
            starts.append(f"end{i}")
        if self.pieces[0].kernel.grouped:
            for line in dict.fromkeys(line for p in pieces for line in p.kernel.scratch_lines()):
                code.writeline(line)
            step = "get_num_groups(0)"
            code.writeline(f"for (long at = get_group_id(0); at < {starts[-1]}; at += {step}) {{")
        else:
            code.writeline("const long at = get_global_id(0);")
            code.writeline(f"if (at < {starts[-1]}) {{")
        with code.indent():
            passed = " + ".join(f"(at >= {start})" for start in starts[1:-1])
            code.writeline(f"const int piece = {passed or '0'};")
            done = 0
            for body in bodies:
                code.writeline(f"if (piece >= {done} && piece < {done + len(body)}) {{")
                with code.indent():
                    self._declare(code, body[0])
                    code.writeline("long begin;")
                    cases = [
                        [*self._values(piece), f"begin = {starts[done + i]};"]
                        for i, piece in enumerate(body)
                    ]
                    _write_switch(code, f"piece - {done}", cases)
                    code.writeline(f"const {body[0].kernel.index_type} unit = at - begin;")
                    code.splice(body[0].source)
                code.writeline("}")
                done += len(body)
        code.writeline("}")

    @staticmethod
    def _declare(code: IndentedBuffer, piece: Piece) -> None:
        """Declares the variables of a shared source."""
        for i, parameter in enumerate(piece.parameters):
            pointer = f"__global {parameter.kind} *" if parameter.is_pointer else parameter.kind
            code.writeline(f"{pointer} arg{i};")
        for name in piece.sizes:
            code.writeline(f"{piece.kernel.index_type} {name};")

    def _values(self, piece: Piece) -> list[str]:
        """Assignments of a piece's arguments to the variables of its shared source."""
        lines = [f"arg{i} = {self._name(p)};" for i, p in enumerate(piece.parameters)]
        for name, size in piece.sizes.items():
            lines.append(f"{name} = {self._size(piece, size)};")
        return lines

    # ---- Launch

    def nodes(self) -> list[Any]:
        """The scheduler nodes that the kernel computes."""
        return [node for p in self.pieces for node in p.kernel.features.scheduler_nodes()]

    def launch_properties(self) -> dict[str, Any]:
        lines = max(piece.kernel.lines for piece in self.pieces)
        group = max(piece.kernel.group_size() for piece in self.pieces)
        return launch_properties(self.target, lines, self.pieces[0].kernel.grouped, group)

    def call_kernel(self, name: str) -> None:
        for piece in self.pieces:
            piece.kernel.ensure_sizes()
        units = sum((piece.kernel.units() for piece in self.pieces), sympy.S.Zero)
        cost = sum((piece.kernel.cost() for piece in self.pieces), sympy.S.Zero)
        call_kernel(name, self.parameters(), units, cost)


def combo_kernels(kernels: Sequence[OpenCLKernel]) -> list[ComboKernel]:
    """Groups independent kernels of one device into launches."""
    launches: list[ComboKernel] = []
    for piece in itertools.chain(*_by_source(map(Piece, kernels))):
        if not any(launch.takes(piece) for launch in launches[-2:]):
            launches.append(ComboKernel(piece.kernel.target))
            launches[-1].takes(piece)
    return launches


def _by_source(pieces: Iterable[Piece]) -> list[list[Piece]]:
    """Pieces grouped by shared source."""
    found: dict[Any, list[Piece]] = {}
    for piece in pieces:
        found.setdefault(piece.shared, []).append(piece)
    return list(found.values())


def _long(source: str) -> str:
    return f"{source}L" if source.isdigit() else f"(long)({source})"


def _write_switch(code: IndentedBuffer, value: str, cases: list[list[str]]) -> None:
    """Writes a switch with one case per value from 0 on; one case alone needs no switch."""
    if len(cases) == 1:
        code.writelines(cases[0])
        return
    code.writeline(f"switch ({value}) {{")
    for i, lines in enumerate(cases):
        label = f"case {i}:" if i + 1 < len(cases) else "default:"
        code.writeline(f"{label} {' '.join(lines)} break;")
    code.writeline("}")
