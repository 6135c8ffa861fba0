"""Operators with index tensors, and indices that none of them may follow.

An operator is called with one wrong element in an index tensor, on CPU and on the device.
Where CPU raises, the device raises, at the call or at the next wait; where CPU gives a result, the
device gives that or raises. Memory around the operands stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

# How kernels could cut them to valid indices: 32 bits of 64, signs, one off.
WRONG = (
    2**31 - 1, 2**31, 2**31 + 2, -(2**31), -(2**31) - 1, -(2**31) + 1, 2**32 - 1, 2**32, 2**32 + 1,
    -(2**32), -(2**32) + 1, -(2**32) - 1, 2**33 + 2, 2**40 + 1, 2**62, 2**63 - 1, -(2**63),
    -(2**63) + 1,
)  # fmt: skip


@dataclass(frozen=True)
class Probe:
    """An operator with an index tensor.

    Args:
        index: right indices.
        size: the number of valid indices.
        expression: of `i`, the index tensor on its device, and `new`, which makes operands there:
            `new(2, 3)` is the same tensor of float32 at every call, with guarded memory around it.
            Its value is everything that could have been written.
        dtypes: of the index tensor.
        follows: CPU itself follows wrong indices, so that the device can only be asked to raise or
            to leave its memory alone.
        allocates: the result has as many elements as the index says, so that only those are tried
            which no machine has memory for.
        title: a name other than the expression.
    """

    index: Any
    size: int
    expression: str
    dtypes: tuple[torch.dtype, ...] = (torch.int64,)
    follows: bool = False
    allocates: bool = False
    title: str = ""

    @property
    def name(self) -> str:
        return self.title or self.expression

    def call(self, i: torch.Tensor, new: Memory) -> Any:
        return eval(self.expression, {**NAMES, "i": i, "new": new})

    def wrong(self, values: Iterable[int] = WRONG) -> Iterator[torch.Tensor]:
        """Index tensors whose last element is wrong: just out of range, or one of `values`."""
        for dtype in self.dtypes:
            near = (self.size, self.size + 1, -self.size, -self.size - 1, -1)
            for value in (*near, *values):
                if self.allocates and 2**16 < value <= 2**40 + 1:
                    continue
                if torch.iinfo(dtype).min <= value <= torch.iinfo(dtype).max:
                    index = torch.tensor(self.index, dtype=dtype)
                    index.view(-1)[-1] = value
                    yield index


class Memory:
    """Makes operands inside of larger tensors, and knows whether those were written."""

    GUARD = 64
    FILLING = 12345.0

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.whole: list[tuple[torch.Tensor, int]] = []

    def __call__(self, *sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        count = torch.Size(sizes).numel()
        filling = self.FILLING if dtype.is_floating_point else 123
        whole = torch.full((count + 2 * self.GUARD,), filling, dtype=dtype)
        values = (torch.arange(count) * 0.37).cos() * 4
        whole[self.GUARD : self.GUARD + count] = values.to(dtype)
        whole = whole.to(self.device)
        self.whole.append((whole, count))
        return whole[self.GUARD : self.GUARD + count].view(sizes)

    def is_right(self) -> bool:
        """Whether nothing beside the operands was written."""
        for whole, count in self.whole:
            host = whole.cpu()
            filling = torch.full((self.GUARD,), self.FILLING if host.is_floating_point() else 123)
            for part in (host[: self.GUARD], host[self.GUARD + count :]):
                if not torch.equal(part, filling.to(host.dtype)):
                    return False
        return True


def outcome(probe: Probe, index: torch.Tensor, device: torch.device) -> tuple[Any, bool]:
    """The result of a call, on the CPU, or None where it raises; and whether memory is right."""
    new = Memory(device)
    try:
        result = probe.call(index.to(device), new)
        tensors = result if isinstance(result, (list, tuple)) else [result]
        outcome = [t.detach().cpu() for t in tensors]
    except (RuntimeError, IndexError, ValueError):
        outcome = None
        if device.type != "cpu":  # what else was found wrong meanwhile
            while True:
                try:
                    torch.accelerator.synchronize(device)
                    break
                except (RuntimeError, IndexError):
                    pass
    return outcome, new.is_right()


def disagreement(probe: Probe, index: torch.Tensor, device: torch.device) -> str | None:
    """The error in the device's result, or None."""
    got, intact = outcome(probe, index, device)
    what = f"{probe.name} of {index.view(-1)[-1].item()} as {index.dtype}"
    if not intact:
        return f"{what}: memory beside the operands was written"
    if got is None or probe.follows:
        return None
    expected, _ = outcome(probe, index, torch.device("cpu"))
    if expected is None:
        return f"{what}: nothing was raised"
    for there, here in zip(got, expected, strict=True):
        if there.dtype != here.dtype or not torch.allclose(
            there.double(), here.double(), rtol=1e-4, atol=1e-5, equal_nan=True
        ):
            return f"{what}: the result differs from CPU's"
    return None


