"""Inductor's scalar operations in OpenCL C.

Each method returns the source of a value. Functions come from the table that eager kernels use
(torch_outboard/ops/functions): program.py defines `ob_exp_float@` from the source of `exp` there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import sympy
import torch
from torch._inductor.codegen.common import CSEVariable, OpOverrides
from torch._inductor.utils import get_bounds_index_expr
from torch._inductor.virtualized import V, ops
from torch._prims_common import type_to_dtype

from torch_outboard.inductor.opencl.value_types import (
    LANES,
    LITERAL,
    SMALL_FLOATS,
    broadcast,
    computed_dtype,
    constant,
    convert,
    is_vector,
    mask_for,
    mask_of,
    mask_type,
    value_type,
)
from torch_outboard.ops.functions.table import functions, scalar_only

_INT32 = torch.iinfo(torch.int32)


def dtype_of(value: Any) -> torch.dtype:
    """The dtype of a variable, or of a Python or SymPy number."""
    if isinstance(value, CSEVariable):
        if value.dtype is None:
            raise NotImplementedError(f"the dtype of {value} in a compiled graph is not known")
        return value.dtype
    if isinstance(value, (bool, int, float)):
        return type_to_dtype(type(value))
    if isinstance(value, sympy.Expr):
        return torch.int64 if value.is_integer else torch.float64
    raise NotImplementedError(f"{value!r} is not a value of a compiled graph")


def promoted(values: tuple[Any, ...]) -> torch.dtype:
    """The promoted dtype of variables; numbers among them only raise its category."""
    variables = [dtype_of(value) for value in values if isinstance(value, CSEVariable)]
    dtypes = variables or [dtype_of(value) for value in values]
    result = dtypes[0]
    for dtype in dtypes[1:]:
        result = torch.promote_types(result, dtype)
    if variables and not result.is_floating_point:
        if any(isinstance(value, float) for value in values):
            result = torch.float32
        elif result == torch.bool and any(type(value) is int for value in values):
            result = torch.int64
    # Two small floats, such as float16 and bfloat16, are computed in float32.
    return computed_dtype(result)


def operand(value: Any, dtype: torch.dtype, vector: bool) -> str:
    """A value in another dtype, in all lanes if `vector`."""
    if isinstance(value, CSEVariable):
        source = convert(str(value), dtype_of(value), dtype)
    else:
        source = constant(value, dtype)
    return broadcast(source, dtype) if vector else source


def any_vector(values: tuple[Any, ...]) -> bool:
    return any(isinstance(value, CSEVariable) and is_vector(value) for value in values)


def operands(values: tuple[Any, ...], dtype: torch.dtype) -> tuple[list[str], bool]:
    """Values in one dtype, and whether they are vectors."""
    vector = any_vector(values)
    return [operand(value, dtype, vector) for value in values], vector


def call(name: str, sources: list[str], dtype: torch.dtype, vector: bool) -> str:
    """A call of a function of the table, for values of `dtype`."""
    if vector and name in scalar_only():
        # The function branches, so each lane calls it separately.
        name = f"each_{name}"
    lanes = LANES if vector else ""
    return f"ob_{name}_{value_type(dtype)}{lanes}({', '.join(sources)})"


def _function(name: str) -> Callable[..., str]:
    floating = functions()[name].integer is None

    def method(*values: Any) -> str:
        dtype = promoted(values)
        if floating and not dtype.is_floating_point:
            dtype = torch.float32
        if dtype == torch.bool:
            sources, vector = operands(values, torch.uint8)
            return convert(call(name, sources, torch.uint8, vector), torch.uint8, torch.bool)
        sources, vector = operands(values, dtype)
        return call(name, sources, dtype, vector)

    return method


def _division(name: str) -> Callable[..., str]:
    function = _function(name)

    def method(a: Any, b: Any) -> str:
        dtype = promoted((a, b))
        if not dtype.is_floating_point and dtype != torch.bool:
            V.kernel.check_divisor(b, dtype)
        return function(a, b)

    return method


def _infix(operator: str, dtype: torch.dtype | None = None) -> Callable[..., str]:
    def method(a: Any, b: Any) -> str:
        (x, y), _ = operands((a, b), dtype or promoted((a, b)))
        return f"({x} {operator} {y})"

    return method


def _as_int32(values: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """32-bit values of indices widened only for their dtype, and of constants; else None."""
    narrow: list[Any] = []
    for value in values:
        bounds = getattr(value, "bounds", None)
        if (known := V.kernel.int32_of.get(str(value))) is not None:
            narrow.append(known)
        elif bounds is not None and bounds.is_singleton() and abs(bounds.lower) <= _INT32.max:
            narrow.append(int(bounds.lower))
        else:
            return None
    return tuple(narrow) if any(isinstance(x, CSEVariable) for x in narrow) else None


def _comparison(operator: str) -> Callable[..., str]:
    def method(a: Any, b: Any) -> str:
        dtype = promoted((a, b))
        if dtype == torch.int64 and (narrow := _as_int32((a, b))):
            (a, b), dtype = narrow, torch.int32
        if dtype == torch.bool and operator not in ("==", "!="):
            dtype = torch.uint8
        (x, y), vector = operands((a, b), dtype)
        return mask_of(f"({x} {operator} {y})", dtype, vector)

    return method


def _predicate(name: str) -> Callable[..., str]:
    def method(a: Any) -> str:
        dtype = promoted((a,))
        if dtype == torch.bool:
            dtype = torch.uint8
        sources, vector = operands((a,), dtype)
        return mask_of(call(name, sources, dtype, vector), dtype, vector)

    return method


_WORD = re.compile(r"\bC\(|(?<![\w.])[A-Za-z_]\w*")


def inline_expression(source: str, described: str | None, values: tuple[Any, ...]) -> str:
    """The source of a user's expression on variables.

    Args:
        source: the expression, in the words of `torch_outboard.kernel`.
        described: "dtype result names": dtype of the computation, "value" or "mask", and the names
            of the values.
    """
    if described is None:
        raise NotImplementedError("compiled graphs do not support inline assembly")
    dtype_name, result, *names = described.split()
    dtype = getattr(torch, dtype_name)
    sources, vector = operands(values, dtype)
    lanes = LANES if vector else ""
    kind = value_type(dtype)
    words = dict(zip(names, sources, strict=True))
    words |= {
        "T": kind + lanes,
        "S": kind,
        "M": mask_type(dtype) + lanes,
        "C(": f"({kind}{lanes})(",
    }

    def replace(match: re.Match[str]) -> str:
        word = match[0]
        if not word.startswith("ob_"):
            return words.get(word, word)
        each = "each_" if vector and word[3:] in scalar_only() else ""
        return f"ob_{each}{word[3:]}_{kind}{lanes}"

    if kind == "float":
        source = LITERAL.sub(r"\1f", source)
    source = f"({_WORD.sub(replace, source)})"
    return mask_of(source, dtype, vector) if result == "mask" else source


class OpenCLOverrides(OpOverrides):
    """Inductor's operations as OpenCL C source; see the module docstring."""

    # ---- Constants, indices, casts, selections

    @staticmethod
    def constant(value: Any, dtype: torch.dtype) -> str:
        return constant(value, dtype)

    @staticmethod
    def index_expr(expr: sympy.Expr, dtype: torch.dtype) -> Any:
        kernel = V.kernel
        index = kernel.prepare_indexing(expr)
        bounds = get_bounds_index_expr(expr) & kernel.bounds_of(index)
        computed = kernel.index_torch_dtype
        wide = computed == torch.int32 and not (
            bounds.lower >= _INT32.min and bounds.upper <= _INT32.max
        )
        if not expr.is_integer:
            source = kernel.vector_index(index)
            variable = kernel.cse.generate(
                kernel.compute, f"(ob_real)({source})", bounds=bounds, dtype=kernel.real_dtype
            )
        else:
            source = kernel.vector_index(index, wide=wide and dtype != torch.int32)
            if wide and dtype != torch.int32:
                computed = torch.int64
            variable = kernel.cse.generate(kernel.compute, source, bounds=bounds, dtype=computed)
        result = ops.to_dtype(variable, dtype)
        if computed == torch.int32 and dtype == torch.int64:
            kernel.int32_of[str(getattr(result, "value", result))] = variable
        return result

    @classmethod
    def value_expr(cls, expr: sympy.Expr, dtype: torch.dtype) -> Any:
        return cls.index_expr(expr, dtype)

    @staticmethod
    def to_dtype(
        x: Any,
        dtype: torch.dtype,
        src_dtype: torch.dtype | None = None,
        use_compute_types: bool = True,
    ) -> str:
        vector = any_vector((x,))
        if vector or isinstance(x, CSEVariable):
            source = convert(str(x), dtype_of(x), dtype)
        else:
            source = constant(x, dtype)
        # A cast to an 8-bit float has to round; Inductor rounds such casts on any device.
        if dtype in SMALL_FLOATS and (dtype.itemsize == 1 or not use_compute_types):
            return f"ob_round_{SMALL_FLOATS[dtype]}{LANES if vector else ''}({source})"
        # A plain copy would share the variable and with it its dtype.
        return f"({source})" if source == str(x) else source

    @staticmethod
    def to_dtype_bitcast(x: Any, dtype: torch.dtype, src_dtype: torch.dtype) -> str:
        """Reinterprets bits; small floats, computed in float32, are packed for it."""
        if torch.bool in (dtype, src_dtype):  # a mask; every value except 0 is true
            return convert(str(x), src_dtype, dtype)
        lanes = LANES if any_vector((x,)) else ""
        source = str(x)
        if src_dtype in SMALL_FLOATS:
            source = f"ob_pack_{SMALL_FLOATS[src_dtype]}{lanes}({source})"
        if dtype not in SMALL_FLOATS:
            return f"as_{value_type(dtype)}{lanes}({source})"
        bits = "uchar" if dtype.itemsize == 1 else "ushort"
        return f"ob_unpack_{SMALL_FLOATS[dtype]}{lanes}(as_{bits}{lanes}({source}))"

    @staticmethod
    def masked(mask: Any, body: Callable[[], Any], other: Any) -> Any:
        kernel = V.kernel
        if kernel.target.group == 1 and isinstance(mask, CSEVariable) and not is_vector(mask):
            return kernel.branch(mask, body, other)
        with kernel.mask_loads(mask, other) as new_mask:
            result = body()
        if not isinstance(result, CSEVariable):
            result = kernel.cse.generate(
                kernel.compute, str(result), dtype=getattr(result, "dtype", None)
            )
        dtype = dtype_of(result)
        source = _choose(new_mask, result, other, dtype)
        return kernel.cse.generate(kernel.compute, source, dtype=dtype)

    @staticmethod
    def where(condition: Any, a: Any, b: Any) -> str:
        return _choose(condition, a, b, promoted((a, b)))

    @staticmethod
    def randint64(seed: Any, index: Any, offset: Any, high: Any) -> str:
        """A Philox word, which passes.py writes as this operation."""
        known = V.kernel.int32_of.get(str(index))
        if known is not None and is_vector(known) and not any_vector((seed, offset)):
            return f"ob_philox_row_long{LANES}({seed}, {known}, {offset})"
        sources, vector = operands((seed, index, offset), torch.int64)
        return f"ob_philox_word_long{LANES if vector else ''}({', '.join(sources)})"

    @staticmethod
    def inline_asm_elementwise(
        *inputs: Any, asm: str, constraints: str | None = None, **rest: Any
    ) -> str:
        """A user's expression, which lowerings/expressions.py writes as this operation."""
        return inline_expression(asm, constraints, inputs)

    def indirect_indexing(
        self, index_var: Any, size: Any, check: bool = True, wrap_neg: bool = True
    ) -> sympy.Symbol:
        return V.kernel.checked_index(index_var, size, check)

    # ---- Arithmetic

    add = staticmethod(_infix("+"))
    sub = staticmethod(_infix("-"))
    mul = staticmethod(_infix("*"))
    truncdiv = staticmethod(_division("truncdiv"))
    floordiv = staticmethod(_division("floordiv"))
    mod = staticmethod(_division("fmod"))
    fmod = staticmethod(_division("fmod"))
    remainder = staticmethod(_division("remainder"))

    @staticmethod
    def fma(x: Any, y: Any, z: Any) -> str:
        dtype = promoted((x, y, z))
        (a, b, c), vector = operands((x, y, z), dtype)
        if not dtype.is_floating_point:
            return f"({a} * {b} + {c})"
        return call("fma", [a, b, c], dtype, vector)

    @staticmethod
    def truediv(a: Any, b: Any) -> str:
        dtype = promoted((a, b))
        (x, y), _ = operands((a, b), dtype if dtype.is_floating_point else torch.float32)
        return f"({x} / {y})"

    int_truediv = truediv
    div_rn = truediv
    mul_rn = mul

    @staticmethod
    def identity(x: Any) -> str:
        return f"({x})"

    @staticmethod
    def ldexp(x: Any, n: Any) -> str:
        dtype = promoted((x,))
        vector = any_vector((x, n))
        lanes = LANES if vector else ""
        power = operand(n, torch.int32, vector)
        return f"ldexp({operand(x, dtype, vector)}, (int{lanes})({power}))"

    @staticmethod
    def frexp(x: Any) -> tuple[Any, Any]:
        kernel, dtype = V.kernel, dtype_of(x)
        lanes = LANES if any_vector((x,)) else ""
        kind = value_type(dtype)
        mantissa = f"ob_mantissa_{kind}{lanes}({x})"
        exponent = f"ob_exponent_{kind}{lanes}({x})"
        return (
            kernel.cse.generate(kernel.compute, mantissa, dtype=dtype),
            kernel.cse.generate(kernel.compute, exponent, dtype=torch.int32),
        )

    # ---- Comparison and logic

    eq = staticmethod(_comparison("=="))
    ne = staticmethod(_comparison("!="))
    lt = staticmethod(_comparison("<"))
    le = staticmethod(_comparison("<="))
    gt = staticmethod(_comparison(">"))
    ge = staticmethod(_comparison(">="))
    isnan = staticmethod(_predicate("isnan"))
    isinf = staticmethod(_predicate("isinf"))
    signbit = staticmethod(_predicate("signbit"))
    logical_and = staticmethod(_infix("&", torch.bool))
    logical_or = staticmethod(_infix("|", torch.bool))
    logical_xor = staticmethod(_infix("^", torch.bool))

    @staticmethod
    def logical_not(a: Any) -> str:
        (x,), vector = operands((a,), torch.bool)
        return f"({x} == ({'int' + (LANES if vector else '')})(0))"

    bitwise_and = staticmethod(_infix("&"))
    bitwise_or = staticmethod(_infix("|"))
    bitwise_xor = staticmethod(_infix("^"))

    @classmethod
    def bitwise_not(cls, a: Any) -> str:
        return cls.logical_not(a) if dtype_of(a) == torch.bool else f"(~{a})"

    bitwise_left_shift = staticmethod(_function("bitwise_left_shift"))
    bitwise_right_shift = staticmethod(_function("bitwise_right_shift"))
    and_ = bitwise_and
    or_ = bitwise_or
    xor = bitwise_xor
    lshift = bitwise_left_shift
    rshift = bitwise_right_shift


def _choose(condition: Any, a: Any, b: Any, dtype: torch.dtype) -> str:
    vector = any_vector((condition, a, b))
    yes, no = operand(a, dtype, vector), operand(b, dtype, vector)
    mask = operand(condition, torch.bool, vector)
    return f"({mask_for(mask, dtype, vector)} ? {yes} : {no})"


def _add_functions() -> None:
    """Adds the operations of Inductor that are functions of the table."""
    for name, function in functions().items():
        known = name in vars(OpenCLOverrides) or not hasattr(OpOverrides, name)
        if function.real is not None and not known:
            setattr(OpenCLOverrides, name, staticmethod(_function(name)))


_add_functions()
OpenCLOverrides._initialize_pointwise_overrides("mps")
