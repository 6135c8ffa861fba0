"""The OpenCL program of a compiled graph: helper functions, then all kernels of the graph.

Generated code creates one `Program`, registers its kernels, and builds it once. The kit's cache of
programs stores it: a second process compiles nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from torch_outboard import _C
from torch_outboard.inductor.opencl.algorithms import (
    FOLDS,
    KINDS,
    SCANS,
    SEARCH,
    SORT,
    fold_source,
    philox_source,
    scan_source,
    search_source,
    sort_source,
)
from torch_outboard.inductor.opencl.memory_sources import OPERATIONS, STORED, element, memory_source
from torch_outboard.inductor.opencl.value_types import FLOAT8_CALL, LITERAL, float8_source
from torch_outboard.ops.functions.table import definitions_called_by, functions
from torch_outboard.ops.sources.scalar_functions import function_macros
from torch_outboard.ops.sources.value_types import with_functions

_WIDTHS = (16, 8, 4, 2)
_SIGNED = {"float": "int", "double": "long"}
_FLOATING = ("float", "double")
_MEMORY = re.compile(rf"\bob_({'|'.join(OPERATIONS)})_({'|'.join(STORED)})(16|8|4|2)?\b")
_CALL = re.compile(rf"\bob_(\w+?)_({'|'.join(KINDS)})(16|8|4|2)?\b")
_TABLE_CALL = re.compile(r"\bob_(\w+)\b")
# Macros in functions of the table; replaced here, since kernel templates define them, too.
_WORD = re.compile(r"\b(?:[TMS]\b|OB_WIDTH\b|(?:C|OB_ANY|OB_BITS|OB_VALUE)\()")
# A call of a kernel as a function, in a merged kernel.
_PART = re.compile(r"\b(\w+)_part\(")
_HEAD = re.compile(r"__kernel void (\w+)\(([^)]*(?:\([^)]*\)[^)]*)*)\) \{\n((?: *OB_BIND.*\n)*)")
_POINTER = re.compile(r"OB_POINTER\((.*?), (\w+)\)")


@dataclass(frozen=True)
class Kernel:
    """A kernel of a graph; see KernelDefinition, whose properties have the parameters here, too."""

    name: str
    source: str
    device: int
    origins: Sequence[str]
    properties: dict[str, Any]

    def native(self, program: _C.GraphProgram) -> _C.GraphKernel:
        return _C.GraphKernel(program, self.name, **self.properties)


class Program:
    """The kernels of one graph."""

    def __init__(self) -> None:
        self.kernels: dict[str, Kernel] = {}

    def kernel(
        self, name: str, source: str, device: int, origins: Sequence[str] = (), **properties: Any
    ) -> None:
        """Registers a kernel."""
        self.kernels[name] = Kernel(name, source, device, origins, properties)

    def build(self, names: dict[str, object], never_launched: Sequence[str] = ()) -> None:
        """Compiles all kernels, or loads them from disk.

        Args:
            names: globals of the generated code, which get the kernels.
            never_launched: kernels that only merged kernels call.

        Raises:
            RuntimeError: with the compiler's message, the source lines that it refers to, and the
                graph nodes and Python source lines of the kernel.
        """
        if not self.kernels:
            return
        launched = [kernel for kernel in self.kernels.values() if kernel.name not in never_launched]
        program = _C.GraphProgram(program_source(self._source_of(launched)))
        natives = {kernel.name: kernel.native(program) for kernel in launched}
        for kernel in {kernel.device: kernel for kernel in launched}.values():
            try:
                natives[kernel.name].build(kernel.device)
            except RuntimeError as error:
                raise RuntimeError(f"{error}\n{self._blame()}") from error
        names.update(natives)

    def _source_of(self, kernels: Sequence[Kernel]) -> str:
        """The sources of kernels, after the kernels that they call as functions."""
        sources = [kernel.source for kernel in kernels]
        parts = dict.fromkeys(m[1] for source in sources for m in _PART.finditer(source))
        return "\n".join([*(_part(self.kernels[part].source) for part in parts), *sources])

    def _blame(self) -> str:
        """The kernels that do not compile alone, and the nodes that they compute."""
        lines = []
        for kernel in self.kernels.values():
            try:
                alone = _C.GraphProgram(program_source(self._source_of([kernel])))
                kernel.native(alone).build(kernel.device)
            except RuntimeError:
                nodes = ", ".join(kernel.origins)
                lines.append(f"{kernel.name} of the compiled graph computes {nodes}")
        lines.append(
            "torch._dynamo.config.suppress_errors = True runs such graphs operator by operator."
        )
        return "\n".join(lines)


def program_source(kernels: str) -> str:
    """Kernels with the definitions of all helpers that they call."""
    helpers = "".join(search_source(*call) for call in _calls(SEARCH, kernels))
    helpers += "".join(sort_source(*call) for call in _calls(SORT, kernels))
    return with_functions(_COMMON + functions_called_by(helpers + kernels) + helpers + kernels)


def _calls(pattern: re.Pattern[str], source: str) -> list[tuple[Any, ...]]:
    """The helpers that source calls: the parts of their names, and the number of lanes."""
    found = (m.groups() for m in pattern.finditer(source))
    return sorted({(*parts, int(lanes or 1)) for *parts, lanes in found})


def _part(source: str) -> str:
    """A kernel as a function of pointers, for merged kernels."""

    def head(found: re.Match[str]) -> str:
        parameters = _POINTER.sub(r"__global \1 *\2", found[2])
        return f"static void {found[1]}_part({parameters}) {{\n"

    return _HEAD.sub(head, source)


def functions_called_by(source: str) -> str:
    """Definitions of the helpers that kernels call, and of the helpers that those call."""
    folds = ""
    for name, kind, lanes in _calls(_CALL, source):
        if name in FOLDS:
            folds += fold_source(name, kind, lanes)
        elif name in SCANS:
            folds += scan_source(name, kind, lanes)
    table, wide = functions(), ""
    blocks: dict[tuple[str, int], list[str]] = {}
    for name, kind, lanes in _calls(_CALL, source + folds):
        scalar = name.removeprefix("each_")
        if scalar != name:
            wide += _each(scalar, kind, lanes)
        if scalar in table:
            blocks.setdefault((kind, lanes if scalar == name else 1), []).append(scalar)
    memory = _calls(_MEMORY, source)
    # Vectors are added lane by lane.
    memory += [(*call[:2], 1) for call in memory if call[0] in ("atomic_add", "accumulate")]
    memory.sort(key=lambda call: (call[2], call))
    result = "".join(memory_source(*call) for call in dict.fromkeys(memory))
    small = _calls(FLOAT8_CALL, result + source)
    result = "".join(float8_source(*call) for call in small) + result
    for (kind, lanes), names in sorted(blocks.items(), key=lambda item: (item[0][1], item[0])):
        result += table_functions(kind, lanes, tuple(dict.fromkeys(names)))
    return result + wide + folds


@cache
def table_functions(kind: str, lanes: int, names: tuple[str, ...]) -> str:
    """Functions of the table, and their callees, for one value type, with its name as suffix."""
    ending = f"_{kind}{lanes if lanes > 1 else ''}"
    calls = " ".join(f"ob_{name}" for name in names)
    try:
        found = definitions_called_by(calls, "float" if kind in _FLOATING else "integer")
    except ValueError as problem:
        raise NotImplementedError(f"{problem}, in a compiled graph") from problem
    source = "".join(found.values())
    source = _TABLE_CALL.sub(lambda m: m[0] + ending if m[1] in found else m[0], source)
    if kind == "float":
        source = LITERAL.sub(r"\1f", source)
    t = kind if lanes == 1 else f"{kind}{lanes}"
    mask = "int" if lanes == 1 else f"{_SIGNED.get(kind, kind.removeprefix('u'))}{lanes}"
    words = {}
    for macro, replacement in function_macros(kind, t, mask, lanes).items():
        name, call, parameter = macro.partition("(")
        words[name + call] = replacement.removesuffix(parameter)
    source = _WORD.sub(lambda word: words.get(word[0], word[0]), source)
    return f"#define OB_DOUBLE\n{source}#undef OB_DOUBLE\n" if kind == "double" else source


def _each(name: str, kind: str, lanes: int) -> str:
    """A function for vectors that calls the one for scalars."""
    if lanes == 1:
        return f"#define ob_each_{name}_{kind} ob_{name}_{kind}\n"
    count = functions()[name].parameters.count(",") + 1
    letters = "abcd"[:count]
    parts = [
        f"ob_{name}_{kind}({', '.join(element(x, lane) for x in letters)})" for lane in range(lanes)
    ]
    t = f"{kind}{lanes}"
    parameters = ", ".join(f"{t} {x}" for x in letters)
    return (
        f"static inline {t} ob_each_{name}_{t}({parameters}) {{\n"
        f"  return ({t})({', '.join(parts)});\n}}\n"
    )


def checked_index(kind: str, lanes: int) -> str:
    """A function that replaces indices out of range by 0; reports those where the mask is true."""
    t = kind if lanes == 1 else f"{kind}{lanes}"
    mask = "int" if lanes == 1 else f"int{lanes}"
    counts = "m" if lanes == 1 else f"convert_{t}(m)"
    m = mask if lanes == 1 else t
    return (
        f"static inline {t} ob_checked_{t}(const {t} i, const long n, const {mask} m,"
        f" __global int *fault) {{ const {m} wrong = ((i < ({t})(0)) | (i >= ({t})(({kind})n)));"
        f" if ({'any' if lanes > 1 else ''}(wrong & ({counts}))) *fault = 1;"
        f" return wrong ? ({t})(0) : i; }}"
    )


def _frexp(kind: str, lanes: int) -> str:
    """Functions for mantissa and exponent; the exponent of infinities and NaN is 0."""
    t, n = (kind, "int") if lanes == 1 else (f"{kind}{lanes}", f"int{lanes}")
    end = "" if lanes == 1 else str(lanes)
    wide = "isfinite(v)" if lanes == 1 or kind == "float" else f"convert_int{lanes}(isfinite(v))"
    source = (
        f"static inline {t} ob_mantissa_{kind}{end}(const {t} v) {{"
        f" {n} e; return frexp(v, &e); }}\n"
        f"static inline {n} ob_exponent_{kind}{end}(const {t} v) {{"
        f" {n} e; frexp(v, &e); return {wide} ? e : ({n})(0); }}"
    )
    return source if kind == "float" else f"#ifdef OB_HAS_FLOAT64\n{source}\n#endif"


def _common_source() -> str:
    lines = [
        "#ifdef OB_HAS_FLOAT64\ntypedef double ob_real;\n#else\ntypedef float ob_real;\n#endif",
        "#ifdef cl_khr_int64_base_atomics",
        "#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable",
        "#endif",
        "static inline long ob_floor_divide(long a, long b) {"
        " const long q = a / b; return q * b != a && (a < 0) != (b < 0) ? q - 1 : q; }",
        "static inline long ob_natural_power(long base, long exponent) {"
        " long result = 1; for (; exponent > 0; --exponent) result *= base; return result; }",
    ]
    for lanes in (1, *_WIDTHS):
        end, true = ("", 1) if lanes == 1 else (lanes, -1)
        numbers = ", ".join(map(str, range(lanes)))
        lines += [
            f"#define ob_lane_mask{end}(x) ((x) ? {true} : 0)",
            f"#define ob_iota_int{end} ((int{end})({numbers}))",
            f"#define ob_iota_long{end} ((long{end})({numbers}))",
            f"#define ob_any{end}(m) {'any' if end else ''}(m)",
            f"#define ob_all{end}(m) {'all' if end else ''}(m)",
            *(_frexp(kind, lanes) for kind in _FLOATING),
            philox_source(lanes),
            *(checked_index(kind, lanes) for kind in ("int", "long")),
        ]
    return "\n".join(lines) + "\n"


_COMMON = _common_source()
