"""`matrix_product`: layouts, factors, batches, depths, dtypes, what `out` held before."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torch_outboard.check.catalog import check
from torch_outboard.check.operands import (
    Operand,
    accumulation_of,
    bytes_of,
    call,
    dtypes_of,
    exact,
    expect_near,
    filled,
    numbers,
)
from torch_outboard.check.outcome import NotTestable
from torch_outboard.check.session import Session, expect, expect_bytes, expect_within
from torch_outboard.drivers import contract
from torch_outboard.drivers.contract import Activation, Status

FORMULA = "out = activation(alpha * a @ b + beta * added + bias), for each batch."
ADVICE = "Return OB_UNSUPPORTED for the case until it is right: the kit's own kernels then do it."


@dataclass(frozen=True)
class Case:
    """One product: what it computes, and on views of which layout.

    `layout` has a letter for each of a, b and out: r (rows follow each other), t (transposed),
    p (rows with room between), s (every other element), b (one batch for all).
    """

    dtype: torch.dtype = torch.float32
    batch: int = 1
    rows: int = 5
    depth: int = 7
    columns: int = 6
    layout: str = "rrr"
    alpha: complex = 1
    beta: complex = 1
    added: str = ""  # "memory", "broadcast" or "out"
    bias: int = 0  # 1: of rows, 2: of columns
    activation: Activation = Activation.NONE

    def __str__(self) -> str:
        sizes = f"{self.batch} x ({self.rows}, {self.depth}) @ ({self.depth}, {self.columns})"
        parts = [f"{str(self.dtype).removeprefix('torch.')} {sizes}, layout {self.layout}"]
        if self.alpha != 1:
            parts.append(f"alpha {self.alpha:g}")
        if self.added:
            parts.append(f"beta {self.beta:g}, added: {self.added}")
        if self.bias:
            parts.append(f"bias of {'rows' if self.bias == 1 else 'columns'}")
        if self.activation != Activation.NONE:
            parts.append(self.activation.name)
        return ", ".join(parts)


def _laid_out(values: torch.Tensor, layout: str) -> torch.Tensor:
    """A copy of (batch, rows, columns) with a layout."""
    batch, rows, columns = values.shape
    if layout == "t":
        memory = torch.zeros(batch, columns, rows, dtype=values.dtype).transpose(1, 2)
    elif layout == "p":
        memory = torch.zeros(batch, rows + 2, columns + 3, dtype=values.dtype)[:, 1:-1, 2:-1]
    elif layout == "s":
        memory = torch.zeros(batch, rows, 2 * columns, dtype=values.dtype)[:, :, ::2]
    elif layout == "b":
        return values[:1].contiguous().expand(batch, rows, columns)
    else:
        memory = torch.zeros(batch, rows, columns, dtype=values.dtype)
    return memory.copy_(values)


def _activated(x: torch.Tensor, activation: Activation) -> torch.Tensor:
    functional = torch.nn.functional
    if activation == Activation.RELU:
        return functional.relu(x)
    if activation == Activation.GELU:
        return functional.gelu(x)
    if activation == Activation.GELU_TANH:
        return functional.gelu(x, approximate="tanh")
    return functional.silu(x) if activation == Activation.SILU else x


def _factor(value: complex, wide: torch.dtype) -> complex:
    """alpha or beta as a number of the dtype."""
    value = complex(value)
    if wide.is_complex:
        return value
    return int(value.real) if wide == torch.int64 else value.real


class _Product:
    """A case with its operands on the device."""

    def __init__(self, driver: Session, queue: int, case: Case) -> None:
        self.driver, self.queue, self.case = driver, queue, case
        c = case
        a = numbers(c.dtype, c.batch, c.rows, c.depth, seed=1)
        b = numbers(c.dtype, c.batch, c.depth, c.columns, seed=2)
        wanted = torch.zeros(c.batch, c.rows, c.columns, dtype=c.dtype)
        views = [_laid_out(a, c.layout[0]), _laid_out(b, c.layout[1])]
        out = filled(c.dtype, _laid_out(wanted, c.layout[2]))
        added = None
        if c.added:
            added = numbers(c.dtype, c.batch, c.rows, c.columns, seed=3)
            if c.added == "broadcast":
                added = added[:1, :, :1].contiguous().expand(c.batch, c.rows, c.columns)
            elif c.added == "out":
                added = out.copy_(added)
        bias = numbers(c.dtype, (0, c.rows, c.columns)[c.bias], seed=4) if c.bias else None
        self.a, self.b, self.out = (Operand.of(driver, queue, v) for v in (*views, out))
        self.added = self.out if c.added == "out" else self._operand(added)
        self.bias = self._operand(bias)
        self.before = self.memory_of_out()
        wide = exact(c.dtype)
        self.wanted, self.size = self._reference(views[0].to(wide), views[1].to(wide), added, bias)

    def _operand(self, view: torch.Tensor | None) -> Operand | None:
        return None if view is None else Operand.of(self.driver, self.queue, view)

    def _reference(
        self,
        a: torch.Tensor,
        b: torch.Tensor,
        added: torch.Tensor | None,
        bias: torch.Tensor | None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The result, and the same of absolute values."""
        c, wide = self.case, a.dtype
        alpha, beta = (_factor(x, wide) for x in (c.alpha, c.beta))
        result, size = alpha * (a @ b), abs(alpha) * (a.abs() @ b.abs())
        if added is not None:
            result = result + beta * added.to(wide)
            size = size + abs(beta) * added.to(wide).abs()
        if bias is not None:
            row = bias.to(wide).view((-1, 1) if c.bias == 1 else (1, -1))
            result, size = result + row, size + row.abs()
        return _activated(result, c.activation), size

    def memory_of_out(self) -> bytes:
        return self.driver.read(self.queue, self.out.address, self._bytes_of_out())

    def _bytes_of_out(self) -> int:
        return int(self.out.view.untyped_storage().nbytes())

    def description(self, **fields: Any) -> Any:
        c = self.case
        made = contract.described(
            contract.MatrixProduct,
            a=self.a.pointer,
            b=self.b.pointer,
            out=self.out.pointer,
            bias_dimension=c.bias,
            activation=c.activation,
            accumulation=accumulation_of(c.dtype),
            **fields,
        )
        if self.added is not None:
            made.added = self.added.pointer
        if self.bias is not None:
            made.bias = self.bias.pointer
        made.alpha[:] = complex(c.alpha).real, complex(c.alpha).imag
        made.beta[:] = complex(c.beta).real, complex(c.beta).imag
        return made

    def enqueue(self) -> bool:
        """Whether the driver took the product."""
        return call(self.driver, self.queue, "matrix_product", self.description)

    def compute(self) -> bool:
        """Whether the driver took the product; expects that nothing was written if not."""
        taken = self.enqueue()
        if not taken:
            expect_bytes(
                self.memory_of_out(),
                self.before,
                f"{self.case}: `out` as it was after UNSUPPORTED",
                says="OB_UNSUPPORTED for a case that the library does not do is no error: nothing "
                "was written, and the kit takes the next way.",
            )
        return taken

    def compare(self) -> None:
        """Expects the result, and that nothing beside it was written."""
        found = self.out.read(self.driver, self.queue)
        expect_near(found, self.wanted, self.size, self.case.depth, str(self.case))
        whole = torch.frombuffer(bytearray(self.memory_of_out()), dtype=self.case.dtype)
        view = whole.as_strided(found.shape, found.stride(), found.storage_offset())
        view.copy_(
            torch.frombuffer(bytearray(self.before), dtype=self.case.dtype).as_strided(
                found.shape, found.stride(), found.storage_offset()
            )
        )
        expect_bytes(bytes_of(whole), self.before, f"{self.case}: the memory between rows of `out`")


