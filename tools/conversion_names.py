"""Writes names of OpenCL C's functions that are macros; setup.py runs it.

python tools/conversion_names.py > torch_outboard/dialects/clang/values/conversion_names.h

Conversions and reinterpretations, since a function would be needed for each pair of types, and a
macro cannot define macros: conversions.h has the macros behind them. And the less exact functions,
native_* and half_*, which are the exact ones here.
"""

from collections.abc import Iterator

INTEGERS = ("char", "uchar", "short", "ushort", "int", "uint", "long", "ulong")
REALS = ("float", "double")
WIDTHS = ("", "2", "3", "4", "8", "16")
MODES = ("_rte", "_rtz", "_rtp", "_rtn")
LESS_EXACT = "cos exp exp10 exp2 log log10 log2 rsqrt sin sqrt tan"


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
    for prefix in ("native", "half"):
        print(f"#define {prefix}_divide(x, y) ((x) / (y))")
        print(f"#define {prefix}_recip(x) (1 / (x))")
        print(f"#define {prefix}_powr(x, y) powr(x, y)")
        for name in LESS_EXACT.split():
            print(f"#define {prefix}_{name}(x) {name}(x)")
