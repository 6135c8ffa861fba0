"""The OpenCL program of a compiled graph: helper functions, then all kernels of the graph.

Generated code creates one `Program`, registers its kernels, and builds it once. The kit's cache of
programs stores it: a second process compiles nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from torch_outboard import _C
from torch_outboard.inductor.opencl.algorithms import (
    FOLDS,
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
from torch_outboard.inductor.opencl.value_types import FLOAT8_CALL, float8_source
from torch_outboard.ops.functions.table import definitions_called_by, functions
from torch_outboard.ops.sources.scalar_functions import function_macros
from torch_outboard.ops.sources.value_types import with_functions

_WIDTHS = (16, 8, 4, 2)
_TYPES = ["float", "double", "int", "uint", "long", "ulong", "short", "ushort", "char", "uchar"]
_SIGNED = {
    "float": "int", "double": "long", "uint": "int", "ulong": "long", "ushort": "short",
    "uchar": "char",
}  # fmt: skip
_FLOATING = ("float", "double")
_MEMORY = re.compile(rf"\bob_({'|'.join(OPERATIONS)})_({'|'.join(STORED)})(16|8|4|2)?\b")
_CALL = re.compile(rf"\bob_(\w+?)_({'|'.join(_TYPES)})(16|8|4|2)?\b")
_TABLE_CALL = re.compile(r"\bob_(\w+)\b")
# Macros in functions of the table; replaced here, since kernel templates define them, too.
_WORD = re.compile(r"\b(?:[TMS]\b|OB_WIDTH\b|(?:C|OB_ANY|OB_BITS|OB_VALUE)\()")
# A call of a kernel as a function, in a merged kernel.
_PART = re.compile(r"\b(\w+)_part\(")
_HEAD = re.compile(r"__kernel void (\w+)\(([^)]*(?:\([^)]*\)[^)]*)*)\) \{\n((?: *OB_BIND.*\n)*)")
_POINTER = re.compile(r"OB_POINTER\((.*?), (\w+)\)")
# A number with a point or an exponent, and no suffix.
_LITERAL = re.compile(r"(?<![\w.])((?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)(?![\w.])")


class Program:
    """The kernels of one graph."""

    def __init__(self) -> None:
        self.sources: dict[str, str] = {}
        self.kernels: dict[str, Kernel] = {}
        self.origins: dict[str, Sequence[str]] = {}

    def kernel(
        self,
        name: str,
        source: str,
        device: int,
        origins: Sequence[str] = (),
        **properties: object,
    ) -> Kernel:
        """Registers a kernel for a device index; call the kernel once the program is built.

        `origins`: the nodes that it computes, for errors.
        """
        self.sources[name] = source
        self.origins[name] = origins
        self.kernels[name] = kernel = Kernel(name, device, properties)
        return kernel

    def build(
        self, names: dict[str, object] | None = None, never_launched: Sequence[str] = ()
    ) -> None:
        """Compiles all kernels, or loads them from disk.

        Args:
            names: globals of the generated code, in which native kernels replace `Kernel`s.
            never_launched: kernels that only merged kernels call.

        Raises:
            RuntimeError: with the compiler's message, the source lines that it refers to, and the
                graph nodes and Python source lines of the kernel.
        """
        if not self.kernels:
            return
        launched = {
            name: kernel for name, kernel in self.kernels.items() if name not in never_launched
        }
        program = _C.GraphProgram(program_source(self._source_of(list(launched))))
        for kernel in launched.values():
            kernel.attach(program)
        for kernel in {kernel.device: kernel for kernel in launched.values()}.values():
            try:
                kernel.build()
            except RuntimeError as error:
                raise RuntimeError(f"{error}\n{self._blame()}") from error
        if names is not None:
            names.update({name: kernel.native for name, kernel in launched.items()})

    def _source_of(self, names: Sequence[str]) -> str:
        """The sources of kernels, after the kernels that they call as functions."""
        sources = [self.sources[name] for name in names]
        parts = dict.fromkeys(m[1] for source in sources for m in _PART.finditer(source))
        return "\n".join([*(_part(self.sources[part]) for part in parts), *sources])

    def _blame(self) -> str:
        """The kernels that do not compile alone, and the nodes that they compute."""
        lines = []
        for name, kernel in self.kernels.items():
            kernel.attach(_C.GraphProgram(program_source(self._source_of([name]))))
            try:
                kernel.build()
            except RuntimeError:
                lines.append(
                    f"{name} of the compiled graph computes {', '.join(self.origins[name])}"
                )
        lines.append(
            "torch._dynamo.config.suppress_errors = True runs such graphs operator by operator."
        )
        return "\n".join(lines)


class Kernel:
    """A kernel of a graph; calling it launches it."""

    def __init__(self, name: str, device: int, properties: dict[str, object]) -> None:
        self.name = name
        self.device = device
        self.properties = properties
        self.native: _C.GraphKernel | None = None

    def attach(self, program: _C.GraphProgram) -> None:
        self.native = _C.GraphKernel(program, self.name, **self.properties)  # type: ignore[arg-type]

    def build(self) -> None:
        assert self.native is not None
        self.native.build(self.device)

    def __call__(self, *arguments: object) -> None:
        assert self.native is not None
        self.native(*arguments)


def program_source(kernels: str) -> str:
    """Kernels with the definitions of all helpers that they call."""
    searches = {(m[1], m[2], m[3], int(m[4] or 1)) for m in SEARCH.finditer(kernels)}
    functions_of_memory = "".join(search_source(*search) for search in sorted(searches))
    sorts = {(m[1], m[2], int(m[3] or 1)) for m in SORT.finditer(kernels)}
    functions_of_values = "".join(sort_source(*sort) for sort in sorted(sorts))
    helpers = functions_of_memory + functions_of_values
    return with_functions(_COMMON + functions_called_by(helpers + kernels) + helpers + kernels)


def _part(source: str) -> str:
    """A kernel as a function of pointers, for merged kernels."""

    def head(found: re.Match[str]) -> str:
        parameters = _POINTER.sub(r"__global \1 *\2", found[2])
        return f"static void {found[1]}_part({parameters}) {{\n"

    return _HEAD.sub(head, source)


def functions_called_by(source: str) -> str:
    """Definitions of the helpers that kernels call, and of the helpers that those call."""
    calls = {(m[1], m[2], int(m[3] or 1)) for m in _CALL.finditer(source)}
    table = functions()
    blocks: dict[tuple[str, int], list[str]] = {}
    wide: list[str] = []
    fold_list: list[str] = []
    for name, kind, lanes in sorted(calls):
        if name in FOLDS:
            fold_list.append(fold_source(name, kind, lanes))
            for function in FOLDS[name]:
                blocks.setdefault((kind, 1), []).append(function)
            continue
        if name in SCANS:
            fold_list.append(scan_source(name, kind, lanes))
            continue
        if name.startswith("each_"):
            blocks.setdefault((kind, 1), []).append(name[5:])
            wide.append(_each(name[5:], kind, lanes))
        elif name in table:
            blocks.setdefault((kind, lanes), []).append(name)
    result = ""
    for m in sorted({(m[1], m[2], int(m[3] or 1)) for m in _MEMORY.finditer(source)},
                    key=lambda key: (key[2], key)):  # fmt: skip
        if m[0] in ("atomic_add", "accumulate") and m[2] > 1:
            result += memory_source(m[0], m[1], 1)
        result += memory_source(*m)
    result = _unique_lines(result)
    small = {(m[1], int(m[2] or 1)) for m in FLOAT8_CALL.finditer(result + source)}
    result = "".join(float8_source(*call) for call in sorted(small)) + result
    for (kind, lanes), names in sorted(blocks.items(), key=lambda item: (item[0][1], item[0])):
        result += table_functions(kind, lanes, tuple(dict.fromkeys(names)))
    return result + "".join(wide) + "".join(fold_list)


def _unique_lines(source: str) -> str:
    """Definitions of memory helpers, each once."""
    parts = re.split(r"(?m)^(?=#define|static)", source)
    return "".join(dict.fromkeys(parts))


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
        source = _LITERAL.sub(r"\1f", source)
    t = kind if lanes == 1 else f"{kind}{lanes}"
    mask = "int" if lanes == 1 else f"{_SIGNED.get(kind, kind)}{lanes}"
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
        "#define ob_lane_mask(x) ((x) ? 1 : 0)",
        "#define ob_iota_int 0",
        "#define ob_iota_long 0",
        "static inline long ob_floor_divide(long a, long b) {"
        " const long q = a / b; return q * b != a && (a < 0) != (b < 0) ? q - 1 : q; }",
        "static inline long ob_natural_power(long base, long exponent) {"
        " long result = 1; for (; exponent > 0; --exponent) result *= base; return result; }",
        "#define ob_any(m) (m)\n#define ob_all(m) (m)",
        *(checked_index(kind, 1) for kind in ("int", "long")),
        *(_frexp(kind, 1) for kind in _FLOATING),
        philox_source(1),
    ]
    for lanes in _WIDTHS:
        numbers = ", ".join(str(lane) for lane in range(lanes))
        lines += [
            f"#define ob_lane_mask{lanes}(x) ((x) ? -1 : 0)",
            f"#define ob_iota_int{lanes} ((int{lanes})({numbers}))",
            f"#define ob_iota_long{lanes} ((long{lanes})({numbers}))",
            *(_frexp(kind, lanes) for kind in _FLOATING),
            philox_source(lanes),
            f"#define ob_any{lanes}(m) any(m)\n#define ob_all{lanes}(m) all(m)",
            *(checked_index(kind, lanes) for kind in ("int", "long")),
        ]
    return "\n".join(lines) + "\n"


_COMMON = _common_source()
