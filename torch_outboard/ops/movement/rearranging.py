"""Operators that move elements to other places, by rules and not by index tensors."""

from __future__ import annotations

from typing import Any

from torch_outboard.ops.composed import composed
from torch_outboard.ops.row import BOOL, COMPLEX, EVERY, FLOATS, INTEGERS, Row
from torch_outboard.ops.template import Launch, Result, templated

NUMBERS = (*FLOATS, *INTEGERS, *COMPLEX)
FAMILY: dict[str, Any] = {"family": "movement"}
WRAPPED = """
def wrapped(d: int, dims: int) -> int:
    return d if d >= 0 else d + max(dims, 1)
"""


def remapped() -> list[Row]:
    """roll and flip."""
    common: dict[str, Any] = {
        "dtypes": EVERY,
        "items_of": "self out",
        "strided": "self out",
        **FAMILY,
    }
    return [
        composed(
            "roll",
            "return torch.roll(self.reshape(-1), shifts, [0]).reshape(self.shape)",
            conditions=["len(dims) == 0", "len(shifts) == 1"],
            **FAMILY,
        ),
        templated(
            "roll",
            "remap",
            Launch("remap", "numel(out) // max(size(out, -1), 1)", groups=True),
            conditions=[
                "len(dims) > 0",
                "len(dims) == len(shifts)",
                "len(dims) <= 16",
                "min(min_of(dims) + dims(self), dims(self) - 1 - max_of(dims)) >= 0",
            ],
            numbers={"count": "len(dims)"},
            lists={"amounts": "shifts", "along": "dims"},
            constants={"MODE": "3"},
            **common,
        ),
        templated(
            "flip",
            "remap",
            Launch("remap", "numel(out) // max(size(out, -1), 1)", groups=True),
            results=Result("out", "sizes(self)", like="self"),
            conditions=[
                "len(dims) <= 16",
            ],
            requires={"dims": "distinct in self"},
            numbers={"count": "len(dims)"},
            lists={"amounts": "fill(1, len(dims))", "along": "dims"},
            constants={"MODE": "4"},
            **common,
        ),
    ]


def triangles() -> list[Row]:
    """Triangular parts of matrices."""
    return [
        templated(
            f"{name} {name}.out {name}_",
            "triangle",
            Launch("triangle", "numel(self) // max(size(self, -1), 1)", groups=True),
            dtypes=EVERY,
            meta=f"aten::{name}",
            numbers={
                "diagonal": "diagonal",
                "rows": "size(self, -2)",
                "columns": "size(self, -1)",
            },
            constants={"UPPER": upper},
            items_of="self out",
            strided="self out",
            **FAMILY,
        )
        for name, upper in (("tril", "0"), ("triu", "1"))
    ]


def windows() -> list[Row]:
    """unfold and fold of images, and the gradient of sliding windows."""
    common: dict[str, Any] = {
        "dtypes": (*FLOATS, *COMPLEX),
        "conditions": [
            "len(kernel_size) == 2 && len(dilation) == 2 && len(padding) == 2 && len(stride) == 2",
            "kernel_size[0] > 0 && kernel_size[1] > 0 && stride[0] > 0 && stride[1] > 0",
            "dilation[0] > 0 && dilation[1] > 0 && padding[0] >= 0 && padding[1] >= 0",
            "rows > 0 && columns > 0",
        ],
        "numbers": {
            "height": "height",
            "width": "width",
            "rows": "rows",
            "columns": "columns",
            "kernel_height": "kernel_size[0]",
            "kernel_width": "kernel_size[1]",
            "stride_y": "stride[0]",
            "stride_x": "stride[1]",
            "padding_y": "padding[0]",
            "padding_x": "padding[1]",
            "dilation_y": "dilation[0]",
            "dilation_x": "dilation[1]",
        },
        **FAMILY,
    }
    blocks = {
        name: f"({size} + 2 * padding[{k}] - dilation[{k}] * (kernel_size[{k}] - 1) - 1)"
        f" // stride[{k}] + 1"
        for k, (name, size) in enumerate((("rows", "height"), ("columns", "width")))
    }
    of_input = {"height": "size(self, -2)", "width": "size(self, -1)", **blocks}
    of_output = {
        "height": "output_size[0]",
        "width": "output_size[1]",
        **blocks,
        "kernel": "kernel_size[0] * kernel_size[1]",
    }
    return [
        templated(
            "im2col im2col.out",
            "im2col",
            Launch("im2col", "numel(out)"),
            let=of_input,
            results=Result(
                "out",
                "sizes(self)[0:-3] + [size(self, -3) * kernel_size[0] * kernel_size[1], "
                "rows * columns]",
            ),
            **common
            | {
                "dtypes": (*FLOATS, *COMPLEX, *BOOL),
                "conditions": [
                    "dims(self) == 3 || dims(self) == 4",
                    "prod(sizes(self)[-3:]) > 0",
                    *common["conditions"],
                ],
            },
        ),
        templated(
            "col2im col2im.out",
            "col2im",
            Launch("col2im", "numel(out)"),
            let=of_output,
            results=Result("out", "sizes(self)[0:-2] + [size(self, -2) // kernel, height, width]"),
            **common
            | {
                "conditions": [
                    "dims(self) == 2 || dims(self) == 3",
                    "len(output_size) == 2",
                    *common["conditions"],
                    "size(self, -2) > 0",
                    "size(self, -2) % kernel == 0",
                    "size(self, -1) == rows * columns",
                ],
            },
        ),
        composed(
            "unfold_backward",
            "return grad_in.reshape(input_sizes).clone()",
            conditions=["len(input_sizes) == 0"],
            dtypes=NUMBERS,
            **FAMILY,
        ),
        templated(
            "unfold_backward",
            "unfold_backward",
            Launch("unfold_backward", "numel(out)"),
            dtypes=NUMBERS,
            operands="grad_in",
            let={"d": "wrap(dim, len(input_sizes))"},
            results=Result("out", "input_sizes"),
            conditions=["len(input_sizes) > 0", "size > 0", "step > 0"],
            numbers={"along": "d", "window": "size", "hop": "step"},
            strided="grad_in out",
            **FAMILY,
        ),
    ]