def _check(driver: Session, cases: Sequence[Case], device: int = 0) -> None:
    """Computes each case; not testable if the driver declines all."""
    dtypes = dtypes_of(driver)
    queue, taken = driver.make_queue(device), 0
    for case in cases:
        if case.dtype not in dtypes:
            continue
        product = _Product(driver, queue, case)
        if product.compute():
            taken += 1
            product.compare()
    if not taken:
        raise NotTestable("the driver declines all of these products (OB_UNSUPPORTED)")


@check(
    "matrix_product",
    says="Strides say where transposed, channels-last and broadcast operands lie: there are no "
    "flags for these.",
    advice=ADVICE,
)
def layouts(driver: Session) -> None:
    """Transposed, padded and strided operands."""
    layouts = ["".join(each) for each in itertools.product("rtp", "rtp", "rtp")]
    layouts += ["srr", "rsr", "rrs", "sss"]
    _check(driver, [Case(layout=layout) for layout in layouts])


@check("matrix_product", says=FORMULA, advice=ADVICE)
def factors(driver: Session) -> None:
    """alpha and beta, with 0 and 1 among them."""
    cases = [
        Case(alpha=alpha, beta=beta, added=added)
        for alpha, beta, added in itertools.product(
            (1, 0, -2, 0.5), (0, 1, 3), ("", "memory", "out")
        )
    ]
    cases += [Case(alpha=2, beta=-3, added="broadcast"), Case(alpha=0.25, layout="ttt")]
    _check(driver, cases)


