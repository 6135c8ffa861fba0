"""Losses of scores of classes, and their gradients.

Arguments that CPU refuses by their values, such as a target that is no class, give NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from torch_outboard.ops.row import FLOATS, Row
from torch_outboard.ops.template import Launch, Result, templated

# Of `reduction`.
_NONE, _MEAN = 0, 1


def rows() -> list[Row]:
    """Every row."""
    return [
        *_nll_loss(),
        *_nll_loss_backward(),
        *_margin_losses(),
    ]


# Scores of classes: (batch, classes, inner) or (classes).
_SCORES = {
    "class_dim": "dims(self) == 1 ? 0 : 1",
    "classes": "size(self, class_dim)",
    "inner": "prod(sizes(self)[class_dim + 1:])",
    "expected": "drop(sizes(self), class_dim)",
    "count": "prod(expected)",
}


def _nll_loss() -> list[Row]:
    # A GPU adds up parts of them first: one group would take long.
    in_parts = f"group_lanes > 1 && reduction != {_NONE}"
    parts = "max(1, min((count + group_lanes - 1) // group_lanes, 8 * processors))"
    each, by_parts = Launch("nll_loss_each", "count"), Launch("nll_loss_parts", "sums", groups=True)

    def row(overloads: str, conditions: list[str], parted: bool, **known: Any) -> Row:
        return templated(
            overloads,
            "nll_loss nll_loss_parts" if parted else "nll_loss",
            [by_parts if parted else each, Launch("nll_loss_total", "1", groups=True)],
            dtypes=FLOATS,
            operands="self target weight?",
            accepts={"target": "int64"},
            let={**_SCORES, "sums": parts if parted else "count"},
            results=[
                Result("out", f"reduction == {_NONE} ? expected : []"),
                Result("total", "[]"),
            ],
            temporaries=[
                Result(name, f"reduction == {_NONE} ? 1 : max(sums, 1)", "value")
                for name in ("losses", "shares")
            ],
            conditions=[
                *conditions,
                in_parts if parted else f"!({in_parts})",
                "sizes(target) == expected",
                "given(weight) ? sizes(weight) == [classes] : 1",
                f"reduction >= {_NONE} && reduction <= 2",
            ],
            numbers={
                "classes": "classes",
                "inner": "inner",
                "sums": "sums",
                "ignore": "ignore_index",
                **({"count": "count"} if parted else {}),
            },
            constants={"REDUCTION": "reduction"},
            reports="IndexError: a target is no class",
            family="loss",
            **known,
        )

    return [
        made
        for parted in (False, True)
        for made in (
            row(
                "nll_loss_forward nll_loss_forward.output",
                ["dims(self) == 1 || dims(self) == 2"],
                parted,
                meta="aten::nll_loss_forward",
            ),
            row("nll_loss2d_forward nll_loss2d_forward.output", ["dims(self) == 4"], parted),
        )
    ]


def _nll_loss_backward() -> list[Row]:
    by_rows = "group_lanes == 1 ? (inner == 1 ? count : numel(self) // inner)"

    def row(name: str, conditions: list[str]) -> Row:
        return templated(
            f"{name} {name}.grad_input",
            "nll_loss_backward",
            Launch("nll_loss_backward", f"numel(self) == 0 ? 0 : {by_rows} : numel(self)"),
            dtypes=FLOATS,
            operands="self target grad_output weight? total_weight",
            accepts={"target": "int64"},
            results=Result("grad", "sizes(self)"),
            let=_SCORES,
            conditions=[
                *conditions,
                "sizes(target) == expected",
                "given(weight) ? sizes(weight) == [classes] : 1",
                f"reduction == {_NONE} ? sizes(grad_output) == expected"
                " : numel(grad_output) == 1 && dims(grad_output) <= 1",
                "numel(total_weight) == 1",
            ],
            numbers={"classes": "classes", "inner": "inner", "ignore": "ignore_index"},
            constants={"REDUCTION": "reduction"},
            reports="IndexError: a target is no class",
            family="loss",
        )

    return [
        row("nll_loss_backward", ["dims(self) == 1 || dims(self) == 2"]),
        row("nll_loss2d_backward", ["dims(self) == 4"]),
    ]


def _margin_losses() -> list[Row]:
    # Of (rows, classes), (classes) or ().
    rows_let = {
        "classes": "size(self, -1)",
        "row_count": "dims(self) == 2 ? size(self, 0) : 1",
        "plain": "dims(self) == 2 ? [row_count] : []",
    }
    numbers = {
        "classes": "classes",
        "loss_count": "row_count",
        "divisor": f"reduction == {_MEAN} ? row_count : 1",
    }
    shape = ["dims(self) <= 2", "numel(self) > 0"]
    grad = [
        f"(reduction == {_NONE} && dims(self) == 2) ? sizes(grad_output) == plain"
        " : numel(grad_output) == 1"
    ]

    multi, label = "multi_margin_loss", "multilabel_margin_loss"

    def row(
        overloads: str,
        name: str,
        forward: bool,
        conditions: list[str],
        operands: str,
        accepts: Mapping[str, str],
        results: list[Result],
        constants: Mapping[str, str],
        reals: Mapping[str, str],
    ) -> Row:
        total = [Launch("loss_total", "1", groups=True, when=f"reduction != {_NONE}")]
        return templated(
            overloads,
            f"{name} loss_total" if forward else name,
            [Launch(name, "row_count"), *(total if forward else [])],
            # CPU's kernels take no half precision.
            dtypes=(torch.float32, torch.float64),
            operands=operands,
            accepts=accepts,
            let=rows_let,
            conditions=[*shape, *conditions, *([] if forward else grad)],
            results=results,
            temporaries=[Result("losses", "row_count", "value")] if forward else [],
            numbers=numbers,
            reals=reals,
            constants={"FORWARD": str(int(forward)), "REDUCTION": "reduction", **constants},
            reports="RuntimeError: a target is no class" if forward or name == multi else "",
            family="loss",
        )

    out = Result("out", f"reduction == {_NONE} ? plain : []")
    multi_conditions = [
        "p == 1 || p == 2",
        "numel(target) == row_count && dims(target) <= 1",
        "given(weight) ? sizes(weight) == [classes] : 1",
    ]
    label_conditions = ["sizes(target) == sizes(self)"]
    whole = {"target": "int64"}
    return [
        row(
            f"{multi} {multi}.out", multi, True, multi_conditions, "self target weight?", whole,
            [out], {"P": "p"}, {"distance": "margin"},
        ),
        row(
            f"{multi}_backward {multi}_backward.grad_input", multi, False, multi_conditions,
            "self target grad_output weight?", whole, [Result("grad")], {"P": "p"},
            {"distance": "margin"},
        ),
        row(
            f"{label}_forward {label}_forward.output", label, True, label_conditions,
            "self target", whole, [out, Result("is_target_of", "sizes(target)")], {}, {},
        ),
        row(
            f"{label}_backward {label}_backward.grad_input", label, False,
            [*label_conditions, "sizes(is_target) == sizes(self)"],
            "self target grad_output is_target", whole, [Result("grad")], {}, {},
        ),
    ]  # fmt: skip