def rearranged() -> list[Row]:
    """What copies of views do."""
    shuffle = """
        shape = self.shape
        grouped = self.reshape([shape[0], groups, shape[1] // groups] + shape[2:])
        return grouped.transpose(1, 2).reshape(shape)
    """
    divisible = ["dims(self) > 2", "groups > 0", "size(self, 1) % groups == 0", "numel(self) > 0"]
    return [
        *(
            composed(name, shuffle, conditions=divisible, **FAMILY)
            for name in ("channel_shuffle", "native_channel_shuffle")
        ),
        composed(
            "pixel_shuffle",
            """
            r = upscale_factor
            shape = self.shape
            c = shape[-3] // (r * r)
            h = shape[-2]
            w = shape[-1]
            x = self.reshape(shape[:-3] + [c, r, r, h, w])
            x = x.movedim(-4, -2).movedim(-4, -1).clone(memory_format=0)
            return x.reshape(shape[:-3] + [c, h * r, w * r])
            """,
            conditions=[
                "dims(self) > 2",
                "upscale_factor > 0",
                "size(self, -3) % (upscale_factor * upscale_factor) == 0",
            ],
            **FAMILY,
        ),
        composed(
            "pixel_unshuffle",
            """
            r = downscale_factor
            shape = self.shape
            c = shape[-3]
            h = shape[-2] // r
            w = shape[-1] // r
            x = self.reshape(shape[:-3] + [c, h, r, w, r])
            x = x.movedim(-3, -4).movedim(-1, -3).clone(memory_format=0)
            return x.reshape(shape[:-3] + [c * r * r, h, w])
            """,
            conditions=[
                "dims(self) > 2",
                "downscale_factor > 0",
                "size(self, -2) % downscale_factor == 0",
                "size(self, -1) % downscale_factor == 0",
            ],
            **FAMILY,
        ),
        composed(
            "narrow_copy",
            "return self.narrow(dim, start, length).clone(memory_format=0)",
            conditions=["-dims(self) <= dim && dim < dims(self)", "length >= 0"],
            **FAMILY,
        ),
        templated(
            "narrow_copy.out",
            "remap",
            Launch("remap", "numel(out) // max(size(out, -1), 1)", groups=True),
            dtypes=EVERY,
            items_of="self out",
            strided="self out",
            results=Result("out", "set(sizes(self), d, length)"),
            let={
                "d": "wrap(dim, dims(self))",
                "n": "size(self, d)",
                "first": "start < 0 ? start + n : start",
            },
            numbers={"count": "0"},
            lists={
                "amounts": "set(fill(0, 2 * dims(self)), 2 * (dims(self) - 1 - d), -first)",
                "along": "[]",
            },
            constants={"MODE": "2"},
            conditions=[
                "dims(self) <= 8",
                "-n <= start && start <= n",
                "length >= 0",
                "first + length <= n",
            ],
            resizes_silently=True,
            **FAMILY,
        ),
        composed(
            "trace",
            "return self.diagonal(0, 0, 1).sum()",
            conditions=["dims(self) == 2"],
            dtypes=NUMBERS,
            **FAMILY,
        ),
        *(
            composed(
                f"{name}_indices",
                f"""
                kind = torch.int64 if dtype is None else dtype
                ones = torch.ones([row, col], dtype=torch.bool, device=device)
                return ones.{name}(offset).nonzero().t().to(kind).contiguous()
                """,
                # int32 and int64 alone, as on CPU.
                conditions=[
                    "row >= 0",
                    "col >= 0",
                    "3 <= either(dtype, 4) && either(dtype, 4) <= 4",
                ],
                **FAMILY,
            )
            for name in ("tril", "triu")
        ),
    ]