@check(
    "matrix_product",
    says="(may be NULL: not added; what `out` held is then never read, NaN included)",
    advice="Pass beta 0 to the library only if it then does not read `out`; many multiply NaN.",
)
def out_is_not_read(driver: Session) -> None:
    """`out` that holds NaN, or other numbers, has no influence where nothing is added."""
    cases = [
        Case(dtype, batch, layout=layout, depth=depth)
        for dtype in (torch.float32, torch.float64, torch.int64, torch.float16, torch.bfloat16)
        for batch, layout, depth in ((1, "rrr", 7), (3, "rrr", 64), (1, "ttt", 1), (2, "rrp", 9))
    ]
    _check(driver, cases)


@check("matrix_product", says="(batch, rows, depth), (batch, depth, columns)", advice=ADVICE)
def batches(driver: Session) -> None:
    """Several matrices at any distance, and one for all."""
    layouts = ("rrr", "brr", "rbr", "bbr", "ptr", "tpp", "rrt")
    cases = [Case(batch=batch, layout=layout) for batch in (2, 3, 17) for layout in layouts]
    cases += [Case(batch=5, rows=1, depth=9, columns=1), Case(batch=3, added="memory", beta=2)]
    cases += [Case(batch=3, added="out", beta=2), Case(batch=4, bias=2, layout="rbr")]
    _check(driver, cases)


@check("matrix_product", says=FORMULA, advice="Look at the end of loops over blocks of the depth.")
def depths(driver: Session) -> None:
    """Depths around powers of two, from 1 to 4097."""
    powers = [1 << n for n in range(13)]
    depths = sorted({max(1, power + more) for power in powers for more in (-1, 0, 1)})
    _check(driver, [Case(depth=depth, rows=3, columns=4) for depth in depths])


@check("matrix_product", says=FORMULA, advice="Look at the end of loops over blocks of rows.")
def edges(driver: Session) -> None:
    """Rows and columns around powers of two, and one of each."""
    sizes = (1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129)
    cases = [Case(rows=size, columns=3) for size in sizes]
    cases += [Case(rows=3, columns=size) for size in sizes]
    cases += [Case(rows=130, columns=131, depth=132), Case(rows=1, columns=1, depth=300)]
    _check(driver, cases)


