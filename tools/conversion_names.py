"""Writes the names of OpenCL C's conversions and reinterpretations; setup.py runs it.

python tools/conversion_names.py > torch_outboard/dialects/clang/values/conversion_names.h

The names are macros, since a function would be needed for each pair of types, and a macro cannot
define macros. conversions.h has the macros behind them.
"""

from collections.abc import Iterator

INTEGERS = ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong")
REALS = ("float", "double")
WIDTHS = ("", "2", "3", "4", "8", "16")
MODES = ("_rte", "_rtz", "_rtp", "_rtn")


def names(kind: str, width: str) -> Iterator[tuple[str, str]]:
    """Names for a type of results and the macros that they stand for."""
    result = kind + width

    def converted(macro: str, mode: str) -> str:
        each = macro + (mode or "_")
        return f"OB_EACH({each}, {kind}, {width}, x)" if width else f"{each}({kind}, x)"

    yield f"as_{result}", f"__builtin_astype((x), {result})"
    yield (
        f"convert_{result}",
        f"__builtin_convertvector((x), {result})" if width else f"(({kind})(x))",
    )
    for mode in MODES:
        macro = "OB_TO_INTEGER" if kind in INTEGERS else "OB_TO_REAL"
        yield f"convert_{result}{mode}", converted(macro, mode)
    for mode in ("", *MODES) if kind in INTEGERS else ():
        yield f"convert_{result}_sat{mode}", converted("OB_TO_SATURATED", mode)


if __name__ == "__main__":
    print("/* Written by tools/conversion_names.py. */")
    for kind in (*INTEGERS, *REALS):
        for width in WIDTHS:
            for name, macro in names(kind, width):
                print(f"#define {name}(x) {macro}")