def halves() -> list[Row]:
    """Gated linear units, and what else is made of slices and pointwise operators."""
    differentiable = (*FLOATS, *COMPLEX)
    spread = """
        return torch.{0}(self, dim, correction=correction, keepdim=keepdim), self.mean(dim, keepdim)
    """
    norm = """
        out.copy_(torch.linalg_vector_norm(self, 2 if p is None else p, dim, keepdim, dtype={0}))
    """
    return [
        composed("var_mean.correction", spread.format("var"), dtypes=FLOATS, **FAMILY),
        composed("std_mean.correction", spread.format("std"), dtypes=FLOATS, **FAMILY),
        composed(
            "norm.ScalarOpt_dim norm.out",
            norm.format("None"),
            results="out",
            meta="aten::norm.ScalarOpt_dim",
            dtypes=differentiable,
            **FAMILY,
        ),
        composed(
            "norm.ScalarOpt_dim_dtype norm.dtype_out",
            norm.format("dtype"),
            results="out",
            meta="aten::norm.ScalarOpt_dim_dtype",
            dtypes=differentiable,
            **FAMILY,
        ),
        composed(
            "glu glu.out",
            """
            a, b = self.chunk(2, dim)
            torch.mul(a, b.sigmoid(), out=out)
            """,
            results="out",
            meta="aten::glu",
            casts="RuntimeError",
            dtypes=FLOATS,
            **FAMILY,
        ),
        composed(
            "glu_backward glu_backward.grad_input",
            """
            a, b = self.chunk(2, dim)
            gate = b.sigmoid()
            first = grad_output * gate
            return torch.cat([first, first * a * (1 - gate)], dim)
            """,
            dtypes=FLOATS,
            conditions=["dims(self) > 0", "size(self, dim) % 2 == 0"],
            **FAMILY,
        ),
        composed(
            "renorm renorm.out renorm_",
            """
            dims: List[int] = []
            d = wrapped(dim, self.dim())
            for k in range(self.dim()):
                if k != d:
                    dims.append(k)
            norm = torch.linalg_vector_norm(self, p, dims, True)
            scale = torch.where(norm > maxnorm, (norm + 1e-7).reciprocal() * maxnorm, 1.0)
            out.copy_(self * scale.to(self.dtype))
            """,
            helpers=WRAPPED,
            results="out",
            conditions=["-dims(self) <= dim && dim < dims(self)"],
            meta="aten::renorm",
            dtypes=differentiable,
            **FAMILY,
        ),
        composed(
            "linalg_cross linalg_cross.out",
            """
            a, b = torch.broadcast_tensors([self, other])
            left = a.roll([-1], [dim]) * b.roll([-2], [dim])
            out.copy_(left - a.roll([-2], [dim]) * b.roll([-1], [dim]))
            """,
            results="out",
            meta="aten::linalg_cross",
            requires={"other": "dtype of self"},
            dtypes=NUMBERS,
            **FAMILY,
        ),
        composed(
            "aminmax aminmax.out",
            """
            if dim is None:
                min.copy_(self.amin().reshape(min.shape))
                max.copy_(self.amax().reshape(max.shape))
            else:
                min.copy_(self.amin([dim], keepdim))
                max.copy_(self.amax([dim], keepdim))
            """,
            results="min max",
            meta="aten::aminmax",
            dtypes=(*FLOATS, *INTEGERS, *BOOL),
            **FAMILY,
        ),
    ]


def rows() -> list[Row]:
    """Every row."""
    return [*remapped(), *triangles(), *windows(), *rearranged(), *halves()]