@check(
    "matrix_product",
    says="All of `a`, `b`, `out` and `added` have the same dtype and 3 dimensions",
    advice=ADVICE,
)
def dtypes(driver: Session) -> None:
    """Every dtype of the device that the library takes; integers wrap around."""
    cases = []
    for dtype in dtypes_of(driver):
        cases += [Case(dtype), Case(dtype, 2, 9, 33, 8, "rtr"), Case(dtype, depth=130)]
        cases += [Case(dtype, alpha=2, beta=3, added="memory"), Case(dtype, added="out")]
    cases += [Case(torch.complex64, alpha=1 + 2j), Case(torch.complex128, alpha=2 - 1j)]
    _check(driver, cases)


@check(
    "matrix_product",
    says="The least precise dtype of sums, an OB_DTYPE_* bit",
    advice="Add in float32 where `accumulation` says so.",
)
def sums_of_short_floats(driver: Session) -> None:
    """Deep products of float16 and bfloat16 are added in float32."""
    cases = [Case(dtype, depth=2000) for dtype in (torch.float16, torch.bfloat16)]
    _check(driver, cases)


@check(
    "matrix_product",
    says="Asynchronous on the queue",
    advice="Select the queue's device before each call of the library.",
)
def on_other_devices(driver: Session) -> None:
    """Queues of other devices than the first compute in their devices' memory."""
    driver.need_devices(2)
    for device in range(1, driver.devices):
        _check(driver, [Case(rows=33), Case(batch=3, layout="rtr")], device)


@check("matrix_product", says=FORMULA, advice=ADVICE)
def bias_and_activation(driver: Session) -> None:
    """A bias of rows or columns, and each activation."""
    cases = [Case(bias=bias, batch=batch) for bias in (1, 2) for batch in (1, 3)]
    cases += [Case(activation=each) for each in Activation]
    cases += [Case(activation=each, bias=2, alpha=0.5) for each in Activation]
    _check(driver, cases)


def _need_float32(driver: Session) -> None:
    if torch.float32 not in dtypes_of(driver):
        raise NotTestable("the device does not compute on float32")


@check(
    "matrix_product",
    says="With `workspace_query` nothing is computed",
    advice="Return as soon as the size is stored.",
)
def query_computes_nothing(driver: Session) -> None:
    """The query writes the size of the workspace and nothing else."""
    queue = driver.make_queue()
    _need_float32(driver)
    product = _Product(driver, queue, Case(batch=2))
    size = ctypes.c_uint64(2**64 - 1)
    asked = product.description(workspace_query=ctypes.pointer(size))
    status = driver.status("matrix_product", queue, ctypes.byref(asked))
    if status == Status.UNSUPPORTED:
        raise NotTestable("the driver declines this product (OB_UNSUPPORTED)")
    expect(status == Status.OK, "OK", status.name)
    expect(size.value <= 1 << 40, "a size of the workspace", size.value)
    driver.queue_synchronize(queue)
    expect_bytes(product.memory_of_out(), product.before, "`out` as it was after the query")


@check(
    "matrix_product",
    "host_callback",
    says="Asynchronous on the queue; do not wait.",
    advice="Give the library the queue's own stream, or call it on the queue's thread.",
)
def in_order(driver: Session) -> None:
    """A product waits for work before it, and its call does not wait for the queue."""
    queue = driver.make_queue()
    _need_float32(driver)
    product = _Product(driver, queue, Case())
    a = bytes_of(product.a.view)
    driver.fill(queue, product.a.address, b"\0", len(a))
    driver.queue_synchronize(queue)
    opened = driver.gate(queue)
    driver.copy_host_to_device(queue, product.a.address, a, len(a))
    answers: list[bool] = []
    expect_within(lambda: answers.append(product.enqueue()), opened, "matrix_product")
    if not answers[0]:
        raise NotTestable("the driver declines this product (OB_UNSUPPORTED)")
    product.compare()