def gradient(call: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> list[torch.Tensor]:
    """The result of a call and the gradient of its operand."""
    leaf = x.detach().clone().requires_grad_()
    result = call(leaf)
    result.backward(torch.ones_like(result))
    return [result, leaf.grad.to_dense()]


def on(i: torch.Tensor, values: Any) -> torch.Tensor:
    """Values where an index tensor is."""
    return torch.tensor(values, device=i.device)


# Those of the expressions.
NAMES = {"torch": torch, "F": F, "A": torch.ops.aten, "gradient": gradient, "on": on}
I2 = [[0, 1, 2], [2, 1, 0]]

# Index, size, expression.
OF_64_BITS = [
    (I2, 4, "new(4, 3).gather(0, i)"),
    (I2, 4, "new(2, 4).gather(1, i)"),
    ([2], 4, "new(4).gather(0, i)"),
    (I2, 4, "gradient(lambda x: x.gather(0, i), new(4, 3))"),
    (I2, 4, "new(4, 3, dtype=torch.uint8).gather(0, i)"),
    (I2, 4, "torch.take_along_dim(new(4, 3), i, 0)"),
    (I2, 12, "new(4, 3).take(i)"),
    ([0, 2], 4, "new(3, 4).index_select(1, i)"),
    ([0, 2], 4, "new(3, 4)[:, i]"),
    ([0, 2], 4, "new(4, 3)[i, torch.zeros_like(i)]"),
    ([0, 2], 4, "new(3, 4)[torch.zeros_like(i), i]"),
    ([0, 2], 4, "new(3, 2, 4)[1, :, i]"),
    ([0, 2], 4, "gradient(lambda x: x[i], new(4, 3))"),
    (I2, 4, "gradient(lambda x: F.embedding(i, x, sparse=True), new(4, 3))[1]"),
    ([0], 4, "F.embedding_bag(on(i, [0, 1, 2, 1]), new(4, 8), i, mode='mean')"),
    (I2, 4, "F.embedding_bag(i, new(4, 8), mode='sum', per_sample_weights=new(2, 3))"),
    ([0, 1, 2], 3, "torch.searchsorted(on(i, [1.0, 2.0, 3.0]), new(5), sorter=i)"),
    # writing
    (I2, 4, "new(2, 4).scatter_(1, i, new(2, 3))"),
    ([0, 2], 4, "new(4, 3).index_copy_(0, i, new(2, 3))"),
    *(
        ([0, 2], 4, f"new(4, 3).index_reduce_(0, i, new(2, 3), '{reduce}')")
        for reduce in ("prod", "mean", "amax", "amin")
    ),
    ([0, 2], 4, "new(4, 3).index_fill_(0, i, 7.0)"),
    ([0, 2], 4, "new(4, 3).index_fill_(0, i, on(i, 7.0))"),
    ([0, 2], 4, "new(4, 3).index_put_((i,), on(i, 7.0))"),
    ([0, 2], 4, "new(4, 3).index_put_((i, torch.zeros_like(i)), new(2))"),
    ([0, 2], 4, "new(3, 4).index_put_((torch.zeros_like(i), i), new(2), accumulate=True)"),
    ([0, 2], 12, "new(4, 3).put_(i, new(2))"),
    ([0, 2], 12, "new(4, 3).put_(i, new(2), accumulate=True)"),
    ([[0, 3]], 4, "F.max_unpool1d(new(1, 2), i, 2)"),
    ([[[0, 3]]], 8, "F.max_unpool2d(new(1, 1, 2), i, 2)"),
    ([[[[0, 3]]]], 16, "F.max_unpool3d(new(1, 1, 1, 2), i, 2)"),
    # targets
    *(
        row
        for reduction in ("'none'", "'mean'", "'sum'")
        for row in (
            ([0, 1, 3], 4, f"F.nll_loss(new(3, 4), i, reduction={reduction})"),
            ([[[0, 1, 3]]], 4, f"F.nll_loss(new(1, 4, 1, 3), i, reduction={reduction})"),
            ([0, 1, 3], 4, f"F.cross_entropy(new(3, 4), i, new(4).abs(), reduction={reduction})"),
            ([0, 1, 3], 4, f"F.multi_margin_loss(new(3, 4), i, reduction={reduction})"),
            ([[0, 1, -1, 2], [3, -1, 0, 0]], 4,
             f"F.multilabel_margin_loss(new(2, 4), i, reduction={reduction})"),
        )
    ),
    ([0, 1, 3], 4, "gradient(lambda x: F.nll_loss(x, i), new(3, 4))"),
    ([0, 1, 3], 4, "gradient(lambda x: F.cross_entropy(x, i), new(3, 4))"),
    ([0, 1, 3], 4, "F.cross_entropy(new(3, 4), i, label_smoothing=0.1)"),
    ([0, 1, 3], 4, "gradient(lambda x: F.multi_margin_loss(x, i), new(3, 4))"),
    ([0, 1, 3], 4, "A.nll_loss_backward(new(1)[0], new(3, 4), i, None, 1, -100, new(1)[0])"),
    ([0, 1, 3], 4, "A.multi_margin_loss_backward(new(1)[0], new(3, 4), i, 1, 1.0, None, 1)"),
    ([0, 1, 3], 4, "F.one_hot(i, 4)"),
]  # fmt: skip
# Of float32 and of int64.
OF_EACH_DTYPE = [
    "target.scatter_(0, i, source)",
    "target.scatter_(0, i, 7)",
    "target.scatter_(0, i[:, 2:].expand(2, 3), source)",
    "target.scatter_add_(0, i, source)",
    "target.scatter_add_(0, i[:, 2:].expand(2, 3), source)",
    "target.scatter_(0, i, source, reduce='add')",
    "target.scatter_(0, i, 7, reduce='multiply')",
    *(
        f"target.scatter_reduce_(0, i, source, reduce='{reduce}', include_self={itself})"
        for reduce in ("sum", "prod", "mean", "amax", "amin")
        for itself in (True, False)
    ),
]
OF_32_AND_64_BITS = [
    ([0, 2], 4, "new(4, 3).index_select(0, i)"),
    ([0, 2], 4, "new(4, 40).index_select(0, i)"),
    (I2, 4, "new(4, 3)[i]"),
    ([0, 2], 4, "new(4, 40)[i]"),
    (I2, 4, "F.embedding(i, new(4, 3))"),
    (I2, 4, "A.embedding_dense_backward(new(2, 3, 5), i, 4, -1, False)"),
    (I2, 4, "F.embedding(i, new(4, 3), max_norm=1.0)"),
    *((I2, 4, f"F.embedding_bag(i, new(4, 8), mode='{mode}')") for mode in ("sum", "mean", "max")),
    # writing
    ([0, 2], 4, "new(4, 3).index_add_(0, i, new(2, 3))"),
    ([0, 2], 4, "new(3, 4).index_add_(1, i, new(3, 2), alpha=2)"),
    ([0, 2], 4, "new(4, 3).index_put_((i,), new(2, 3))"),
    ([0, 2], 4, "new(4, 40).index_put_((i,), new(2, 40))"),
    ([0, 2], 4, "new(4, 3).index_put_((i,), new(2, 3), accumulate=True)"),
    # lengths
    ([5], 6, "F.ctc_loss(new(5, 1, 4).log_softmax(2), on(i, [[1, 2]]), i, on(i, [2]))"),
    ([2], 3, "F.ctc_loss(new(5, 1, 4).log_softmax(2), on(i, [[1, 2]]), on(i, [5]), i)"),
    *(
        ([1, 3], 5, f"torch.segment_reduce(new(4, 2), '{reduce}', lengths=i)")
        for reduce in ("sum", "mean", "max", "min", "prod")
    ),
    ([0, 2], 3, "new(2).repeat_interleave(i.clamp(max=2**12))"),
    ([0, 2], 3, "new(2).repeat_interleave(i, output_size=2)"),
]
ALLOCATING = [
    ([0, 1, 3], 4, "torch.bincount(i, minlength=4)"),
    ([0, 1, 3], 4, "torch.bincount(i, new(3), minlength=4)"),
]
FOLLOWED = [
    ([0, 2], 4, "F.embedding_bag(on(i, [0, 1, 2, 1]), new(4, 8), i, mode='sum')"),
    ([[[[0, 5]]]], 12,
     "A.fractional_max_pool2d_backward(new(1, 1, 1, 2), new(1, 1, 3, 4), [2, 2], [1, 2], i)"),
    ([[[[0, 3]]]], 8, "A.max_pool2d_with_indices_backward(new(1, 1, 1, 2), new(1, 1, 2, 4), "
     "[2, 2], [2, 2], [0, 0], [1, 1], False, i)"),
    ([[[[[0, 3]]]]], 8, "A.max_pool3d_with_indices_backward(new(1, 1, 1, 1, 2), "
     "new(1, 1, 1, 2, 4), [1, 2, 2], [1, 2, 2], [0, 0, 0], [1, 1, 1], False, i)"),
    ([[[[0, 3]]]], 8, "A.adaptive_max_pool2d_backward(new(1, 1, 1, 2), new(1, 1, 2, 4), i)"),
]  # fmt: skip
FOLLOWED_OF_32_AND_64_BITS = [
    (I2, 4, "A.embedding_dense_backward(new(2, 3, 5), i, 4, -1, True)"),
    ([[1, 2]], 4, "F.ctc_loss(new(5, 1, 4).log_softmax(2), i, [5], [2])"),
]
# They take indices from the CPU.
PACKED = "torch.nn.utils.rnn.pack_padded_sequence(new(3, 2, 2), i.cpu()).data"
SPLIT = "[t.clone() for t in torch.tensor_split(new(4), i.cpu())]"

BOTH = (torch.int64, torch.int32)
PROBES = [
    *(Probe(*row) for row in OF_64_BITS),
    *(
        Probe(I2, 4, text.replace("target", f"new(4, 3{of})").replace("source", f"new(2, 3{of})"))
        for text in OF_EACH_DTYPE
        for of in ("", ", dtype=torch.int64")
    ),
    *(Probe(*row, BOTH) for row in OF_32_AND_64_BITS),
    *(Probe(*row, BOTH, allocates=True) for row in ALLOCATING),
    *(Probe(*row, follows=True) for row in FOLLOWED),
    *(Probe(*row, BOTH, follows=True) for row in FOLLOWED_OF_32_AND_64_BITS),
    Probe([3, 2], 4, PACKED, title="packed sequences"),
    Probe([1, 3], 4, SPLIT, title="tensor_split"),
]
