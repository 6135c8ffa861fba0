"""Random numbers: those of csrc/random on the CPU, by the same draws of Philox.

Calls whose arguments are wrong, and those with limits that a half type does not hold, are the
host's. Probabilities in a tensor are not looked at: outside of [0, 1] they count as 0 or 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from torch_outboard.ops.pointwise_row import pointwise
from torch_outboard.ops.row import BOOL, FLOATS, INTEGERS, SIGNED, Row, template
from torch_outboard.ops.template import Launch, Result, templated

_UNIFORM, _EXPONENTIAL, _CAUCHY, _GEOMETRIC, _NORMAL, _LOG_NORMAL = range(6)

_HALF, _BFLOAT16 = (torch.float16,), (torch.bfloat16,)
_FLOAT, _DOUBLE = (torch.float32,), (torch.float64,)
_NARROW = (*_HALF, *_BFLOAT16, *_FLOAT)


def _items(elements: str, per_block: str = "4") -> str:
    """How many work items, as in philox.cl: on a processor each takes eight blocks."""
    return f"ceil(({elements}) / (({per_block}) * (group_lanes == 1 ? 8 : 1)))"


# One offset of the generator serves an operator.
_DRAWS = "numel(self) > 0 ? 1 : 0"


_SELF_AS_P = """
#define HAS_p 1
#define p_load self_load
#define p_value self_value
"""


def rows() -> list[Row]:
    """Every row."""
    return [
        *_continuous(),
        *_bernoulli(),
        *_dropout(),
        *_integers(),
        _randperm(),
        *(_rrelu(dtypes, bits) for dtypes, bits in ((_NARROW, 32), (_DOUBLE, 64))),
    ]


def _in_place(
    overloads: str,
    text: str,
    kernel: str,
    dtypes: Sequence[torch.dtype],
    per_block: str,
    **properties: object,
) -> Row:
    """A row that fills `self`; a work item computes `per_block` elements."""
    numbers = {"count": "numel(self)", **dict(properties.pop("numbers", {}))}  # type: ignore[call-overload]
    return templated(
        overloads,
        f"philox {text}",
        Launch(kernel, _items("numel(self)", per_block)),
        dtypes=dtypes,
        operands="",
        results=Result("out", "sizes(self)"),
        numbers=numbers,
        random=_DRAWS,
        family="random",
        **properties,  # type: ignore[arg-type]
    )


def _continuous() -> list[Row]:
    def row(
        name: str,
        distribution: int,
        dtypes: Sequence[torch.dtype],
        reals: Mapping[str, str],
        conditions: Sequence[str],
        surplus: int = 0,
    ) -> Row:
        double = dtypes == _DOUBLE
        return _in_place(
            name,
            "distributions",
            "distribution",
            dtypes,
            "2" if double else "4",
            reals=reals,
            conditions=conditions,
            constants={
                "DISTRIBUTION": str(distribution),
                "BITS": "64" if double else "32",
                "SURPLUS": str(surplus),
            },
            compute="float64" if double else "float32",
        )

    # Limits that each of the half types holds: of at most 8 bits.
    short = [f"{x} * 8 == floor({x} * 8) && abs({x}) <= 16" for x in ("from", "to")]
    bounds = {"first": "from", "second": "to"}
    order = "from <= to"
    limits = {
        _HALF: ([order, "to != 0", *short], 13),
        _BFLOAT16: ([order, "to != 0", *short], 16),
        _FLOAT: ([order, "abs(from) <= 1e38 && abs(to) <= 1e38"], 0),
        _DOUBLE: ([order, "abs(from) <= 1e300 && abs(to) <= 1e300"], 0),
    }
    smallest = {
        _HALF: "6.103515625e-05",
        _BFLOAT16: "1.1754943508222875e-38",
        _FLOAT: "1.1754943508222875e-38",
        _DOUBLE: "2.2250738585072014e-308",
    }
    return [
        *(
            row("uniform_", _UNIFORM, dtypes, bounds, conditions, surplus)
            for dtypes, (conditions, surplus) in limits.items()
        ),
        *(
            row(
                "exponential_", _EXPONENTIAL, dtypes,
                {"first": "1 / lambd", "second": number}, ["lambd > 0 && lambd < 1e300"],
            )
            for dtypes, number in smallest.items()
        ),
        *(
            row(name, distribution, dtypes, reals, [condition])
            for name, distribution, reals, condition in (
                ("normal_", _NORMAL, {"first": "mean", "second": "std"}, "std >= 0"),
                ("log_normal_", _LOG_NORMAL, {"first": "mean", "second": "std"}, "std > 0"),
                ("cauchy_", _CAUCHY, {"first": "median", "second": "sigma"}, "sigma > 0"),
            )
            for dtypes in (_NARROW, _DOUBLE)
        ),
        *(
            row(
                "geometric_", _GEOMETRIC, dtypes, {"first": "-1 / log1p(-p)", "second": "0"},
                ["p > 0 && p < 1"],
            )
            for dtypes in ((*_NARROW, *INTEGERS), _DOUBLE)
        ),
    ]  # fmt: skip


def _threshold(probability: str) -> dict[str, str]:
    """The number below which a draw of 32 bits is with this probability, in two parts."""
    return {
        "threshold_high": f"ceil(({probability}) * 4294967296) // 65536",
        "threshold_low": f"ceil(({probability}) * 4294967296) % 65536",
    }


def _bernoulli() -> list[Row]:
    every = (*FLOATS, *INTEGERS, *BOOL)
    return [
        _in_place(
            "bernoulli_.float", "bernoulli", "bernoulli", every, "4",
            numbers=_threshold("p"), conditions=["p >= 0 && p <= 1"], compute="float32",
        ),
        templated(
            "bernoulli_.Tensor",
            "philox bernoulli",
            Launch("bernoulli", _items("numel(self)")),
            dtypes=every,
            operands="self p",
            accepts={"p": "float16 bfloat16 float32 float64"},
            results=Result("out", "sizes(self)", initial="self"),
            conditions=["numel(p) == 1 && dims(p) <= dims(self) || sizes(p) == sizes(self)"],
            numbers={"count": "numel(self)", "single": "numel(p) == 1"},
            compute="float32",
            random=_DRAWS,
            reports="RuntimeError: a probability is not in [0, 1]",
            family="random",
        ),
        templated(
            "bernoulli.out",
            None,
            Launch("bernoulli", _items("numel(self)")),
            dtypes=FLOATS,
            source=template("philox") + _SELF_AS_P + template("bernoulli"),
            numbers={"count": "numel(self)", "single": "0"},
            compute="float32",
            random=_DRAWS,
            resizes_silently=True,
            family="random",
        ),
    ]  # fmt: skip


def _dropout() -> list[Row]:
    return [
        templated(
            "native_dropout native_dropout.out",
            "philox dropout",
            Launch("dropout", _items("numel(input)")),
            dtypes=FLOATS,
            operands="input",
            results=[
                Result("out", "sizes(input)", like="input"),
                Result("mask", "sizes(input)", "bool", like="input"),
            ],
            conditions=[
                "given(train) ? train : 1",
                "p >= 0 && p <= 1 && numel(input) > 0",
            ],
            numbers={"count": "numel(input)", **_threshold("1 - p")},
            reals={"scale": "p == 1 ? 0 : 1 / (1 - p)"},
            random="1",
            family="random",
        ),
        pointwise(
            "native_dropout_backward native_dropout_backward.out",
            "grad_output:grad mask",
            "grad * (mask * scale)",
            FLOATS,
            scalars="scale",
            same_output=True,
            family="random",
        ),
    ]


def _integers() -> list[Row]:
    def row(overload: str, dtypes: Sequence[torch.dtype], small: str, **properties: object) -> Row:
        constants = {"SMALL": small, **dict(properties.pop("constants", {}))}  # type: ignore[call-overload]
        return _in_place(
            overload,
            "random_integers",
            "random_integers",
            dtypes,
            f"({small}) ? 4 : 2",
            constants=constants,
            compute="int64",
            **properties,
        )

    # What each dtype of so many bytes holds, and expressions compute exactly.
    largest = (
        "floating(self) ? (bytes(self) == 8 ? 9007199254740992 : bytes(self) == 4 ? 16777216 : 256)"
        " : bytes(self) == 8 ? 9007199254740992 : bytes(self) == 4 ? 2147483648"
        " : bytes(self) == 2 ? 32768 : 128"
    )
    limits = {(*FLOATS, *SIGNED): largest, (torch.uint8,): "256"}
    return [
        *(
            row(
                "random_.from",
                dtypes,
                "to - from <= 16777216",
                let={"largest": limit},
                conditions=[
                    "given(to)",
                    "from < to && to <= largest",
                    "bytes(self) == 1 ? from >= 0 : from >= -largest",
                ],
                scalars="from to",
                constants={"HAS_FROM": "1"},
            )
            for dtypes, limit in limits.items()
        ),
        *(
            row(
                "random_.to",
                dtypes,
                "to <= 16777216",
                let={"largest": limit},
                conditions=["to > 0 && to <= largest"],
                scalars="to",
                constants={"HAS_FROM": "0"},
            )
            for dtypes, limit in limits.items()
        ),
        *(
            row(
                "random_",
                dtypes,
                f"{digits} <= {23 if floating else 24}",
                constants={"DIGITS": digits, "FLOATING": str(int(floating))},
            )
            for dtypes, digits, floating in (
                (SIGNED, "8 * bytes(self) - 1", False),
                ((torch.uint8,), "8", False),
                (BOOL, "1", False),
                (_HALF, "11", True),
                (_BFLOAT16, "8", True),
                (_FLOAT, "24", True),
                (_DOUBLE, "53", True),
            )
        ),
    ]


def _randperm() -> Row:
    return templated(
        "randperm.generator_out",
        "philox randperm",
        [
            Launch("randperm_draw", _items("n", "2")),
            Launch("randperm_sort", "n", repeat="log2_ceil(n) * (log2_ceil(n) + 1) / 2"),
            Launch("randperm_store", "n"),
        ],
        dtypes=(torch.int32, torch.int64, *_FLOAT, *_DOUBLE),
        operands="",
        results=Result("permutation", "[n]"),
        temporaries=[Result("keys", "n", "uint64"), Result("places", "n", "int32")],
        conditions=["n >= 0 && n <= 16777216"],
        numbers={"n": "n"},
        random="n > 0 ? 1 : 0",
        compute="int64",
        family="random",
    )


def _rrelu(dtypes: Sequence[torch.dtype], bits: int) -> Row:
    return templated(
        "rrelu_with_noise rrelu_with_noise_ rrelu_with_noise.out",
        "philox rrelu",
        Launch("rrelu", _items("numel(self)", str(128 // bits))),
        dtypes=dtypes,
        operands="self noise",
        results=Result("out", "sizes(self)"),
        conditions=[
            "training",
            "sizes(noise) == sizes(self)",
            "lower <= upper && upper - lower <= 3.4028234663852886e38",
        ],
        numbers={"count": "numel(self)"},
        reals={"low": "lower", "span": "upper - lower"},
        constants={"BITS": str(bits)},
        strided="noise",
        random=_DRAWS,
        family="random",
    )
